//! Networks for measuring the inference of hierarchies.
//!
//! - [`Synthetic`]: a network whose clusters and sites are known, with the noise of real ones. The
//!   unit tests of `gridspan-topology` also use it.
//! - [`Baseline`]: other methods that find clusters in a matrix of round-trip times.

mod baseline;
#[path = "../../../topology/src/fixtures/synthetic.rs"]
mod synthetic;

pub use baseline::Baseline;
pub use synthetic::{NetworkShape, Noise, Synthetic};
