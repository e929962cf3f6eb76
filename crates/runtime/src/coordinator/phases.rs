//! Completion of a phase: all its items have been produced and consumed, whatever else is in
//! flight.
//!
//! Every PE counts what its actors produce and consume, and how many producers are done. The
//! coordinator asks all PEs in rounds. The phase is complete when two rounds in a row find the same
//! numbers, all producers done, and as many items consumed as produced (the four-counter method of
//! F. Mattern, "Algorithms for distributed termination detection", 1987; PEs need not be idle to
//! answer, since only these counts matter). An actor may produce items while it consumes one, if it
//! counts the new items first.

use super::event::Asker;
use super::machine::Coordinator;
use super::quiescence::pause_after;
use super::state::timers::Timer;
use crate::address::id::Phase;
use crate::message::{Control, PhaseCounts};
use crate::pe::PlantedFault;

impl Coordinator {
    /// Answers with the final counts once the phase is complete.
    pub(super) fn await_phase(&mut self, asker: Asker, phase: Phase) {
        let (now, phases) = (self.now, &mut self.phases);
        if let Some(counts) = phases.complete.get(&phase.number) {
            let counts = *counts;
            return self.answer(asker, counts);
        }
        let is_new = !phases.rounds.contains_key(&phase.number);
        let rounds = phases.rounds.entry(phase.number).or_default();
        rounds.askers.push(asker);
        if is_new {
            (rounds.producers, rounds.since) = (phase.producers, now);
            self.begin_phase_round(phase.number);
        }
    }

    pub(super) fn begin_phase_round(&mut self, phase: u32) {
        let pes = self.common.layout.pes();
        let Some(rounds) = self.phases.rounds.get_mut(&phase) else { return };
        rounds.round += 1;
        (rounds.missing, rounds.sum) = (pes.len() as u32, PhaseCounts::default());
        let round = rounds.round;
        for pe in pes {
            self.post(pe, Control::PhaseRound { phase, round });
        }
    }

    pub(super) fn handle_phase_counts(&mut self, phase: u32, round: u64, counts: PhaseCounts) {
        let Some(rounds) = self.phases.rounds.get_mut(&phase) else { return };
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
        let Some(rounds) = self.phases.rounds.get_mut(&phase) else { return };
        let sum = rounds.sum;
        let is_repeated = rounds.previous.replace(sum) == Some(sum)
            || self.common.fault == PlantedFault::OnePhaseRound;
        let is_settled = sum.done >= rounds.producers && sum.consumed >= sum.produced;
        if is_settled && is_repeated {
            let ended = self.phases.rounds.remove(&phase);
            self.phases.complete.insert(phase, sum);
            let askers = ended.map_or_else(Vec::new, |rounds| rounds.askers);
            askers.into_iter().for_each(|asker| self.answer(asker, sum));
            for pe in self.common.layout.pes() {
                self.post(pe, Control::PhaseOver { phase });
            }
        } else if is_settled {
            self.begin_phase_round(phase);
        } else {
            let pause = pause_after(self.now.since(rounds.since));
            self.run_after(pause, Timer::BeginPhaseRound(phase));
        }
    }
}
