//! Counts of a phase.

use serde::{Deserialize, Serialize};
use std::ops::AddAssign;

/// Counts of items and producers of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PhaseCounts {
    pub(crate) produced: u64,
    pub(crate) consumed: u64,
    /// Number of producers that are done.
    pub(crate) done: u64,
}

impl AddAssign for PhaseCounts {
    fn add_assign(&mut self, other: Self) {
        self.produced = self.produced.saturating_add(other.produced);
        self.consumed = self.consumed.saturating_add(other.consumed);
        self.done = self.done.saturating_add(other.done);
    }
}
