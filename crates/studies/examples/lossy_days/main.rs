//! Measures in virtual time how much of its time a job loses to losses of nodes and to the
//! checkpoints that protect against them, and compares with the model of Daly (2006).
//!
//! ```text
//! cargo run --release -p gridspan-studies --example lossy_days -- days
//! cargo run --release -p gridspan-studies --example lossy_days -- sizes
//! cargo run --release -p gridspan-studies --example lossy_days -- intervals
//! ```
//!
//! - `days`: a job on 128 PEs at four sites loses nodes for a day, and gets them back.
//! - `sizes`: the parts of a recovery on 128 to 4,096 PEs.
//! - `intervals`: the automatic interval and fixed ones.
//!
//! **Useful time.** Each step counts once, also if the job repeats it. It counts with the time that
//! it takes without losses and checkpoints on the PEs that the job has in this step: the compute
//! time of the fullest PE, plus the other time of a step, measured in a run without checkpoints. So
//! the useful share compares with a job that has the same nodes at the same times and loses no
//! work. The lower speed of fewer nodes does not count as lost time. The column `fullest` has the
//! mean number of actors on the fullest PE, which is 8 if no node is lost.
//!
//! **The model.** Daly's useful share at his optimum interval, from three measured times: the mean
//! cost of a checkpoint, the mean cost of a loss, and the mean time between losses of the run. The
//! cost of a checkpoint is the time of its stop, plus the time in which a PE encodes its part. The
//! cost of a loss is the time until main continues. The model has no stops for nodes to join; the
//! measured share of the time that these cost is subtracted.
//!
//! **What takes time.** Each PE encodes its state at a fixed rate, and decodes the parts that it
//! reads in a recovery at the same rate. Copies take the bandwidth of their links, also those that
//! the nodes make again after a loss or a change, of parts that too few nodes have. The simulation
//! charges nothing for the allocation of memory, for actors that arrive from another PE, and for
//! the connections of the remaining nodes. The job learns of a loss after a given time, in which it
//! does no useful work.
#![allow(clippy::print_stdout, reason = "a study, which prints")]

mod daly;
mod intervals;
mod job;
mod life;

use clap::{Parser, Subcommand};
use daly::Costs;
use gridspan_runtime::CheckpointEvery;
use gridspan_topology::{Bandwidth, GridSpec};
use job::Shape;
use life::{Life, Plan, Stop, live, losses};
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// PEs of a node, and sites.
const PES_OF_NODE: u32 = 4;
const SITES: u32 = 4;
/// Shortest and longest step.
const STEP: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(10)];
/// State of a PE, rate of encoding, and bandwidth between two nodes of a site: a thousandth of 128
/// MB, 64 MB/s and 4 Gbit/s, so that the copies of many checkpoints fit into memory and the times
/// are the same.
const STATE_BYTES: usize = 128_000;
const ENCODING: Bandwidth = Bandwidth::from_bits_per_second(8 * 64_000);
const LAN_RATE: &str = "4mbit";
/// Time from the loss of a machine until the others know of it; see `docs/src/faults.md`.
const NOTICE: Duration = Duration::from_secs(3);
/// Losses in the study of sizes, and the time between them.
const LOSSES_OF_SIZE: u32 = 3;
const BETWEEN: Duration = Duration::from_secs(75);

#[derive(Parser)]
#[command(about = "Measures how much time a job loses to losses of nodes")]
struct Options {
    #[command(subcommand)]
    study: Study,
}

#[derive(Subcommand)]
enum Study {
    /// Days on 128 PEs at four sites.
    Days {
        /// The seeds: of losses, and of the runs.
        #[arg(long, value_delimiter = ',', default_value = "1,2,3,4,5")]
        seeds: Vec<u64>,
        /// Hours of virtual time for each.
        #[arg(long, default_value_t = 24)]
        hours: u64,
        /// Mean minutes between losses.
        #[arg(long, default_value_t = 10)]
        loss_minutes: u64,
        /// Minutes after which a lost node joins again.
        #[arg(long, default_value_t = 30)]
        away_minutes: u64,
    },
    /// Recoveries on more PEs.
    Sizes {
        /// Numbers of PEs, multiples of 16.
        #[arg(long, value_delimiter = ',', default_value = "128,512,1024,2048,4096")]
        pes: Vec<u32>,
    },
    /// The automatic interval and fixed ones.
    Intervals {
        /// Number of losses of each job.
        #[arg(long, default_value_t = 60)]
        losses: u32,
        /// Costs of a checkpoint, as parts of the time between losses.
        #[arg(long, value_delimiter = ',', default_value = "0.0002,0.003,0.03,0.15")]
        costs: Vec<f64>,
    },
}

fn main() -> ExitCode {
    let studied = match Options::parse().study {
        Study::Days { seeds, hours, loss_minutes, away_minutes } => {
            let [day, loss, away] = [60 * hours, loss_minutes, away_minutes]
                .map(|minutes| Duration::from_secs(60 * minutes));
            days(&seeds, day, loss, away)
        }
        Study::Sizes { pes } => sizes(&pes),
        Study::Intervals { losses, costs } => intervals::print(losses, &costs),
    };
    match studied {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn grid(pes: u32) -> Result<GridSpec, Box<dyn Error>> {
    let nodes = pes / (SITES * PES_OF_NODE);
    let text = format!("{SITES}x{nodes}x{PES_OF_NODE},wan=20ms,lanrate={LAN_RATE}");
    Ok(GridSpec::from_emulate(&text)?)
}

fn plan(pes: u32, to_failure: Duration, end: Duration) -> Result<Plan, Box<dyn Error>> {
    Ok(Plan {
        grid: grid(pes)?,
        shape: Shape {
            pes,
            actors_per_pe: 8,
            state_bytes_per_pe: STATE_BYTES,
            step: STEP,
            is_ahead: false,
        },
        every: CheckpointEvery::Auto,
        rate: ENCODING,
        to_failure,
        losses: Vec::new(),
        away: None,
        notice: NOTICE,
        end,
        seed: 0,
    })
}

fn mean(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        numbers.into_iter().fold((0.0, 0_u32), |(sum, count), it| (sum + it, count + 1));
    sum / f64::from(count.max(1))
}

/// The parts of stops, on average.
fn parts(stops: &[Stop]) -> [f64; 2] {
    [mean(stops.iter().map(|stop| stop.before)), mean(stops.iter().map(|stop| stop.restoring))]
}

/// The measured costs, and the share of the time that stops for nodes to join cost.
fn measured(life: &Life) -> (Costs, f64) {
    let costs = Costs {
        checkpoint: mean(life.checkpoints.iter().copied()),
        restart: mean(life.recoveries.iter().map(Stop::sum)),
        to_failure: life.all / f64::from(life.losses.max(1)),
    };
    (costs, life.changes.iter().map(Stop::sum).sum::<f64>() / life.all)
}

fn days(
    seeds: &[u64],
    day: Duration,
    to_failure: Duration,
    away: Duration,
) -> Result<(), Box<dyn Error>> {
    println!(
        "{:>4} {:>6} {:>10} {:>7} {:>11} {:>7} {:>8} {:>7} {:>8} {:>7} {:>7} {:>7} {:>5}",
        "seed",
        "losses",
        "recoveries",
        "returns",
        "checkpoints",
        "each",
        "interval",
        "Daly's",
        "repeated",
        "fullest",
        "useful",
        "Daly",
        "ratio"
    );
    let (mut all, mut ratios) = (Vec::new(), Vec::new());
    for &seed in seeds {
        let begun = Instant::now();
        let plan = plan(128, to_failure, day)?;
        let plan = Plan { losses: losses(seed, to_failure, day), away: Some(away), seed, ..plan };
        let life = live(&plan)?;
        let (costs, changing) = measured(&life);
        let model = costs.share(costs.interval()) * (1.0 - changing);
        print_day(&plan, &life, &costs, model);
        eprintln!(
            "seed {seed}: {} unprotected, {} postponed, {:.0} s real",
            life.unprotected,
            life.postponed,
            begun.elapsed().as_secs_f64()
        );
        ratios.push(life.share() / model);
        all.push(life);
    }
    print_stops(&all);
    println!(
        "useful share over that of the model: mean {:.3}, from {:.3} to {:.3}",
        mean(ratios.iter().copied()),
        ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratios.iter().copied().fold(0.0, f64::max)
    );
    Ok(())
}

/// Prints the line of a day; `model` is the useful share by the model.
fn print_day(plan: &Plan, life: &Life, costs: &Costs, model: f64) {
    println!(
        "{:>4} {:>6} {:>10} {:>7} {:>11} {:>5.2} s {:>6.1} s {:>5.1} s {:>8} {:>7.1} \
             {:>5.2} % {:>5.2} % {:>5.3}",
        plan.seed,
        plan.losses.len(),
        life.recoveries.len(),
        life.changes.len(),
        life.checkpoints.len(),
        costs.checkpoint,
        mean(life.intervals.iter().copied()),
        costs.interval(),
        life.repeated,
        mean(life.actors_max.iter().copied()),
        100.0 * life.share(),
        100.0 * model,
        life.share() / model,
    );
}

/// Prints how long recoveries and returns take, and their parts.
fn print_stops(all: &[Life]) {
    let recoveries: Vec<Stop> = all.iter().flat_map(|life| life.recoveries.clone()).collect();
    let changes: Vec<Stop> = all.iter().flat_map(|life| life.changes.clone()).collect();
    for (name, stops) in [("recovery", &recoveries), ("return", &changes)] {
        let [before, restoring] = parts(stops);
        println!(
            "a {name} takes {:.2} s: {before:.2} s until {}, {restoring:.2} s to restore",
            before + restoring,
            if name == "recovery" { "the loss is known" } else { "the job has stopped" },
        );
    }
}

fn sizes(pes: &[u32]) -> Result<(), Box<dyn Error>> {
    println!(
        "{:>5} {:>6} {:>11} {:>9} {:>10} {:>9} {:>7}",
        "PEs", "actors", "checkpoint", "known", "restored", "together", "real"
    );
    for &pes in pes {
        let begun = Instant::now();
        let end = BETWEEN * (LOSSES_OF_SIZE + 1);
        let plan = plan(pes, Duration::from_secs(600), end)?;
        let losses = (1..=LOSSES_OF_SIZE).map(|loss| (BETWEEN * loss, f64::from(loss) / 7.0));
        let losses = losses.collect();
        let plan = Plan { losses, away: Some(end), ..plan };
        let life = live(&plan)?;
        let [known, restored] = parts(&life.recoveries);
        println!(
            "{pes:>5} {:>6} {:>9.2} s {known:>7.2} s {restored:>8.2} s {:>7.2} s {:>5.0} s",
            pes * plan.shape.actors_per_pe,
            mean(life.checkpoints.iter().copied()),
            known + restored,
            begun.elapsed().as_secs_f64(),
        );
    }
    Ok(())
}
