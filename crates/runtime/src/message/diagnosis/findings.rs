//! The answers of PEs in one round of a diagnosis, summed.

use super::wait::Waits;
use crate::message::MainStatus;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// What a PE found about itself, or the sum over several PEs and the coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub(crate) waits: Waits,
    /// Number of messages and operations created since the start.
    pub(crate) created: u64,
    /// Number of them that were handled.
    pub(crate) processed: u64,
    /// Number of messages that are ready to be handled.
    pub(crate) ready: u64,
    /// Number of PEs with ready messages.
    pub(crate) busy: u64,
    /// The largest number of ready messages on a PE, and that PE.
    pub(crate) fullest: Option<(u64, PeId)>,
    /// Status of main, from main's PE.
    pub(crate) main: Option<MainStatus>,
}

impl Findings {
    /// Amount of work done so far. Diagnoses do not count.
    pub(super) fn activity(&self) -> u64 {
        self.created.wrapping_add(self.processed)
    }
}

impl std::ops::AddAssign for Findings {
    fn add_assign(&mut self, other: Self) {
        self.waits += other.waits;
        self.created = self.created.wrapping_add(other.created);
        self.processed = self.processed.wrapping_add(other.processed);
        self.ready = self.ready.saturating_add(other.ready);
        self.busy = self.busy.saturating_add(other.busy);
        self.fullest = self.fullest.max(other.fullest);
        self.main = self.main.or(other.main);
    }
}
