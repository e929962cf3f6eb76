//! Two cells, and pairs between them that compute from the values of both. A loop computes the
//! expected results.

use gridspan_runtime::{
    Actor, CollectionRef, Context, Grid, GridError, InStep, Ix1, Job, JobError, Op, PeId,
    Placement, PlacementMap, Progress, SectionRef, To,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Number of pairs. Initially cell 0 is at site a, cell 1 at site b, and all pairs are on the last
/// PE of site a.
pub(crate) const PAIRS: u32 = 12;

/// The next state of a pair, which it sends to both cells.
fn meet(state: u64, a: u64, b: u64, pair: u64) -> u64 {
    state.wrapping_mul(3).wrapping_add(a) ^ b.rotate_left(pair as u32 % 64)
}

fn grow(value: u64, told: u64) -> u64 {
    value.wrapping_mul(5).wrapping_add(told)
}

/// The values of both cells after `steps` steps.
pub(crate) fn expected(steps: u64) -> [u64; 2] {
    let mut cells = [1_u64, 2];
    let mut pairs = [0_u64; PAIRS as usize];
    for _ in 0..steps {
        let [a, b] = cells;
        let states = pairs.iter_mut().enumerate();
        let told = states.fold(0_u64, |sum, (number, state)| {
            *state = meet(*state, a, b, number as u64);
            sum.wrapping_add(*state)
        });
        cells = [grow(a, told), grow(b, told)];
    }
    cells
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Cell {
    pairs: Option<SectionRef<Pair>>,
    value: u64,
    told: u64,
    answers: u32,
    step: u64,
    steps: u64,
    /// Whether it moves to the next PE in every seventh step.
    migrates: bool,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum CellMessage {
    Begin { pairs: SectionRef<Pair>, steps: u64, migrates: bool },
    Answer { step: u64, value: u64 },
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = CellMessage;

    fn create((): (), cx: &mut Context<'_, Self>) -> Self {
        let value = cx.index().0 as u64 + 1;
        Self { pairs: None, value, told: 0, answers: 0, step: 0, steps: 0, migrates: false }
    }

    fn handle(&mut self, message: CellMessage, cx: &mut Context<'_, Self>) {
        match message {
            CellMessage::Begin { pairs, steps, migrates } => {
                (self.pairs, self.steps, self.migrates) = (Some(pairs), steps, migrates);
                self.tell(cx);
            }
            CellMessage::Answer { step, value } => {
                if step != self.step {
                    return cx.fail(format!("an answer of step {step} in step {}", self.step));
                }
                self.told = self.told.wrapping_add(value);
                self.answers += 1;
                if self.answers == PAIRS {
                    self.value = grow(self.value, self.told);
                    (self.told, self.answers) = (0, 0);
                    self.step += 1;
                    self.go_on(cx);
                }
            }
        }
    }
}

impl Cell {
    fn tell(&self, cx: &mut Context<'_, Self>) {
        let (step, from, value) = (self.step, cx.index().0 as usize, self.value);
        if let Some(pairs) = &self.pairs {
            cx.multicast_with(InStep(step), pairs, PairMessage::Value { from, value });
        }
    }

    fn go_on(&self, cx: &mut Context<'_, Self>) {
        if self.step == self.steps {
            return cx.contribute(Op::Concat, self.value, To::main());
        }
        if self.migrates && self.step % 7 == cx.index().0 as u64 {
            let pe = (cx.pe().0 + 1) % cx.layout().pe_count();
            cx.migrate_to(PeId(pe));
        }
        self.tell(cx);
    }
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Pair {
    cells: CollectionRef<Cell>,
    state: u64,
    step: u64,
    /// Values of each cell that wait for the value of the other cell.
    values: [VecDeque<u64>; 2],
    work: Duration,
    /// Whether it violates determinism: on PEs of the second half it sends nothing to cell 1.
    is_faithless: bool,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum PairMessage {
    Value {
        from: usize,
        value: u64,
    },
    /// Contribute the number of steps to a sum over all pairs.
    Report,
    /// Set a timer, which a deterministic actor may not do.
    SetTimer,
}

impl Actor for Pair {
    type Index = Ix1;
    type Init = (CollectionRef<Cell>, Duration, bool);
    type Message = PairMessage;

    fn create((cells, work, is_faithless): Self::Init, _cx: &mut Context<'_, Self>) -> Self {
        Self { cells, state: 0, step: 0, values: Default::default(), work, is_faithless }
    }

    fn handle(&mut self, message: PairMessage, cx: &mut Context<'_, Self>) {
        match message {
            PairMessage::Value { from, value } => self.values[from].push_back(value),
            PairMessage::Report => return cx.contribute(Op::Sum, self.step, To::main()),
            PairMessage::SetTimer => {
                let me = cx.me();
                cx.send_after(Duration::from_millis(1), &me, PairMessage::Report);
            }
        }
        while let [Some(&a), Some(&b)] = [self.values[0].front(), self.values[1].front()] {
            for values in &mut self.values {
                values.pop_front();
            }
            self.state = meet(self.state, a, b, cx.index().0 as u64);
            cx.charge(self.work);
            let is_silent = self.is_faithless && cx.pe().0 >= cx.layout().pe_count() / 2;
            for cell in if is_silent { 0..1 } else { 0..2 } {
                let answer = CellMessage::Answer { step: self.step, value: self.state };
                cx.send_with(InStep(self.step), &self.cells.at(Ix1(cell)), answer);
            }
            self.step += 1;
        }
    }
}

/// Keeps the PE of the pairs busy for a number of turns. All other messages come before a turn.
#[derive(Serialize, Deserialize)]
struct Hog;

/// Time of a turn.
const TURN: Duration = Duration::from_millis(20);
/// A step after all others.
const LAST: InStep = InStep(1 << 20);

impl Actor for Hog {
    type Index = Ix1;
    type Init = ();
    type Message = u32;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self
    }

    fn handle(&mut self, left: u32, cx: &mut Context<'_, Self>) {
        cx.charge(TURN);
        if left > 0 {
            let me = cx.me();
            cx.send_with(LAST, &me, left - 1);
        }
    }
}

/// State of main in a checkpoint.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct At {
    rebalances: u32,
    cells: CollectionRef<Cell>,
    pairs: CollectionRef<Pair>,
}

/// The reasons why checkpoints were postponed.
pub(crate) type Postponed = Arc<Mutex<Vec<String>>>;

/// A job of cells and deterministic pairs, which take `work` for a step.
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    pub(crate) steps: u64,
    pub(crate) work: Duration,
    pub(crate) migrates: bool,
    /// Number of rebalances that main requests before it waits for the end.
    pub(crate) rebalances: u32,
    /// Whether pairs violate determinism.
    pub(crate) is_faithless: bool,
    /// Number of turns for which other work keeps the PE of the pairs busy.
    pub(crate) busy_turns: u32,
}

/// Places the first cell on the first PE, the other in the middle of the job.
const ENDS: PlacementMap = PlacementMap::new("ends", |key, layout| {
    PeId(if key.0 == 0 { 0 } else { layout.pe_count() / 2 })
});
/// Places all pairs on the last PE of the first half.
const NEAR: PlacementMap = PlacementMap::new("near", |_, layout| PeId(layout.pe_count() / 2 - 1));

impl Cells {
    /// The job, which fails if its result differs from [`expected`].
    pub(crate) fn job(self) -> Job {
        Self::types("cells").main(async move |grid| self.run(grid).await)
    }

    /// The same job with a progress point before each rebalance.
    pub(crate) fn restartable_job(self, postponed: &Postponed) -> Job {
        let postponed = postponed.clone();
        let main = async move |grid: Grid| self.run_on(grid, &postponed).await;
        Self::types("restartable cells").restartable_main(main)
    }

    fn types(name: &str) -> Job {
        let job = Job::new(name).actor::<Cell>().deterministic::<Pair>().actor::<Hog>();
        job.placement(ENDS).placement(NEAR)
    }

    async fn run(self, grid: Grid) -> Result<(), JobError> {
        let at = self.begin(&grid).await?;
        for _ in 0..self.rebalances {
            self.rebalance(&grid).await?;
        }
        self.check(&grid, at).await
    }

    async fn run_on(self, grid: Grid, postponed: &Postponed) -> Result<(), JobError> {
        let mut at = match grid.restored::<At>().await? {
            Some(at) => at,
            None => self.begin(&grid).await?,
        };
        while at.rebalances < self.rebalances {
            if let Progress::Postponed { reason } = grid.progress(&at).await? {
                postponed.lock().unwrap().push(reason);
            }
            self.rebalance(&grid).await?;
            at.rebalances += 1;
        }
        self.check(&grid, at).await
    }

    async fn rebalance(self, grid: &Grid) -> Result<(), GridError> {
        grid.sleep(Duration::from_millis(90)).await?;
        grid.rebalance().await.map(drop)
    }

    async fn begin(self, grid: &Grid) -> Result<At, GridError> {
        let ends = Placement::Custom(ENDS);
        let cells = grid.create_placed::<Cell>(ends, Ix1::range(2), |_| ()).await?;
        let init = (cells.reference(), self.work, self.is_faithless);
        let near = Placement::Custom(NEAR);
        let pairs = grid.create_placed::<Pair>(near, Ix1::range(PAIRS), |_| init).await?;
        if self.busy_turns > 0 {
            let near = Placement::Custom(NEAR);
            let hogs = grid.create_placed::<Hog>(near, Ix1::range(1), |_| ()).await?;
            hogs.member(Ix1(0)).send_with(LAST, self.busy_turns);
        }
        let section = pairs.section(1, (0..PAIRS as i32).map(Ix1));
        let Self { steps, migrates, .. } = self;
        cells.broadcast(CellMessage::Begin { pairs: section, steps, migrates });
        Ok(At { rebalances: 0, cells: cells.reference(), pairs: pairs.reference() })
    }

    async fn check(self, grid: &Grid, at: At) -> Result<(), JobError> {
        let (cells, pairs) = (grid.collection(at.cells), grid.collection(at.pairs));
        let values: Vec<u64> = cells.reduction(Op::Concat).await?;
        if values != expected(self.steps) {
            return Err(format!("{values:?} instead of {:?}", expected(self.steps)).into());
        }
        grid.quiescence().await?;
        pairs.broadcast(PairMessage::Report);
        let seen: u64 = pairs.reduction(Op::Sum).await?;
        grid.quiescence().await?;
        match seen == self.steps * u64::from(PAIRS) {
            true => Ok(()),
            false => Err(format!("pairs have seen {seen} steps").into()),
        }
    }
}
