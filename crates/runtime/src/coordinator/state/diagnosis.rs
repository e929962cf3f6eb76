//! State of a diagnosis of the running job.

use crate::message::Findings;
use gridspan_topology::PeId;
use std::collections::BTreeSet;

/// The diagnosis under way, if there is one. It does not move with the coordinator: the launcher
/// repeats the request. Its timers do move, and late answers are forwarded to the new place, but
/// their numbers match no diagnosis there.
#[derive(Default)]
pub(crate) struct Diagnosing {
    /// Whether a diagnosis is under way.
    pub(crate) is_on: bool,
    /// Number of the last diagnosis.
    pub(crate) number: u64,
    /// Number of the last round of questions.
    pub(crate) round: u64,
    /// Numbers of the requests that it answers.
    pub(crate) requests: BTreeSet<u64>,
    /// PEs that have not answered in this round.
    pub(crate) missing: BTreeSet<PeId>,
    /// The answers in this round so far, and what the coordinator found when the round began.
    pub(crate) sum: Findings,
    /// The sum of the first round, and the PEs that had not answered.
    pub(crate) before: Option<(Findings, BTreeSet<PeId>)>,
}

impl Diagnosing {
    /// The state of a coordinator that has moved this number of times. Its diagnoses and rounds
    /// have other numbers than those at earlier places.
    pub(crate) fn of_term(term: u64) -> Self {
        let last = term << 32;
        Self { number: last, round: last, ..Self::default() }
    }
}
