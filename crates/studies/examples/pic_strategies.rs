//! The moving load imbalance of `pic` under every balancing strategy, in the simulator: checks that
//! each particle ends where it must, and compares the time with the best placement that never
//! changes.
//!
//! The square is periodic and its particles move along rows, so a PE with a part of every column
//! has the same work in each step. No strategy can beat that placement, and none knows it.
//!
//! `cargo run --release -p gridspan-studies --example pic_strategies [-- --pes 16 --every 20ms]`

use clap::Parser;
use gridspan_balance::{BalanceReport, NAMES, StrategyName};
use gridspan_jobs::pic::{args, job};
use gridspan_runtime::Time;
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, Latency};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Parser)]
struct Options {
    /// PEs, on nodes of one PE each.
    #[arg(long, default_value_t = 16)]
    pes: u32,
    /// Interval between balancing attempts, in virtual time.
    #[arg(long, default_value = "20ms")]
    every: Latency,
    /// Balance at sync points after this number of steps instead.
    #[arg(long, default_value_t = 0)]
    sync_every: u64,
    /// Carry out every plan, whether or not it pays.
    #[arg(long)]
    ungated: bool,
    /// Only these strategies.
    #[arg(long, value_delimiter = ',')]
    strategies: Vec<String>,
    /// Options of the job.
    #[arg(last = true)]
    job: Vec<String>,
}

/// A problem whose fullest block has about 430 times the work of the emptiest, with enough steps
/// for the cloud to go around twice.
const PROBLEM: &str = "--cells 320 --particles 100000 --rho 0.98 -k 0 --steps 640 --blocks 16";

fn main() -> ExitCode {
    match table(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn table(options: &Options) -> Result<(), String> {
    let mut statics = Vec::new();
    for placement in ["block", "round-robin", "scatter"] {
        statics.push((placement, run(options, "none", placement)?.0));
    }
    let best = statics.iter().map(|&(_, time)| time).min().unwrap_or_default();
    let ratio = |time: Time| time.as_nanos() as f64 / best.as_nanos() as f64;
    println!("{:24}{:>12}{:>14}{:>8}", "", "time", "to the best", "moves");
    for (placement, time) in statics {
        println!("{:24}{time:>12}{:>13.2}x", format!("static, {placement}"), ratio(time));
    }
    let names = NAMES.iter().map(|&name| name.to_owned());
    let wanted = |name: &String| options.strategies.is_empty() || options.strategies.contains(name);
    for name in names.filter(wanted) {
        let (time, moves) = run(options, &name, "block")?;
        println!("{name:24}{time:>12}{:>13.2}x{moves:>8}", ratio(time));
    }
    println!("every particle of every run ended where it must");
    Ok(())
}

/// Returns the time of a run and the number of times that a block moved. The job fails if a
/// particle is not where it must be.
fn run(options: &Options, strategy: &str, placement: &str) -> Result<(Time, u64), String> {
    let sync_every = options.sync_every.to_string();
    let mut words: Vec<&str> = vec!["pic", "--placement", placement, "--sync-every", &sync_every];
    words.extend(PROBLEM.split_ascii_whitespace());
    words.extend(options.job.iter().map(String::as_str));
    let arguments = args::Options::try_parse_from(words).map_err(|error| error.to_string())?;
    let moves = Arc::new(Mutex::new(0));
    let told = moves.clone();
    let mut job = job::job(arguments)
        .strategy(strategy.parse::<StrategyName>().expect("it is a name"))
        .on_balance(move |report: &BalanceReport| {
            *told.lock().unwrap_or_else(PoisonError::into_inner) += report.moved;
        });
    job = job.balance_gate(!options.ungated);
    if options.sync_every == 0 {
        job = job.balance_every(options.every.duration());
    }
    let spec = GridSpec::from_emulate(&format!("1x{}", options.pes));
    let spec = spec.map_err(|error| error.to_string())?;
    let simulation = Simulation::new(job, spec, SimOptions::default());
    let report = simulation.map_err(|error| error.to_string())?.run();
    report.outcome.map_err(|error| format!("{strategy}: {error}"))?;
    let moves = *moves.lock().unwrap_or_else(PoisonError::into_inner);
    Ok((report.virtual_time, moves))
}
