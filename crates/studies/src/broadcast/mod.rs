//! The experiment of Gupta and Vadhiyar (2006), "Application-Oriented Adaptive MPI_Bcast for
//! Grids", section 3, and the packet model that times its broadcasts.
//!
//! - [`TeraGrid`]: the paper's network and the load on it. [`grid_links`], [`uniform_links`]:
//!   networks for searches by the cost model, which the unit tests of `gridspan-bcast` also use.
//! - [`BroadcastExperiment`]: 60 broadcasts by all [`CONTENDERS`].
//! - [`simulate_packets`]: a broadcast simulated packet by packet.

mod contenders;
mod experiment;
#[path = "../../../bcast/src/fixtures.rs"]
mod instances;
mod packets;
mod teragrid;
#[cfg(test)]
mod tests;

pub use contenders::{CONTENDERS, Contender};
pub use experiment::{BroadcastExperiment, Judge, Times, Trial};
pub use instances::{grid_links, uniform_links};
pub use packets::simulate_packets;
pub use teragrid::TeraGrid;
