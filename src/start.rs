//! Starts a job under the driver that the environment, or `gridctl`, asks for.

use crate::control::{self, Control};
use crate::outcome::{EXIT_USAGE, complain, conclude};
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
            let job = if start.report_lines { control::telling(job) } else { job };
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
            let (outcome, summary) = simulated::run(job, spec, seed);
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
