//! Starts a job under the driver that the environment, or `gridctl`, asks for.

use crate::control::{Control, Failure};
use crate::{advice, node, simulated};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, JobError};
use gridspan_topology::{GridSpec, Layout};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit code of a job that failed.
pub const EXIT_FAILED: u8 = 1;
/// The exit code when it was not clear what to run, or how.
pub const EXIT_USAGE: u8 = 2;

/// How to run a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// Where it runs.
    pub driver: Driver,
    /// What overrides the program's own settings.
    pub settings: Settings,
    /// Whether to report in [control lines](crate::control), to a launcher.
    pub report_lines: bool,
}

/// Where a job runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Driver {
    /// In this process; the links of a grid with several nodes are emulated.
    Embedded(GridSpec),
    /// As one node of several; standard input says which. A launcher asks for this.
    Node,
    /// In virtual time.
    Simulated(GridSpec),
}

/// What overrides the program's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Seeds everything random by intent.
    pub seed: Option<u64>,
    /// The balancing strategy at sync points, by name.
    pub strategy: Option<String>,
}

impl Settings {
    /// The job with these settings instead of its own.
    pub fn apply(&self, mut job: Job) -> Job {
        if let Some(seed) = self.seed {
            job = job.seed(seed);
        }
        if let Some(strategy) = &self.strategy {
            job = job.strategy(strategy);
        }
        job
    }
}

/// Runs a job where the [environment](crate::variables) says, and reports on standard error what
/// goes wrong. The exit code is 0 if the job is done, 1 if it failed and 2 if the environment asks
/// for something that cannot be.
///
/// Call it once, as the last thing in the program's own `main`.
pub fn main(job: Job) -> ExitCode {
    match Start::from_environment() {
        Ok(start) => run(job, &start),
        Err(error) => {
            complain(&error.to_string(), "`unset` the variable to have the default");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Runs a job, and reports on standard error what goes wrong; see [`main`].
pub fn run(job: Job, start: &Start) -> ExitCode {
    if start.report_lines {
        node::die_with_launcher();
    }
    match &start.driver {
        Driver::Node => node::run(job),
        Driver::Embedded(spec) => {
            let outcome = embed(start.settings.apply(job), spec);
            conclude(outcome, spec.layout(), start.report_lines)
        }
        Driver::Simulated(spec) => {
            let seed = start.settings.seed.unwrap_or(0);
            let (outcome, summary) = simulated::run(start.settings.apply(job), spec, seed);
            // Where nobody listens there is nobody to tell.
            let _ = match summary {
                Some(summary) if start.report_lines => {
                    Control::Simulated(summary).print(&mut io::stdout().lock())
                }
                Some(summary) => writeln!(io::stderr(), "{summary}"),
                None => Ok(()),
            };
            conclude(outcome, spec.layout(), start.report_lines)
        }
    }
}

fn embed(job: Job, spec: &GridSpec) -> Result<(), JobError> {
    if spec.layout().node_count() == 1 {
        embedded::run(job, spec.layout().pe_count())
    } else {
        embedded::run_emulated(job, spec)
    }
}

/// Reports how a job ended.
pub(crate) fn conclude(
    outcome: Result<(), JobError>,
    layout: &Layout,
    report_lines: bool,
) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    let hint = advice::hint(&error);
    if report_lines {
        let node = advice::culprit(&error, layout);
        let mut failure = Failure::new(&error.to_string(), Some(hint), node);
        failure.is_loss = matches!(error, JobError::NodeLost { .. });
        // Without a launcher there is nobody to tell.
        let _ = Control::Failed(failure).print(&mut io::stdout().lock());
    } else {
        complain(&error.to_string(), hint);
    }
    ExitCode::from(EXIT_FAILED)
}

/// Says what went wrong and what to do; a standard error that is closed is no reason to panic.
pub(crate) fn complain(error: &str, hint: &str) {
    let _ = writeln!(io::stderr(), "error: {error}\nhint: {hint}");
}
