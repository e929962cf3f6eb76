//! The shortest tour through cities, by branch and bound: paths that cannot lead to a tour shorter
//! than the best known one are pruned.

mod sample;
mod tour;

pub use sample::{CITIES_MAX, SAMPLES, Sample};
pub use tour::{Best, PartialTour};
