//! Completion of a phase: all its items have been produced and consumed, whatever else is in
//! flight.
//!
//! Every PE counts what its actors produce and consume, and how many producers are done. The
//! coordinator asks all PEs in rounds. Once a round has found all producers done, no item is
//! produced any more, so the next round finds the final number of items; the phase is complete when
//! as many are consumed. (As the four-counter method of F. Mattern, "Algorithms for distributed
//! termination detection", 1987, but producers announce their end, so PEs need not be idle to
//! answer.)

use super::event::Asker;
use super::machine::Coordinator;
use super::quiescence::pause_after;
use super::state::phases::PhaseRounds;
use super::state::timers::Timer;
use crate::address::id::Phase;
use crate::message::{Control, PhaseCounts};

impl Coordinator {
    /// Answers with the final counts once the phase is complete.
    pub(super) fn await_phase(&mut self, asker: Asker, phase: Phase) {
        let now = self.now;
        let is_known = self.phases.contains_key(&phase.number);
        let rounds = self.phases.entry(phase.number).or_default();
        rounds.askers.push(asker);
        if !is_known {
            *rounds =
                PhaseRounds { producers: phase.producers, since: now, ..std::mem::take(rounds) };
            self.begin_phase_round(phase.number);
        }
    }

    pub(super) fn begin_phase_round(&mut self, phase: u32) {
        let pes = self.common.layout.pes();
        let Some(rounds) = self.phases.get_mut(&phase) else { return };
        rounds.round += 1;
        (rounds.missing, rounds.sum) = (pes.len() as u32, PhaseCounts::default());
        let round = rounds.round;
        for pe in pes {
            self.post(pe, Control::PhaseRound { phase, round });
        }
    }

    pub(super) fn handle_phase_counts(&mut self, phase: u32, round: u64, counts: PhaseCounts) {
        let Some(rounds) = self.phases.get_mut(&phase) else { return };
        if round != rounds.round || rounds.missing == 0 {
            return;
        }
        rounds.missing -= 1;
        rounds.sum += counts;
        if rounds.missing == 0 {
            self.end_phase_round(phase);
        }
    }

    fn end_phase_round(&mut self, phase: u32) {
        let Some(rounds) = self.phases.get_mut(&phase) else { return };
        let (sum, producers) = (rounds.sum, rounds.producers);
        let was_final = rounds.previous.replace(sum).is_some_and(|before| before.done >= producers);
        if was_final && sum.consumed >= sum.produced {
            let askers = self.phases.remove(&phase).map_or_else(Vec::new, |rounds| rounds.askers);
            askers.into_iter().for_each(|asker| self.answer(asker, sum));
            for pe in self.common.layout.pes() {
                self.post(pe, Control::PhaseOver { phase });
            }
        } else if !was_final && sum.done >= producers {
            self.begin_phase_round(phase);
        } else {
            let pause = pause_after(self.now.since(rounds.since));
            self.run_after(pause, Timer::BeginPhaseRound(phase));
        }
    }
}
