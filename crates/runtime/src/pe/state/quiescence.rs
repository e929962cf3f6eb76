//! The root's rounds of questions about quiescence.

use super::callback::Callback;
use crate::pending_work::counted;
use gridspan_topology::Time;

/// The root's rounds of questions.
pub(crate) struct QuiescenceRounds<C> {
    pub(crate) round: u64,
    pub(crate) missing: u32,
    pub(crate) created: u64,
    pub(crate) processed: u64,
    /// Messages for members that their homes do not know.
    pub(crate) stranded: u64,
    /// What the round before has counted: made, handled and stranded.
    pub(crate) previous: Option<(u64, u64, u64)>,
    /// Who waits, and the last round that had begun before.
    pub(crate) waiting: Vec<(u64, Callback<C>)>,
    /// Whether the first of them is the runtime itself, which looks for a stall.
    pub(crate) is_probed: bool,
    /// Since when somebody waits.
    pub(crate) since: Time,
}

impl<C> Default for QuiescenceRounds<C> {
    fn default() -> Self {
        Self {
            round: 0,
            missing: 0,
            created: 0,
            processed: 0,
            stranded: 0,
            previous: None,
            waiting: Vec::new(),
            is_probed: false,
            since: Time::ZERO,
        }
    }
}

impl<C> QuiescenceRounds<C> {
    /// What main waits for here, for people.
    pub(crate) fn waits(&self) -> Option<String> {
        let round = self.round;
        let missing = counted(self.missing, "PE", "PEs");
        (self.waiting.len() > usize::from(self.is_probed))
            .then(|| format!("quiescence (round {round} waits for {missing})"))
    }
}
