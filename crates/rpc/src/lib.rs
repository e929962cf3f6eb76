//! Remote procedure calls, one by one and mapped as groups.
//!
//! **One by one**
//! - [`calls`]: GridRPC. Typed functions on servers, which are actors, and a client with the verbs
//!   of the standard.
//!
//! **As a group** (Brady, Dongarra, Guidolin, Lastovetsky and Seymour, "SmartGridRPC", 2010)
//! - [`group`]: calls in a group give lazy results; the group is mapped and executed as a whole.
//! - [`TaskGraph`]: tasks and the data between them; [`Platform`]: servers, sites and links, or
//!   those [described](described()) by a grid file.
//! - [`heuristics`]: from the two to a [`Mapping`].
//! - [`judge`]: what a mapping is worth, in a simulated execution over shared links.
//! - [`rescue`]: what is done about servers that turn out to be slow.
//! - [`performance`]: how long a call takes, by formula or as learned.
//!
//! **To compare**
//! - [`workflow`]: recorded workflows in WfFormat, and generated ones; [`study`]: platforms.
//!
//! What decides is pure: it reads no clock, and its dice are seeded.

mod block;
pub mod calls;
mod described;
mod graph;
pub mod group;
pub mod heuristics;
mod id;
pub mod judge;
mod mapping;
mod moment;
pub mod performance;
mod platform;
pub mod rescue;
pub mod study;
pub mod workflow;

pub use described::described;
pub use graph::{Data, GraphBuilder, GraphError, Task, TaskGraph};
pub use id::{DataId, Endpoint, ServerId, TaskId};
pub use mapping::{MapError, Mapping, check};
pub use platform::{Client, Platform, Server, Site};
