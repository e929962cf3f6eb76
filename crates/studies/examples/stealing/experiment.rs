//! One experiment as a job in virtual time.

use gridspan_balance::stealing::StealingPolicyName;
use gridspan_runtime::{
    Grid, GridError, Job, JobError, Merge, PeId, Search, SearchContext, SearchPool, StealStatistics,
};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_studies::stealing::StealingExperiment;
use gridspan_topology::{GridSpec, Time};
use serde::{Deserialize, Serialize};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

/// Returns the time between the submission of a batch by main and the appearance of its tasks, in
/// which every node receives its part.
fn notice(experiment: &StealingExperiment) -> Duration {
    let way = if experiment.sites > 1 { experiment.wide_area } else { Duration::ZERO };
    way + Duration::from_micros(500 + u64::from(experiment.nodes))
}

/// A batch of tasks that appear on a node, or one task.
#[derive(Serialize, Deserialize)]
enum Work {
    Batch { tasks: u64, task_ns: u64, at: Time },
    Task { ns: u64 },
}

/// Number of tasks done, and the end of the last one.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Done {
    tasks: u64,
    last: Time,
}

impl Merge for Done {
    fn merge(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.last = self.last.max(other.last);
    }
}

impl Search for Work {
    type Total = Done;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        match self {
            Self::Batch { tasks, task_ns: ns, at } => {
                cx.charge(at.since(cx.now()));
                (0..tasks).for_each(|_| cx.spawn(Self::Task { ns }));
            }
            Self::Task { ns } => {
                cx.charge(Duration::from_nanos(ns));
                let end = cx.now() + Duration::from_nanos(ns);
                cx.total().merge(Done { tasks: 1, last: end });
            }
        }
    }
}

/// The result of an experiment.
pub(crate) struct Found {
    pub(crate) statistics: StealStatistics,
    /// Makespan of all batches, one after the other.
    pub(crate) makespan: Duration,
}

/// Runs the experiment with nodes that steal by `policy`.
pub(crate) fn run(experiment: &StealingExperiment, policy: &str) -> Result<Found, String> {
    let &StealingExperiment { nodes, sites, spread, seed, tasks_per_node, batches, task, .. } =
        experiment;
    let tasks = tasks_per_node * u64::from(nodes);
    let load = spread.batches(nodes, tasks, batches, seed);
    let (tell, told) = mpsc::channel();
    let notice = notice(experiment);
    let job = Job::new("stealing")
        .search::<Work>()
        .stealing(policy.parse::<StealingPolicyName>().expect("it is a name"))
        .main(async move |grid| {
            // Jobs on a real network measure the places of nodes at the start.
            grid.places().await?;
            let pool = grid.search_pool::<Work>().await?;
            let mut makespan = Duration::ZERO;
            for batch in load {
                let (took, done) = appear(&grid, &pool, &batch, (task, notice)).await?;
                makespan += took;
                if done != tasks {
                    return Err(JobError::Failed(format!("{done} of {tasks} tasks were done")));
                }
            }
            let statistics = pool.statistics().await?;
            tell.send(Found { statistics, makespan }).map_err(|_| "the receiver is gone")?;
            Ok(())
        });
    let micros = |time: Duration| time.as_micros();
    let (wide, local) = (micros(experiment.wide_area), micros(StealingExperiment::LOCAL));
    let spec =
        GridSpec::from_emulate(&format!("{sites}x{},wan={wide}us,lan={local}us", nodes / sites))
            .map_err(|error| error.to_string())?;
    let options = SimOptions::with_seed(seed).with_message_cost(StealingExperiment::HANDLER);
    let simulation = Simulation::new(job, spec, options).map_err(|error| error.to_string())?;
    simulation.run().outcome.map_err(|error| error.to_string())?;
    told.recv().map_err(|_| "main has sent nothing".to_owned())
}

/// Makes the tasks of a batch appear on all nodes at once. Returns the time until the last is done,
/// and the number of tasks done.
async fn appear(
    grid: &Grid,
    pool: &SearchPool<Work>,
    batch: &[u64],
    (task, notice): (Duration, Duration),
) -> Result<(Duration, u64), GridError> {
    let at = grid.now().await? + notice;
    let task_ns = task.as_nanos() as u64;
    let loaded = batch.iter().enumerate().filter(|(_, tasks)| **tasks > 0);
    let runs = loaded
        .map(|(node, &tasks)| pool.run_on(PeId(node as u32), Work::Batch { tasks, task_ns, at }));
    let done = all(runs.collect()).await?;
    Ok((done.last.since(at), done.tasks))
}

/// Returns the sum of all runs once the last is done.
async fn all<F>(runs: Vec<F>) -> Result<Done, GridError>
where
    F: Future<Output = Result<Done, GridError>>,
{
    let mut left: Vec<Pin<Box<F>>> = runs.into_iter().map(Box::pin).collect();
    let (mut sum, mut failure) = (Done::default(), None);
    poll_fn(move |cx| {
        left.retain_mut(|run| match run.as_mut().poll(cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(done)) => {
                sum.merge(done);
                false
            }
            Poll::Ready(Err(error)) => {
                failure.get_or_insert(error);
                false
            }
        });
        match failure.take() {
            Some(error) => Poll::Ready(Err(error)),
            None if left.is_empty() => Poll::Ready(Ok(std::mem::take(&mut sum))),
            None => Poll::Pending,
        }
    })
    .await
}
