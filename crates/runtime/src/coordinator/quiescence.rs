//! Quiescence: no message is on its way, waits, or is being handled anywhere.
//!
//! F. Mattern, "Algorithms for distributed termination detection" (1987), the four-counter method:
//! the coordinator asks every PE how many messages it has made and handled; a PE answers once it is
//! idle. If two rounds in a row report the same, and as many messages handled as made, none is
//! left. The coordinator's own counts are taken when a round ends.
//!
//! What will lead to a message counts as one on its way: armed timers and open questions of actors,
//! members that are moving, insertions, rebalances. A PE with contributions that wait for others to
//! be passed on together is not idle. Rounds that began before somebody asked say nothing about
//! what that one sent.
//!
//! Messages to a member that its home does not know wait there, since its insertion may be on its
//! way. If two rounds in a row report the same and all that is left are such messages, no insertion
//! is, and their homes drop them.

use super::event::Asker;
use super::machine::Coordinator;
use super::state::quiescence::{Counts, Waiting};
use super::state::timers::Timer;
use crate::message::Control;
use crate::pe::PlantedFault;
use std::time::Duration;

/// The pause between two rounds of questions while messages are still on their way: this share of
/// the time waited so far, so that waiting is noticed at most that much later than it could be and
/// long waits cost few messages.
const PAUSE_SHARE: u32 = 16;
/// The shortest such pause.
const PAUSE_MIN: Duration = Duration::from_micros(500);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl Coordinator {
    /// Answers once the job is quiescent.
    pub(super) fn await_quiescence(&mut self, asker: Asker) {
        self.await_quiescence_of(Some(asker));
    }

    /// Has messages to members that do not exist dropped, if they are all that is left.
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
        rounds.sum.created += created;
        rounds.sum.processed += processed;
        rounds.sum.stranded += stranded;
        if rounds.missing == 0 {
            rounds.sum.created += self.created;
            rounds.sum.processed += self.processed;
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
            // All of them must have begun after whoever waits came: it may have sent something.
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
                let pause = (waited / PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX);
                self.run_after(pause, Timer::BeginQuiescenceRound);
            }
        }
    }

    /// Something begins by itself that leads to messages: what PEs have answered before says
    /// nothing any more.
    pub(super) fn unsettle(&mut self) {
        self.quiescence.sum.created += 1;
    }
}
