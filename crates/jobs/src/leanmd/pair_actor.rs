//! The actor of a cell pair, which waits for the positions of both cells, computes, and returns
//! forces.
//!
//! A pair is deterministic: it may be computed at the sites of both cells at once, and each copy
//! answers the cell at its own site. A cell sends its next positions only after it has received all
//! forces, including those of this pair; but these may come from the copy at the other site, before
//! the positions of the other cell arrive here. Therefore the positions of one cell can be one step
//! ahead. Positions of any other step fail the job.

use std::cell::RefCell;

use gridspan_kernels::leanmd::decomposition::CellIndex;
use gridspan_kernels::leanmd::force::Scratch;
use gridspan_kernels::leanmd::pair::{PairForces, pair_forces};
use gridspan_kernels::leanmd::vectors::Vectors;
use gridspan_runtime::{Actor, ActorIndex, Context, Ix3, Op, PeId, To};

use super::index::PairIx;
use super::protocol::{CellMessage, Pair, PairInit, PairMessage};
use super::schedule::{Schedule, WorkMode};

/// Reciprocal of the probability that a pair migrates after a step, if actors migrate at random.
const MIGRATION_ODDS: u64 = 16;

thread_local! {
    /// Buffers of the kernel, shared by all pairs of a PE.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Actor for Pair {
    type Index = PairIx;
    type Init = PairInit;
    type Message = PairMessage;

    fn create(init: PairInit, _cx: &mut Context<'_, Self>) -> Self {
        let PairInit { schedule, cells, unit } = init;
        Self {
            schedule,
            cells,
            unit,
            step: 0,
            positions: Default::default(),
            computed: 0,
            known: None,
        }
    }

    fn handle(&mut self, message: PairMessage, cx: &mut Context<'_, Self>) {
        let PairMessage::Positions { step, cell, positions } = message;
        let side = usize::from(cell != cx.index().a);
        let waiting = self.positions[side].len();
        if step != self.step + waiting as u64 || waiting >= AHEAD_MAX {
            let index = cx.index();
            return cx
                .fail(format!("{index:?} got positions of step {step} in step {}", self.step));
        }
        self.positions[side].push_back(positions);
        let is_alone = self.unit.a == self.unit.b;
        let [of_a, of_b] = &mut self.positions;
        if is_alone {
            if let Some(a) = of_a.pop_front() {
                self.compute(&a, &Vectors::default(), cx);
            }
        } else if !of_b.is_empty()
            && let Some(a) = of_a.pop_front()
            && let Some(b) = of_b.pop_front()
        {
            self.compute(&a, &b, cx);
        }
    }

    /// Positions are shared with the other pairs of the cell, so this counts only the share of one
    /// pair.
    fn heap_bytes(message: &PairMessage) -> usize {
        let PairMessage::Positions { positions, .. } = message;
        positions.len() * size_of::<[f64; 3]>() / SHARERS
    }
}

/// Maximum number of steps for which the positions of one cell can be queued: the current step and
/// the next.
const AHEAD_MAX: usize = 2;

/// Number of pairs of a cell in a grid of three or more cells per axis.
const SHARERS: usize = 27;

impl Pair {
    fn compute(&mut self, a: &Vectors, b: &Vectors, cx: &mut Context<'_, Self>) {
        let Some(schedule) = cx.read(&self.schedule) else { return };
        let PairForces { on_a, on_b, sums } = match self.known {
            // The forces are not used if the atoms do not move, so only their lengths matter.
            Some(sums) => PairForces { on_a: a.clone(), on_b: b.clone(), sums },
            None => SCRATCH.with_borrow_mut(|scratch| {
                pair_forces(&self.unit, &schedule.cells, &schedule.law, a, b, scratch)
            }),
        };
        if schedule.work != WorkMode::Compute {
            self.known = Some(sums);
        }
        schedule.spend(schedule.pair_cost(a.len() + b.len(), sums.pairs), cx);
        self.computed += sums.pairs;
        let PairIx { a: number_a, b: number_b, .. } = cx.index();
        if self.unit.a != self.unit.b {
            self.answer(&schedule, self.unit.b, number_a, on_b, cx);
        }
        self.answer(&schedule, self.unit.a, number_b, on_a, cx);
        if schedule.reports_at(self.step) {
            // Counts are exact as floating-point numbers up to 2^53.
            let report = [sums.energy, sums.virial, sums.pairs as f64, self.computed as f64];
            cx.contribute(Op::Concat, report, To::main());
        }
        let name = cx.index().key().0 as u64;
        if let Some(toss) = schedule.migrates_randomly_at(self.step, name, MIGRATION_ODDS) {
            cx.migrate_to(PeId(toss % cx.layout().pe_count()));
        }
        self.step += 1;
    }

    fn answer(
        &self,
        schedule: &Schedule,
        to: CellIndex,
        partner: u32,
        forces: Vectors,
        cx: &mut Context<'_, Self>,
    ) {
        let [x, y, z] = to;
        let cell = self.cells.at(Ix3(x, y, z));
        let step = self.step;
        let message = CellMessage::Forces { step, partner, forces };
        cx.send_with(schedule.options(step), &cell, message);
    }
}
