//! The actor of a cell, which sends positions, sums forces, moves its atoms, and exchanges atoms
//! with its neighbours.
//!
//! **Start.** Main creates cells and pairs and broadcasts [`CellMessage::Start`]. A cell receives
//! no message before that, because pairs and neighbours send only in response to its positions.
//!
//! **Steady state.** In a step, a cell sends its positions to its pairs and waits for all forces.
//! Then it finishes the step, reports if a report is due, waits at a sync point if one is due, and
//! begins the next step. In steps in which atoms change cells, it first sends every neighbour the
//! atoms that moved there, often none, and waits for such a message from every neighbour. A
//! neighbour may be a step ahead: messages for the next step are held. It cannot be two steps
//! ahead, because its forces depend on the positions of this cell.
//!
//! **Failure.** An atom that went too far, or a message that does not fit the step, fails the job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gridspan_kernels::leanmd::atoms::Runaway;
use gridspan_kernels::leanmd::decomposition::{CellIndex, Cells};
use gridspan_kernels::leanmd::fingerprint::StateFingerprint;
use gridspan_kernels::leanmd::gather::Gather;
use gridspan_kernels::leanmd::integrate::{Motion, drift, kick};
use gridspan_kernels::leanmd::packing::{pack, pack_cell, unpack};
use gridspan_runtime::{Actor, CollectionRef, Context, Ix3, Op, PeId, To};

use super::index::PairIx;
use super::protocol::{Cell, CellInit, CellMessage, Pair, PairMessage};
use super::schedule::{Schedule, WorkMode};

/// Reciprocal of the probability that a cell migrates after a step, if actors migrate at random.
const MIGRATION_ODDS: u64 = 8;

/// The cell that pauses after each step. The others wait for it, because a cell can be only one
/// step ahead of its neighbours.
const PAUSING: Ix3 = Ix3(0, 0, 0);

impl Actor for Cell {
    type Index = Ix3;
    type Init = CellInit;
    type Message = CellMessage;

    fn create(CellInit { schedule, atoms }: CellInit, _cx: &mut Context<'_, Self>) -> Self {
        Self {
            schedule,
            pairs: None,
            partners: Vec::new(),
            atoms,
            step: 0,
            forces: Gather::default(),
            arrivals: BTreeMap::new(),
            is_exchanging: false,
            fingerprint: StateFingerprint::default(),
            done_ns: Vec::new(),
        }
    }

    fn handle(&mut self, message: CellMessage, cx: &mut Context<'_, Self>) {
        let Some(schedule) = cx.read(&self.schedule) else { return };
        match message {
            CellMessage::Start { pairs } => {
                self.meet(&schedule.cells, pairs, cx);
                self.send_positions(&schedule, cx);
            }
            CellMessage::Forces { step, partner, forces } => {
                schedule.spend(schedule.add_cost(forces.len()), cx);
                let position = self.partners.binary_search(&partner);
                let fits = position.is_ok_and(|position| self.forces.take(position, forces));
                if step != self.step || !fits {
                    let (here, me) = (self.step, cx.index());
                    cx.fail(format!(
                        "{me:?} got forces of step {step} with {partner} in step {here}"
                    ));
                } else if self.forces.added() == self.partners.len() {
                    self.finish_step(&schedule, cx);
                }
            }
            CellMessage::Leavers { step, atoms } => {
                let arrivals = self.arrivals.entry(step).or_default();
                arrivals.senders += 1;
                arrivals.atoms.extend(unpack(&atoms));
                self.try_absorb(&schedule, cx);
            }
            CellMessage::PauseOver => self.begin_step(&schedule, cx),
        }
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(schedule) = cx.read(&self.schedule) {
            self.pause_or_begin_step(&schedule, cx);
        }
    }

    fn heap_bytes(message: &CellMessage) -> usize {
        match message {
            CellMessage::Start { .. } | CellMessage::PauseOver => 0,
            CellMessage::Forces { forces, .. } => forces.len() * size_of::<[f64; 3]>(),
            CellMessage::Leavers { atoms, .. } => atoms.len() * size_of::<f64>(),
        }
    }
}

impl Cell {
    /// Determines the pairs of the cell.
    fn meet(&mut self, cells: &Cells, pairs: CollectionRef<Pair>, cx: &Context<'_, Self>) {
        let home = coordinates(cx.index());
        let me = cells.number(home) as u32;
        let number = |cell: CellIndex| cells.number(cell) as u32;
        self.partners = cells.pairs_of(home).into_iter().map(number).collect();
        let count = cells.count() as u32;
        let members = self.partners.iter().map(|&partner| PairIx {
            cells: count,
            a: me.min(partner),
            b: me.max(partner),
        });
        self.pairs = Some(pairs.section(u64::from(me), members));
    }

    fn send_positions(&mut self, schedule: &Schedule, cx: &mut Context<'_, Self>) {
        self.forces.begin(self.atoms.len());
        let Some(cell) = self.number(cx) else { return };
        let positions = Arc::new(self.atoms.positions().clone());
        if let Some(pairs) = &self.pairs {
            let step = self.step;
            let message = PairMessage::Positions { step, cell, positions };
            cx.multicast_with(schedule.options(step), pairs, message);
        }
    }

    /// Does the second half of a step, once all forces have arrived.
    fn finish_step(&mut self, schedule: &Schedule, cx: &mut Context<'_, Self>) {
        schedule.spend(schedule.step_cost(self.atoms.len()), cx);
        if self.step > 0 && schedule.work == WorkMode::Compute {
            kick(&mut self.atoms, self.forces.sum(), schedule.dt / 2.0);
        }
        self.fingerprint.add(&self.atoms);
        self.report(schedule, cx);
        let name = u64::MAX - u64::from(self.number(cx).unwrap_or_default());
        if let Some(toss) = schedule.migrates_randomly_at(self.step, name, MIGRATION_ODDS) {
            cx.migrate_to(PeId(toss % cx.layout().pe_count()));
        }
        if self.step == schedule.steps {
            cx.contribute(Op::Concat, self.fingerprint.0, To::main());
        } else if schedule.syncs_at(self.step) {
            cx.at_sync();
        } else {
            self.pause_or_begin_step(schedule, cx);
        }
    }

    /// Begins the next step, after the pause if this cell is the one that pauses.
    fn pause_or_begin_step(&mut self, schedule: &Schedule, cx: &mut Context<'_, Self>) {
        if schedule.pause_ms > 0 && cx.index() == PAUSING {
            let (pause, me) = (Duration::from_millis(schedule.pause_ms), cx.me());
            cx.send_after(pause, &me, CellMessage::PauseOver);
        } else {
            self.begin_step(schedule, cx);
        }
    }

    fn report(&mut self, schedule: &Schedule, cx: &mut Context<'_, Self>) {
        self.done_ns.push(cx.now().as_nanos() as f64);
        if schedule.reports_at(self.step) {
            cx.contribute(Op::Max, std::mem::take(&mut self.done_ns), To::main());
            let Motion { atoms, kinetic, momentum: [x, y, z] } = Motion::of(&self.atoms);
            cx.contribute(Op::Concat, [atoms as f64, kinetic, x, y, z], To::main());
        }
        if schedule.frames_at(self.step) {
            cx.contribute(Op::Concat, pack_cell(&self.atoms), To::main());
        }
    }

    /// Does the first half of a step: moves the atoms, and sends away those that left the cell.
    fn begin_step(&mut self, schedule: &Schedule, cx: &mut Context<'_, Self>) {
        if schedule.work == WorkMode::Compute {
            kick(&mut self.atoms, self.forces.sum(), schedule.dt / 2.0);
            drift(&mut self.atoms, schedule.dt);
        }
        self.step += 1;
        let home = coordinates(cx.index());
        let moved = if schedule.migrates_at(self.step) {
            self.exchange(schedule, home, cx)
        } else {
            let most = schedule.cells.stray_max(schedule.law.cutoff());
            self.atoms.check_strays(&schedule.cells, home, most).map(|()| {
                self.send_positions(schedule, cx);
            })
        };
        if let Err(runaway) = moved {
            cx.fail(format!("step {}: {runaway}", self.step));
        }
    }

    fn exchange(
        &mut self,
        schedule: &Schedule,
        home: CellIndex,
        cx: &mut Context<'_, Self>,
    ) -> Result<(), Runaway> {
        let mut leavers = self.atoms.take_leavers(&schedule.cells, home)?;
        for neighbour in schedule.cells.neighbours(home) {
            let [x, y, z] = neighbour;
            let to = cx.collection().at(Ix3(x, y, z));
            let atoms = leavers.remove(&neighbour).unwrap_or_default();
            let step = self.step;
            let message = CellMessage::Leavers { step, atoms: pack(&atoms).into() };
            cx.send_with(schedule.options(step), &to, message);
        }
        self.is_exchanging = true;
        self.try_absorb(schedule, cx);
        Ok(())
    }

    /// Absorbs the arriving atoms and continues once all neighbours have sent theirs. `partners`
    /// also contains the cell itself.
    fn try_absorb(&mut self, schedule: &Schedule, cx: &mut Context<'_, Self>) {
        let senders = self.arrivals.get(&self.step).map_or(0, |arrivals| arrivals.senders as usize);
        if self.is_exchanging && senders + 1 == self.partners.len() {
            self.is_exchanging = false;
            if let Some(arrivals) = self.arrivals.remove(&self.step) {
                self.atoms.absorb(arrivals.atoms);
            }
            self.send_positions(schedule, cx);
        }
    }

    fn number(&self, cx: &mut Context<'_, Self>) -> Option<u32> {
        let schedule = cx.read(&self.schedule)?;
        Some(schedule.cells.number(coordinates(cx.index())) as u32)
    }
}

fn coordinates(Ix3(x, y, z): Ix3) -> CellIndex {
    [x, y, z]
}
