//! The part of the detector at each rank: reports when the rank waits, and flushes its channels.

use super::detector::Flush;
use super::graph::WaitState;
use crate::runs::Run;
use gridspan_runtime::Timer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Number of looks in a row at which a rank must not have changed before it reports its wait.
const UNCHANGED_LOOKS: u32 = 2;

/// The part of a rank's state that the detector needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WaitWatch {
    /// Number of the rank's changes at the last look.
    epoch: Option<u64>,
    /// Number of looks since then at which nothing had changed.
    unchanged: u32,
    /// The state that the rank has reported to rank 0.
    reported: WaitState,
    /// The flush under way, and the ranks whose markers are missing.
    flush: Option<(Flush, BTreeSet<u32>)>,
    /// The newest round of which markers have come before the request, and their senders.
    early: (u64, BTreeSet<u32>),
    /// Whether the rank looks by itself, because main's next look comes late.
    is_alone: bool,
    /// The timer of the next look.
    timer: Option<Timer>,
    /// The number of the last timer.
    last_timer: u64,
}

impl WaitWatch {
    /// Looks at the rank, once in each period. `epoch` is the number of its changes; `None` if it
    /// does not run. `until` returns lists of ranks, one rank of each of which must act before it
    /// goes on, and the targets of the locks for which it waits. Returns its state if rank 0 does
    /// not know it.
    pub(crate) fn look(
        &mut self,
        epoch: Option<u64>,
        until: impl FnOnce() -> Option<(Vec<Vec<Run>>, Vec<u32>)>,
    ) -> Option<WaitState> {
        let is_unchanged = std::mem::replace(&mut self.epoch, epoch) == epoch;
        self.unchanged = if is_unchanged { self.unchanged.saturating_add(1) } else { 0 };
        let now = match (epoch, &self.reported) {
            (None, _) => WaitState::Ended,
            (Some(now), WaitState::Waits { epoch, .. }) if *epoch == now => return None,
            (Some(epoch), _) if self.unchanged >= UNCHANGED_LOOKS => match until() {
                Some((until, targets)) => WaitState::Waits { epoch, until, targets },
                None => WaitState::Runs,
            },
            _ => WaitState::Runs,
        };
        (std::mem::replace(&mut self.reported, now.clone()) != now).then_some(now)
    }

    /// Whether nothing changed between the last two looks.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.unchanged > 0
    }

    /// Begins or ends the time in which the rank looks by itself. Returns the timer to cancel.
    pub(crate) fn look_alone(&mut self, begins: bool) -> Option<Timer> {
        self.is_alone = begins;
        self.timer.take()
    }

    /// Whether the rank looks by itself.
    pub(crate) fn looks_alone(&self) -> bool {
        self.is_alone
    }

    /// Whether the rank looks by itself and has set no timer.
    pub(crate) fn lacks_timer(&self) -> bool {
        self.is_alone && self.timer.is_none()
    }

    /// The number of the next timer.
    pub(crate) fn next_timer(&mut self) -> u64 {
        self.last_timer += 1;
        self.last_timer
    }

    /// Notes the timer of the last number.
    pub(crate) fn note_timer(&mut self, timer: Timer) {
        self.timer = Some(timer);
    }

    /// Notes that a timer has fired. Returns whether it is the last one, and is not cancelled.
    pub(crate) fn end_timer(&mut self, number: u64) -> bool {
        number == self.last_timer && self.timer.take().is_some()
    }

    /// Whether the last look has found all that there is to find at a rank with this number of
    /// changes.
    pub(crate) fn is_settled(&self, epoch: Option<u64>) -> bool {
        match epoch {
            None => self.reported == WaitState::Ended,
            Some(_) => self.epoch == epoch && self.unchanged >= UNCHANGED_LOOKS,
        }
    }

    /// Begins a flush. Returns the ranks to which the rank sends markers.
    pub(crate) fn flush(&mut self, flush: Flush) -> Vec<u32> {
        let mut missing: BTreeSet<u32> = flush.peers.iter().copied().collect();
        if self.early.0 == flush.round {
            missing.retain(|rank| !self.early.1.contains(rank));
        }
        let peers = flush.peers.clone();
        self.flush = Some((flush, missing));
        peers
    }

    /// Takes a marker of a rank.
    pub(crate) fn mark(&mut self, round: u64, from: u32) {
        match &mut self.flush {
            Some((flush, missing)) if flush.round == round => {
                missing.remove(&from);
            }
            _ if round > self.early.0 => self.early = (round, BTreeSet::from([from])),
            _ if round == self.early.0 => {
                self.early.1.insert(from);
            }
            _ => {}
        }
    }

    /// Takes the flush whose markers have all come.
    pub(crate) fn complete(&mut self) -> Option<Flush> {
        let (flush, _) = self.flush.take_if(|(_, missing)| missing.is_empty())?;
        Some(flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_tells_once_that_it_waits_and_once_that_it_has_gone_on() {
        let mut watch = WaitWatch::default();
        let on = |rank| move || Some((vec![vec![(rank, 1)]], vec![]));
        let until = |rank| vec![vec![(rank, 1)]];
        let waits = |epoch, rank| WaitState::Waits { epoch, until: until(rank), targets: vec![] };
        assert_eq!(watch.look(Some(4), on(1)), None);
        assert!(!watch.is_unchanged());
        assert_eq!(watch.look(Some(4), on(1)), None);
        assert!(watch.is_unchanged());
        assert_eq!(watch.look(Some(4), on(1)), Some(waits(4, 1)));
        assert_eq!(watch.look(Some(4), on(1)), None);
        assert_eq!(watch.look(Some(5), on(2)), Some(WaitState::Runs));
        assert_eq!(watch.look(Some(5), on(2)), None);
        // It waits for something that no rank decides.
        assert_eq!(watch.look(Some(5), || None), None);
        assert_eq!(watch.look(Some(5), on(2)), Some(waits(5, 2)));
        assert_eq!(watch.look(None, || None), Some(WaitState::Ended));
        assert_eq!(watch.look(None, || None), None);
    }

    #[test]
    fn a_rank_that_looks_by_itself_sets_timers_until_it_has_reported_its_wait() {
        let mut watch = WaitWatch::default();
        let on = || Some((vec![vec![(1, 1)]], vec![]));
        assert!(!watch.lacks_timer() && !watch.end_timer(0));
        assert_eq!(watch.look_alone(true), None);
        assert!(watch.lacks_timer());
        for look in 1..=3 {
            assert!(!watch.is_settled(Some(4)));
            assert_eq!(watch.next_timer(), look);
            assert_eq!(watch.look(Some(4), on).is_some(), look == 3);
        }
        assert!(watch.is_settled(Some(4)) && !watch.is_settled(Some(5)));
        // It has not reported its end.
        assert!(!watch.is_settled(None));
        assert_eq!(watch.look(None, || None), Some(WaitState::Ended));
        assert!(watch.is_settled(None));
    }

    #[test]
    fn a_flush_is_complete_once_all_markers_have_come_early_ones_too() {
        let mut watch = WaitWatch::default();
        let flush = |round| Flush { round, epoch: Some(3), peers: vec![1, 2, 5], is_relay: false };
        watch.mark(1, 5);
        watch.mark(2, 2);
        assert_eq!(watch.flush(flush(2)), [1, 2, 5]);
        watch.mark(2, 1);
        watch.mark(1, 5);
        assert_eq!(watch.complete(), None);
        watch.mark(2, 5);
        assert_eq!(watch.complete(), Some(flush(2)));
        assert_eq!(watch.complete(), None);
        watch.flush(Flush { peers: vec![], ..flush(3) });
        assert_eq!(watch.complete().map(|flush| flush.round), Some(3));
    }
}
