//! Which server should execute which task of a graph.
//!
//! - [`TaskGraph`]: tasks and the data between them; [`Platform`]: servers, sites and links, or
//!   those [described](described()) by a grid file.
//! - [`heuristics`]: from the two to a [`Mapping`].
//! - [`simulate`](mod@simulate): what a mapping is worth, in a simulated execution over shared
//!   links.
//! - [`execution`]: how a graph is executed where it was mapped, as client and servers see it.
//! - [`stragglers`]: what is done about servers that turn out to be slow.
//! - [`performance`]: how long a call takes, by formula or as learned.
//! - [`wfcommons`]: recorded workflows in WfFormat, and generated ones; [`study`]: platforms to
//!   compare heuristics on.
//!
//! Everything here is pure: it reads no clock, and its dice are seeded.

mod described;
pub mod execution;
mod graph;
pub mod heuristics;
mod id;
mod mapping;
pub mod performance;
mod platform;
pub mod simulate;
pub mod stragglers;
pub mod study;
pub mod wfcommons;

pub use described::described;
pub use graph::{Data, GraphBuilder, TaskGraph, TaskGraphError, TaskSpec};
pub use id::{DataId, Endpoint, ServerId, TaskId};
pub use mapping::{MapError, Mapping, check};
pub use platform::{ClientSpec, Platform, ServerSpec, Site};
