//! The network as a planner estimates it, or as a simulation runs it.
//!
//! - [`Network`]: nodes in clusters, and the capacities that a transfer shares with others on its
//!   way.
//! - [`NetworkEstimate`]: makes a network from a description, or a hierarchy and measurements, and
//!   keeps it up to date.

mod described;
mod estimate;
mod fabric;

pub use estimate::{NetworkEstimate, Place, Sharing};
pub use fabric::{Network, NodeLink};
