//! Figure 2 of Koenig and Kalé (2007), "Optimizing Distributed Application Performance Using
//! Dynamic Grid Topology-Aware Load Balancing": the time of a step of molecular dynamics on two
//! sites, as a function of the latency between them, for each strategy and for a lower bound, as
//! tables and as a chart.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example grid_latency -- --out figure.svg
//! cargo run --release -p gridspan-studies --example grid_latency -- --real
//! ```
//!
//! The first command runs in virtual time: 32,000 atoms in 216 cells with 3,024 pair actors, on 16,
//! 32, 64 and 128 PEs, with latencies from 1 to 128 ms. A step takes 14 s on one PE, as in the
//! paper. The second command runs a smaller problem in real time, on 4 PEs that communicate by QUIC
//! over emulated links of up to 64 ms. Its handlers wait as long as they would compute, so that 4
//! PEs use no more than the 2 cores of a small machine; the runtime itself runs as usual.

mod metis;
#[path = "../../../../benches/support/oracle.rs"]
mod oracle;
mod problem;
mod run;
mod study;

use clap::Parser;
use gridspan_balance::cutter::Graph;
use problem::Problem;
use run::{Phases, Series, Time, median_step};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use study::{Figure, Outline, Point};

/// The latencies of the figure of Koenig and Kalé (2007), in ms.
const LATENCIES: &[u64] = &[1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 128];
/// The latencies in real time, in ms.
const LATENCIES_REAL: &[u64] = &[1, 4, 8, 16, 24, 32, 48, 64];
/// Time of a step on one PE, about that in the paper.
const WORK: Duration = Duration::from_secs(14);
/// Time of a step on one PE in real time: 60 ms for each of 4 PEs.
const WORK_REAL: Duration = Duration::from_millis(240);
/// The density varies by a factor of two, and cells are slightly wider than the cutoff, as in
/// LeanMD.
const PROBLEM: &str =
    "--system uniform --atoms 30000 --contrast 2 --cutoff 5.5 --cells 6 --migrate-every 20";
/// The problem in real time.
const PROBLEM_REAL: &str =
    "--system uniform --size 6 --contrast 1.5 --cutoff 2.5 --cells 3,3,4 --migrate-every 20";
/// Number of runs of each point in real time, of which the median counts.
const ROUNDS_REAL: usize = 3;
const PHASES: Phases = Phases { steps: 16, balances: 2 };

/// Measures steps of molecular dynamics on two sites, for several latencies between them.
#[derive(Parser)]
struct Arguments {
    /// Run four PEs in real time, over QUIC.
    #[arg(long)]
    real: bool,
    /// Measure only a few points.
    #[arg(long)]
    quick: bool,
    /// Numbers of PEs [default: 16,32,64,128].
    #[arg(long, value_delimiter = ',', conflicts_with = "real")]
    pes: Option<Vec<u32>>,
    /// Latencies in ms, ascending.
    #[arg(long, value_delimiter = ',')]
    latencies: Option<Vec<u64>>,
    /// Show only these strategies.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<String>>,
    /// Write the chart to this file.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let problem = match arguments.real {
        true => Problem::new(PROBLEM_REAL, WORK_REAL),
        false => Problem::new(PROBLEM, WORK),
    };
    let series = series(&arguments);
    let (pairs, atoms) = problem.size;
    let place = if arguments.real { "over QUIC, in real time" } else { "in virtual time" };
    let default = if arguments.real { LATENCIES_REAL } else { LATENCIES };
    let few = |all: &[u64]| all.iter().copied().step_by(3).collect();
    let outline = Outline {
        title: format!("{atoms} atoms, {pairs} pair actors, two sites, {place}"),
        series: series.iter().map(|series| series.name).collect(),
        pes: match (&arguments.pes, arguments.real, arguments.quick) {
            (Some(pes), ..) => pes.clone(),
            (None, true, _) => vec![4],
            (None, false, true) => vec![128],
            (None, false, false) => vec![16, 32, 64, 128],
        },
        latencies: match (&arguments.latencies, arguments.quick) {
            (Some(latencies), _) => latencies.clone(),
            (None, true) => few(default),
            (None, false) => default.to_vec(),
        },
        threads: match arguments.real {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        },
        is_close: !arguments.real,
        bound: &|pes, latency| problem.bound(pes, latency),
    };
    let time = if arguments.real { Time::Real } else { Time::Virtual };
    let rounds = if arguments.real && !arguments.quick { ROUNDS_REAL } else { 1 };
    let figure = Figure::measure(outline, &|(at, pes, latency): Point| {
        let place = (pes, Duration::from_millis(latency));
        let run = |_| median_step(&problem, series[at], place, PHASES, time);
        let mut medians: Vec<Duration> = (0..rounds).map(run).collect();
        medians.sort_unstable();
        medians[rounds / 2]
    });
    print!("{}", figure.tables());
    judge(&figure, &series);
    if let Some(path) = arguments.out
        && let Err(error) = std::fs::write(&path, figure.picture())
    {
        eprintln!("cannot write {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn series(arguments: &Arguments) -> Vec<Series> {
    let mut all: Vec<Series> =
        ["none", "greedy", "flat-cut", "metis", "metis-two-phase", "grid-cut", "replicate", "auto"]
            .map(Series::of)
            .to_vec();
    if arguments.real {
        all.retain(|series| !["flat-cut", "metis", "metis-two-phase"].contains(&series.name));
    } else {
        all.push(Series::as_they_come("grid-cut-fifo", "grid-cut"));
    }
    if let Some(only) = &arguments.only {
        all.retain(|series| only.iter().any(|name| name == series.name));
    }
    all
}

/// Prints how far the strategies are from the bound, and at how many points `greedy` beats them.
fn judge(figure: &Figure<'_>, series: &[Series]) {
    let greedy = series.iter().position(|series| series.name == "greedy");
    println!();
    for (at, Series { name, .. }) in series.iter().enumerate() {
        let (ratio, pes, latency) = figure.farthest(at);
        print!("{name}: at most {ratio:.3} times the bound ({pes} PEs, {latency} ms)");
        if let Some(greedy) = greedy.filter(|&greedy| greedy != at) {
            let slower = figure.slower(at, greedy, 0.0);
            let most = figure.slower(at, greedy, 0.01);
            print!(
                "; slower than greedy at {} points, by over 1 % at {}",
                slower.len(),
                most.len()
            );
        }
        println!();
    }
}
