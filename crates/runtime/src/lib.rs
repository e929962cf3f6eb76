//! Actors, the PE machine and the drivers that run them.
//!
//! - Written by users: [`Actor`], [`Context`], [`Job`]; used in `main`: [`Grid`], [`Collection`].
//! - [`pe`]: the machine that runs actors. It does no I/O.
//! - [`coordinator`]: what a job needs exactly one of, beside the PEs of a node. It does no I/O.
//! - [`relay`]: brings what is for many nodes from node to node, without waiting for PEs.
//! - [`driver`]: the loops around all three, in real time.
//! - [`wire`]: what travels between PEs.
//! - [`schema`]: what values look like there, for programs that compare it before they exchange
//!   any.

mod abilities;
mod actor;
mod codec;
mod collection;
mod context;
pub mod coordinator;
mod definition;
pub mod driver;
mod envelope;
mod error;
mod frame;
mod grid;
mod handle;
mod handler;
mod id;
mod index;
mod job;
mod limits;
mod links;
mod load_keys;
#[cfg(feature = "net")]
pub mod net;
mod node_local;
mod numbers;
mod payload;
pub mod pe;
mod pending_work;
pub mod probe;
mod program;
mod promise;
mod published;
mod rank;
mod reduce;
mod reference;
mod registry;
pub mod relay;
mod route;
pub mod schema;
pub mod session;
mod steal_agent;
mod tasks;
mod watch;
pub mod wire;

pub use abilities::To;
pub use actor::Actor;
pub use codec::DecodeError;
pub use collection::{Placement, PlacementMap};
pub use context::Context;
pub use error::{AskError, GridError, JobError};
pub use frame::Frame;
pub use grid::{Collection, Grid, MainPort, Member, Per};
pub use gridspan_topology::{Layout, NodeId, PeId, SiteId, Time};
pub use id::{ActorId, COORDINATOR, CollectionId, MAIN_PE, Timer};
pub use index::{ActorIndex, IndexBox, IndexSet, Ix1, Ix2, Ix3, Ix4, Key, Shape};
pub use job::{Job, MainFuture};
pub use limits::Limits;
pub use links::{Links, Locality};
pub use numbers::Numbers;
pub use pe::GuestEvent;
pub use program::{Program, end};
pub use promise::Awaited;
pub use published::Published;
pub use reduce::{Custom, CustomOp, ExactSum, Op, Reducible, Reduction, Value};
pub use reference::{ActorRef, CollectionRef, Reply, SectionRef};
pub use tasks::{
    Goal, Merge, Search, SearchContext, SearchPool, SearchStream, StealStatistics, Step, Task,
    TaskContext, TaskPool, TaskPoolRef, TaskStream,
};
