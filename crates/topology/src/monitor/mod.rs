//! Estimates of the links between groups of nodes while a job runs, and the choice of the next
//! measurements.
//!
//! - [`LinkSample`] is one observation of one node; [`LinkMonitor`] combines those of all nodes of
//!   a group into one [`LinkEstimate`] for each pair of groups, with its age and confidence, and
//!   reports changes of a link ([`LinkChange`]) (`table.rs`, over `window.rs`).
//! - [`ProbePlan`] selects the pairs that need an active probe, because they carry no traffic, and
//!   keeps probes rare (`probes.rs`).
//! - [`Uplink`] determines whether the nodes of a group share one pipe to the outside
//!   (`uplink.rs`).

mod probes;
mod table;
mod uplink;
mod window;

pub use probes::{Probe, ProbePlan, WantedProbe};
pub use table::{LinkChange, LinkEstimate, LinkMonitor, LinkSample};
pub use uplink::{Pipes, Uplink};
