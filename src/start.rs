//! Starts a job under the driver that the environment, or `gridctl`, asks for.

use crate::control::{self, Control};
use crate::outcome::{EXIT_FAILED, EXIT_USAGE, complain, conclude};
use crate::settings::{Driver, Start};
use crate::{node, simulated};
use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, JobError};
use gridspan_topology::GridSpec;
use std::io::{self, Write};
use std::process::ExitCode;

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
            let job = start.settings.apply(job);
            let is_told = start.report_lines;
            let job = if is_told { control::telling(job) } else { warning(job) };
            let job = ending_overdue(job, spec, is_told);
            let outcome = embed(job, spec);
            conclude(outcome, spec.layout(), start.report_lines)
        }
        Driver::Simulated(spec) => {
            let seed = start.settings.seed.unwrap_or(0);
            let is_told = start.report_lines;
            let job = control::telling_moves(start.settings.apply(job), move |report| {
                if is_told {
                    Control::Balanced(report.clone()).tell();
                } else {
                    // Where nobody listens there is nobody to tell.
                    let _ = writeln!(io::stderr(), "balance {report}");
                }
            });
            let limit = start.settings.time_limit;
            let (outcome, summary) = simulated::run(job, spec, seed, limit);
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

/// The job, which tells people why it does not go on.
fn warning(job: Job) -> Job {
    job.on_warning(|text| {
        // Where nobody listens there is nobody to tell.
        let _ = writeln!(io::stderr(), "warning: {text}");
    })
}

/// The job, whose process ends if PE 0 is inside of a handler long after the time limit: a thread
/// cannot be ended.
fn ending_overdue(job: Job, spec: &GridSpec, report_lines: bool) -> Job {
    let layout = spec.layout().clone();
    job.on_failure(move |error| {
        if matches!(error, JobError::TimeLimit { .. }) {
            conclude(Err(error.clone()), &layout, report_lines);
            std::process::exit(i32::from(EXIT_FAILED));
        }
    })
}

fn embed(job: Job, spec: &GridSpec) -> Result<(), JobError> {
    if spec.layout().node_count() == 1 {
        embedded::run(job, spec.layout().pe_count())
    } else {
        embedded::run_emulated(job, spec)
    }
}
