//! Rounds of quiescence detection.

use crate::coordinator::event::Asker;
use crate::message::pending_work::counted;
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};

/// The rounds of quiescence detection, and the requests that wait for quiescence.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct QuiescenceRounds {
    pub(crate) round: u64,
    /// Number of times a request for quiescence was answered.
    pub(crate) found: u64,
    pub(crate) missing: u32,
    /// Sum of the PEs' reports in this round.
    pub(crate) sum: Counts,
    /// Sum of the previous round.
    pub(crate) previous: Option<Counts>,
    pub(crate) waiting: Vec<Waiting>,
    /// Time of the first pending request.
    pub(crate) since: Time,
}

/// Numbers of messages created, handled, and waiting for members that their homes do not know.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) created: u64,
    pub(crate) processed: u64,
    pub(crate) stranded: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// The asker, or `None` for the coordinator itself, which looks for a stall.
    pub(crate) asker: Option<Asker>,
    /// The last round that had begun before the request.
    pub(crate) after: u64,
}

impl QuiescenceRounds {
    /// Describes, in readable text, the request that main waits for.
    pub(crate) fn waits(&self) -> Option<String> {
        let missing = counted(self.missing, "PE", "PEs");
        let is_asked = self.waiting.iter().any(|waiting| waiting.asker.is_some());
        is_asked.then(|| format!("quiescence (round {} waits for {missing})", self.round))
    }
}
