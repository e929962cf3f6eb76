//! Runs in real time: two node processes of one PE on this machine, over emulated links.

use gridspan_plan::{ActorPlacement, JobModel};
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

/// Grids whose predictions are verified.
const PLACES: [&str; 3] = ["2x1,wan=8ms", "2x1,wan=24ms", "2x1,wan=48ms"];

/// A job, and its recordings.
struct Series {
    job: &'static str,
    arguments: &'static str,
    /// The grids on which it is recorded.
    recorded: &'static [&'static str],
    /// Maximum number of recorded bytes of a node.
    record_bytes: &'static str,
    predicted: Predicted,
}

/// The time that is predicted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Predicted {
    /// That of a step.
    Step,
    /// That of the job, from its start to its end.
    Job,
}

impl Predicted {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Step => "a step",
            Self::Job => "the job",
        }
    }

    /// The time in a recording, in seconds.
    fn measured(self, recording: &Recording) -> Result<f64, Box<dyn Error>> {
        let ns = match self {
            Self::Step => {
                let step_ns = JobModel::of(&[recording])?.recorded_step_ns();
                step_ns.ok_or("the job has no steps")?
            }
            Self::Job => recording.end_ns() as f64,
        };
        Ok(ns / 1e9)
    }
}

/// The handlers of `leanmd` wait instead of computing, since two processes share this machine's
/// caches. A prediction of a job of tasks needs recordings at two latencies, but no spans of
/// handlers, so few recorded bytes are enough for `uts`.
const SERIES: [Series; 4] = [
    Series {
        job: "leanmd",
        arguments: "--quiet --work wait --atoms 4000 --cost 4 --cells 4 --steps 24",
        recorded: &["2x1,wan=2ms"],
        record_bytes: "500MB",
        predicted: Predicted::Step,
    },
    Series {
        job: "stencil",
        arguments: "--n 2048 --blocks 8 --iterations 40 --report-every 0",
        recorded: &["2x1,wan=2ms"],
        record_bytes: "500MB",
        predicted: Predicted::Step,
    },
    Series {
        job: "uts",
        arguments: "--tree T1L",
        recorded: &["2x1,wan=4ms", "2x1,wan=16ms"],
        record_bytes: "16MB",
        predicted: Predicted::Job,
    },
    Series {
        job: "hydropad",
        arguments: "--n 48 --steps 30 --window 10 --form group",
        recorded: &["2x1,wan=2ms"],
        record_bytes: "500MB",
        predicted: Predicted::Job,
    },
];

/// A prediction, and the median in real runs, in seconds.
pub(crate) struct RealOutcome {
    pub(crate) job: &'static str,
    pub(crate) place: &'static str,
    /// Of which time.
    pub(crate) of: Predicted,
    pub(crate) predicted: f64,
    pub(crate) measured: f64,
}

/// Predicts all cells, or those of one job, and measures them.
pub(crate) fn outcomes(only: Option<&str>) -> Result<Vec<RealOutcome>, Box<dyn Error>> {
    let gridctl = gridctl()?;
    let mut outcomes = Vec::new();
    for series in SERIES.iter().filter(|it| only.is_none_or(|only| only == it.job)) {
        let run = |place: &&str| run(&gridctl, series, place);
        let recordings = series.recorded.iter().map(run).collect::<Result<Vec<_>, _>>()?;
        let model = JobModel::of(&recordings.iter().collect::<Vec<_>>())?;
        for place in PLACES {
            let grid = GridSpec::from_emulate(place)?;
            let forecast = model.forecast(&grid, &ActorPlacement::Created, 1.0)?;
            let predicted = match series.predicted {
                Predicted::Step => forecast.step_ns.ok_or("the job has no steps")? / 1e9,
                Predicted::Job => forecast.total().as_secs_f64(),
            };
            let mut times = Vec::new();
            for _ in 0..RUNS {
                times.push(series.predicted.measured(&run(&place)?)?);
            }
            times.sort_unstable_by(f64::total_cmp);
            let (job, of, measured) = (series.job, series.predicted, times[RUNS / 2]);
            outcomes.push(RealOutcome { job, place, of, predicted, measured });
        }
    }
    Ok(outcomes)
}

/// Runs a job, and returns its recording.
fn run(gridctl: &Path, series: &Series, place: &str) -> Result<Recording, Box<dyn Error>> {
    let &Series { job, arguments, record_bytes, .. } = series;
    let folder = std::env::temp_dir().join(format!("gridspan-plan-{}", std::process::id()));
    let mut command = Command::new(gridctl);
    command.args(["run", "--driver", "cluster", "--emulate", place, "--record"]);
    command.arg(&folder).args(["--record-bytes", record_bytes, job]);
    command.args(arguments.split_whitespace());
    let ended = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    let recording = Recording::read(&folder);
    let removed = std::fs::remove_dir_all(&folder);
    if !ended.status.success() {
        return Err(String::from_utf8_lossy(&ended.stderr).into_owned().into());
    }
    removed?;
    Ok(recording?)
}
