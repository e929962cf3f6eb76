//! Networks on which the inference of hierarchies is measured.
//!
//! - [`Synthetic`]: a network whose clusters and sites are known, with the noise of real ones. The
//!   unit tests of `gridspan-topology` use it as well.
//! - [`Baseline`]: how others find clusters in a matrix of round-trip times.

mod baseline;
#[path = "../../../topology/src/fixtures/synthetic.rs"]
mod synthetic;

pub use baseline::Baseline;
pub use synthetic::{NetworkShape, Noise, Synthetic};
