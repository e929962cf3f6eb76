//! What all actors of a run know, and what happens at which step.

use std::time::Duration;

use clap::ValueEnum;
use gridspan_runtime::{Actor, ActorRef, Context};
use gridspan_topology::dice::{GOLDEN_GAMMA, mix};
use serde::{Deserialize, Serialize};

use super::decomposition::Cells;
use super::potential::LennardJones;
use crate::emulated_work;

/// The settings of a run, published to all PEs. Intervals are in steps; 0 stands for never.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The box and its cells.
    pub cells: Cells,
    /// The forces.
    pub law: LennardJones,
    /// The time step in reduced units.
    pub dt: f64,
    /// The last step; forces are also computed before the first.
    pub steps: u64,
    /// How often atoms change cells; at least 1.
    pub migrate_every: u64,
    /// How often energies are reported; the start and the last step always are.
    pub report_every: u64,
    /// How often main collects all atoms; if ever, then also at the start.
    pub frame_every: u64,
    /// How often cells wait at a sync point.
    pub sync_every: u64,
    /// Whether actors move on their own, at random.
    pub wander: bool,
    /// Seeds the wandering.
    pub seed: u64,
    /// What compute costs are multiplied by in virtual time.
    pub cost: f64,
    /// What computing is.
    pub work: WorkMode,
    /// In which order messages are handled.
    pub order: HandlingOrder,
}

/// What computing is: the real thing, or what stands for it in studies of balancing and scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum WorkMode {
    /// Atoms move under the forces between them.
    Compute,
    /// Atoms stay where they are and forces are computed once; after that, the same messages of the
    /// same sizes flow, and in virtual time everything takes as long as if it were computed.
    Charge,
    /// The same in real time: a handler waits as long as computing would take in virtual time. PEs
    /// get no faster by sharing a processor, nor slower, so that a machine can stand for a larger
    /// one.
    Wait,
}

/// In which order a PE handles the messages that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum HandlingOrder {
    /// Those of older steps first, and of one step those for actors near another site.
    Steps,
    /// As they came.
    Arrival,
}

/// Virtual time of the force computation: for each pair of cells, for each atom of both, and for
/// each pair of atoms within the cutoff. Fitted to the kernel on the 3,024 pairs of the standard
/// droplet on one core of a 2020s server with 256-bit vectors, warm, and scaled by 1.3 to what a
/// whole serial step takes.
const PAIR_NS: f64 = 130.0;
const PAIR_ATOM_NS: f64 = 11.0;
const PAIR_WITHIN_NS: f64 = 8.5;

/// Virtual time of a cell for each of its atoms: to integrate a step, and to add the forces of one
/// pair.
const STEP_ATOM_NS: f64 = 15.0;
const ADD_ATOM_NS: f64 = 0.5;

impl Schedule {
    /// Whether atoms change cells in this step.
    pub fn migrates_at(&self, step: u64) -> bool {
        step.is_multiple_of(self.migrate_every)
    }

    /// Whether energies are reported after this step.
    pub fn reports_at(&self, step: u64) -> bool {
        step == 0 || step == self.steps || is_due(step, self.report_every)
    }

    /// Whether main collects all atoms after this step.
    pub fn frames_at(&self, step: u64) -> bool {
        self.frame_every > 0 && (step == 0 || is_due(step, self.frame_every))
    }

    /// Whether cells wait at a sync point after this step.
    pub fn syncs_at(&self, step: u64) -> bool {
        step > 0 && step < self.steps && is_due(step, self.sync_every)
    }

    /// Where an actor wanders to after this step, if anywhere: a number to take modulo the PEs.
    /// `name` tells actors apart; one in `odds` goes.
    pub fn wanders_at(&self, step: u64, name: u64, odds: u64) -> Option<u32> {
        if !self.wander {
            return None;
        }
        let bits = mix(self.seed ^ step.rotate_left(40) ^ name.wrapping_mul(GOLDEN_GAMMA));
        u64::from(bits as u32).is_multiple_of(odds).then_some((bits >> 32) as u32)
    }

    /// Virtual time for a pair of cells with so many `atoms` together, `within` pairs of them
    /// closer than the cutoff.
    pub fn pair_cost(&self, atoms: usize, within: u64) -> Duration {
        self.scaled(PAIR_NS + PAIR_ATOM_NS * atoms as f64 + PAIR_WITHIN_NS * within as f64)
    }

    /// Virtual time for a step of a cell with so many `atoms`, besides adding forces.
    pub fn step_cost(&self, atoms: usize) -> Duration {
        self.scaled(STEP_ATOM_NS * atoms as f64)
    }

    /// Virtual time for adding the forces of one pair to those of so many `atoms`.
    pub fn add_cost(&self, atoms: usize) -> Duration {
        self.scaled(ADD_ATOM_NS * atoms as f64)
    }

    /// Takes so much time for what a handler computes.
    pub(super) fn spend<A: Actor>(&self, time: Duration, cx: &mut Context<'_, A>) {
        cx.charge(time);
        if self.work == WorkMode::Wait {
            emulated_work::emulate(time);
        }
    }

    /// Sends what belongs to a step.
    pub(super) fn send<A: Actor, B: Actor>(
        &self,
        to: &ActorRef<B>,
        step: u64,
        message: B::Message,
        cx: &mut Context<'_, A>,
    ) {
        match self.order {
            HandlingOrder::Steps => cx.send_in_step(to, step, message),
            HandlingOrder::Arrival => cx.send(to, message),
        }
    }

    fn scaled(&self, ns: f64) -> Duration {
        Duration::from_nanos((ns * self.cost) as u64)
    }
}

fn is_due(step: u64, every: u64) -> bool {
    every > 0 && step.is_multiple_of(every)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leanmd::potential::Truncation;

    #[test]
    fn the_start_and_the_last_step_are_always_reported() {
        let reported: Vec<u64> = (0..=25).filter(|&step| schedule().reports_at(step)).collect();
        assert_eq!(reported, [0, 10, 20, 25]);
    }

    #[test]
    fn nothing_waits_before_the_first_step_or_after_the_last() {
        let schedule = Schedule { sync_every: 5, ..schedule() };
        let synced: Vec<u64> = (0..=25).filter(|&step| schedule.syncs_at(step)).collect();
        assert_eq!(synced, [5, 10, 15, 20]);
        assert!(!(0..=25).any(|step| schedule.frames_at(step)));
    }

    #[test]
    fn actors_wander_as_often_as_the_odds_say_and_only_if_asked_to() {
        let asked = Schedule { wander: true, ..schedule() };
        let went = |schedule: Schedule| {
            (0..4000).filter(|&name| schedule.wanders_at(7, name, 8).is_some()).count()
        };
        assert!((400..600).contains(&went(asked)), "{}", went(asked));
        assert_eq!(went(schedule()), 0);
    }

    fn schedule() -> Schedule {
        Schedule {
            cells: Cells::with_dims([9.0; 3], [3; 3], 3.0).unwrap(),
            law: LennardJones::new(3.0, Truncation::LinearForceShift).unwrap(),
            dt: 0.004,
            steps: 25,
            migrate_every: 1,
            report_every: 10,
            frame_every: 0,
            sync_every: 0,
            wander: false,
            seed: 1,
            cost: 1.0,
            work: WorkMode::Compute,
            order: HandlingOrder::Steps,
        }
    }
}
