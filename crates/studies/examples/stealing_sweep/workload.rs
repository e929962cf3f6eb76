//! The jobs of the sweep, each with its known answer.

use crate::random_tree::{RandomTree, Shape};
use gridspan_balance::stealing::StealingPolicyName;
use gridspan_jobs::fib::Fib;
use gridspan_jobs::mandelbrot::Rows;
use gridspan_jobs::queens::Board;
use gridspan_jobs::uts::Visit;
use gridspan_runtime::{Grid, Job, JobError, StealStatistics};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// A job of tasks.
#[derive(Clone, Debug)]
pub(crate) enum Workload {
    Fib(u32),
    Queens(u32),
    Mandelbrot(u32),
    Uts(String),
    Random(Shape),
}

/// The time of the tasks of a job, and the statistics of the messages between nodes.
pub(crate) type Outcome = (Duration, StealStatistics);

impl Workload {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is no job; write fib:24, queens:13, mandelbrot:512 or uts:T1");
        let (name, argument) = text.split_once(':').ok_or_else(wrong)?;
        let number = || argument.parse().map_err(|_| wrong());
        match name {
            "fib" => Ok(Self::Fib(number()?)),
            "queens" => Ok(Self::Queens(number()?)),
            "mandelbrot" => Ok(Self::Mandelbrot(number()?)),
            "uts" => Ok(Self::Uts(argument.to_owned())),
            _ => Err(wrong()),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Fib(n) => format!("fib:{n}"),
            Self::Queens(n) => format!("queens:{n}"),
            Self::Mandelbrot(size) => format!("mandelbrot:{size}"),
            Self::Uts(tree) => format!("uts:{tree}"),
            Self::Random(shape) => shape.to_string(),
        }
    }

    /// Returns the job, which sends its outcome to `tell`.
    pub(crate) fn job(&self, policy: &str, tell: Sender<Outcome>) -> Result<Job, String> {
        let job =
            Job::new("sweep").stealing(policy.parse::<StealingPolicyName>().expect("it is a name"));
        Ok(match self.clone() {
            Self::Fib(n) => job.tasks::<Fib>().main(async move |grid| {
                let known = (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0;
                let pool = grid.task_pool().await?;
                let outcome = timed(&grid, async || same(&pool.run(Fib(n)).await?, &known)).await?;
                finish(&tell, outcome, pool.statistics().await?)
            }),
            Self::Mandelbrot(size) => job.tasks::<Rows>().main(async move |grid| {
                let rows = Rows { size, steps: 1000, rows: 0..size };
                let pool = grid.task_pool().await?;
                let points = size as usize * size as usize;
                let run = async || same(&pool.run(rows.clone()).await?.len(), &points);
                let outcome = timed(&grid, run).await?;
                finish(&tell, outcome, pool.statistics().await?)
            }),
            Self::Queens(n) => job.search::<Board>().main(async move |grid| {
                let pool = grid.search_pool().await?;
                let run = async || {
                    let found = pool.run(Board::empty(n, QUEENS_GRAIN)).await?;
                    same(&Some(found.solutions()), &gridspan_kernels::queens::solutions(n))
                };
                let outcome = timed(&grid, run).await?;
                finish(&tell, outcome, pool.statistics().await?)
            }),
            Self::Uts(tree) => {
                let (root, sample) =
                    Visit::root(&tree).ok_or(format!("there is no tree {tree}"))?;
                job.search::<Visit>().main(async move |grid| {
                    let pool = grid.search_pool().await?;
                    let run = async || same(&pool.run(root).await?.0, &sample.census);
                    let outcome = timed(&grid, run).await?;
                    finish(&tell, outcome, pool.statistics().await?)
                })
            }
            Self::Random(shape) => job.search::<RandomTree>().main(async move |grid| {
                let pool = grid.search_pool().await?;
                let run = async || same(&pool.run(RandomTree::root(shape)).await?, &shape.census());
                let outcome = timed(&grid, run).await?;
                finish(&tell, outcome, pool.statistics().await?)
            }),
        })
    }
}

/// Number of rows of the board that one task fills, as by default in `gridctl`.
const QUEENS_GRAIN: u32 = 8;

async fn timed(
    grid: &Grid,
    run: impl AsyncFnOnce() -> Result<(), JobError>,
) -> Result<Duration, JobError> {
    let begin = grid.now().await?;
    run().await?;
    Ok(grid.now().await?.since(begin))
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, known: &T) -> Result<(), JobError> {
    if found == known { Ok(()) } else { Err(format!("{found:?} instead of {known:?}").into()) }
}

fn finish(
    tell: &Sender<Outcome>,
    took: Duration,
    statistics: StealStatistics,
) -> Result<(), JobError> {
    tell.send((took, statistics)).map_err(|_| "nothing waits for the outcome".into())
}
