//! Runs in virtual time, recorded.

use crate::cells::{Cell, Scenario};
use gridspan_plan::{ActorPlacement, ForecastError, JobModel, SizedRecording, Variation};
use gridspan_record::{
    DriverKind, Header, JobEnding, RecordedLink, RecordedNode, RecordedPe, Recording,
};
use gridspan_runtime::pe::{RecordSettings, Records};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::GridSpec;
use std::error::Error;

/// Maximum number of recorded bytes of a node: enough to keep all spans of actors.
const NODE_BYTES: u64 = 32 << 20;
/// The seed of all runs.
const SEED: u64 = 1;

/// A prediction and the truth, in seconds.
pub(crate) struct Outcome {
    /// Predicted time of the job.
    pub(crate) predicted: f64,
    /// Its time in the simulator.
    pub(crate) truth: f64,
    /// Predicted time of a step, and that in the simulator.
    pub(crate) step: Option<[f64; 2]>,
}

impl Outcome {
    /// Relative error of the time.
    pub(crate) fn error(&self) -> f64 {
        self.predicted / self.truth - 1.0
    }

    /// Relative error of the time of a step.
    pub(crate) fn step_error(&self) -> Option<f64> {
        self.step.map(|[predicted, truth]| predicted / truth - 1.0)
    }

    /// The larger of both errors, without a sign.
    pub(crate) fn worst(&self) -> f64 {
        self.error().abs().max(self.step_error().unwrap_or(0.0).abs())
    }
}

/// Runs a job on a grid, and returns its recording, up to the end of the job.
pub(crate) fn record(job: &str, place: &str, arguments: &str) -> Result<Recording, Box<dyn Error>> {
    record_on(&GridSpec::from_emulate(place)?, job, arguments)
}

fn record_on(grid: &GridSpec, job: &str, arguments: &str) -> Result<Recording, Box<dyn Error>> {
    let entry = gridspan_jobs::find(job).ok_or("there is no such job")?;
    let words: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
    let records = Records::new(RecordSettings::new(NODE_BYTES));
    let job = (entry.build)(&words)?.recording(&records);
    let report = Simulation::new(job, grid.clone(), SimOptions::with_seed(SEED))?.run();
    report.outcome?;
    let ending = JobEnding { at_ns: report.virtual_time.as_nanos(), ..JobEnding::default() };
    Ok(Recording {
        header: header(grid),
        ending: Some(ending),
        pes: records.take(),
        ..Recording::default()
    })
}

/// The model that a scenario gives for a cell, fitted to the recordings.
pub(crate) fn model(
    scenario: &Scenario,
    recordings: &[Recording],
    cell: &Cell,
) -> Result<JobModel, ForecastError> {
    match (cell.size > 0.0, scenario.recorded, recordings) {
        (true, [a, b], [first, second]) => {
            let first = SizedRecording { recording: first, size: a.size };
            let second = SizedRecording { recording: second, size: b.size };
            JobModel::of_size([first, second], cell.size)
        }
        _ => JobModel::of(&recordings.iter().collect::<Vec<_>>()),
    }
}

/// Simulates a cell with each latency of the scenario. Returns the run with the median time.
fn simulated(
    scenario: &Scenario,
    cell: &Cell,
    grid: &GridSpec,
) -> Result<Recording, Box<dyn Error>> {
    let mut runs = Vec::new();
    for &factor in scenario.latencies {
        let is_same = factor == 1.0;
        let changed =
            if is_same { Some(grid.clone()) } else { Variation::Latency(factor).of(grid) };
        let changed = changed.ok_or("the grid has no latency to change")?;
        runs.push(record_on(&changed, scenario.job, cell.arguments)?);
    }
    runs.sort_by_key(Recording::end_ns);
    Ok(runs.swap_remove(runs.len() / 2))
}

/// Predicts a cell, and simulates it.
pub(crate) fn outcome(
    scenario: &Scenario,
    recordings: &[Recording],
    cell: &Cell,
) -> Result<Outcome, Box<dyn Error>> {
    let grid = GridSpec::from_emulate(cell.place)?;
    let model = model(scenario, recordings, cell)?;
    let forecast = model.forecast(&grid, &ActorPlacement::Created, cell.times)?;
    let truth = simulated(scenario, cell, &grid)?;
    let steps = JobModel::of(&[&truth])?.recorded_step_ns();
    let step = forecast.step_ns.zip(steps).map(|(predicted, truth)| [predicted / 1e9, truth / 1e9]);
    let (predicted, truth) = (forecast.total().as_secs_f64(), truth.end_ns() as f64 / 1e9);
    Ok(Outcome { predicted, truth, step })
}

/// The header of a recording on a simulated grid.
fn header(grid: &GridSpec) -> Header {
    let layout = grid.layout();
    let node = |node| RecordedNode {
        site: layout.site_of_node(node).0,
        name: grid.host(node).to_owned(),
        ..RecordedNode::default()
    };
    let pe = |pe| {
        let node = layout.node_of(pe);
        RecordedPe { node: node.0, speed: grid.speed(node).factor() }
    };
    let sites = || layout.sites();
    let link = |(from, to)| {
        let link = grid.link_between(from, to);
        let bandwidth = Some(link.bandwidth).filter(|it| !it.is_unlimited());
        RecordedLink {
            from: from.0,
            to: to.0,
            latency_us: link.latency.duration().as_secs_f64() * 1e6,
            bytes_per_second: bandwidth.map(|it| it.bits_per_second() as f64 / 8.0),
            loss: link.loss,
        }
    };
    Header {
        driver: DriverKind::Simulated,
        sites: sites().map(|site| layout.site_name(site).to_owned()).collect(),
        nodes: layout.nodes().map(node).collect(),
        pes: layout.pes().map(pe).collect(),
        links: sites().flat_map(|from| sites().map(move |to| (from, to))).map(link).collect(),
        ..Header::default()
    }
}
