//! Mapping of task graphs to servers, and their execution.
//!
//! - [`TaskGraph`]: tasks and the data between them; [`Platform`]: servers, sites and links, also
//!   as [described](described()) by a grid file.
//! - [`heuristics`]: map a graph to a platform, which gives a [`Mapping`].
//! - [`simulate`](mod@simulate): evaluates a mapping by a simulated execution over shared links.
//! - [`execution`]: the execution of a mapped graph, from the views of the client and of servers.
//! - [`stragglers`]: the treatment of slow servers.
//! - [`performance`]: the computing time of a call, by formula or learned.
//! - [`wfcommons`]: recorded workflows in WfFormat, and generated ones; [`study`]: platforms for
//!   the comparison of heuristics.
//!
//! All parts are pure: they read no clock, and random choices are seeded.

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
