//! What inference is judged with: networks of known truth, published baselines and the oracle.
//!
//! No driver uses this; tests and `benches/topology.rs` do.
//!
//! - [`Synthetic`]: a network whose clusters and sites are known, with the noise of real ones.
//! - [`Baseline`]: how others find clusters in a matrix of round-trip times.
//! - [`adjusted_rand_index`]: how well two partitions agree.

mod baseline;
mod synthetic;

pub use crate::rand_index::adjusted_rand_index;
pub use baseline::Baseline;
pub use synthetic::{NetworkShape, Noise, Synthetic};
