//! The experiment of Gupta and Vadhiyar (2006), "Application-Oriented Adaptive MPI_Bcast for
//! Grids", with all contenders, printed as tables.
//!
//! `cargo run --release -p gridspan-studies --example paper_experiment -- [--seeds 4] [--first 1]
//! [--evaluations 100000] [--judge packets|flows]`. The same arguments give the same figures.

use gridspan_bcast::Sharing;
use gridspan_studies::broadcast::{BroadcastExperiment, CONTENDERS, Judge, Trial};
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

/// Minimum size in bytes of the broadcasts that are compared with the bound.
const BOUNDED_MIN: u64 = 300_000;

struct Arguments {
    seeds: u64,
    first: u64,
    evaluations: u64,
    judge: Judge,
}

fn arguments() -> Option<Arguments> {
    let mut parsed = Arguments { seeds: 4, first: 1, evaluations: 100_000, judge: Judge::Packets };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--seeds" => parsed.seeds = value.parse().ok()?,
            "--first" => parsed.first = value.parse().ok()?,
            "--evaluations" => parsed.evaluations = value.parse().ok()?,
            "--judge" if value == "packets" => parsed.judge = Judge::Packets,
            "--judge" if value == "flows" => parsed.judge = Judge::Flows,
            _ => return None,
        }
    }
    Some(parsed)
}

fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("arguments: [--seeds N] [--first N] [--evaluations N] [--judge packets|flows]");
        return ExitCode::from(2);
    };
    for (name, sharing) in [
        ("pairs: a pipe for each pair of clusters", Sharing::ClusterPairs),
        ("mesh: a pipe for each pair of sites", Sharing::SitePairs),
        ("hub: one uplink for each site", Sharing::SiteUplinks),
    ] {
        let trial = move |seed| {
            BroadcastExperiment {
                sharing,
                seed,
                broadcasts: usize::MAX,
                judge: arguments.judge,
                paper_evaluations: arguments.evaluations,
                our_evaluations: 4_000,
            }
            .run(CONTENDERS)
        };
        let seeds = arguments.first..arguments.first + arguments.seeds;
        let trials: Vec<Trial> = thread::scope(|scope| {
            let running: Vec<_> = seeds.map(|seed| scope.spawn(move || trial(seed))).collect();
            // A panic ends the program: averages without its trial would not be those of all seeds.
            let joined = running.into_iter().map(|one| one.join());
            joined.map(|trial| trial.unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        print(name, &trials);
    }
    ExitCode::SUCCESS
}

/// Formats the mean and range.
fn range(values: &[f64]) -> String {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{mean:.1} [{least:.0}..{most:.0}]")
}

fn print(name: &str, trials: &[Trial]) {
    let loaded: usize = trials.iter().flat_map(|trial| &trial.is_loaded).filter(|&&is| is).count();
    let all: usize = trials.iter().map(|trial| trial.bytes.len()).sum();
    println!("\n{name}: {loaded} loaded and {} unloaded broadcasts\n", all - loaded);
    println!(
        "| | gain over MPICH-G2, loaded, % | unloaded, % | time over bound, >= 300 kB, loaded / \
         unloaded | slower by > 5 %: after a change / else | probes |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    for (place, contender) in CONTENDERS.iter().enumerate() {
        let mut gains = [Vec::new(), Vec::new()];
        let mut bounds = [Vec::new(), Vec::new()];
        let mut losses = [0, 0];
        let mut probes = 0;
        for trial in trials {
            let base = &trial.times[0].completion_s;
            probes += trial.times[place].probes;
            for (number, time) in trial.times[place].completion_s.iter().enumerate() {
                let kind = usize::from(!trial.is_loaded[number]);
                gains[kind].push(100.0 * (1.0 - time / base[number]));
                if trial.bytes[number] >= BOUNDED_MIN {
                    bounds[kind].push(time / trial.bound_s[number]);
                }
                if *time > 1.05 * base[number] {
                    losses[usize::from(!trial.has_changed[number])] += 1;
                }
            }
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let asked = match contender.is_advised() {
            true => format!("{}", probes / trials.len().max(1) as u64),
            false => String::new(),
        };
        println!(
            "| {} | {} | {} | {:.2} / {:.2} | {} / {} | {asked} |",
            contender.name(),
            range(&gains[0]),
            range(&gains[1]),
            mean(&bounds[0]),
            mean(&bounds[1]),
            losses[0],
            losses[1],
        );
    }
}
