//! The job: its actors make steps together, and each has a state of a given size.

use gridspan_runtime::{
    Actor, CheckpointEvery, Checkpoints, CollectionRef, Context, Grid, Ix1, Job, JobError, Numbers,
    Op, Progress, Time, To,
};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes that an actor sends to each of its neighbours in a step.
const BORDER_BYTES: usize = 512;

/// The parameters of a job.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Number of PEs that it has while no node is lost.
    pub(crate) pes: u32,
    pub(crate) actors_per_pe: u32,
    /// Size of the states of all actors of a PE.
    pub(crate) state_bytes_per_pe: usize,
    /// Shortest and longest time of a step, if no node is lost.
    pub(crate) step: [Duration; 2],
    /// Whether main orders a step before it waits for the end of the one before, so that actors
    /// compute while main is at its progress point.
    pub(crate) is_ahead: bool,
}

impl Shape {
    fn actors(&self) -> u32 {
        self.pes * self.actors_per_pe
    }

    /// The mean time of a step.
    pub(crate) fn mean_step(&self) -> Duration {
        (self.step[0] + self.step[1]) / 2
    }

    /// Compute time of one actor in a step: a random number that does not depend on the run.
    pub(crate) fn cost(&self, step: u64) -> Duration {
        let [shortest, longest] = self.step.map(|step| step.as_secs_f64());
        let whole = Dice::new(step).between(shortest, longest);
        Duration::from_secs_f64(whole / f64::from(self.actors_per_pe))
    }
}

/// Events that main notes, at times of the job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// Main begins, or begins again, with this step.
    Begun { at: Time, step: u64 },
    /// Main waited for a checkpoint.
    Checkpoint { begin: Time, end: Time },
    /// The checkpoint was complete, and has cost this time.
    Complete { cost: Duration },
    /// A checkpoint was postponed.
    Postponed,
    /// A step was complete, during which the fullest PE had this many actors.
    Step { step: u64, end: Time, actors_max: u32 },
}

pub(crate) type Diary = Arc<Mutex<Vec<Entry>>>;

/// One of the actors, which form a ring.
#[derive(Serialize, Deserialize)]
struct Cell {
    state: Numbers<u8>,
    /// Number of actors.
    ring: u32,
    /// Number of messages that have arrived for even and for odd steps.
    arrived: [u8; 2],
}

#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// Make a step of this compute time.
    Step { step: u64, cost: Duration },
    /// The border of a neighbour.
    Border { step: u64, cost: Duration, border: Numbers<u8> },
}

impl Actor for Cell {
    type Index = Ix1;
    type Init = (u32, usize);
    type Message = Message;

    fn create((ring, bytes): (u32, usize), _: &mut Context<'_, Self>) -> Self {
        Self { state: vec![0; bytes].into(), ring, arrived: [0; 2] }
    }

    fn handle(&mut self, message: Message, cx: &mut Context<'_, Self>) {
        let (step, cost) = match message {
            Message::Step { step, cost } => {
                let (all, me, ring) = (cx.collection(), cx.index().0, self.ring as i32);
                let length = BORDER_BYTES.min(self.state.len());
                let border = Numbers::from(&self.state[..length]);
                for other in [me + 1, me + ring - 1] {
                    let border = border.clone();
                    cx.send(&all.at(Ix1(other % ring)), Message::Border { step, cost, border });
                }
                (step, cost)
            }
            Message::Border { step, cost, .. } => (step, cost),
        };
        let arrived = &mut self.arrived[step as usize % 2];
        *arrived += 1;
        // Both borders and main's order have arrived.
        if *arrived == 3 {
            *arrived = 0;
            cx.charge(cost);
            cx.contribute(Op::Concat, u64::from(cx.pe().0), To::main());
        }
    }
}

/// The state of main at a progress point.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct At {
    cells: CollectionRef<Cell>,
    /// The first step that main has not ordered.
    next: u64,
    /// The first step that is not complete.
    done: u64,
}

/// A job that makes steps until it is stopped.
pub(crate) fn job(shape: &Shape, checkpoints: Checkpoints, diary: &Diary) -> Job {
    let (shape, diary, noted) = (shape.clone(), diary.clone(), diary.clone());
    let main = async move |grid: Grid| run(grid, &shape, &diary).await;
    let job = Job::new("steps").actor::<Cell>().restartable_main(main).checkpoints(checkpoints);
    job.on_checkpoint(move |report| {
        note(&noted, Entry::Complete { cost: report.stopped + report.work })
    })
}

fn note(diary: &Diary, entry: Entry) {
    diary.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
}

/// Checkpoints this often, for a job in which one of `nodes` fails after `to_failure` on average.
pub(crate) fn checkpoints(every: CheckpointEvery, to_failure: Duration, nodes: u32) -> Checkpoints {
    Checkpoints::every(every).with_node_mtbf(to_failure * nodes)
}

async fn run(grid: Grid, shape: &Shape, diary: &Diary) -> Result<(), JobError> {
    let note = |entry| note(diary, entry);
    let restored = grid.restored::<At>().await?;
    let mut at = match restored {
        Some(at) => at,
        None => {
            let bytes = shape.state_bytes_per_pe / shape.actors_per_pe as usize;
            let init = |_| (shape.actors(), bytes);
            let cells = grid.create::<Cell>(Ix1::range(shape.actors()), init).await?.reference();
            At { cells, next: 0, done: 0 }
        }
    };
    let cells = grid.collection(at.cells);
    note(Entry::Begun { at: grid.now().await?, step: at.done });
    loop {
        let begin = grid.now().await?;
        match grid.progress(&at).await? {
            Progress::Taken { .. } => note(Entry::Checkpoint { begin, end: grid.now().await? }),
            Progress::Postponed { .. } => note(Entry::Postponed),
            _ => {}
        }
        while at.next <= at.done + u64::from(shape.is_ahead) {
            let step = at.next;
            cells.broadcast(Message::Step { step, cost: shape.cost(step) });
            at.next += 1;
        }
        let places: Vec<u64> = cells.reduction(Op::Concat).await?;
        let mut actors = BTreeMap::<u64, u32>::new();
        places.into_iter().for_each(|pe| *actors.entry(pe).or_default() += 1);
        let actors_max = actors.into_values().max().unwrap_or_default();
        note(Entry::Step { step: at.done, end: grid.now().await?, actors_max });
        at.done += 1;
    }
}
