//! Kills real processes of a job at random moments, and measures how soon the job goes on.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example recoveries -- --kills 30
//! cargo run --release -p gridspan-studies --example recoveries -- --kills 30 --latency 30ms
//! ```
//!
//! Each trial runs molecular dynamics on four processes of this machine, at two emulated sites, and
//! kills the process of main, another one, or all of a site. Fails if the result of a job differs
//! in any bit from that of a run on one thread. Linux only.
//!
//! A *new* step is one that had not been reported before the kill. The job repeats earlier steps
//! before it. At the end there is a row for each kind of loss: medians over its trials, with
//! intervals of 95 %, or with the range of fewer than 6 trials (`gridspan_jobs::paired`).

use clap::Parser;
use gridspan_jobs::paired::MedianEstimate;
use gridspan_studies::{gridctl, node_processes, reported_step};
use gridspan_topology::Latency;
use gridspan_topology::dice::Dice;
use rustix::process::{Pid, Signal, kill_process};
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Number of steps of a job, and the first and last after which processes are killed.
const STEPS: u64 = 100;
const KILLED_AFTER: (u64, u64) = (20, 70);
/// Number of processes, and of those at the second site.
const NODES: usize = 4;
const AT_SITE: usize = 2;

#[derive(Parser)]
#[command(about = "Kills processes of a job, and measures how soon it goes on")]
struct Options {
    /// Number of trials. Of four, the first kills the process of main, and the last a whole site.
    #[arg(long, default_value_t = 12)]
    kills: u64,
    /// Latency between the sites.
    #[arg(long, default_value = "8ms")]
    latency: Latency,
    /// Seed of the choice of victims and moments.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of steps between checkpoints.
    #[arg(long, default_value_t = 10)]
    every: u64,
}

/// What a trial kills.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// The process of main.
    Main,
    /// Another process.
    Other,
    /// All processes of the second site.
    Site,
}

impl Lost {
    fn of_trial(number: u64) -> Self {
        match number % 4 {
            0 => Self::Main,
            3 => Self::Site,
            _ => Self::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Main => "main's node",
            Self::Other => "another node",
            Self::Site => "a site",
        }
    }

    /// The numbers of the nodes. Main runs on the first one.
    fn victims(self, dice: &mut Dice) -> Vec<usize> {
        match self {
            Self::Main => vec![0],
            Self::Other => vec![1 + dice.below(NODES as u64 - 1) as usize],
            Self::Site => (NODES - AT_SITE..NODES).collect(),
        }
    }
}

/// Seconds since the processes were killed.
#[derive(Clone, Copy, Default)]
struct Times {
    /// Until the launcher reported the loss.
    noticed: f64,
    /// Until the launcher reported that the job goes on, with the nodes that it has then.
    agreed: f64,
    /// Until the first step was reported, which may be a repeated one.
    first_step: f64,
    /// Until the first step that had not been reported before.
    new_step: f64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let gridctl = gridctl()?;
    let mut dice = Dice::new(options.seed);
    println!(
        "seconds since the kill: {:>9}{:>9}{:>12}{:>10}{:>20}",
        "noticed", "agreed", "first step", "new step", "new since noticed"
    );
    let mut trials = Vec::new();
    for number in 0..options.kills {
        let lost = Lost::of_trial(number);
        let victims = lost.victims(&mut dice);
        let (first, last) = KILLED_AFTER;
        let after = first + dice.below(last - first);
        let times = trial(&gridctl, &victims, after, options)?;
        let Times { noticed, agreed, first_step, new_step } = times;
        let what = format!("{victims:?} after step {after}");
        let since = times.new_since_noticed();
        println!(
            "{what:24}{noticed:>9.3}{agreed:>9.3}{first_step:>12.3}{new_step:>10.3}{since:>20.3}"
        );
        trials.push((lost, times));
    }
    println!("{:24}{:>24}{:>24}", "medians", "noticed", "new since noticed");
    for lost in [Lost::Main, Lost::Other, Lost::Site] {
        let median = |seconds: fn(&Times) -> f64| {
            let its = trials.iter().filter(|(kind, _)| *kind == lost);
            let values: Vec<f64> = its.map(|(_, times)| seconds(times)).collect();
            MedianEstimate::of(&values).to_string()
        };
        let (noticed, new) = (median(|times| times.noticed), median(Times::new_since_noticed));
        println!("{:24}{noticed:>24}{new:>24}", lost.name());
    }
    println!("all {} jobs ended with every bit as on one thread", options.kills);
    Ok(())
}

impl Times {
    /// Seconds from the report of the loss to the first step that had not been reported before.
    fn new_since_noticed(&self) -> f64 {
        self.new_step - self.noticed
    }
}

/// Runs a job, and kills its processes `victims` after a step.
fn trial(
    gridctl: &Path,
    victims: &[usize],
    after: u64,
    options: &Options,
) -> Result<Times, Box<dyn Error>> {
    let (steps, every) = (STEPS.to_string(), format!("{}steps", options.every));
    let grid = format!("2x2,wan={}", options.latency);
    let mut command = Command::new(gridctl);
    command.args(["run", "-d", "cluster", "--emulate", &grid, "--protect-sites"]);
    command.args(["--checkpoint-every", &every, "leanmd", "--steps", &steps]);
    command.args(["--report-every", "1", "--check-serial"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // The launcher's own lines are on standard error.
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut launcher = command.spawn()?;
    drop(command);
    let mut times = Times::default();
    let (mut killed, mut last, mut is_verified) = (None::<Instant>, 0, false);
    for line in BufReader::new(reader).lines() {
        let line = line?;
        let since = killed.map_or(0.0, |begin| begin.elapsed().as_secs_f64());
        is_verified |= line.contains("every bit as on one thread");
        if line.contains("lost ") && times.noticed == 0.0 {
            times.noticed = since;
        } else if line.contains(" go on, ") || line.contains(" goes on, ") {
            times.agreed = since;
        } else if let Some(step) = reported_step(&line) {
            if times.agreed > 0.0 && times.first_step == 0.0 {
                times.first_step = since;
            }
            if times.agreed > 0.0 && step > last && times.new_step == 0.0 {
                times.new_step = since;
            }
            last = last.max(step);
            if step >= after && killed.is_none() {
                // Once the launcher notices that one is killed, it may start others.
                let nodes = node_processes(launcher.id());
                for &victim in victims {
                    kill(*nodes.get(victim).ok_or("there is no node")?)?;
                }
                killed = Some(Instant::now());
            }
        }
    }
    let status = launcher.wait()?;
    match status.success() && is_verified && times.noticed > 0.0 && times.new_step > 0.0 {
        true => Ok(times),
        false => Err(format!("the job ended with {status}; verified: {is_verified}").into()),
    }
}

fn kill(process: u32) -> Result<(), Box<dyn Error>> {
    let process = Pid::from_raw(process.try_into()?).ok_or("process 0")?;
    kill_process(process, Signal::KILL)?;
    Ok(())
}
