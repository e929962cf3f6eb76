//! An actor's part in the detection of deadlocks: of all ranks once nothing happens any more, and
//! of some ranks while others run (see `deadlock`).

use super::{Life, RankActor};
use crate::deadlock::{self, Flush, LOOK_EVERY, Verdict, WaitState};
use crate::packet::RankMessage;
use crate::program::RankProgram;
use gridspan_runtime::{Context, Ix1};

impl<P: RankProgram> RankActor<P> {
    /// What the rank waits for; `None` if it waits for other ranks to come to a migration point.
    pub(super) fn waits(&self) -> Option<String> {
        let is_running = matches!(self.life, Life::Running);
        is_running.then(|| self.local.with(|state| state.waits()))
    }

    /// Collects what ranks wait for, at rank 0, and ends the job once all have reported.
    pub(super) fn collect(&mut self, rank: u32, waits: Option<String>, cx: &mut Context<'_, Self>) {
        self.stuck.insert(rank, waits);
        if self.stuck.len() as u32 == self.size {
            let stuck = std::mem::take(&mut self.stuck);
            let waits = stuck.iter().filter_map(|(rank, waits)| Some((rank, waits.as_ref()?)));
            cx.fail(deadlock::text("the ranks are in a deadlock", waits));
        }
    }

    /// Number of changes of this rank's wait; `None` if the rank does not run.
    fn epoch(&self) -> Option<u64> {
        match self.life {
            Life::Ended(_) | Life::Between(_) | Life::Failed(_) => None,
            Life::New(_) | Life::Running => Some(self.local.with(|state| state.changes)),
        }
    }

    /// Whether ranks have been spawned since the begin of the run, and are too many to look now.
    fn are_too_many(&self) -> bool {
        deadlock::are_too_many(self.size, self.local.rank)
    }

    /// Looks at this rank for main. If main's next look comes late, the rank looks by itself
    /// meanwhile.
    pub(super) fn look_for_main(&mut self, is_late_next: bool, cx: &mut Context<'_, Self>) {
        if !self.are_too_many() {
            self.look_alone(is_late_next, cx);
            self.look(cx);
        }
    }

    /// Begins or ends the time in which the rank looks by itself.
    pub(super) fn look_alone(&mut self, begins: bool, cx: &mut Context<'_, Self>) {
        let timer = self.watch.get_or_insert_default().look_alone(begins);
        if let Some(timer) = timer {
            cx.cancel(timer);
        }
    }

    /// Looks at this rank, if the timer of this number is the last one.
    pub(super) fn look_again(&mut self, number: u64, cx: &mut Context<'_, Self>) {
        if self.watch.as_mut().is_some_and(|watch| watch.end_timer(number)) {
            self.look(cx);
        }
    }

    /// While the rank looks by itself, sets a timer for its next look if that can find something
    /// new, and if no timer is set.
    pub(super) fn plan_look(&mut self, cx: &mut Context<'_, Self>) {
        // Each message takes this path, so this comes first.
        if !self.watch.as_ref().is_some_and(|watch| watch.lacks_timer()) || self.are_too_many() {
            return;
        }
        let epoch = self.epoch();
        let is_searching = self.detector.as_ref().is_some_and(|detector| detector.is_searching());
        let asks = self.local.with(|state| state.asks_for_locks());
        let Some(watch) = &mut self.watch else { return };
        if watch.is_settled(epoch) && !is_searching && !asks {
            return;
        }
        let number = watch.next_timer();
        let timer = cx.send_after(LOOK_EVERY, &cx.me(), RankMessage::LookAgain(number));
        watch.note_timer(timer);
    }

    /// Looks at this rank, and reports to rank 0 if it waits. At rank 0, looks for a deadlock.
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        if self.are_too_many() {
            return;
        }
        let (epoch, local) = (self.epoch(), &self.local);
        let watch = self.watch.get_or_insert_default();
        let until = || local.with(|state| Some((state.waits_until()?, state.lock_targets())));
        let changed = watch.look(epoch, until);
        if watch.is_unchanged() {
            local.with(|state| state.ask_for_locks());
        }
        let rank = self.local.rank;
        if rank == 0 {
            let detector = self.detector.get_or_insert_default();
            changed.into_iter().for_each(|state| detector.note(rank, state));
            let verdict = detector.look(cx.now());
            self.follow(verdict, cx);
        } else if let Some(state) = changed {
            cx.send(&cx.collection().at(Ix1(0)), RankMessage::Waits { rank, state });
        }
    }

    /// At rank 0: a rank has reported whether it waits.
    pub(super) fn note_wait(&mut self, rank: u32, state: WaitState) {
        if !self.are_too_many() {
            self.detector.get_or_insert_default().note(rank, state);
        }
    }

    /// Sends markers to others, unless something has changed since this rank reported its wait.
    pub(super) fn begin_flush(&mut self, flush: Flush, cx: &mut Context<'_, Self>) {
        let (round, rank) = (flush.round, self.local.rank);
        let ranks = cx.collection();
        if !flush.is_met_by(self.epoch()) {
            let moved = RankMessage::Flushed { round, rank, waits: None };
            return cx.send(&ranks.at(Ix1(0)), moved);
        }
        for peer in self.watch.get_or_insert_default().flush(flush) {
            cx.send(&ranks.at(Ix1(peer as i32)), RankMessage::Marker { round, from: rank });
        }
        self.end_flush(cx);
    }

    /// Takes a marker of another rank.
    pub(super) fn take_marker(&mut self, round: u64, from: u32, cx: &mut Context<'_, Self>) {
        self.watch.get_or_insert_default().mark(round, from);
        self.end_flush(cx);
    }

    /// Once all markers have come, reports to rank 0 whether this rank waits as before.
    fn end_flush(&mut self, cx: &mut Context<'_, Self>) {
        let complete = self.watch.as_mut().and_then(|watch| watch.complete());
        let Some(flush) = complete else { return };
        let (round, rank) = (flush.round, self.local.rank);
        let is_same = flush.is_met_by(self.epoch());
        let waits = is_same.then(|| self.local.with(|state| state.waits()));
        cx.send(&cx.collection().at(Ix1(0)), RankMessage::Flushed { round, rank, waits });
    }

    /// At rank 0: a rank has answered a request to flush.
    pub(super) fn note_flushed(
        &mut self,
        (round, rank): (u64, u32),
        waits: Option<String>,
        cx: &mut Context<'_, Self>,
    ) {
        let now = cx.now();
        let verdict = self.detector.get_or_insert_default().answered((round, rank), waits, now);
        self.follow(verdict, cx);
    }

    fn follow(&mut self, verdict: Verdict, cx: &mut Context<'_, Self>) {
        match verdict {
            Verdict::Open => {}
            Verdict::Flush(flushes) => {
                let ranks = cx.collection();
                for (rank, flush) in flushes {
                    cx.send(&ranks.at(Ix1(rank as i32)), RankMessage::Flush(flush));
                }
            }
            Verdict::Deadlock(waits) => {
                let detector = self.detector.as_ref();
                let others = detector.is_none_or(|all| all.others_run(waits.len(), self.size));
                let which = match others {
                    true => "ranks are in a deadlock while others run",
                    false => "the ranks are in a deadlock",
                };
                cx.fail(deadlock::text(which, waits.iter()));
            }
        }
    }
}
