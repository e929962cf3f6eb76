//! Rounds of questions about quiescence.

use crate::coordinator::event::Asker;
use crate::message::pending_work::counted;
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};

/// Rounds of questions.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct QuiescenceRounds {
    pub(crate) round: u64,
    /// How often the job was found quiescent for one that had asked.
    pub(crate) found: u64,
    pub(crate) missing: u32,
    /// What PEs have reported in this round.
    pub(crate) sum: Counts,
    /// What the round before has counted.
    pub(crate) previous: Option<Counts>,
    pub(crate) waiting: Vec<Waiting>,
    /// Since when somebody waits.
    pub(crate) since: Time,
}

/// Messages made, handled, and waiting for members that their homes do not know.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) created: u64,
    pub(crate) processed: u64,
    pub(crate) stranded: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// `None`: the coordinator itself, which looks for a stall.
    pub(crate) asker: Option<Asker>,
    /// The last round that had begun before.
    pub(crate) after: u64,
}

impl QuiescenceRounds {
    /// What main waits for here, for people.
    pub(crate) fn waits(&self) -> Option<String> {
        let missing = counted(self.missing, "PE", "PEs");
        let is_asked = self.waiting.iter().any(|waiting| waiting.asker.is_some());
        is_asked.then(|| format!("quiescence (round {} waits for {missing})", self.round))
    }
}
