//! A broadcast over a network, simulated as flows: each transfer gets its max-min fair share of the
//! capacities on its way, whenever another begins or ends.
//!
//! - `share.rs`: the fair shares, of those transfers only that a change can reach.
//! - `simulation.rs`: nodes, segments and time.

mod share;
mod simulation;

pub use share::Shares;
pub(crate) use share::joint_rate;
pub use simulation::{EdgeTiming, Outcome, Run, Sending, simulate};
