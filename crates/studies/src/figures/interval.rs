//! Medians with their intervals, as records store them.

use gridspan_jobs::paired::MedianEstimate;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A median with its bootstrap interval of 95 %. [`gridspan_jobs::paired`] computes it for
/// comparisons, and criterion for single figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The median.
    pub median: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl From<MedianEstimate> for Interval {
    fn from(MedianEstimate { median, low, high }: MedianEstimate) -> Self {
        Self { median, low, high }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, low, high } = *self;
        MedianEstimate { median, low, high }.fmt(f)
    }
}
