//! The network as a planner believes it to be, or as a simulation has it.
//!
//! - [`Network`]: nodes in clusters, and which capacities a transfer shares with others on its way.
//! - [`NetworkEstimate`]: makes one from a description, or a hierarchy and measurements, and keeps it up to
//!   date.

mod described;
mod estimate;
mod fabric;

pub use estimate::{NetworkEstimate, Place, Sharing};
pub use fabric::{Network, NodeLink};
