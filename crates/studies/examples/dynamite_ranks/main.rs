//! Programs of ranks that really compute and move, while the load of other programs goes from node
//! to node: tables 1 and 2 of Iskra et al. (2000), "Performance Measurements on Dynamite/DPVM".
//!
//! ```text
//! cargo run --release -p gridspan-studies --example dynamite_ranks
//! cargo run --release -p gridspan-studies --example dynamite_ranks -- --real
//! ```
//!
//! The first command runs in virtual time: the NAS kernels on four ranks and eight nodes, and a
//! finite element program in the two forms of the paper. The load goes to the nodes where ranks
//! start, one after the other. Its stay on each is the same share of the program's time without
//! load as in the paper. Ranks may move after each iteration, with all of their data.
//!
//! # What must be as in the paper
//!
//! - The programs of the paper take half an hour, and have enough iterations for their tasks to
//!   move at any time of a stay. So each program is repeated until it takes `--seconds`.
//! - Links are as fast relative to processors as in the paper, which had 200 MHz processors and
//!   Fast Ethernet. Here links have 15 Mbit/s, and processors a hundredth of the speed that the
//!   programs assume when they charge computing time.
//! - A task moves in a few percent of a stay. The paper's tasks of 30 and 40 MB are written to a
//!   file server at 4 to 5 MB/s and read from it again, which is 3 to 6 % of 300 s. Here a stay is
//!   50 s, so the kernels are of class W, whose ranks have 1 to 9 MB and move in 1 to 9 % of it.
//!
//! A migration point is collective. So ranks of `ep`, which do not communicate in the paper, wait
//! for each other here, and `ep` loses more without balancing.
//!
//! # In real time
//!
//! The second command runs node processes on this machine, one pinned to each processor, and other
//! programs that really compute. The runs of a program take turns, in an order that is reversed
//! from round to round. A slowdown is the median over the rounds, with its interval of 95 %
//! (`gridspan_jobs::paired`). With fewer than four processors no node can be idle: each node has
//! four ranks, some of which move to another node while theirs is slowed, and the best possible
//! slowdown is above zero. The redundant form of `fem` always has three PEs with one rank each on
//! up to three nodes. They share the node's processor, and so does one process of the load.

mod foreign_load;
mod programs;
mod real;
mod simulated;

use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
use gridspan_studies::gridctl;
use programs::{PROGRAMS, Program, repetitions};
use real::Nodes;
use simulated::Simulated;
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

/// Share of the time alone for which the load stays on a node of this machine. The runtime detects
/// load within about a second, which should be a small part of a stay.
const REAL_STAY: f64 = 1.0 / 3.0;

#[derive(Parser)]
#[command(about = "Programs of ranks under the load of other programs")]
struct Options {
    /// Run node processes of this machine in real time, under real load.
    #[arg(long)]
    real: bool,
    /// Bandwidth of the links in virtual time.
    #[arg(long, default_value = "15mbit")]
    lan: String,
    /// The strategies, compared with `none`. Default: vacate and auto; in real time vacate.
    #[arg(long, value_delimiter = ',')]
    strategies: Vec<String>,
    /// Only programs whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Repeat each program until it takes about this many seconds alone. Default: 300 virtual
    /// seconds; in real time 12.
    #[arg(long)]
    seconds: Option<f64>,
    /// Number of runs of each kind in real time; fewer than 6 have their range in place of an
    /// interval.
    #[arg(long, default_value_t = 6)]
    rounds: usize,
    /// Be the other program, on this processor.
    #[arg(long, hide = true)]
    compute_on: Option<usize>,
    /// Be it for this many seconds.
    #[arg(long, hide = true, default_value_t = 0.0)]
    compute_for: f64,
}

impl Options {
    fn strategies(&self) -> Vec<&str> {
        match (self.strategies.is_empty(), self.real) {
            (false, _) => self.strategies.iter().map(String::as_str).collect(),
            (true, false) => vec!["vacate", "auto"],
            (true, true) => vec!["vacate"],
        }
    }

    fn programs(&self) -> impl Iterator<Item = &'static Program> {
        PROGRAMS.iter().filter(|program| program.name.contains(&self.only))
    }
}

/// The times of a program. Ratios are times over the time alone, of the same round.
struct Row {
    /// The time alone, in seconds.
    alone: f64,
    /// The ratio under the load, without balancing.
    none: MedianEstimate,
    /// For each strategy: the ratios under the load, and without load.
    balanced: Vec<[MedianEstimate; 2]>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match (options.compute_on, options.real) {
        (Some(processor), _) => {
            let time = Duration::try_from_secs_f64(options.compute_for).unwrap_or_default();
            foreign_load::compute(processor, time).map_err(Into::into)
        }
        (None, true) => on_this_machine(&options),
        (None, false) => in_virtual_time(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn in_virtual_time(options: &Options) -> Result<(), Box<dyn Error>> {
    let gridctl = gridctl()?;
    let strategies = options.strategies();
    println!("slowdown by other programs' load in %; links of {}", options.lan);
    print_head(&strategies, WIDTH);
    for program in options.programs() {
        let runs = Simulated { gridctl: &gridctl, program, lan: &options.lan };
        let once = runs.seconds("none", None, 1)?;
        let repeat = repetitions(options.seconds.unwrap_or(300.0), once);
        let alone = runs.seconds("none", None, repeat)?;
        let stay = Some(alone * program.cluster.stay);
        let over_alone = |seconds: f64| MedianEstimate::of(&[seconds / alone]);
        let none = over_alone(runs.seconds("none", stay, repeat)?);
        let mut balanced = Vec::new();
        for strategy in &strategies {
            let loaded = runs.seconds(strategy, stay, repeat)?;
            let monitored = runs.seconds(strategy, None, repeat)?;
            balanced.push([loaded, monitored].map(over_alone));
        }
        print_row(program, &Row { alone, none, balanced }, WIDTH);
    }
    println!("monitoring: the slowdown with the strategy when no other program runs");
    Ok(())
}

fn on_this_machine(options: &Options) -> Result<(), Box<dyn Error>> {
    let gridctl = gridctl()?;
    let strategies = options.strategies();
    for program in options.programs() {
        let Nodes { nodes, pes, ranks, .. } = Nodes::of(&program.cluster)?;
        println!("{:>16}: {ranks} ranks on {nodes} nodes, PEs of a node: {pes}", program.name);
    }
    println!(
        "slowdown by other programs' load in %, with its 95 % interval; medians of {} rounds",
        options.rounds
    );
    print_head(&strategies, WIDTH_WITH_INTERVAL);
    for program in options.programs() {
        let nodes = Nodes::of(&program.cluster)?;
        let seconds =
            |strategy: &str, stay, repeat| nodes.seconds(&gridctl, program, strategy, stay, repeat);
        let repeat = repetitions(options.seconds.unwrap_or(12.0), seconds("none", None, 1)?);
        let stay = Some(seconds("none", None, repeat)? * REAL_STAY);
        let mut kinds = vec![("none", None), ("none", stay)];
        kinds.extend(strategies.iter().flat_map(|name| [(*name, stay), (*name, None)]));
        let mut times = vec![Vec::new(); kinds.len()];
        // The kinds take turns, in an order that is reversed from round to round, so that other
        // load on the machine affects all of them equally.
        for round in 0..options.rounds.max(1) {
            let mut order: Vec<usize> = (0..kinds.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for kind in order {
                let (strategy, stay) = kinds[kind];
                times[kind].push(seconds(strategy, stay, repeat)?);
            }
        }
        let over_alone = |times_of: &Vec<f64>| MedianEstimate::of_paired_ratio(times_of, &times[0]);
        let ratios: Vec<MedianEstimate> = times.iter().map(over_alone).collect();
        let balanced = ratios[2..].chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        let row = Row { alone: MedianEstimate::of(&times[0]).median, none: ratios[1], balanced };
        print_row(program, &row, WIDTH_WITH_INTERVAL);
    }
    println!("monitoring: the slowdown with the strategy when no other program runs");
    Ok(())
}

/// Width of a column of slowdowns.
const WIDTH: usize = 12;
/// The same if each has its interval.
const WIDTH_WITH_INTERVAL: usize = 22;

fn print_head(strategies: &[&str], width: usize) {
    print!("{:>16}{:>10}{:>16}{:>10}{:>width$}", "", "alone, s", "paper: without", "with", "none");
    for strategy in strategies {
        print!("{strategy:>width$}{:>width$}", "monitoring");
    }
    println!();
}

fn print_row(program: &Program, row: &Row, width: usize) {
    let [without, with] = program.published;
    print!("{:>16}{:>10.2}{without:>16.0}{with:>10.0}", program.name, row.alone);
    print!("{:>width$}", slowdown(row.none, 1));
    for [loaded, monitored] in &row.balanced {
        print!("{:>width$}{:>width$}", slowdown(*loaded, 1), slowdown(*monitored, 2));
    }
    println!();
}

/// Formats a ratio of times as a slowdown in percent, with its interval if it has one.
fn slowdown(MedianEstimate { median, low, high }: MedianEstimate, decimals: usize) -> String {
    let percent = |ratio: f64| format!("{:.decimals$}", (ratio - 1.0) * 100.0);
    match low == high {
        true => percent(median),
        false => format!("{} [{}, {}]", percent(median), percent(low), percent(high)),
    }
}
