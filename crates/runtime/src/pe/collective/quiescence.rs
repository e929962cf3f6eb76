//! Quiescence: no message is on its way, waits, or is being handled anywhere.
//!
//! F. Mattern, "Algorithms for distributed termination detection" (1987), the four-counter method:
//! the root asks every PE how many messages it has made and handled; a PE answers once it is idle.
//! If two rounds in a row report the same, and as many messages handled as made, none is left.
//!
//! What will lead to a message counts as one on its way: armed timers and open questions of actors,
//! members that are moving, insertions, rebalances. A PE with contributions that wait for others to
//! be passed on together is not idle. Rounds that began before somebody asked say nothing about
//! what that one sent.
//!
//! Messages to a member that its home does not know wait there, since its insertion may be on its
//! way. If two rounds in a row report the same and all that is left are such messages, no insertion
//! is, and their homes drop them.

use crate::pe::core::{Action, Core};
use crate::wire::Control;
use std::time::Duration;

/// The pause between two rounds of questions while messages are still on their way: this share of
/// the time waited so far, so that waiting is noticed at most that much later than it could be and
/// long waits cost few messages.
const PAUSE_SHARE: u32 = 16;
/// The shortest such pause.
const PAUSE_MIN: Duration = Duration::from_micros(500);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_millis(100);

impl Core {
    /// Calls `done` once the job is quiescent. Runs on the root.
    pub(crate) fn await_quiescence(&mut self, done: impl FnOnce(&mut Self) + Send + 'static) {
        let now = self.now;
        let Some(root) = &mut self.root else { return };
        root.quiescence.waiting.push((root.quiescence.round, Box::new(done)));
        if root.quiescence.waiting.len() == 1 {
            root.quiescence.previous = None;
            root.quiescence.since = now;
            self.begin_wave();
        }
    }

    fn begin_wave(&mut self) {
        let pes = self.common.layout.pes();
        let Some(root) = &mut self.root else { return };
        let rounds = &mut root.quiescence;
        rounds.round += 1;
        rounds.missing = pes.len() as u32;
        (rounds.created, rounds.processed, rounds.stranded) = (0, 0, 0);
        let round = rounds.round;
        for pe in pes {
            self.post(pe, Control::QuiescenceRound { round });
        }
    }

    /// Answers the root's questions; called when this PE is idle.
    pub(in crate::pe) fn answer_waves(&mut self) {
        while let Some(round) = self.rounds_pending.pop_first() {
            let (created, processed) = (self.created, self.processed);
            let stranded = self.report_stranded();
            self.post(Self::ROOT, Control::QuiescenceReply { round, created, processed, stranded });
        }
    }

    pub(in crate::pe) fn handle_quiescence_reply(
        &mut self,
        round: u64,
        [created, processed, stranded]: [u64; 3],
    ) {
        let Some(root) = &mut self.root else { return };
        let rounds = &mut root.quiescence;
        if round != rounds.round || rounds.missing == 0 {
            return;
        }
        rounds.missing -= 1;
        rounds.created += created;
        rounds.processed += processed;
        rounds.stranded += stranded;
        if rounds.missing > 0 {
            return;
        }
        let counts = (rounds.created, rounds.processed, rounds.stranded);
        let left = rounds.created.saturating_sub(rounds.processed);
        let is_repeated = rounds.previous == Some(counts);
        let settled = left == 0;
        let is_stranded = left > 0 && left == rounds.stranded && is_repeated;
        let mut done = Vec::new();
        if settled && is_repeated {
            // Both rounds must have begun after whoever waits came: it may have sent something.
            let came_before = |(last, _): &mut (u64, Action)| *last + 1 < round;
            done.extend(rounds.waiting.extract_if(.., came_before));
        }
        rounds.previous = Some(counts);
        let idle = rounds.waiting.is_empty();
        let waited = self.now.since(rounds.since);
        for (_, done) in done {
            done(self);
        }
        if is_stranded {
            for pe in self.common.layout.pes() {
                self.post(pe, Control::DropStranded);
            }
        }
        match (idle, settled || is_stranded) {
            // What was done may have led to somebody new who waits, and to a new round.
            (true, _) => {}
            (false, true) => self.begin_wave(),
            (false, false) => {
                let pause = (waited / PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX);
                self.run_upkeep_after(pause, Self::begin_wave);
            }
        }
    }
}
