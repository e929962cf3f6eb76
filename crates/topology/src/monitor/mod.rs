//! What is known about the links between groups of nodes while a job runs, and what to measure
//! next.
//!
//! - [`LinkSample`] is one observation of one node; [`LinkMonitor`] combines those of all nodes of
//!   a group into one [`LinkEstimate`] for each pair of groups, with its age and confidence, and
//!   says when a link has changed ([`LinkChange`]) (`table.rs`, over `window.rs`).
//! - [`ProbePlan`] says which pairs deserve an active probe, because nothing flows there, and keeps
//!   probes rare (`probes.rs`).
//! - [`Uplink`] tells whether the nodes of a group share one pipe to the outside (`uplink.rs`).

mod probes;
mod table;
mod uplink;
mod window;

pub use probes::{Probe, ProbePlan, WantedProbe};
pub use table::{LinkChange, LinkEstimate, LinkMonitor, LinkSample};
pub use uplink::{Pipes, Uplink};
