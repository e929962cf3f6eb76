//! A point in simulated time that can be ordered.

use std::cmp::Ordering;

/// Seconds since a group began; never not a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(pub(crate) f64);

impl PartialEq for Moment {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}
