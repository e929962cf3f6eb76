//! The network as a planner believes it to be, or as a simulation has it.
//!
//! - [`Network`]: nodes in clusters, and which capacities a transfer shares with others on its way.
//! - [`Belief`]: makes one from a description, or a hierarchy and measurements, and keeps it up to
//!   date.

mod belief;
mod described;
mod fabric;

pub use belief::{Belief, Place, Sharing};
pub use fabric::{Network, NodeLink};
