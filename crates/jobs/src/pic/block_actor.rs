//! The actor of a block of cells, which moves its particles and sends them to the blocks that
//! contain them afterwards.
//!
//! All particles of a cloud move by the same distance in a step, so a block knows its possible
//! target and source blocks: it sends a message to each target, often empty, and continues once it
//! has received one from each source. A block can be ahead of others by as many steps as there are
//! blocks around the square, so blocks hold messages for later steps. All held messages together
//! contain at most the particles of the cloud.

use std::collections::BTreeMap;
use std::time::Duration;

use gridspan_kernels::block_partition::BlockPartition;
use gridspan_kernels::pic::blocks::{advance, survey};
use gridspan_kernels::pic::cloud::Cloud;
use gridspan_kernels::pic::field::Field;
use gridspan_kernels::pic::particle::{Particle, Velocity};
use gridspan_runtime::{Actor, Context, Ix2, Op, To};
use serde::{Deserialize, Serialize};

use crate::step_timer::StepTimer;

/// Virtual time for one particle in a step, in ns, as measured on one core of a 2020s server.
const PARTICLE_NS: f64 = 32.0;

/// The parameters that all blocks share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloudPlan {
    /// The square.
    pub field: Field,
    /// The particles at the start.
    pub cloud: Cloud,
    /// Partition of both axes into blocks.
    pub partition: BlockPartition,
    /// Number of steps.
    pub steps: u64,
    /// Steps between sync points; 0 for none.
    pub sync_every: u64,
    /// Steps between reports of the fullest block; 0 for none.
    pub report_every: u64,
}

/// A block of cells: index (column, row).
#[derive(Serialize, Deserialize)]
pub struct PicBlock {
    plan: CloudPlan,
    particles: Vec<Particle>,
    step: u64,
    /// Particles that arrived for each step, and the number of blocks that sent them.
    arrivals: BTreeMap<u64, (usize, Vec<Particle>)>,
    timer: StepTimer,
}

/// The messages of a block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// Start the run.
    Start,
    /// The particles that moved from one block to another.
    Arrivals {
        /// Step after which the particles are in the receiving block.
        step: u64,
        /// The particles, possibly none.
        particles: Vec<Particle>,
    },
}

impl Actor for PicBlock {
    type Index = Ix2;
    /// The plan, and the id of the block's first particle.
    type Init = (CloudPlan, u64);
    type Message = Message;

    fn create((plan, first_id): (CloudPlan, u64), cx: &mut Context<'_, Self>) -> Self {
        let Ix2(column, row) = cx.index();
        let [columns, rows] = [column, row].map(|block| plan.partition.range(block as u32));
        let particles = plan.cloud.place_in(columns, rows, first_id, &plan.field);
        let timer = StepTimer::new(plan.steps);
        Self { plan, particles, step: 0, arrivals: BTreeMap::new(), timer }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Start => {
                self.timer.note(0, cx.now());
                let count = self.particles.len() as u64;
                cx.contribute(Op::Max, count, To::main());
                self.go_on(cx);
            }
            Message::Arrivals { step, particles } => {
                let (senders, all) = self.arrivals.entry(step).or_default();
                *senders += 1;
                all.extend(particles);
                if step == self.step && self.take_arrivals(cx) {
                    self.go_on(cx);
                }
            }
        }
    }

    fn resume(&mut self, cx: &mut Context<'_, Self>) {
        self.begin_step(cx);
        if self.take_arrivals(cx) {
            self.go_on(cx);
        }
    }

    fn heap_bytes(message: &Message) -> usize {
        match message {
            Message::Start => 0,
            Message::Arrivals { particles, .. } => particles.len() * size_of::<Particle>(),
        }
    }
}

impl PicBlock {
    /// Does steps while the particles of the next step have already arrived.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        let CloudPlan { steps, sync_every, .. } = self.plan;
        loop {
            if self.step == steps {
                return self.report(cx);
            } else if self.step > 0 && sync_every > 0 && self.step.is_multiple_of(sync_every) {
                return cx.at_sync();
            }
            self.begin_step(cx);
            if !self.take_arrivals(cx) {
                return;
            }
        }
    }

    /// Moves all particles, and sends each to the block that now contains it, even if that is this
    /// block.
    fn begin_step(&mut self, cx: &mut Context<'_, Self>) {
        let CloudPlan { field, partition, .. } = self.plan;
        self.step += 1;
        cx.charge(Duration::from_nanos((PARTICLE_NS * self.particles.len() as f64) as u64));
        let targets = self.plan.reached_from(cx.index(), 1);
        let particles = std::mem::take(&mut self.particles);
        let sorted = match advance(particles, &targets, &field, &partition) {
            Ok(sorted) => sorted,
            Err(Particle { id, x, y, .. }) => {
                let from = cx.index();
                return cx.fail(format!(
                    "verified: no (step {}: particle {id} went from block {from:?} to ({x}, {y}), where none can go)",
                    self.step
                ));
            }
        };
        for ((column, row), particles) in sorted {
            let to = cx.collection().at(Ix2(column as i32, row as i32));
            cx.send(&to, Message::Arrivals { step: self.step, particles });
        }
    }

    /// Takes the particles of this block after this step, if all have arrived. Returns whether they
    /// have.
    fn take_arrivals(&mut self, cx: &mut Context<'_, Self>) -> bool {
        let sources = self.plan.reached_from(cx.index(), -1).len();
        let all_came =
            self.arrivals.get(&self.step).is_some_and(|(senders, _)| *senders == sources);
        if all_came && let Some((_, particles)) = self.arrivals.remove(&self.step) {
            self.particles = particles;
            self.timer.note(self.step, cx.now());
            if self.plan.reports_after(self.step) {
                cx.contribute(Op::Max, self.particles.len() as u64, To::main());
            }
        }
        all_came
    }

    fn report(&mut self, cx: &mut Context<'_, Self>) {
        let CloudPlan { field, cloud, .. } = self.plan;
        let found = survey(&self.particles, self.step, cloud.speed, &field);
        cx.contribute(Op::Sum, found.to_vec(), To::main());
        cx.contribute(Op::Max, found[0], To::main());
        cx.contribute(Op::Max, self.timer.take(), To::main());
    }
}

impl CloudPlan {
    /// Whether main receives the number of particles in the fullest block after a step.
    pub(super) fn reports_after(&self, step: u64) -> bool {
        let Self { steps, report_every, .. } = *self;
        step < steps && report_every > 0 && step.is_multiple_of(report_every)
    }

    /// Returns the blocks (column, row) that contain the particles of `block` after a step
    /// (`direction` 1), or contained them before it (-1).
    fn reached_from(&self, Ix2(column, row): Ix2, direction: i64) -> Vec<(u32, u32)> {
        let Velocity { k, m } = self.cloud.speed;
        let right = direction * i64::from(2 * k + 1);
        let columns = self.partition.after_shift(column as u32, right);
        let rows = self.partition.after_shift(row as u32, direction * i64::from(m));
        columns.into_iter().flat_map(|column| rows.iter().map(move |&row| (column, row))).collect()
    }
}
