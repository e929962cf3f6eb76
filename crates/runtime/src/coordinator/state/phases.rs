//! Rounds of completion detection.

use crate::coordinator::event::Asker;
use crate::message::PhaseCounts;
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The phases whose completion main waits for, and those that are complete, by number.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Phases {
    pub(crate) rounds: BTreeMap<u32, PhaseRounds>,
    /// Final counts of the complete phases.
    pub(crate) complete: BTreeMap<u32, PhaseCounts>,
}

/// Rounds of the completion detection of one phase.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct PhaseRounds {
    /// Number of producers that must be done.
    pub(crate) producers: u64,
    pub(crate) askers: Vec<Asker>,
    /// Time of the first request.
    pub(crate) since: Time,
    pub(crate) round: u64,
    /// Number of PEs that have not answered in this round.
    pub(crate) missing: u32,
    /// Sum of the answers in this round.
    pub(crate) sum: PhaseCounts,
    /// Sum of the previous round.
    pub(crate) previous: Option<PhaseCounts>,
}

impl PhaseRounds {
    /// Describes, in readable text, what is missing.
    pub(crate) fn waits(&self, phase: u32) -> String {
        let PhaseCounts { produced, consumed, done } = self.previous.unwrap_or_default();
        let producers = self.producers;
        format!(
            "phase {phase} ({done} of {producers} producers are done, {consumed} of {produced} items consumed)"
        )
    }
}
