//! A PE's counts of the items of phases; see `coordinator/phases.rs`.

use crate::address::id::{COORDINATOR, Phase, Sender, Slot};
use crate::message::{Control, PhaseCounts};
use crate::pe::core::Core;

impl Core {
    /// Counts items and producers of a phase, on behalf of an actor.
    pub(crate) fn count_in_phase(&mut self, slot: Slot, phase: Phase, counts: PhaseCounts) {
        // Only the primary replica counts.
        if !self.is_secondary(Sender::Actor(slot)) {
            *self.phases.entry(phase.number).or_default() += counts;
        }
    }

    /// Reports the counts of this PE so far.
    pub(in crate::pe) fn answer_phase_round(&mut self, phase: u32, round: u64) {
        let counts = self.phases.get(&phase).copied().unwrap_or_default();
        self.post(COORDINATOR, Control::PhaseCounts { phase, round, counts });
    }

    /// Forgets a phase that is complete.
    pub(in crate::pe) fn end_phase(&mut self, phase: u32) {
        self.phases.remove(&phase);
    }
}
