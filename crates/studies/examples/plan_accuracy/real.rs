//! Runs in real time: two node processes of one PE on this machine, over emulated links.

use gridspan_plan::{ActorPlacement, ForecastError, JobModel};
use gridspan_record::Recording;
use gridspan_studies::gridctl;
use gridspan_topology::GridSpec;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs of each cell, of which the median counts.
const RUNS: usize = 7;
/// Error above which the output marks a prediction, as a part of the measured time.
pub(crate) const BOUND: f64 = 0.10;

/// Job, arguments, latency of the recording, and latencies that are predicted.
type Series = (&'static str, &'static str, &'static str, &'static [&'static str]);

/// The handlers of `leanmd` wait instead of computing, since two processes share this machine's
/// caches.
const SERIES: [Series; 2] = [
    (
        "leanmd",
        "--quiet --work wait --atoms 4000 --cost 4 --cells 4 --steps 24",
        "2x1,wan=2ms",
        &["2x1,wan=8ms", "2x1,wan=24ms", "2x1,wan=48ms"],
    ),
    (
        "stencil",
        "--n 2048 --blocks 8 --iterations 40 --report-every 0",
        "2x1,wan=2ms",
        &["2x1,wan=8ms", "2x1,wan=24ms", "2x1,wan=48ms"],
    ),
];

/// A prediction of the time of a step and its median in real runs, in seconds.
pub(crate) struct RealOutcome {
    pub(crate) job: &'static str,
    pub(crate) place: &'static str,
    pub(crate) predicted: f64,
    pub(crate) measured: f64,
}

/// Predicts all cells and measures them.
pub(crate) fn outcomes() -> Result<Vec<RealOutcome>, Box<dyn Error>> {
    let gridctl = gridctl()?;
    let mut outcomes = Vec::new();
    for (job, arguments, recorded, places) in SERIES {
        let model = model(&run(&gridctl, job, arguments, recorded)?)?;
        for &place in places {
            let grid = GridSpec::from_emulate(place)?;
            let forecast = model.forecast(&grid, &ActorPlacement::Created, 1.0)?;
            let predicted = forecast.step_ns.ok_or("the job has no steps")? / 1e9;
            let mut steps = Vec::new();
            for _ in 0..RUNS {
                let found = model_step(&run(&gridctl, job, arguments, place)?)?;
                steps.push(found / 1e9);
            }
            steps.sort_unstable_by(f64::total_cmp);
            outcomes.push(RealOutcome { job, place, predicted, measured: steps[RUNS / 2] });
        }
    }
    Ok(outcomes)
}

fn model(recording: &Recording) -> Result<JobModel, ForecastError> {
    JobModel::of(&[recording])
}

fn model_step(recording: &Recording) -> Result<f64, Box<dyn Error>> {
    Ok(model(recording)?.recorded_step_ns().ok_or("the job has no steps")?)
}

/// Runs a job, and returns its recording.
fn run(
    gridctl: &Path,
    job: &str,
    arguments: &str,
    place: &str,
) -> Result<Recording, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("gridspan-plan-{}", std::process::id()));
    let mut command = Command::new(gridctl);
    command.args(["run", "--driver", "cluster", "--emulate", place, "--record"]);
    command.arg(&folder).args(["--record-bytes", "500MB", job]).args(arguments.split_whitespace());
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    let recording = Recording::read(&folder);
    let removed = std::fs::remove_dir_all(&folder);
    if !ended.status.success() {
        return Err(String::from_utf8_lossy(&ended.stderr).into_owned().into());
    }
    removed?;
    Ok(recording?)
}
