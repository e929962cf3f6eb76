//! Remote procedure calls and their collective mapping, written as actors.

pub mod calls;
mod described;
mod graph;
pub mod heuristics;
mod id;
pub mod judge;
mod mapping;
mod moment;
pub mod performance;
mod platform;
pub mod study;
pub mod workflow;

pub use described::described;
pub use graph::{Data, GraphBuilder, GraphError, Task, TaskGraph};
pub use id::{DataId, Endpoint, ServerId, TaskId};
pub use mapping::{MapError, Mapping, check};
pub use platform::{Client, Platform, Server, Site};
