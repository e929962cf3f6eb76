//! Actors that are one async method.

use crate::common::{SITES, everywhere, simulate};
use gridspan_balance::StrategyName;
use gridspan_ranks::{Inbox, Resume, Sequential, SequentialActor};
use gridspan_runtime::{
    CheckpointEvery, Checkpoints, CollectionRef, Context, Grid, Ix1, Job, JobError, Op, Progress,
    RestorePlan, Time, To,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

const CELLS: i32 = 12;
const STEPS: u32 = 30;
/// Steps between two points where cells may move.
const EVERY: u32 = 5;

/// A cell on a ring, which adds the numbers of its neighbours, modulo a prime.
#[derive(Serialize, Deserialize)]
struct Cell {
    step: u32,
    number: u64,
    /// Whether the cell has received the start, which it awaits before its first step.
    is_started: bool,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Start,
    Neighbour { step: u32, number: u64 },
}

const PRIME: u64 = 1_000_000_007;

impl SequentialActor for Cell {
    type Index = Ix1;
    type Init = ();
    type Message = Message;

    fn create((): (), cx: &mut Context<'_, Sequential<Self>>) -> Self {
        Self { step: 0, number: cx.index().0 as u64, is_started: false }
    }

    async fn run(mut self, inbox: Inbox<Self>) -> Resume<Self> {
        if !self.is_started {
            // Neighbours may have sent already.
            inbox.next_where(|message| matches!(message, Message::Start)).await;
            self.is_started = true;
        }
        while self.step < STEPS {
            for neighbour in [1, CELLS - 1] {
                let neighbour = inbox.collection().at(Ix1((inbox.index().0 + neighbour) % CELLS));
                let (step, number) = (self.step, self.number);
                inbox.send(&neighbour, Message::Neighbour { step, number });
            }
            for _ in 0..2 {
                let number = inbox.next_as(|message| match message {
                    Message::Neighbour { step, number } if step == self.step => Ok(number),
                    other => Err(other),
                });
                self.number = (self.number + number.await) % PRIME;
            }
            inbox.charge(Duration::from_millis(1 + inbox.index().0 as u64 % 3));
            self.step += 1;
            if self.step.is_multiple_of(EVERY) && self.step < STEPS {
                return Resume::AtSync(self);
            }
        }
        inbox.contribute(Op::Sum, self.number, To::main());
        Resume::OnMessage(self)
    }
}

/// The sum of all cells at the end, computed one after the other.
fn expected() -> u64 {
    let mut cells: Vec<u64> = (0..CELLS as u64).collect();
    for _ in 0..STEPS {
        let of = |at: usize| cells[at % CELLS as usize];
        let sum = |at: usize| (of(at) + of(at + 1) + of(at + CELLS as usize - 1)) % PRIME;
        cells = (0..CELLS as usize).map(sum).collect();
    }
    cells.iter().sum()
}

fn cells() -> Job {
    Job::new("cells").actor::<Sequential<Cell>>().main(async |grid: Grid| {
        let cells = grid.create::<Sequential<Cell>>(Ix1::range(CELLS as u32), |_| ()).await?;
        cells.broadcast(Message::Start);
        assert_eq!(cells.reduction::<u64>(Op::Sum).await?, expected());
        Ok(())
    })
}

fn strategy(name: &str) -> StrategyName {
    name.parse().unwrap()
}

#[test]
fn messages_are_taken_in_the_order_of_the_steps() {
    everywhere(cells);
}

#[test]
fn actors_move_at_sync_points_with_their_messages() {
    for name in ["rotate", "random"] {
        everywhere(|| cells().strategy(strategy(name)));
        let spec = GridSpec::from_emulate(SITES).unwrap();
        let job = cells().strategy(strategy(name));
        let report = Simulation::new(job, spec, SimOptions::with_seed(1)).unwrap().run();
        assert_eq!(report.outcome, Ok(()));
        assert!(report.statistics.migrations >= 12, "{}", report.statistics.migrations);
    }
}

#[test]
fn actors_that_wait_within_their_method_do_not_move() {
    let periodic = |name| cells().strategy(strategy(name)).balance_every(Duration::from_millis(2));
    for name in ["rotate", "random"] {
        everywhere(|| periodic(name));
    }
}

/// Asks its neighbour in each round, and answers another one.
#[derive(Serialize, Deserialize)]
struct Asker {
    total: u64,
}

#[derive(Clone, Serialize, Deserialize)]
enum Round {
    Begin,
    Question { from: i32 },
    Answer(u64),
}

impl SequentialActor for Asker {
    type Index = Ix1;
    type Init = ();
    type Message = Round;

    fn create((): (), _cx: &mut Context<'_, Sequential<Self>>) -> Self {
        Self { total: 0 }
    }

    async fn run(mut self, inbox: Inbox<Self>) -> Resume<Self> {
        let me = inbox.index().0;
        inbox.next_where(|message| matches!(message, Round::Begin)).await;
        let all = inbox.collection();
        inbox.charge(Duration::from_millis(20));
        inbox.send(&all.at(Ix1((me + 1) % CELLS)), Round::Question { from: me });
        let mut has = [false; 2];
        while has != [true; 2] {
            match inbox.next_where(|message| !matches!(message, Round::Begin)).await {
                Round::Question { from } => {
                    inbox.send(&all.at(Ix1(from)), Round::Answer(me as u64));
                    has[0] = true;
                }
                Round::Answer(number) => {
                    self.total += number;
                    has[1] = true;
                }
                Round::Begin => {}
            }
        }
        inbox.contribute(Op::Sum, self.total, To::main());
        Resume::OnMessage(self)
    }
}

#[derive(Serialize, Deserialize)]
struct AtRound {
    round: u64,
    askers: CollectionRef<Sequential<Asker>>,
}

fn askers() -> Job {
    let job = Job::new("askers").actor::<Sequential<Asker>>();
    let job = job.restartable_main(async |grid: Grid| {
        let (first, askers) = match grid.restored::<AtRound>().await? {
            Some(AtRound { round, askers }) => (round, grid.collection(askers)),
            None => (0, grid.create(Ix1::range(CELLS as u32), |_| ()).await?),
        };
        for round in first..12 {
            let at = AtRound { round, askers: askers.reference() };
            // In real time, the nodes may still be storing the previous checkpoint.
            if let Progress::Postponed { reason } = grid.progress(&at).await?
                && !reason.contains("being stored")
            {
                return Err(reason.into());
            }
            askers.broadcast(Round::Begin);
            let total: u64 = askers.reduction(Op::Sum).await?;
            assert_eq!(total, (round + 1) * (0..CELLS as u64).sum::<u64>());
        }
        Ok::<(), JobError>(())
    });
    job.checkpoints(Checkpoints::every(CheckpointEvery::Points(2)))
}

#[test]
fn actors_go_on_from_a_checkpoint_that_was_made_between_their_runs() {
    everywhere(askers);
    let grid = |text| GridSpec::from_emulate(text).unwrap();
    for (seed, text) in [(1, "1x2x1"), (2, "2x2x2,wan=8ms"), (3, "1x1x1")] {
        let options = SimOptions::with_seed(seed);
        let first = Simulation::new(askers(), grid("2x2x1,wan=8ms"), options).unwrap();
        let Ok(halted) = first.run_until(Time(500_000_000 + seed * 100_000_000)) else {
            panic!("the job has ended")
        };
        let image = halted.checkpoint().unwrap().expect("checkpoints were made");
        let plan = RestorePlan::restart(image.layout(), grid(text).layout());
        let options = SimOptions::with_seed(seed + 100);
        let second = Simulation::restored(askers(), grid(text), options, (image, plan)).unwrap();
        assert_eq!(second.run().outcome, Ok(()), "on {text}");
    }
}

/// Waits for a second message after the first.
#[derive(Serialize, Deserialize)]
struct Waiter;

impl SequentialActor for Waiter {
    type Index = Ix1;
    type Init = ();
    type Message = ();

    fn create((): (), _cx: &mut Context<'_, Sequential<Self>>) -> Self {
        Self
    }

    async fn run(self, inbox: Inbox<Self>) -> Resume<Self> {
        for _ in 0..2 {
            inbox.next().await;
            inbox.contribute(Op::Sum, 1_u64, To::main());
        }
        Resume::Never
    }
}

#[test]
fn a_checkpoint_is_postponed_while_actors_wait_within_their_method() {
    let job = Job::new("waiters").actor::<Sequential<Waiter>>();
    let job = job.restartable_main(async |grid: Grid| {
        let waiters = grid.create::<Sequential<Waiter>>(Ix1::range(5), |_| ()).await?;
        waiters.broadcast(());
        assert_eq!(waiters.reduction::<u64>(Op::Sum).await?, 5);
        match grid.progress(&()).await? {
            Progress::Postponed { reason } => {
                assert_eq!(reason, "5 actors wait within an async method");
            }
            other => return Err(format!("{other:?}").into()),
        }
        waiters.broadcast(());
        assert_eq!(waiters.reduction::<u64>(Op::Sum).await?, 5);
        grid.quiescence().await?;
        let delay = Duration::from_secs(1);
        grid.sleep(delay).await?;
        match grid.progress(&()).await? {
            Progress::Taken { .. } => Ok(()),
            other => Err(format!("{other:?}").into()),
        }
    });
    let job = job.checkpoints(Checkpoints::every(CheckpointEvery::Points(1)));
    simulate(job, SITES).unwrap();
}

/// Uses its inbox in the predicate of `next_where`, and in an action.
#[derive(Serialize, Deserialize)]
struct Sharer;

impl SequentialActor for Sharer {
    type Index = Ix1;
    type Init = ();
    type Message = u64;

    fn create((): (), _cx: &mut Context<'_, Sequential<Self>>) -> Self {
        Self
    }

    async fn run(self, inbox: Inbox<Self>) -> Resume<Self> {
        let begin = inbox.now();
        let inbox = Arc::new(inbox);
        let is_second = |number: &u64| {
            inbox.charge(Duration::from_micros(1));
            inbox.now() >= begin && *number == 2
        };
        let second = inbox.next_where(is_second).await;
        // `next_where` has left the other message in the inbox.
        let first = inbox.next().await;
        let shared = inbox.clone();
        inbox.act(move |_cx| {
            assert!(shared.now() >= begin);
            shared.contribute(Op::Sum, 10 * second + first, To::main());
        });
        Resume::Never
    }
}

#[test]
fn code_that_looks_at_messages_and_actions_may_use_the_inbox() {
    everywhere(|| {
        Job::new("sharers").actor::<Sequential<Sharer>>().main(async |grid: Grid| {
            let sharers = grid.create::<Sequential<Sharer>>(Ix1::range(3), |_| ()).await?;
            sharers.broadcast(1);
            sharers.broadcast(2);
            assert_eq!(sharers.reduction::<u64>(Op::Sum).await?, 3 * 21);
            Ok(())
        })
    });
}
