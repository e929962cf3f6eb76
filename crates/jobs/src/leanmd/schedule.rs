//! The settings that all actors of a run share, and the events of each step.

use std::time::Duration;

use clap::ValueEnum;
use gridspan_kernels::leanmd::decomposition::Cells;
use gridspan_kernels::leanmd::potential::LennardJones;
use gridspan_runtime::{Actor, Context, InStep, SendOptions};
use gridspan_topology::dice::{GOLDEN_GAMMA, mix};
use serde::{Deserialize, Serialize};

use crate::emulated_work;

/// The settings of a run, published to all PEs. Intervals are in steps; 0 means never.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The box and its cells.
    pub cells: Cells,
    /// The forces.
    pub law: LennardJones,
    /// The time step in reduced units.
    pub dt: f64,
    /// Number of steps; forces are also computed before the first.
    pub steps: u64,
    /// Interval between changes of cells; at least 1.
    pub migrate_every: u64,
    /// Interval between reports of energies; the start and the last step are always reported.
    pub report_every: u64,
    /// Interval between frames, for which main collects all atoms; if not 0, the start is a frame,
    /// too.
    pub frame_every: u64,
    /// Interval between sync points.
    pub sync_every: u64,
    /// Time in ms that passes after each step before the next begins.
    pub pause_ms: u64,
    /// Whether actors migrate at random.
    pub migrate_randomly: bool,
    /// Seed of the random migrations.
    pub seed: u64,
    /// Factor of compute costs in virtual time.
    pub cost: f64,
    /// Form of the computation.
    pub work: WorkMode,
    /// Order in which messages are handled.
    pub order: HandlingOrder,
}

/// The form of the computation: real, or emulated for studies of load balancing and scheduling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum WorkMode {
    /// Compute forces and move the atoms.
    Compute,
    /// Compute forces only once; then send the same messages of the same sizes, and charge the same
    /// virtual time.
    Charge,
    /// Like `charge`, but also wait for this time in real time. PEs that wait do not slow each
    /// other down, so that a machine can emulate one with more processors.
    Wait,
}

/// The order in which a PE handles the messages that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum HandlingOrder {
    /// Older steps first, and within a step actors near another site first.
    Steps,
    /// Order of arrival.
    Arrival,
}

/// Virtual time of the force computation for each pair of cells. This value and the next two are
/// fitted to the warm kernel on the 3,024 pairs of the standard droplet on one core of a 2020s
/// server with 256-bit vectors, and multiplied by 1.3 to match a whole serial step.
const PAIR_NS: f64 = 130.0;
/// Virtual time of the force computation for each atom of the two cells.
const PAIR_ATOM_NS: f64 = 11.0;
/// Virtual time of the force computation for each pair of atoms within the cutoff.
const PAIR_WITHIN_NS: f64 = 8.5;

/// Virtual time for each atom of a cell to integrate a step.
const STEP_ATOM_NS: f64 = 15.0;
/// Virtual time for each atom of a cell to add the forces of one pair.
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

    /// Returns the destination of an actor that migrates at random after this step, as a number to
    /// take modulo the number of PEs; `None` if it stays. `name` distinguishes actors; one in
    /// `odds` migrates.
    pub fn migrates_randomly_at(&self, step: u64, name: u64, odds: u64) -> Option<u32> {
        if !self.migrate_randomly {
            return None;
        }
        let bits = mix(self.seed ^ step.rotate_left(40) ^ name.wrapping_mul(GOLDEN_GAMMA));
        u64::from(bits as u32).is_multiple_of(odds).then_some((bits >> 32) as u32)
    }

    /// Returns the virtual time of a pair of cells that have `atoms` atoms together, with `within`
    /// pairs of atoms closer than the cutoff.
    pub fn pair_cost(&self, atoms: usize, within: u64) -> Duration {
        self.scaled(PAIR_NS + PAIR_ATOM_NS * atoms as f64 + PAIR_WITHIN_NS * within as f64)
    }

    /// Returns the virtual time of a step of a cell with `atoms` atoms, without adding forces.
    pub fn step_cost(&self, atoms: usize) -> Duration {
        self.scaled(STEP_ATOM_NS * atoms as f64)
    }

    /// Returns the virtual time to add the forces of one pair to those of `atoms` atoms.
    pub fn add_cost(&self, atoms: usize) -> Duration {
        self.scaled(ADD_ATOM_NS * atoms as f64)
    }

    /// Charges `time` to the handler, and with [`WorkMode::Wait`] also waits for that time.
    pub(super) fn spend<A: Actor>(&self, time: Duration, cx: &mut Context<'_, A>) {
        cx.charge(time);
        if self.work == WorkMode::Wait {
            emulated_work::emulate(time);
        }
    }

    /// The options of messages that belong to a step.
    pub(super) fn options(&self, step: u64) -> SendOptions {
        match self.order {
            HandlingOrder::Steps => InStep(step).into(),
            HandlingOrder::Arrival => SendOptions::default(),
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
    use gridspan_kernels::leanmd::potential::Truncation;

    use super::*;

    #[test]
    fn the_start_and_the_last_step_are_always_reported() {
        let reported: Vec<u64> = (0..=25).filter(|&step| schedule().reports_at(step)).collect();
        assert_eq!(reported, [0, 10, 20, 25]);
    }

    #[test]
    fn sync_points_lie_between_the_start_and_the_last_step() {
        let schedule = Schedule { sync_every: 5, ..schedule() };
        let synced: Vec<u64> = (0..=25).filter(|&step| schedule.syncs_at(step)).collect();
        assert_eq!(synced, [5, 10, 15, 20]);
        assert!(!(0..=25).any(|step| schedule.frames_at(step)));
    }

    #[test]
    fn actors_migrate_at_random_with_the_given_odds_and_only_on_request() {
        let asked = Schedule { migrate_randomly: true, ..schedule() };
        let went = |schedule: Schedule| {
            (0..4000).filter(|&name| schedule.migrates_randomly_at(7, name, 8).is_some()).count()
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
            pause_ms: 0,
            migrate_randomly: false,
            seed: 1,
            cost: 1.0,
            work: WorkMode::Compute,
            order: HandlingOrder::Steps,
        }
    }
}
