//! A point in simulated time that can be ordered.

use std::cmp::Ordering;

/// Seconds since a group began; never NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimTime(pub(crate) f64);

impl PartialEq for SimTime {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SimTime {}

impl PartialOrd for SimTime {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SimTime {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
