//! The part of the detector at rank 0, which knows which rank waits for which.

use super::graph::{WaitState, stuck};
use crate::runs::ranks;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of pairs of ranks whose channels are flushed. Larger deadlocks are mostly of all
/// ranks, which main notices.
const PAIRS_MAX: usize = 20_000;
/// Number of looks after which a round without all its answers is given up.
const LOOKS_MAX: u32 = 4;

/// A request to a rank: to flush its channels to others, if it still waits as it has told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flush {
    pub(crate) round: u64,
    /// The number of the rank's changes when it told that it waits; `None` if it has ended.
    pub(crate) epoch: Option<u64>,
    /// The ranks with which it exchanges markers.
    pub(crate) peers: Vec<u32>,
}

/// Ranks that may be in a deadlock, until it is certain that no message is on its way to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Suspicion {
    round: u64,
    is_second: bool,
    flushes: BTreeMap<u32, Flush>,
    /// The ranks that have not answered.
    missing: BTreeSet<u32>,
    /// What ranks wait for, as text.
    waits: BTreeMap<u32, String>,
    /// Number of looks since it began.
    looks: u32,
}

/// What ranks have told about their waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Detector {
    states: BTreeMap<u32, WaitState>,
    /// Whether the states have changed since they were looked at.
    is_changed: bool,
    last_round: u64,
    suspicion: Option<Suspicion>,
}

/// What follows from an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Nothing yet.
    Open,
    /// Ranks are to flush their channels.
    Flush(BTreeMap<u32, Flush>),
    /// These ranks are in a deadlock. What each waits for.
    Deadlock(BTreeMap<u32, String>),
}

impl Detector {
    /// A rank has told whether it waits.
    pub(crate) fn note(&mut self, rank: u32, state: WaitState) {
        self.is_changed = true;
        match state {
            WaitState::Runs => self.states.remove(&rank),
            state => self.states.insert(rank, state),
        };
    }

    /// Looks for a deadlock, if something has changed. Called once in each period.
    pub(crate) fn look(&mut self) -> Verdict {
        if let Some(suspicion) = &mut self.suspicion {
            suspicion.looks += 1;
            if suspicion.looks < LOOKS_MAX {
                return Verdict::Open;
            }
            (self.suspicion, self.is_changed) = (None, true);
        }
        if !std::mem::take(&mut self.is_changed) {
            return Verdict::Open;
        }
        let stuck = stuck(&self.states);
        match self.flushes(&stuck) {
            Some(flushes) if !stuck.is_empty() => self.begin_round(flushes, false),
            _ => Verdict::Open,
        }
    }

    /// The channels to flush: between each of the ranks and those for which it waits, both ways.
    /// `None` if there are too many.
    fn flushes(&self, stuck: &BTreeSet<u32>) -> Option<BTreeMap<u32, Flush>> {
        let mut peers: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut pairs = 0;
        for rank in stuck {
            peers.entry(*rank).or_default();
            let Some(WaitState::Waits { until, .. }) = self.states.get(rank) else { continue };
            for other in ranks(until).filter(|other| other != rank) {
                pairs += usize::from(peers.entry(*rank).or_default().insert(other));
                peers.entry(other).or_default().insert(*rank);
                if pairs > PAIRS_MAX {
                    return None;
                }
            }
        }
        let flush = |(rank, peers): (u32, BTreeSet<u32>)| {
            let epoch = match self.states.get(&rank) {
                Some(WaitState::Waits { epoch, .. }) => Some(*epoch),
                _ => None,
            };
            (rank, Flush { round: 0, epoch, peers: peers.into_iter().collect() })
        };
        Some(peers.into_iter().map(flush).collect())
    }

    fn begin_round(&mut self, mut flushes: BTreeMap<u32, Flush>, is_second: bool) -> Verdict {
        self.last_round += 1;
        let round = self.last_round;
        flushes.values_mut().for_each(|flush| flush.round = round);
        let missing = flushes.keys().copied().collect();
        let (waits, looks) = (BTreeMap::new(), 0);
        let suspicion =
            Suspicion { round, is_second, flushes: flushes.clone(), missing, waits, looks };
        self.suspicion = Some(suspicion);
        Verdict::Flush(flushes)
    }

    /// A rank has flushed its channels, and waits as before, for what the text says; or it does not
    /// wait as before.
    pub(crate) fn answered(&mut self, round: u64, rank: u32, waits: Option<String>) -> Verdict {
        let Some(suspicion) = &mut self.suspicion else { return Verdict::Open };
        if suspicion.round != round || !suspicion.missing.remove(&rank) {
            return Verdict::Open;
        }
        let Some(waits) = waits else {
            self.suspicion = None;
            return Verdict::Open;
        };
        if suspicion.flushes.get(&rank).is_some_and(|flush| flush.epoch.is_some()) {
            suspicion.waits.insert(rank, waits);
        }
        if !suspicion.missing.is_empty() {
            return Verdict::Open;
        }
        match self.suspicion.take() {
            Some(Suspicion { is_second: false, flushes, .. }) => self.begin_round(flushes, true),
            Some(Suspicion { waits, .. }) => Verdict::Deadlock(waits),
            None => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(epoch: u64, rank: u32) -> WaitState {
        WaitState::Waits { epoch, until: vec![(rank, 1)] }
    }

    /// Ranks 1 and 2 wait for each other, and rank 3 for rank 4, which has ended.
    fn suspicious() -> Detector {
        let mut detector = Detector::default();
        for (rank, state) in
            [(1, waits(7, 2)), (2, waits(8, 1)), (3, waits(9, 4)), (4, WaitState::Ended)]
        {
            detector.note(rank, state);
        }
        detector
    }

    fn round(verdict: Verdict) -> u64 {
        match verdict {
            Verdict::Flush(flushes) => flushes[&1].round,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_deadlock_is_reported_after_two_rounds_without_a_change() {
        let mut detector = suspicious();
        let Verdict::Flush(flushes) = detector.look() else { panic!("no suspicion") };
        let peers = |rank| (flushes[&rank].epoch, flushes[&rank].peers.clone());
        assert_eq!((peers(1), peers(2)), ((Some(7), vec![2]), (Some(8), vec![1])));
        assert_eq!((peers(3), peers(4)), ((Some(9), vec![4]), (None, vec![3])));
        let text = |rank: u32| Some(format!("wait {rank}"));
        let first = flushes[&1].round;
        for rank in [4, 2, 3] {
            assert_eq!(detector.answered(first, rank, text(rank)), Verdict::Open);
        }
        // Answers twice, and of another round.
        assert_eq!(detector.answered(first, 2, text(2)), Verdict::Open);
        assert_eq!(detector.answered(first + 1, 1, text(1)), Verdict::Open);
        let second = round(detector.answered(first, 1, text(1)));
        for rank in [1, 2, 3] {
            assert_eq!(detector.answered(second, rank, text(rank)), Verdict::Open);
        }
        let expected = [1, 2, 3].map(|rank| (rank, format!("wait {rank}")));
        let found = detector.answered(second, 4, text(4));
        assert_eq!(found, Verdict::Deadlock(expected.into_iter().collect()));
    }

    #[test]
    fn a_rank_that_has_gone_on_ends_the_suspicion() {
        let mut detector = suspicious();
        let first = round(detector.look());
        assert_eq!(detector.answered(first, 2, None), Verdict::Open);
        assert_eq!(detector.answered(first, 1, Some(String::new())), Verdict::Open);
        // Nothing is suspected until something has changed.
        assert_eq!(detector.look(), Verdict::Open);
        detector.note(2, WaitState::Runs);
        let Verdict::Flush(flushes) = detector.look() else { panic!("no suspicion") };
        // Rank 3 still waits for one that has ended.
        assert_eq!(flushes.keys().copied().collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_round_whose_answers_are_lost_is_given_up() {
        let mut detector = suspicious();
        let first = round(detector.look());
        for _ in 1..LOOKS_MAX {
            assert_eq!(detector.look(), Verdict::Open);
        }
        assert!(round(detector.look()) > first);
    }
}
