//! Remote procedure calls, one by one and mapped as groups, written as actors.
//!
//! - [`calls`]: GridRPC. Typed functions on servers, which are actors, and a client with the verbs
//!   of the standard.
//! - [`group`]: calls in a group give lazy results; the group is mapped and executed as a whole
//!   (Brady, Dongarra, Guidolin, Lastovetsky and Seymour (2010), "SmartGridRPC"). Task graphs,
//!   platforms and heuristics are those of `gridspan_workflow`.
//! - [`trace`]: spans of calls for OpenTelemetry.

mod block;
pub mod calls;
pub mod group;
pub mod trace;
