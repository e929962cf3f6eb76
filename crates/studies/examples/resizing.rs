//! Lets nodes of a running job leave and join, and measures how the job goes on.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example resizing -- --trials 5
//! ```
//!
//! Each trial runs molecular dynamics on four processes of this machine at two emulated sites. The
//! two processes of one site leave, and join again later. Fails if a job does not end with every
//! bit as on one thread.
//!
//! - `step` is the median time of a step with these nodes, before the next change.
//! - `asked` is the time from the command until the job has stopped, which it does at main's next
//!   progress point after a checkpoint.
//! - `pause` is the longest time without a step around the change, less a step.
//! - `rate` is the time from the end of the pause until steps take at most a tenth longer than
//!   `step`, in the mean of five.

use clap::Parser;
use gridspan_studies::{gridctl, reported_step};
use std::error::Error;
use std::io::{BufRead, BufReader, PipeReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Number of steps of a job, and those after which nodes leave and join.
const STEPS: usize = 360;
const LEAVE_AFTER: usize = 80;
const JOIN_AFTER: usize = 220;
/// Number of steps whose mean time is compared with the later step time, and the ratio at which the
/// rate counts as reached.
const WINDOW: usize = 5;
const SLOWER: f64 = 1.1;

#[derive(Parser)]
#[command(about = "Lets nodes of a job leave and join, and measures how it goes on")]
struct Options {
    /// Number of trials.
    #[arg(long, default_value_t = 5)]
    trials: u32,
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
    println!("{:>26}{:>9}{:>9}{:>9}{:>9}", "", "step", "asked", "pause", "rate");
    for number in 1..=options.trials {
        let trial = trial(&gridctl)?;
        let before = median_step(&trial.steps[..LEAVE_AFTER]);
        println!("trial {number:<2} with 4 processes {:>6.1} ms", before * 1e3);
        let [left, joined] = &trial.changes;
        let until = |step| &trial.steps[..step];
        print_change("4 to 2", left, until(JOIN_AFTER), before);
        print_change("2 to 4", joined, &trial.steps, median_step(&trial.steps[..JOIN_AFTER]));
    }
    println!("all {} jobs ended with every bit as on one thread", options.trials);
    Ok(())
}

/// A change of the nodes, in seconds since the start.
#[derive(Clone, Copy, Default)]
struct Change {
    asked: f64,
    stopped: f64,
}

/// The reports of a job.
#[derive(Default)]
struct Trial {
    /// When each step was reported, in seconds since the start.
    steps: Vec<f64>,
    changes: [Change; 2],
}

fn print_change(name: &str, change: &Change, steps: &[f64], before: f64) {
    let after = median_step(steps);
    let around = steps.windows(2).filter(|pair| pair[1] >= change.stopped);
    let longest = around.max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0])));
    let Some(&[begin, end]) = longest else { return };
    let later: Vec<f64> = steps.iter().copied().filter(|&at| at >= end).collect();
    let is_reached = |steps: &&[f64]| (steps[WINDOW] - steps[0]) / WINDOW as f64 <= SLOWER * after;
    let reached = later.windows(WINDOW + 1).find(is_reached).map_or(f64::NAN, |it| it[0] - end);
    println!(
        "{name:>26}{:>6.1} ms{:>7.3} s{:>7.3} s{reached:>7.3} s",
        after * 1e3,
        change.stopped - change.asked,
        end - begin - before.min(after)
    );
}

/// The median time of the last half of these steps.
fn median_step(steps: &[f64]) -> f64 {
    let last = &steps[steps.len() / 2..];
    let mut times: Vec<f64> = last.windows(2).map(|pair| pair[1] - pair[0]).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs a job, and lets the nodes of its second site leave and join again.
fn trial(gridctl: &Path) -> Result<Trial, Box<dyn Error>> {
    let mut command = Command::new(gridctl);
    command.args(["run", "-d", "cluster", "--emulate", "2x2,wan=8ms", "leanmd", "--check-serial"]);
    command.args(["--report-every", "1", "--steps", &STEPS.to_string()]);
    // The launcher's own lines are on standard error.
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut launcher = command.spawn()?;
    drop(command);
    let (trial, is_verified) = follow(gridctl, reader)?;
    let status = launcher.wait()?;
    let is_complete = trial.steps.len() > STEPS && trial.changes.iter().all(|it| it.stopped > 0.0);
    match status.success() && is_verified && is_complete {
        true => Ok(trial),
        false => Err(format!(
            "the job ended with {status} after {} steps; verified: {is_verified}",
            trial.steps.len()
        )
        .into()),
    }
}

/// Reads the output of a job, and requests the changes. Returns whether its result is verified.
fn follow(gridctl: &Path, output: PipeReader) -> Result<(Trial, bool), Box<dyn Error>> {
    let begin = Instant::now();
    let (mut trial, mut asked, mut is_verified) = (Trial::default(), 0, false);
    let mut requests = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        let now = begin.elapsed().as_secs_f64();
        is_verified |= line.contains("every bit as on one thread");
        if line.contains("stopped after checkpoint") && asked > 0 {
            trial.changes[asked - 1].stopped = now;
        }
        if reported_step(&line) != Some(trial.steps.len() as u64) {
            continue;
        }
        trial.steps.push(now);
        let verb = match trial.steps.len() {
            LEAVE_AFTER => "drain",
            JOIN_AFTER => "add",
            _ => continue,
        };
        trial.changes[asked].asked = now;
        asked += 1;
        requests.push(Command::new(gridctl).args([verb, "b"]).stdout(Stdio::null()).spawn()?);
    }
    for mut request in requests {
        if !request.wait()?.success() {
            return Err("a request was refused".into());
        }
    }
    Ok((trial, is_verified))
}
