//! A stream of many short tasks: checks that each output reaches main exactly once, and measures
//! the outputs per second and the memory.
//!
//! Main marks the number of each output in a bit map; a duplicate or missing number fails the run.
//! The run also fails if the process takes more memory than the limit, not counting that map.
//!
//! `cargo run --release -p gridspan-studies --example long_stream [-- --tasks 10000000 --pes 2]`

use clap::Parser;
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Grid, Job, JobError, Step, Task, TaskContext};
use serde::{Deserialize, Serialize};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Clone, Copy, Parser)]
struct Options {
    /// Number of tasks.
    #[arg(long, default_value_t = 10_000_000)]
    tasks: u64,
    /// PEs of one node.
    #[arg(long, default_value_t = 2)]
    pes: u32,
    /// Maximum increase of memory during the stream, in megabytes.
    #[arg(long, default_value_t = 64)]
    megabytes_max: u64,
}

/// Computes the remainder of a square.
#[derive(Serialize, Deserialize)]
struct Square(u64);

/// A prime below 2^32: squares do not overflow.
const MODULUS: u64 = 4_294_967_291;

impl Square {
    fn value(&self) -> u64 {
        let root = self.0 % MODULUS;
        root * root % MODULUS
    }
}

impl Task for Square {
    type Output = u64;
    type Join = ();

    fn run(self, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(self.value())
    }

    fn collect((): &mut (), _child: u32, _output: u64) {}

    fn joined((): (), _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(0)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let job = Job::new("long-stream").tasks::<Square>();
    let job = job.main(async move |grid| stream(&grid, options).await);
    match embedded::run(job, options.pes) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn stream(grid: &Grid, options: Options) -> Result<(), JobError> {
    let Options { tasks, megabytes_max, .. } = options;
    let mut seen = vec![0_u64; tasks.div_ceil(64) as usize];
    // Written pages count as memory, so that `before` contains the whole map.
    seen.fill(u64::MAX);
    seen.fill(0);
    let before = peak_kilobytes();
    let pool = grid.task_pool::<Square>().await?;
    let begin = Instant::now();
    let mut outputs = pool.stream((0..tasks).map(Square));
    let mut count = 0;
    while let Some(next) = outputs.next().await {
        let (number, output) = next?;
        let (word, bit) = (&mut seen[(number / 64) as usize], 1 << (number % 64));
        if *word & bit != 0 || output != Square(number).value() {
            return Err(format!("the output of task {number} is wrong, or has come twice").into());
        }
        *word |= bit;
        count += 1;
    }
    let seconds = begin.elapsed().as_secs_f64();
    if count != tasks {
        return Err(format!("{count} outputs of {tasks} tasks").into());
    }
    let rate = count as f64 / seconds / 1e6;
    println!("{tasks} outputs, each once, in {seconds:.2} s: {rate:.2} million a second");
    let (Some(before), Some(after)) = (before, peak_kilobytes()) else {
        println!("this system does not report the memory of a process");
        return Ok(());
    };
    let taken = (after - before) as f64 / 1e3;
    println!("at most {taken:.1} MB more than before, of {megabytes_max} MB");
    match taken <= megabytes_max as f64 {
        true => Ok(()),
        false => Err("the stream takes more memory than it may".into()),
    }
}

/// Returns the peak memory of this process so far, in kilobytes.
fn peak_kilobytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
