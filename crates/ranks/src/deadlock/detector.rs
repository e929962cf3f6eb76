//! The part of the detector at rank 0, which knows which rank waits for which.

use super::graph::{WaitState, stuck};
use crate::runs::{Run, ranks};
use gridspan_runtime::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Largest number of pairs of ranks whose channels are flushed. A larger deadlock usually includes
/// all ranks, and main notices that.
const PAIRS_MAX: usize = 20_000;
/// Time after which the detector gives up the first round that lacks answers. It doubles each time:
/// ranks that compute for long answer late.
const PATIENCE: Duration = Duration::from_secs(8);
/// Maximum number of times that [`PATIENCE`] doubles.
const DOUBLINGS_MAX: u32 = 6;

/// A request to a rank: to flush its channels to others, if it still waits as reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flush {
    pub(crate) round: u64,
    /// The number of the rank's changes when it reported its wait; `None` if it has ended.
    pub(crate) epoch: Option<u64>,
    /// The ranks with which it exchanges markers.
    pub(crate) peers: Vec<u32>,
    /// Whether the rank takes part only as the target of locks for which others wait. It need not
    /// wait itself.
    pub(crate) is_relay: bool,
}

impl Flush {
    /// Whether a rank with this number of changes is as the flush expects it.
    pub(crate) fn is_met_by(&self, epoch: Option<u64>) -> bool {
        self.is_relay || self.epoch == epoch
    }
}

/// The channels to flush, as the peers of each rank.
#[derive(Default)]
struct Channels {
    peers: BTreeMap<u32, BTreeSet<u32>>,
    pairs: usize,
}

impl Channels {
    /// Adds the channels between two ranks, both ways. `None` if there are too many.
    fn add(&mut self, rank: u32, other: u32) -> Option<()> {
        if rank != other {
            self.pairs += usize::from(self.peers.entry(rank).or_default().insert(other));
            self.peers.entry(other).or_default().insert(rank);
        }
        (self.pairs <= PAIRS_MAX).then_some(())
    }
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
    /// Time at which the round began.
    since: Time,
}

/// What ranks have reported about their waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Detector {
    states: BTreeMap<u32, WaitState>,
    /// Whether the states have changed since the last search for a deadlock.
    is_changed: bool,
    last_round: u64,
    /// Number of rounds that were given up.
    given_up: u32,
    suspicion: Option<Suspicion>,
    /// The ranks that have failed. Their notices wake others.
    failed: BTreeSet<u32>,
}

/// What the detector has concluded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Nothing yet.
    Open,
    /// Ranks are to flush their channels.
    Flush(BTreeMap<u32, Flush>),
    /// The ranks that are in a deadlock, and what each waits for.
    Deadlock(BTreeMap<u32, String>),
}

impl Detector {
    /// A detector for the next run. It continues the numbers of the rounds, so that no late marker
    /// of this run counts in a round of the next one.
    pub(crate) fn of_next_run(&self) -> Self {
        Self { last_round: self.last_round, failed: self.failed.clone(), ..Self::default() }
    }

    /// A rank has failed, and sends notices of that to all others before any later marker. A round
    /// that has begun does not wait for the notices, so the detector gives it up.
    pub(crate) fn note_failed(&mut self, rank: u32) {
        self.failed.insert(rank);
        (self.suspicion, self.is_changed) = (None, true);
    }

    /// A rank has reported whether it waits.
    pub(crate) fn note(&mut self, rank: u32, state: WaitState) {
        self.is_changed = true;
        match state {
            WaitState::Runs => self.states.remove(&rank),
            state => self.states.insert(rank, state),
        };
    }

    /// Whether the next look can find something new.
    pub(crate) fn is_searching(&self) -> bool {
        self.is_changed || self.suspicion.is_some()
    }

    /// Whether, of a number of ranks, others run than those in a deadlock, which are `stuck` ranks.
    pub(crate) fn others_run(&self, stuck: usize, ranks: u32) -> bool {
        let has_ended = |state: &&WaitState| **state == WaitState::Ended;
        let ended = self.states.values().filter(has_ended).count();
        ((stuck + ended) as u64) < u64::from(ranks)
    }

    /// Looks for a deadlock, if something has changed. Called once in each period, or several times
    /// in a row after a long computation of rank 0.
    pub(crate) fn look(&mut self, now: Time) -> Verdict {
        if let Some(suspicion) = &self.suspicion {
            let patience = PATIENCE * (1 << self.given_up.min(DOUBLINGS_MAX));
            if now.since(suspicion.since) < patience {
                return Verdict::Open;
            }
            (self.suspicion, self.is_changed) = (None, true);
            self.given_up = self.given_up.saturating_add(1);
        }
        if !std::mem::take(&mut self.is_changed) {
            return Verdict::Open;
        }
        let stuck = stuck(&self.states);
        match self.flushes(&stuck) {
            Some(flushes) if !stuck.is_empty() => self.begin_round(flushes, false, now),
            _ => Verdict::Open,
        }
    }

    /// The channels to flush, both ways; `None` if there are too many. Each stuck rank has channels
    /// to the ranks of which one must act and none can, and to the failed ranks. The targets of the
    /// locks for which it waits have channels to it and to all of these.
    fn flushes(&self, stuck: &BTreeMap<u32, Vec<Run>>) -> Option<BTreeMap<u32, Flush>> {
        let mut channels = Channels::default();
        let mut all_targets: BTreeSet<u32> = BTreeSet::new();
        for (rank, until) in stuck {
            channels.peers.entry(*rank).or_default();
            let Some(WaitState::Waits { targets, .. }) = self.states.get(rank) else {
                continue;
            };
            for other in ranks(until).chain(self.failed.iter().copied()) {
                channels.add(*rank, other)?;
                for target in targets {
                    channels.add(other, *target)?;
                }
            }
            for target in targets {
                channels.add(*rank, *target)?;
            }
            all_targets.extend(targets);
        }
        let may_go_on = |rank: &u32| {
            let has_ended = self.states.get(rank) == Some(&WaitState::Ended);
            !(stuck.contains_key(rank) || has_ended || self.failed.contains(rank))
        };
        let flush = |(rank, peers): (u32, BTreeSet<u32>)| {
            let is_relay = all_targets.contains(&rank) && may_go_on(&rank);
            let known = self.states.get(&rank).filter(|_| !is_relay);
            let epoch = known.and_then(WaitState::epoch);
            (rank, Flush { round: 0, epoch, peers: peers.into_iter().collect(), is_relay })
        };
        Some(channels.peers.into_iter().map(flush).collect())
    }

    fn begin_round(
        &mut self,
        mut flushes: BTreeMap<u32, Flush>,
        is_second: bool,
        since: Time,
    ) -> Verdict {
        self.last_round += 1;
        let round = self.last_round;
        flushes.values_mut().for_each(|flush| flush.round = round);
        let missing = flushes.keys().copied().collect();
        let waits = BTreeMap::new();
        let suspicion =
            Suspicion { round, is_second, flushes: flushes.clone(), missing, waits, since };
        self.suspicion = Some(suspicion);
        Verdict::Flush(flushes)
    }

    /// A rank has flushed its channels. `waits` is the text of what it still waits for; `None` if
    /// it does not wait as reported.
    pub(crate) fn answered(
        &mut self,
        (round, rank): (u64, u32),
        waits: Option<String>,
        now: Time,
    ) -> Verdict {
        let Some(suspicion) = &mut self.suspicion else { return Verdict::Open };
        if suspicion.round != round || !suspicion.missing.remove(&rank) {
            return Verdict::Open;
        }
        let Some(waits) = waits else {
            // The others may be in a deadlock without this rank, which reports its next wait.
            let reported = suspicion.flushes.get(&rank).and_then(|flush| flush.epoch);
            if self.states.get(&rank).is_some_and(|state| state.epoch() == reported) {
                self.states.remove(&rank);
            }
            (self.suspicion, self.is_changed) = (None, true);
            return Verdict::Open;
        };
        if suspicion.flushes.get(&rank).is_some_and(|flush| flush.epoch.is_some()) {
            suspicion.waits.insert(rank, waits);
        }
        if !suspicion.missing.is_empty() {
            return Verdict::Open;
        }
        match self.suspicion.take() {
            Some(Suspicion { is_second: false, flushes, .. }) => {
                self.begin_round(flushes, true, now)
            }
            Some(Suspicion { waits, .. }) => Verdict::Deadlock(waits),
            None => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(epoch: u64, rank: u32) -> WaitState {
        WaitState::Waits { epoch, until: vec![vec![(rank, 1)]], targets: vec![] }
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
        let Verdict::Flush(flushes) = detector.look(Time::ZERO) else { panic!("no suspicion") };
        let peers = |rank| (flushes[&rank].epoch, flushes[&rank].peers.clone());
        assert_eq!((peers(1), peers(2)), ((Some(7), vec![2]), (Some(8), vec![1])));
        assert_eq!((peers(3), peers(4)), ((Some(9), vec![4]), (None, vec![3])));
        let text = |rank: u32| Some(format!("wait {rank}"));
        let first = flushes[&1].round;
        for rank in [4, 2, 3] {
            assert_eq!(detector.answered((first, rank), text(rank), Time::ZERO), Verdict::Open);
        }
        // A repeated answer, and one of another round.
        assert_eq!(detector.answered((first, 2), text(2), Time::ZERO), Verdict::Open);
        assert_eq!(detector.answered((first + 1, 1), text(1), Time::ZERO), Verdict::Open);
        let second = round(detector.answered((first, 1), text(1), Time::ZERO));
        for rank in [1, 2, 3] {
            assert_eq!(detector.answered((second, rank), text(rank), Time::ZERO), Verdict::Open);
        }
        let expected = [1, 2, 3].map(|rank| (rank, format!("wait {rank}")));
        let found = detector.answered((second, 4), text(4), Time::ZERO);
        assert_eq!(found, Verdict::Deadlock(expected.into_iter().collect()));
    }

    #[test]
    fn the_notices_of_failed_ranks_come_before_a_report() {
        let mut detector = suspicious();
        let first = round(detector.look(Time::ZERO));
        detector.note_failed(5);
        assert_eq!(detector.answered((first, 1), Some(String::new()), Time::ZERO), Verdict::Open);
        let again = detector.look(Time::ZERO);
        let Verdict::Flush(flushes) = again.clone() else { panic!("no suspicion") };
        let peers = |rank| flushes[&rank].peers.clone();
        assert_eq!((peers(1), peers(2), peers(3)), (vec![2, 5], vec![1, 5], vec![4, 5]));
        assert_eq!((flushes[&5].epoch, peers(5)), (None, vec![1, 2, 3]));
        assert!(round(again) > first);
        let mut next_run = detector.of_next_run();
        suspicious().states.into_iter().for_each(|(rank, state)| next_run.note(rank, state));
        let Verdict::Flush(flushes) = next_run.look(Time::ZERO) else { panic!("no suspicion") };
        assert_eq!(flushes[&1].peers, [2, 5]);
    }

    #[test]
    fn the_targets_of_locks_exchange_markers_with_all_that_decide_about_them() {
        let mut detector = suspicious();
        // Rank 2 waits for a lock of rank 1 on a window of rank 6, which runs or waits for rank 7.
        let until = vec![vec![(1, 1)]];
        detector.note(2, WaitState::Waits { epoch: 8, until, targets: vec![6] });
        for state in [WaitState::Runs, waits(5, 7)] {
            detector.note(6, state);
            detector.note_failed(9);
            let Verdict::Flush(flushes) = detector.look(Time::ZERO) else { panic!("no suspicion") };
            let peers = |rank| flushes[&rank].peers.clone();
            assert_eq!((peers(1), peers(2)), (vec![2, 6, 9], vec![1, 6, 9]));
            assert_eq!((peers(6), peers(9)), (vec![1, 2, 9], vec![1, 2, 3, 6]));
            let relays: Vec<u32> =
                flushes.iter().filter(|(_, flush)| flush.is_relay).map(|(rank, _)| *rank).collect();
            assert_eq!((relays, flushes[&6].epoch), (vec![6], None));
            assert!(flushes[&6].is_met_by(Some(5)) && !flushes[&2].is_met_by(Some(9)));
        }
        // The report names the ranks that wait, and not the target.
        let mut verdict = detector.look(Time::ZERO + 2 * PATIENCE);
        for _ in 0..2 {
            let round = round(verdict.clone());
            for rank in [1, 2, 3, 4, 6, 9] {
                verdict = detector.answered((round, rank), Some(String::new()), Time::ZERO);
            }
        }
        let Verdict::Deadlock(found) = verdict else { panic!("no deadlock") };
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_rank_that_has_gone_on_ends_the_suspicion() {
        let mut detector = suspicious();
        let first = round(detector.look(Time::ZERO));
        assert_eq!(detector.answered((first, 2), None, Time::ZERO), Verdict::Open);
        assert_eq!(detector.answered((first, 1), Some(String::new()), Time::ZERO), Verdict::Open);
        // Rank 2 may wake rank 1 now.
        let Verdict::Flush(flushes) = detector.look(Time::ZERO) else { panic!("no suspicion") };
        // Rank 3 still waits for rank 4, which has ended.
        assert_eq!(flushes.keys().copied().collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_rank_that_has_told_a_later_wait_meanwhile_is_suspected_again() {
        let mut detector = suspicious();
        let first = round(detector.look(Time::ZERO));
        detector.note(2, waits(9, 1));
        assert_eq!(detector.answered((first, 2), None, Time::ZERO), Verdict::Open);
        let Verdict::Flush(flushes) = detector.look(Time::ZERO) else { panic!("no suspicion") };
        assert_eq!(flushes[&2].epoch, Some(9));
        assert_eq!(detector.answered((first, 1), None, Time::ZERO), Verdict::Open);
        // Nothing new is suspected while the answers are missing.
        assert_eq!(detector.look(Time::ZERO), Verdict::Open);
    }

    #[test]
    fn looks_that_come_together_do_not_end_a_round() {
        let mut detector = suspicious();
        let late = Time::ZERO + (PATIENCE - Duration::from_millis(1));
        let first = round(detector.look(Time::ZERO));
        let text = |rank: u32| Some(format!("wait {rank}"));
        let answer = |detector: &mut Detector, round, now| {
            let mut verdict = Verdict::Open;
            for rank in [1, 2, 3, 4] {
                for _ in 0..5 {
                    assert_eq!(detector.look(now), Verdict::Open);
                }
                verdict = detector.answered((round, rank), text(rank), now);
            }
            verdict
        };
        let second = round(answer(&mut detector, first, late));
        let found = answer(&mut detector, second, late + Duration::from_secs(1));
        assert!(matches!(found, Verdict::Deadlock(_)), "{found:?}");
    }

    #[test]
    fn a_round_whose_answers_are_lost_is_given_up_later_each_time() {
        let mut detector = suspicious();
        let mut now = Time::ZERO;
        let mut last = round(detector.look(now));
        for patience in [1, 2, 4].map(|factor| PATIENCE * factor) {
            let early = now + (patience - Duration::from_millis(1));
            assert_eq!(detector.look(early), Verdict::Open);
            now += patience;
            let next = round(detector.look(now));
            assert!(next > last);
            last = next;
        }
        let mut next_run = detector.of_next_run();
        suspicious().states.into_iter().for_each(|(rank, state)| next_run.note(rank, state));
        assert!(round(next_run.look(now)) > last);
    }
}
