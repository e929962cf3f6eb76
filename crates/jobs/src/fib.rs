//! Fibonacci numbers by their defining recursion. A task does almost no work, so that its time is
//! the cost of spawning and joining.

use crate::entry::{Entry, parse};
use crate::paired::MedianEstimate;
use clap::Parser;
use gridspan_runtime::{Grid, Job, JobError, StealStatistics, Step, Task, TaskContext};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str = "Fibonacci numbers by recursion: what a task costs";

/// Virtual time of a task: about its time on a present-day core.
const COST: Duration = Duration::from_nanos(15);

pub(crate) const ENTRY: Entry =
    Entry { name: "fib", about: ABOUT, build: |arguments| Ok(job(parse("fib", arguments)?)) };

#[derive(Clone, Copy, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Index of the Fibonacci number.
    #[arg(long, short, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=60))]
    n: u32,
    /// Compute it N times. Print the median time of a task with its confidence interval, and the
    /// number of tasks that nodes have stolen from each other.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: Option<u32>,
    /// With --rounds, print a JSON object instead of text.
    #[arg(long, requires = "rounds")]
    json: bool,
}

/// The Fibonacci number of this index: fib(0) = 0, fib(1) = 1.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Fib(pub u32);

impl Task for Fib {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(COST);
        if self.0 < 2 {
            return Step::Done(self.0.into());
        }
        cx.spawn(Fib(self.0 - 1));
        cx.spawn(Fib(self.0 - 2));
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

/// The Fibonacci number computed without tasks, with one addition per index.
fn expected(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

/// Number of calls that the recursion makes: `2 fib(n + 1) - 1`.
fn calls(n: u32) -> u64 {
    2 * expected(n + 1) - 1
}

fn job(options: Options) -> Job {
    Job::new("fib")
        .tasks::<Fib>()
        .restartable_main(async move |grid: Grid| run(&grid, options).await)
}

async fn run(grid: &Grid, Options { n, rounds, json }: Options) -> Result<(), JobError> {
    if let Some(rounds) = rounds {
        return measure(grid, n, rounds, json).await;
    }
    let pool = grid.task_pool().await?;
    let begin = grid.now().await?;
    let found = pool.run(Fib(n)).await?;
    let elapsed = grid.now().await?.since(begin);
    let calls = calls(n);
    println!(
        "fib({n}) = {found} by {calls} tasks on {} PEs in {:.3} ms, {:.1} ns a task",
        grid.layout().pe_count(),
        elapsed.as_secs_f64() * 1e3,
        elapsed.as_secs_f64() * 1e9 / calls as f64
    );
    if found == expected(n) {
        println!("verified: yes (fib({n}) = {found})");
        return Ok(());
    }
    Err(format!("verified: no ({found} instead of {})", expected(n)).into())
}

/// Computes the number in each round, in one pool, and prints the time of a task.
async fn measure(grid: &Grid, n: u32, rounds: u32, json: bool) -> Result<(), JobError> {
    let pool = grid.task_pool().await?;
    let calls = calls(n);
    let mut times_ns = Vec::new();
    for _ in 0..rounds {
        let begin = grid.now().await?;
        let found = pool.run(Fib(n)).await?;
        let elapsed = grid.now().await?.since(begin);
        if found != expected(n) {
            return Err(format!("verified: no ({found} instead of {})", expected(n)).into());
        }
        times_ns.push(elapsed.as_secs_f64() * 1e9 / calls as f64);
    }
    let task_ns = MedianEstimate::of(&times_ns);
    let StealStatistics { messages, far_messages, grants, far_grants, tasks, .. } =
        pool.statistics().await?;
    let (pes, nodes) = (grid.layout().pe_count(), grid.layout().node_count());
    if json {
        let MedianEstimate { median, low, high } = task_ns;
        println!(
            "{{\"nodes\":{nodes},\"pes\":{pes},\"rounds\":{rounds},\"tasks\":{calls},\
             \"ns\":{median:.3},\"ns_low\":{low:.3},\"ns_high\":{high:.3},\
             \"stolen_tasks\":{tasks},\"packets\":{grants},\"far_packets\":{far_grants},\
             \"messages\":{messages},\"far_messages\":{far_messages},\"verified\":true}}"
        );
        return Ok(());
    }
    println!(
        "fib({n}) by {calls} tasks on {pes} PEs of {nodes} nodes, {rounds} rounds: \
         {task_ns} ns a task"
    );
    if nodes > 1 {
        println!(
            "stolen in all rounds: {tasks} tasks in {grants} packets ({far_grants} between sites), \
             by {messages} messages ({far_messages} between sites)"
        );
    }
    println!("verified: yes (fib({n}) = {} in each round)", expected(n));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_call_counts_match_published_values() {
        assert_eq!((expected(30), calls(30)), (832_040, 2_692_537));
        assert_eq!(expected(35), 9_227_465);
    }
}
