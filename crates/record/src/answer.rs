//! The answers to main's requests, and the ends of its sleeps.

use serde::{Deserialize, Serialize};

/// An answer to a request of main, or the end of a sleep, as main's PE saw it. Main continues after
/// it, so it causes the next messages of main.
///
/// ```
/// use gridspan_record::{MainAnswer, MainWait, PeRecord};
///
/// // Main created actors, which took 40 ms.
/// let created = MainAnswer {
///     asked_ns: 1_000_000,
///     answered_ns: 41_000_000,
///     wait: MainWait::EachPe,
///     span: None,
/// };
/// let record = PeRecord { answers: vec![created], ..PeRecord::default() };
/// assert_eq!(record.answers[0].took_ns(), 40_000_000);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MainAnswer {
    /// When the request left main.
    pub asked_ns: u64,
    /// When the answer came.
    pub answered_ns: u64,
    /// What main waited for.
    pub wait: MainWait,
    /// The PE and the number of the span that answered, if an actor did.
    pub span: Option<(u32, u64)>,
}

impl MainAnswer {
    /// Time from the request to the answer.
    pub fn took_ns(&self) -> u64 {
        self.answered_ns.saturating_sub(self.asked_ns)
    }
}

/// What main waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MainWait {
    /// Something that may depend on all of the job, such as a rebalance or a checkpoint.
    #[default]
    Other,
    /// The coordinator, which answers at once.
    Coordinator,
    /// A confirmation of each PE, such as that it has created actors or has read-only data.
    EachPe,
    /// The contributions of actors to a reduction.
    Contributions,
    /// Rounds of equal answers of all PEs: quiescence, or the completion of a phase.
    Quiescence,
    /// Measurements of the links.
    Links,
    /// An actor.
    Actor,
    /// Some time: a sleep, or a question without an answer.
    Time,
}
