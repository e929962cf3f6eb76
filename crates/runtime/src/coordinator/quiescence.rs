//! Quiescence: no message is in flight, waiting, or being handled on any PE.
//!
//! F. Mattern, "Algorithms for distributed termination detection" (1987), the four-counter method:
//! the coordinator asks every PE for the number of messages that it has created and handled; a PE
//! answers once it is idle. If two rounds in a row report the same numbers, and as many messages
//! handled as created, no message is left. The coordinator adds its own counts at the end of a
//! round.
//!
//! Pending operations that will lead to a message count as one in flight: armed timers and
//! unanswered asks of actors, moving members, insertions, rebalances. A PE is not idle while it
//! holds contributions that it will forward together with later ones. Rounds that began before a
//! request for quiescence do not count for it, because the asker may have sent messages since.
//!
//! Messages to a member that its home does not know wait there, because its insertion may be in
//! progress. If two rounds in a row report the same numbers and only such messages are left, no
//! insertion is in progress, and the homes drop the messages.

use super::event::Asker;
use super::machine::Coordinator;
use super::state::quiescence::{Counts, Waiting};
use super::state::timers::Timer;
use crate::message::Control;
use crate::pe::PlantedFault;
use std::time::Duration;

/// While messages are in flight, the pause between two rounds is the time waited so far, divided by
/// this. So the pause is a small share of the wait, and long waits cost few messages.
const PAUSE_SHARE: u32 = 16;
/// Shortest pause between two rounds.
const PAUSE_MIN: Duration = Duration::from_micros(500);
/// Longest pause between two rounds.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Returns the pause before the next round, after a wait of `waited`.
pub(super) fn pause_after(waited: Duration) -> Duration {
    (waited / PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX)
}

impl Coordinator {
    /// Answers `asker` once the job is quiescent.
    pub(super) fn await_quiescence(&mut self, asker: Asker) {
        self.await_quiescence_of(Some(asker));
    }

    /// Starts rounds that drop messages to members that do not exist, once no other messages are
    /// left.
    pub(super) fn drop_all_stranded(&mut self) {
        self.await_quiescence_of(None);
    }

    fn await_quiescence_of(&mut self, asker: Option<Asker>) {
        let (now, rounds) = (self.now, &mut self.quiescence);
        rounds.waiting.push(Waiting { asker, after: rounds.round });
        if rounds.waiting.len() == 1 {
            (rounds.previous, rounds.since) = (None, now);
            self.begin_quiescence_round();
        }
    }

    pub(super) fn begin_quiescence_round(&mut self) {
        let pes = self.common.layout.pes();
        let rounds = &mut self.quiescence;
        rounds.round += 1;
        (rounds.missing, rounds.sum) = (pes.len() as u32, Counts::default());
        let round = rounds.round;
        for pe in pes {
            self.post(pe, Control::QuiescenceRound { round });
        }
    }

    pub(super) fn handle_quiescence_reply(
        &mut self,
        round: u64,
        [created, processed, stranded]: [u64; 3],
    ) {
        let rounds = &mut self.quiescence;
        if round != rounds.round || rounds.missing == 0 {
            return;
        }
        rounds.missing -= 1;
        rounds.sum.created = rounds.sum.created.saturating_add(created);
        rounds.sum.processed = rounds.sum.processed.saturating_add(processed);
        rounds.sum.stranded = rounds.sum.stranded.saturating_add(stranded);
        if rounds.missing == 0 {
            // A postponed rebalance leads to messages, also of members that wait for it.
            let postponed = u64::from(self.balances.is_put_off);
            rounds.sum.created = rounds.sum.created.saturating_add(self.created + postponed);
            rounds.sum.processed = rounds.sum.processed.saturating_add(self.processed);
            self.end_quiescence_round();
        }
    }

    fn end_quiescence_round(&mut self) {
        let rounds = &mut self.quiescence;
        let (round, sum) = (rounds.round, rounds.sum);
        let left = sum.created.saturating_sub(sum.processed);
        let is_repeated = rounds.previous.replace(sum) == Some(sum);
        let is_settled = left == 0;
        let is_stranded = left > 0 && left == sum.stranded && is_repeated;
        let mut done = Vec::new();
        let rounds_needed = match self.common.fault {
            PlantedFault::OneRound => 1,
            _ => 2,
        };
        if is_settled && (is_repeated || rounds_needed == 1) {
            // The rounds must have begun after the request, because its asker may have sent
            // messages just before it.
            let came_before = |waiting: &mut Waiting| waiting.after + rounds_needed <= round;
            done.extend(rounds.waiting.extract_if(.., came_before));
        }
        let is_over = rounds.waiting.is_empty();
        let waited = self.now.since(rounds.since);
        for asker in done.into_iter().filter_map(|waiting| waiting.asker) {
            self.quiescence.found += 1;
            self.answer(asker, ());
        }
        if is_stranded {
            for pe in self.common.layout.pes() {
                self.post(pe, Control::DropStranded);
            }
        }
        match (is_over, is_settled || is_stranded) {
            (true, _) => {}
            (false, true) => self.begin_quiescence_round(),
            (false, false) => {
                self.run_after(pause_after(waited), Timer::BeginQuiescenceRound);
            }
        }
    }

    /// Prevents the present round from finding quiescence. Call this when an operation starts that
    /// leads to messages.
    pub(super) fn unsettle(&mut self) {
        self.quiescence.sum.created = self.quiescence.sum.created.saturating_add(1);
    }
}
