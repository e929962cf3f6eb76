//! A broadcast over a network, simulated as flows: each transfer gets its max-min fair share of the
//! capacities on its way, whenever another begins or ends.
//!
//! - `simulation.rs`: nodes, segments and time.

mod simulation;

pub use simulation::{EdgeTiming, Run, Sending, SimulatedBroadcast, simulate};
