//! A job whose arguments plant a cause of slowness. All work is charged, so that it takes virtual
//! time only.

use gridspan::prelude::*;
use gridspan::{CheckpointEvery, Checkpoints};
use std::collections::BTreeMap;

/// What the job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Shape {
    /// Actors exchange messages with their neighbours in a ring, step by step.
    Ring,
    /// As `Ring`, with three distant partners and many short handlers.
    Grains,
    /// Main begins each step when all actors have finished the previous one.
    Driven,
    /// As `Driven`; in each step one actor sends many messages to another one.
    Flood,
    /// One actor after the other works.
    Chain,
    /// A task splits into a few others.
    Tasks,
}

/// The size of the job, and the planted cause. Times are in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Plan {
    shape: Shape,
    actors: u32,
    steps: u64,
    /// Work of an actor in a step. For `Grains`, the work of each handler, in nanoseconds.
    work_us: u64,
    /// Actors with more work: the first, the last, and how many times as much.
    heavy: (u32, u32, u64),
    /// Bytes of a message between neighbours.
    bytes: usize,
    /// Time for which main sleeps between two steps.
    sleep_us: u64,
    /// Step after which main asks for a rebalance.
    rebalance_after: Option<u64>,
    /// Steps between checkpoints.
    checkpoint_every: Option<u64>,
    /// The sender and the receiver of a flood, and messages in each step.
    flood: (i32, i32, u32),
}

impl Plan {
    /// Reads `shape key=value...`, with lists separated by `/`.
    fn read(words: impl Iterator<Item = String>) -> Self {
        let words: Vec<String> = words.collect();
        let pairs = words.iter().filter_map(|word| word.split_once('='));
        let pairs: BTreeMap<&str, Vec<u64>> = pairs
            .map(|(key, list)| (key, list.split('/').map(|it| it.parse().unwrap()).collect()))
            .collect();
        let known = [
            "actors",
            "steps",
            "work",
            "heavy",
            "bytes",
            "sleep",
            "rebalance",
            "checkpoint",
            "flood",
        ];
        assert!(pairs.keys().all(|key| known.contains(key)), "{pairs:?}");
        let number = |key: &str, default: u64| pairs.get(key).map_or(default, |list| list[0]);
        let list = |key: &str| pairs.get(key).cloned().unwrap_or_else(|| vec![1, 0, 1]);
        let (heavy, flood) = (list("heavy"), list("flood"));
        Self {
            shape: match words[0].as_str() {
                "ring" => Shape::Ring,
                "grains" => Shape::Grains,
                "driven" => Shape::Driven,
                "flood" => Shape::Flood,
                "chain" => Shape::Chain,
                "tasks" => Shape::Tasks,
                other => panic!("there is no shape {other}"),
            },
            actors: number("actors", 8) as u32,
            steps: number("steps", 10),
            work_us: number("work", 1000),
            heavy: (heavy[0] as u32, heavy[1] as u32, heavy[2]),
            bytes: number("bytes", 8) as usize,
            sleep_us: number("sleep", 0),
            rebalance_after: pairs.get("rebalance").map(|list| list[0]),
            checkpoint_every: pairs.get("checkpoint").map(|list| list[0]),
            flood: (flood[0] as i32, flood[1] as i32, flood[2] as u32),
        }
    }

    /// The work of an actor in a step.
    fn work(&self, actor: i32) -> Duration {
        let (first, last, factor) = self.heavy;
        let is_heavy = (first..=last).contains(&(actor as u32));
        Duration::from_micros(self.work_us * if is_heavy { factor } else { 1 })
    }

    /// The partners of an actor, which is also a partner of each of them.
    fn partners(&self, actor: i32) -> Vec<i32> {
        let count = self.actors as i32;
        let far = count / 4;
        let offsets = match self.shape {
            Shape::Grains => vec![far, 2 * far, 3 * far],
            _ => vec![1, count - 1],
        };
        offsets.into_iter().map(|offset| (actor + offset) % count).collect()
    }
}

#[derive(Serialize, Deserialize)]
struct Worker {
    plan: Plan,
    step: u64,
    /// Number of messages of partners, by step.
    heard: BTreeMap<u64, usize>,
    is_started: bool,
    /// Messages of a flood that are still to come in this step.
    awaited: u32,
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    Start,
    /// Main begins a step.
    Step,
    /// The state of a partner after a step.
    Edge {
        step: u64,
        bytes: Vec<u8>,
    },
    /// Go on with the next step.
    GoOn,
    /// The token of a chain, and the number of times that it was passed.
    Token(u64),
    /// One of the many messages of a flood.
    Drop,
}

impl Actor for Worker {
    type Index = Ix1;
    type Init = Plan;
    type Message = Message;

    fn create(plan: Plan, cx: &mut Context<'_, Self>) -> Self {
        let awaited = if cx.index().0 == plan.flood.1 { plan.flood.2 } else { 0 };
        Self { plan, step: 0, heard: BTreeMap::new(), is_started: false, awaited }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        match message {
            Message::Start => {
                self.is_started = true;
                self.compute(cx);
            }
            Message::Step => self.driven_step(cx),
            Message::Edge { step, .. } => {
                *self.heard.entry(step).or_default() += 1;
                if self.plan.shape == Shape::Grains {
                    // The work of such a job is in its handlers of messages.
                    cx.charge(Duration::from_nanos(self.plan.work_us));
                }
                self.try_next(cx);
            }
            Message::GoOn => self.try_next(cx),
            Message::Token(passed) => self.pass(passed, cx),
            Message::Drop => {
                cx.charge(Duration::from_micros(50));
                self.awaited -= 1;
                self.end_of_flood(cx);
            }
        }
    }
}

impl Worker {
    /// Computes a step, and sends the state to the partners.
    fn compute(&mut self, cx: &mut Context<'_, Self>) {
        let me = cx.index().0;
        match self.plan.shape {
            Shape::Grains => cx.charge(Duration::from_nanos(self.plan.work_us)),
            _ => cx.charge(self.plan.work(me)),
        }
        for partner in self.plan.partners(me) {
            let message = Message::Edge { step: self.step, bytes: vec![7; self.plan.bytes] };
            cx.send(&cx.collection().at(Ix1(partner)), message);
        }
        // The partners may have finished this step already; a handler computes one step only.
        cx.send(&cx.me(), Message::GoOn);
    }

    /// Computes the next step if all partners have finished this one.
    fn try_next(&mut self, cx: &mut Context<'_, Self>) {
        if self.plan.shape == Shape::Grains {
            cx.charge(Duration::from_nanos(1));
        }
        let wanted = self.plan.partners(cx.index().0).len();
        if !self.is_started || self.heard.get(&self.step) != Some(&wanted) {
            return;
        }
        self.heard.remove(&self.step);
        self.step += 1;
        match self.step == self.plan.steps {
            true => cx.contribute(Sum, 1_u64, To::main()),
            false => self.compute(cx),
        }
    }

    /// Computes a step that main begins.
    fn driven_step(&mut self, cx: &mut Context<'_, Self>) {
        let me = cx.index().0;
        cx.charge(self.plan.work(me));
        let (from, to, messages) = self.plan.flood;
        if self.plan.shape == Shape::Flood && me == from {
            for _ in 0..messages {
                cx.send(&cx.collection().at(Ix1(to)), Message::Drop);
            }
        }
        match self.plan.shape == Shape::Flood && me == to {
            true => {
                self.step += 1;
                self.end_of_flood(cx);
            }
            false => cx.contribute(Sum, 1_u64, To::main()),
        }
    }

    /// Ends a step of the receiver of a flood, once all messages of the flood and that of main have
    /// come.
    fn end_of_flood(&mut self, cx: &mut Context<'_, Self>) {
        if self.awaited == 0 && self.step > 0 {
            self.awaited = self.plan.flood.2;
            self.step -= 1;
            cx.contribute(Sum, 1_u64, To::main());
        }
    }

    /// Works, and passes the token on. In the last round, each actor then reports its end.
    fn pass(&mut self, passed: u64, cx: &mut Context<'_, Self>) {
        let (me, actors) = (cx.index().0, u64::from(self.plan.actors));
        cx.charge(self.plan.work(me));
        if passed > (self.plan.steps - 1) * actors {
            cx.contribute(Sum, 1_u64, To::main());
        }
        if passed < self.plan.steps * actors {
            let next = Ix1((me + 1) % self.plan.actors as i32);
            cx.send(&cx.collection().at(next), Message::Token(passed + 1));
        }
    }
}

/// A task that splits into a number of tasks, or works.
#[derive(Serialize, Deserialize)]
struct Part {
    parts: u64,
    work_us: u64,
}

impl Task for Part {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        if self.parts == 0 {
            cx.charge(Duration::from_micros(self.work_us));
            return Step::Done(1);
        }
        for _ in 0..self.parts {
            cx.spawn(Part { parts: 0, work_us: self.work_us });
        }
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

/// Runs the job that the arguments of this program describe.
pub fn run() -> ExitCode {
    let plan = Plan::read(std::env::args().skip(1));
    let job = Job::new("planted").actor::<Worker>().tasks::<Part>();
    let job = match plan.checkpoint_every {
        Some(points) => job.checkpoints(Checkpoints::every(CheckpointEvery::Points(points))),
        None => job,
    };
    gridspan::main(job.restartable_main(async move |grid: Grid| main(&grid, &plan).await))
}

async fn main(grid: &Grid, plan: &Plan) -> Result<(), JobError> {
    let actors = u64::from(plan.actors);
    if plan.shape == Shape::Tasks {
        let task = Part { parts: actors, work_us: plan.work_us };
        return verified(grid.run_tasks(task).await?, actors);
    }
    let indices = Ix1::range(plan.actors);
    let workers = grid.create_placed::<Worker>(Placement::Block, indices, |_| plan.clone()).await?;
    match plan.shape {
        Shape::Ring | Shape::Grains => workers.broadcast(Message::Start),
        Shape::Chain => workers.member(Ix1(0)).send(Message::Token(1)),
        Shape::Driven | Shape::Flood | Shape::Tasks => {
            return drive(grid, plan, &workers).await;
        }
    }
    verified(workers.reduction(Sum).await?, actors)
}

/// Begins each step when all actors have finished the previous one.
async fn drive(grid: &Grid, plan: &Plan, workers: &Collection<Worker>) -> Result<(), JobError> {
    for step in 0..plan.steps {
        if plan.checkpoint_every.is_some() {
            grid.progress(&step).await?;
        }
        if plan.rebalance_after == Some(step) {
            grid.rebalance().await?;
        }
        workers.broadcast(Message::Step);
        verified(workers.reduction(Sum).await?, u64::from(plan.actors))?;
        if plan.sleep_us > 0 {
            grid.sleep(Duration::from_micros(plan.sleep_us)).await?;
        }
    }
    Ok(())
}

fn verified(done: u64, wanted: u64) -> Result<(), JobError> {
    match done == wanted {
        true => Ok(()),
        false => Err(format!("{done} of {wanted} are done").into()),
    }
}
