//! The shortest tour through cities, by branch and bound: all tasks share the length of the
//! shortest one that any has found, and leave out what cannot be shorter.

mod job;
mod sample;
mod tour;

pub(crate) use job::ENTRY;
pub use sample::{CITIES_MAX, SAMPLES, Sample};
pub use tour::{Best, Path};
