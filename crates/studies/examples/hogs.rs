//! Measures how much a job of two PEs slows down while another program computes on one of its two
//! processors: without balancing, and with strategies that move actors away.
//!
//! Each PE is pinned to a separate processor. Otherwise the operating system would move the threads
//! to free processors, and the runtime would have no reason to move actors. The other program is
//! this example in another process, which keeps the second processor busy and ends by itself. Linux
//! only.
//!
//! `cargo run --release -p gridspan-studies --example hogs [-- --runs 5 --hogs 1]`

#[path = "dynamite_ranks/foreign_load.rs"]
mod foreign_load;

use clap::Parser;
use foreign_load::{Hogs, compute, pin, threads};
use gridspan_balance::{BalanceReport, StrategyName};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, JobError};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of PEs, and of processors.
const PES: u32 = 2;
/// Maximum time to wait until the threads of all PEs have started.
const BEGIN_MAX: Duration = Duration::from_secs(5);

#[derive(Clone, Parser)]
struct Options {
    /// Runs of each kind; the table shows their medians.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Number of other programs that compute at a time.
    #[arg(long, default_value_t = 1)]
    hogs: u32,
    /// Start of the other programs, in seconds after the start of the job.
    #[arg(long, default_value_t = 1.0)]
    from: f64,
    /// Run time of the other programs in seconds.
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// Print the outcome of each balancing attempt.
    #[arg(long)]
    explain: bool,
    /// The strategies, compared with `none`.
    #[arg(long, value_delimiter = ',', default_value = "vacate,auto")]
    strategies: Vec<String>,
    /// The job and its options.
    #[arg(last = true)]
    job: Vec<String>,
    /// Be the other program, on this processor.
    #[arg(long, hide = true)]
    compute_on: Option<usize>,
    /// Be the other program for this many seconds.
    #[arg(long, hide = true, default_value_t = 0.0)]
    compute_for: f64,
}

/// A job of some seconds on two processors.
const JOB: &str = "stencil -n 2048 --blocks 8 --iterations 2000";

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.compute_on {
        Some(processor) => {
            let time = Duration::try_from_secs_f64(options.compute_for).unwrap_or_default();
            compute(processor, time)
        }
        None => table(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn table(options: &Options) -> Result<(), String> {
    let mut kinds = vec![("none", false), ("none", true)];
    kinds.extend(options.strategies.iter().map(|name| (name.as_str(), true)));
    let mut found: Vec<Vec<Run>> = vec![Vec::new(); kinds.len()];
    // The kinds take turns, so that other load on the machine affects all of them equally.
    for _ in 0..options.runs {
        for (kind, runs) in kinds.iter().zip(&mut found) {
            runs.push(run(options, *kind)?);
        }
    }
    println!(
        "{} other programs from {} s on for {} s",
        options.hogs, options.from, options.seconds
    );
    println!("{:24}{:>9}{:>11}{:>8}{:>8}", "", "seconds", "slowdown", "away", "back");
    let mut alone = 0.0;
    for ((strategy, is_loaded), runs) in kinds.iter().zip(&mut found) {
        runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let Run { seconds, away, back } = runs[runs.len() / 2];
        if !is_loaded {
            alone = seconds;
        }
        let name = if *is_loaded { (*strategy).to_owned() } else { format!("{strategy}, alone") };
        println!(
            "{name:24}{seconds:>9.2}{:>10.0} %{away:>8}{back:>8}",
            (seconds / alone - 1.0) * 100.0
        );
    }
    Ok(())
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Run time.
    seconds: f64,
    /// Number of actors that moved before the other programs ended.
    away: u64,
    /// Number of actors that moved afterwards.
    back: u64,
}

fn run(options: &Options, (strategy, is_loaded): (&str, bool)) -> Result<Run, String> {
    let mut words: Vec<String> = options.job.clone();
    if words.is_empty() {
        words = JOB.split_ascii_whitespace().map(str::to_owned).collect();
    }
    let (name, arguments) = words.split_first().ok_or("name a job")?;
    let entry = gridspan_jobs::find(name).ok_or_else(|| format!("there is no job `{name}`"))?;
    let job = (entry.build)(arguments).map_err(|error| error.to_string())?;
    let moves: Arc<Mutex<Vec<(f64, u64)>>> = Arc::default();
    let told = moves.clone();
    let explain = options.explain;
    let job = job
        .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        .balance_every(Duration::from_secs(1))
        .on_balance(move |report: &BalanceReport| {
            if explain {
                println!("{}: {report} {:?}", report.at, report.refusal);
            }
            let at = report.at.as_nanos() as f64 * 1e-9;
            told.lock().unwrap_or_else(PoisonError::into_inner).push((at, report.moved));
        });
    let job = job.on_snapshot(move |snapshot, _| {
        if explain {
            let loads = snapshot.load_per_pe();
            for (pe, load) in snapshot.pes.iter().zip(loads) {
                println!(
                    "  computed {load:.0?}, {:.2} of a processor, idle {:.0?}",
                    pe.available, pe.idle
                );
            }
        }
    });
    let begin = Instant::now();
    let hogs = is_loaded.then_some(options);
    run_pinned(job, hogs)?;
    let seconds = begin.elapsed().as_secs_f64();
    let moves = moves.lock().unwrap_or_else(PoisonError::into_inner);
    let end = options.from + options.seconds;
    let sum = |is_before: bool| {
        moves.iter().filter(|(at, _)| (*at < end) == is_before).map(|(_, moved)| moved).sum()
    };
    Ok(Run { seconds, away: sum(true), back: sum(false) })
}

/// Runs a job on pinned PEs, with other programs if there are any.
fn run_pinned(job: Job, hogs: Option<&Options>) -> Result<(), String> {
    let running = std::thread::spawn(move || embedded::run(job, PES));
    let begin = Instant::now();
    let mut left: Vec<u32> = (0..PES).collect();
    while !left.is_empty() && begin.elapsed() < BEGIN_MAX && !running.is_finished() {
        for (pid, name) in threads(std::process::id()) {
            if let Some(at) =
                left.iter().position(|pe| name == gridspan_runtime::PeId(*pe).to_string())
            {
                pin(Some(pid), left.remove(at) as usize)?;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let children = match hogs {
        Some(options) => {
            std::thread::sleep(
                Duration::from_secs_f64(options.from).saturating_sub(begin.elapsed()),
            );
            Hogs::start(options.hogs, 1, options.seconds).map_err(|error| error.to_string())?
        }
        None => Hogs::none(),
    };
    let outcome: Result<(), JobError> = running.join().map_err(|_| "the job panicked")?;
    drop(children);
    outcome.map_err(|error| error.to_string())
}
