//! The shortest tour through cities, by branch and bound: all tasks share the length of the
//! shortest tour found so far, and prune paths that cannot lead to a shorter one.

mod job;
mod tour;

pub(crate) use job::ENTRY;
pub use tour::{Path, ShortestTour};
