//! Finds the hierarchy of a grid in measured round-trip times.
//!
//! [`infer`] reads a full matrix. Its steps, each in its own file:
//!
//! 1. `pairs.rs`: takes the lesser of both directions of a pair.
//! 2. `height.rs`: subtracts the delay that a busy host adds to all of its round trips.
//! 3. `smooth.rs`: replaces each pair by the median over the natural neighbours of its ends.
//! 4. `dendrogram.rs`: average linkage on the logarithms.
//! 5. `levels.rs`: levels end where the density of joining distances has a persistent valley.
//! 6. `refine.rs`: moves single nodes to another group if they are closer to it.

mod dendrogram;
mod full;
mod height;
mod labels;
mod levels;
mod nested;
mod pairs;
mod refine;
mod sampled;
mod smooth;
mod upkeep;

pub use full::{infer, infer_labelled};
pub use labels::{Contradiction, Labelled, SiteNames};
pub use sampled::{Inference, ProbeCount};
pub use upkeep::{Join, Upkeep};

#[cfg(test)]
mod tests;
