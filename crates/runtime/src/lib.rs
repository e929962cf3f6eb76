//! Actors, the PE machine and the drivers that run them.
//!
//! Folders import only from those above them in this list:
//!
//! - `error`; [`schema`]: the structure of values on the wire, for programs that compare it before
//!   they exchange values.
//! - `address`: names of actors, collections and places, and the initial placement of members.
//! - `reduce`: operations of reductions.
//! - [`message`]: packets between PEs, relays and the coordinator, and their form on the network.
//! - [`session`]: frames between two nodes, each once and in order; detection of lost nodes.
//! - `net`: sessions over QUIC.
//! - [`pe`]: the machine that runs actors, and the interfaces of their code: [`Actor`],
//!   [`Context`]. It does no I/O.
//! - [`relay`]: forwards packets for many nodes from node to node, without waiting for PEs. It does
//!   no I/O.
//! - [`coordinator`]: the part that a job needs exactly once, beside the PEs of a node. It does no
//!   I/O.
//! - `job`: a [`Job`], and the interfaces of its main: [`Grid`], [`Collection`].
//! - `tasks`: trees of tasks, as actors that steal from each other.
//! - [`driver`]: the loops around the three machines, in real time.

mod address;
pub mod coordinator;
pub mod driver;
mod error;
mod job;
pub mod message;
#[cfg(feature = "net")]
pub mod net;
pub mod pe;
mod reduce;
pub mod relay;
pub mod schema;
pub mod session;
mod tasks;

pub use address::collection::{CreateAt, Placement, PlacementMap};
pub use address::id::{ActorId, COORDINATOR, CollectionId, MAIN_PE, Phase, Timer};
pub use address::index::{
    ActorIndex, IndexBox, IndexSet, Ix1, Ix2, Ix3, Ix4, Ix5, Ix6, Key, Shape,
};
pub use error::{
    AskError, CheckpointError, GridError, JobError, LossCause, Misuse, NodeProcessError,
    RefusalCause, StartError, Warning, main_panicked,
};
pub use gridspan_topology::{Layout, NodeId, PeId, SiteId, Time};
pub use job::Job;
pub use job::collection::{Collection, Member};
pub use job::creation::Per;
pub use job::grid::Grid;
pub use job::main_function::MainFuture;
pub use job::main_handle::MainPort;
pub use job::program::{Program, end};
pub use job::progress::Progress;
pub use job::promise::Awaited;
pub use message::codec::DecodeError;
pub use message::frame::Frame;
pub use message::limits::Limits;
pub use message::{
    CheckpointSegment, CheckpointStore, Diagnosis, EncodedManifest, Holding, Image, List,
    RestorePlan, RestoreTarget, Wait, WaitKind, Waits,
};
pub use pe::actor::Actor;
pub use pe::actor::answer::TaggedAnswer;
pub use pe::actor::context::Context;
pub use pe::actor::options::{BroadcastOptions, InStep, Priority, SendOptions, Unordered};
pub use pe::actor::published::Published;
pub use pe::actor::reference::{ActorRef, CollectionRef, Reply, SectionRef};
pub use pe::actor::to::To;
pub use pe::actor::upgrade::{OldState, UpgradeError};
pub use pe::links::{Links, Locality};
pub use pe::{
    BroadcastEdge, BroadcastReport, CheckpointEvery, CheckpointReport, Checkpoints, CopiesRemade,
    GuestEvent, ToleratedLoss, has_half_left,
};
pub use reduce::{Custom, CustomOp, ExactSum, Op, Reducible, Reduction, Statistics, Value};
pub use schema::numbers::Numbers;
pub use tasks::{
    Goal, Merge, Search, SearchContext, SearchPool, SearchStream, StealStatistics, Step, Task,
    TaskContext, TaskPool, TaskPoolRef, TaskStream,
};
