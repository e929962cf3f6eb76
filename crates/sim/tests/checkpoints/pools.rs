//! Checkpoints of jobs with an open pool of tasks.

use crate::{every, grid};
use gridspan_runtime::{
    Grid, GridError, Image, Job, JobError, Progress, RestorePlan, Step, Task, TaskContext, TaskPool,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

const ROUNDS: u32 = 12;
/// Height of the tree of tasks in each round.
const HEIGHT: u32 = 6;

/// A binary tree of this height, whose nodes take half a millisecond each.
#[derive(Serialize, Deserialize)]
struct Tree(u32);

impl Task for Tree {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(Duration::from_micros(500));
        if self.0 == 0 {
            return Step::Done(1);
        }
        cx.spawn(Tree(self.0 - 1));
        cx.spawn(Tree(self.0 - 1));
        Step::Sync(1)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

#[derive(Default, Debug, PartialEq)]
struct Notes {
    /// For each run of main, the round at which it began.
    begun: Vec<u32>,
    postponed: Vec<String>,
    is_complete: bool,
}

/// Runs a tree of tasks in each round, in a pool that stays open.
fn job(notes: &Arc<Mutex<Notes>>) -> Job {
    let notes = Arc::clone(notes);
    let main = async move |grid: Grid| {
        let first = grid.restored::<u32>().await?.unwrap_or_default();
        notes.lock().unwrap().begun.push(first);
        let pool = grid.task_pool::<Tree>().await?;
        for round in first..ROUNDS {
            // The nodes store the previous checkpoint meanwhile.
            grid.sleep(Duration::from_millis(50)).await?;
            if let Progress::Postponed { reason } = grid.progress(&round).await? {
                notes.lock().unwrap().postponed.push(reason);
            }
            assert_eq!(pool.run(Tree(HEIGHT)).await?, (2 << HEIGHT) - 1, "round {round}");
        }
        notes.lock().unwrap().is_complete = true;
        Ok(())
    };
    Job::new("trees").tasks::<Tree>().restartable_main(main).checkpoints(every(1))
}

/// Runs the job for that time, and returns its last checkpoint.
fn checkpoint(notes: &Arc<Mutex<Notes>>, at: Duration) -> Image {
    let simulation = Simulation::new(job(notes), grid("2x2x1,wan=8ms"), SimOptions::with_seed(3));
    let halted = simulation.unwrap().run_until(Time(at.as_nanos() as u64));
    let Ok(halted) = halted else { panic!("it has ended before {at:?}") };
    halted.checkpoint().unwrap().unwrap()
}

#[test]
fn an_open_pool_whose_tasks_are_done_does_not_postpone_checkpoints() {
    for at in [150, 250, 400].map(Duration::from_millis) {
        let notes = Arc::<Mutex<Notes>>::default();
        let image = checkpoint(&notes, at);
        let taken = image.number() as u32;
        assert!((1..ROUNDS).contains(&taken), "{taken}");
        assert_eq!(image.members(), 0, "workers are left out");
        // On the same layout, on fewer PEs, and on more.
        for layout in ["2x2x1,wan=8ms", "1x1x2", "3x3x1,wan=20ms"].map(grid) {
            *notes.lock().unwrap() = Notes::default();
            let plan = RestorePlan::restart(image.layout(), layout.layout());
            let from = (image.clone(), plan);
            let options = SimOptions::with_seed(4);
            let report = Simulation::restored(job(&notes), layout, options, from).unwrap().run();
            assert_eq!(report.outcome, Ok(()));
            let expected =
                Notes { begun: vec![taken - 1], postponed: Vec::new(), is_complete: true };
            assert_eq!(*notes.lock().unwrap(), expected);
        }
    }
}

/// Number of independent trees.
const TREES: u32 = 100;

/// Notes of main in a job with independent trees, from all runs.
#[derive(Default)]
struct TreeNotes {
    /// For each run of main, the number of outputs in the checkpoint, and the number that it has
    /// taken since.
    outputs: Vec<(usize, usize)>,
    postponed: Vec<String>,
    is_complete: bool,
}

/// Runs independent trees. Main remembers the outputs that it has taken.
fn independent(notes: &Arc<Mutex<TreeNotes>>) -> Job {
    let notes = Arc::clone(notes);
    let main = async move |grid: Grid| {
        let mut outputs: BTreeMap<u32, u64> = grid.restored().await?.unwrap_or_default();
        notes.lock().unwrap().outputs.push((outputs.len(), 0));
        let missing: Vec<u32> = (0..TREES).filter(|tree| !outputs.contains_key(tree)).collect();
        let pool = grid.task_pool::<Tree>().await?;
        let trees = missing.clone().into_iter().map(|tree| Tree(tree % 7));
        let mut stream = pool.stream(trees).window(16).repeatable();
        while let Some(next) = stream.next().await {
            let (number, output) = next?;
            outputs.insert(missing[number as usize], output);
            notes.lock().unwrap().outputs.last_mut().unwrap().1 += 1;
            if let Progress::Postponed { reason } = grid.progress(&outputs).await? {
                notes.lock().unwrap().postponed.push(reason);
            }
        }
        let nodes = |tree: u32| (2_u64 << (tree % 7)) - 1;
        let expected: BTreeMap<u32, u64> = (0..TREES).map(|tree| (tree, nodes(tree))).collect();
        assert_eq!(outputs, expected);
        notes.lock().unwrap().is_complete = true;
        Ok(())
    };
    Job::new("independent").tasks::<Tree>().restartable_main(main).checkpoints(every(10))
}

#[test]
fn only_tasks_whose_outputs_are_not_in_the_checkpoint_are_repeated() {
    for at in [300, 600].map(Duration::from_millis) {
        let notes = Arc::<Mutex<TreeNotes>>::default();
        let options = SimOptions::with_seed(3);
        let first = Simulation::new(independent(&notes), grid("2x2x1,wan=8ms"), options);
        let halted = first.unwrap().run_until(Time(at.as_nanos() as u64));
        let Ok(halted) = halted else { panic!("it has ended before {at:?}") };
        let image = halted.checkpoint().unwrap().unwrap();
        assert_eq!(image.members(), 0, "workers are left out");
        for layout in ["2x2x1,wan=8ms", "1x1x2", "3x3x1,wan=20ms"].map(grid) {
            let before = notes.lock().unwrap().outputs[0].1;
            notes.lock().unwrap().outputs.truncate(1);
            let plan = RestorePlan::restart(image.layout(), layout.layout());
            let (options, from) = (SimOptions::with_seed(4), (image.clone(), plan));
            let again = Simulation::restored(independent(&notes), layout, options, from);
            assert_eq!(again.unwrap().run().outcome, Ok(()));
            let mut notes = notes.lock().unwrap();
            let (found, taken) = notes.outputs[1];
            assert!((10..=before).contains(&found), "{found} of {before} at {at:?}");
            assert_eq!(found + taken, TREES as usize);
            assert!(std::mem::take(&mut notes.is_complete));
        }
        let postponed = notes.lock().unwrap().postponed.clone();
        assert!(postponed.iter().all(|reason| !reason.contains("tasks")), "{postponed:?}");
    }
}

/// Requests a checkpoint, and returns the reason if it is postponed.
async fn reason(grid: &Grid) -> Result<Option<String>, GridError> {
    // The job tries a postponed checkpoint again after some time.
    grid.sleep(Duration::from_secs(1)).await?;
    match grid.progress(&0_u32).await? {
        Progress::Postponed { reason } => Ok(Some(reason)),
        _ => Ok(None),
    }
}

#[test]
fn tasks_that_are_not_done_postpone_checkpoints() {
    let main = async |grid: Grid| {
        let pool: TaskPool<Tree> = grid.task_pool().await?;
        let mut stream = pool.stream((0..3).map(|_| Tree(2))).window(3);
        stream.next().await;
        let expected = "main has not taken the outputs of 2 tasks of streams";
        assert_eq!(reason(&grid).await?.as_deref(), Some(expected));
        while stream.next().await.is_some() {}
        assert_eq!(reason(&grid).await?, None, "all outputs are taken");

        // A stream that main drops leaves its tasks to the pool.
        let mut stream = pool.stream((0..4).map(|_| Tree(13))).window(4);
        stream.next().await;
        drop(stream);
        let found = reason(&grid).await?;
        assert!(found.as_deref().is_some_and(|it| it.ends_with("tasks are not done")), "{found:?}");
        grid.quiescence().await?;
        assert_eq!(reason(&grid).await?, None, "all tasks are done");

        // Main drops a call before its answer, and then the stream.
        let mut stream = pool.stream([Tree(10)]);
        let mut next = Box::pin(stream.next());
        let is_pending = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending()));
        assert!(is_pending.await);
        drop(next);
        drop(stream);
        grid.quiescence().await?;
        assert_eq!(reason(&grid).await?, None, "nothing waits for the answer");
        // The same call on a repeatable stream, which stays.
        let mut stream = pool.stream([Tree(13)]).repeatable();
        let mut next = Box::pin(stream.next());
        let is_pending = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending()));
        assert!(is_pending.await);
        drop(next);
        grid.sleep(Duration::from_secs(1)).await?;
        let made = grid.progress(&0_u32).await?;
        assert!(matches!(made, Progress::Taken { .. }), "the call postpones nothing: {made:?}");
        assert_eq!(stream.next().await.unwrap()?, (0, (2 << 13) - 1), "the output comes once");
        assert!(stream.next().await.is_none());
        Ok::<_, JobError>(())
    };
    let job = Job::new("streams").tasks::<Tree>().restartable_main(main).checkpoints(every(1));
    let report = Simulation::new(job, grid("2x2x1,wan=8ms"), SimOptions::with_seed(5));
    assert_eq!(report.unwrap().run().outcome, Ok(()));
}
