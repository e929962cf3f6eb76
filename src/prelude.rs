//! The names that most programs use: `use gridspan::prelude::*;`.

pub use gridspan_runtime::Op::{self, And, Concat, Max, Min, Or, Product, Sum, Union};
pub use gridspan_runtime::{
    Actor, ActorIndex, ActorRef, AskError, Collection, CollectionRef, Context, CreateAt, Grid,
    GridError, InStep, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, Job, JobError, Key, Layout, Limits, List,
    Member, Merge, NodeId, Numbers, PeId, Per, Phase, Placement, PlacementMap, Priority, Published,
    Reducible, Reduction, Reply, Search, SearchContext, SearchPool, SectionRef, SiteId, Statistics,
    Step, Task, TaskContext, TaskPool, Time, Timer, To, Unordered,
};
pub use serde::{Deserialize, Serialize};
pub use std::process::ExitCode;
pub use std::time::Duration;
