//! Carriers: actors that produce the items of phases, pass them on, and consume them. Main awaits
//! the completion of each phase while other actors continue.

use super::ledger;
use gridspan_runtime::{Actor, Collection, Context, Grid, Ix1, JobError, PeId, Phase};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};

/// At the beginning of a phase, each producer produces fewer items than this.
const ITEMS_MAX: u64 = 5;
/// Fewer carriers than this pass on an item.
const HOPS_MAX: u32 = 3;
/// Probability that a carrier produces two items before it consumes one. Below a half, so that the
/// items of a phase die out.
const AGAIN: f64 = 0.45;
/// Probability that a carrier migrates after a message.
const MIGRATE: f64 = 0.05;
/// Probability of a phase at each opportunity.
const BEGIN: f64 = 0.5;

/// An actor that lives as long as the job.
#[derive(Serialize, Deserialize)]
pub(super) struct Carrier {
    carriers: u32,
}

/// A message to a carrier.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Carry {
    Produce { round: u64, phase: Phase },
    Item { round: u64, phase: Phase, hops: u32 },
}

impl Actor for Carrier {
    type Index = Ix1;
    /// The number of carriers.
    type Init = u32;
    type Message = Carry;

    fn create(carriers: u32, _cx: &mut Context<'_, Self>) -> Self {
        ledger::with(|ledger| ledger.items.carriers += 1);
        Self { carriers }
    }

    fn handle(&mut self, message: Carry, cx: &mut Context<'_, Self>) {
        match message {
            Carry::Produce { round, phase } => {
                let items = ledger::with(|ledger| ledger.dice.below(ITEMS_MAX));
                (0..items).for_each(|_| self.produce(round, phase, cx));
                cx.producer_done(phase);
            }
            Carry::Item { round, phase, hops: 0 } => {
                if ledger::with(|ledger| ledger.dice.chance(AGAIN)) {
                    (0..2).for_each(|_| self.produce(round, phase, cx));
                }
                ledger::with(|ledger| ledger.items.consumed(round));
                cx.consume(phase, 1);
            }
            Carry::Item { round, phase, hops } => self.pass((round, phase, hops - 1), cx),
        }
        let pes = cx.layout().pe_count();
        let goes = ledger::with(|ledger| {
            ledger.dice.chance(MIGRATE).then(|| PeId(ledger.dice.below(pes)))
        });
        goes.into_iter().for_each(|pe| cx.migrate_to(pe));
    }
}

impl Carrier {
    fn produce(&self, round: u64, phase: Phase, cx: &mut Context<'_, Self>) {
        let hops = ledger::with(|ledger| {
            if let Err(problem) = ledger.items.produced(round) {
                ledger.violated(problem);
            }
            ledger.dice.below(HOPS_MAX)
        });
        cx.produce(phase, 1);
        self.pass((round, phase, hops), cx);
    }

    /// Sends an item to a random carrier.
    fn pass(&self, (round, phase, hops): (u64, Phase, u32), cx: &mut Context<'_, Self>) {
        let to = ledger::with(|ledger| ledger.dice.below(self.carriers));
        let to = cx.collection().at(Ix1(to as i32));
        cx.send(&to, Carry::Item { round, phase, hops });
    }
}

/// The phases of a job.
pub(super) struct Phases {
    carriers: Collection<Carrier>,
    count: u32,
    dice: Dice,
    rounds: u64,
}

impl Phases {
    /// Creates the carriers.
    pub(super) async fn begin(grid: &Grid, mut dice: Dice) -> Result<Self, JobError> {
        let count = 2 + dice.below(8_u32);
        let carriers = grid.create::<Carrier>(Ix1::range(count), |_| count).await?;
        Ok(Self { carriers, count, dice, rounds: 0 })
    }

    /// At random, runs a phase, and checks that all its items are consumed when main receives its
    /// completion.
    pub(super) async fn run(&mut self, grid: &Grid) -> Result<(), JobError> {
        if !self.dice.chance(BEGIN) {
            return Ok(());
        }
        self.rounds += 1;
        let (round, phase) = (self.rounds, grid.phase(u64::from(self.count)));
        ledger::with(|ledger| ledger.items.awaited = round);
        self.carriers.broadcast(Carry::Produce { round, phase });
        grid.completion(phase).await?;
        ledger::with(|ledger| {
            ledger.actions.phases += 1;
            ledger.completed();
        });
        Ok(())
    }
}
