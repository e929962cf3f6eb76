//! Lets nodes of a running job leave and join, and measures how the job goes on.
//!
//! ```text
//! cargo run --release -p gridspan-studies --example resizing -- --trials 5
//! ```
//!
//! Each trial runs molecular dynamics on four processes of this machine at two emulated sites. The
//! two processes of one site leave, and join again later. Fails if the result of a job differs in
//! any bit from that of a run on one thread.
//!
//! - `step` is the median time of a step with these nodes, before the next change.
//! - `asked` is the time from the command until the job has stopped, which it does at main's next
//!   progress point after a checkpoint.
//! - `pause` is the longest time without a step around the change, less a step.
//! - `rate` is the time from the end of the pause until steps take at most a tenth longer than
//!   `step`, in the mean of five.
//! - `moved` are the bytes over the loopback interface in the pause, less those of a step: copies
//!   of states with their headers, the handshakes of the nodes, and the measurement of their links.
//!   Other programs must not use the interface.
//! - `least` are the bytes of the states that must change node: those of the two nodes that leave,
//!   or the equal share of the two that join, half of the state in both cases. The state is that of
//!   the checkpoint at the change, from the recording of a first job that is not measured.
//!
//! Linux only.

use clap::Parser;
use gridspan_record::{Recording, What};
use gridspan_studies::{gridctl, reported_step};
use std::error::Error;
use std::fs;
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
/// Part of the state that must change node if two of four equal nodes leave, or join.
const CHANGED: f64 = 0.5;

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
    let least = least_bytes(&gridctl)?;
    println!(
        "{:>26}{:>9}{:>9}{:>9}{:>9}{:>12}{:>12}",
        "", "step", "asked", "pause", "rate", "moved", "least"
    );
    for number in 1..=options.trials {
        let trial = trial(&gridctl, None)?;
        let before = median_step(&trial.steps[..LEAVE_AFTER], Report::at);
        println!("trial {number:<2} with 4 processes {:>6.1} ms", before * 1e3);
        let [left, joined] = &trial.changes;
        let until = |step| &trial.steps[..step];
        print_change("4 to 2", (left, least[0]), until(JOIN_AFTER), before);
        let before = median_step(until(JOIN_AFTER), Report::at);
        print_change("2 to 4", (joined, least[1]), &trial.steps, before);
    }
    println!("all {} jobs ended with every bit as on one thread", options.trials);
    Ok(())
}

/// Records a job, and returns the bytes of the states that must change node at each change.
fn least_bytes(gridctl: &Path) -> Result<[f64; 2], Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("gridspan-resizing-{}", std::process::id()));
    let recorded = trial(gridctl, Some(&folder)).and_then(|_| Ok(Recording::read(&folder)?));
    // A folder that cannot be removed stays in the folder for temporary files.
    let _ = fs::remove_dir_all(&folder);
    let recording = recorded?;
    let state = |what: &What| match what {
        What::Checkpoint { bytes, .. } => Some(*bytes as f64),
        _ => None,
    };
    let states = recording.events.iter().filter_map(|event| state(&event.what));
    match states.collect::<Vec<f64>>()[..] {
        [left, joined] => Ok([left, joined].map(|bytes| CHANGED * bytes)),
        ref others => Err(format!("there are {} checkpoints for two changes", others.len()).into()),
    }
}

/// The times at which a change of the nodes was requested, and at which the job had stopped for it,
/// in seconds since the start.
#[derive(Clone, Copy, Default)]
struct Change {
    asked: f64,
    stopped: f64,
}

/// The report of a step.
#[derive(Clone, Copy)]
struct Report {
    /// Seconds since the start.
    at: f64,
    /// Bytes over the loopback interface so far.
    bytes: f64,
}

impl Report {
    fn at(&self) -> f64 {
        self.at
    }

    fn bytes(&self) -> f64 {
        self.bytes
    }
}

/// The reports of a job.
#[derive(Default)]
struct Trial {
    steps: Vec<Report>,
    changes: [Change; 2],
}

fn print_change(name: &str, (change, least): (&Change, f64), steps: &[Report], before: f64) {
    let after = median_step(steps, Report::at);
    let around = steps.windows(2).filter(|pair| pair[1].at >= change.stopped);
    let longest = around.max_by(|a, b| (a[1].at - a[0].at).total_cmp(&(b[1].at - b[0].at)));
    let Some(&[begin, end]) = longest else { return };
    let later: Vec<f64> = steps.iter().map(Report::at).filter(|&at| at >= end.at).collect();
    let is_reached = |steps: &&[f64]| (steps[WINDOW] - steps[0]) / WINDOW as f64 <= SLOWER * after;
    let reached = later.windows(WINDOW + 1).find(is_reached).map_or(f64::NAN, |it| it[0] - end.at);
    // The step that is reported at the end of the pause runs on the new nodes.
    let moved = end.bytes - begin.bytes - median_step(steps, Report::bytes);
    println!(
        "{name:>26}{:>6.1} ms{:>7.3} s{:>7.3} s{reached:>7.3} s{:>9.2} MB{:>9.2} MB",
        after * 1e3,
        change.stopped - change.asked,
        end.at - begin.at - before.min(after),
        moved / 1e6,
        least / 1e6
    );
}

/// The median growth of a value in a step, over the last half of these steps.
fn median_step(steps: &[Report], value: fn(&Report) -> f64) -> f64 {
    let last = &steps[steps.len() / 2..];
    let mut each: Vec<f64> =
        last.windows(2).map(|pair| value(&pair[1]) - value(&pair[0])).collect();
    each.sort_by(f64::total_cmp);
    each.get(each.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The bytes that the loopback interface has received.
fn loopback_bytes() -> Result<f64, Box<dyn Error>> {
    let interfaces = fs::read_to_string("/proc/net/dev")?;
    let counts = interfaces.lines().find_map(|line| line.trim_start().strip_prefix("lo:"));
    let received = counts.and_then(|counts| counts.split_ascii_whitespace().next());
    Ok(received.ok_or("the system does not count the bytes of `lo`")?.parse::<f64>()?)
}

/// Runs a job, and lets the nodes of its second site leave and join again. Records it into a
/// folder, if there is one.
fn trial(gridctl: &Path, folder: Option<&Path>) -> Result<Trial, Box<dyn Error>> {
    let mut command = Command::new(gridctl);
    command.args(["run", "-d", "cluster", "--emulate", "2x2,wan=8ms"]);
    if let Some(folder) = folder {
        command.arg("--record").arg(folder);
    }
    command.args(["leanmd", "--check-serial"]);
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
        trial.steps.push(Report { at: now, bytes: loopback_bytes()? });
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
