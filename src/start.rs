//! Starts a job under the driver that the environment or `gridctl` selects.

use crate::binding::{self, HostShare};
use crate::control::{self, Control};
#[cfg(feature = "net")]
use crate::node;
use crate::outcome::{EXIT_FAILED, EXIT_USAGE, complain, conclude};
use crate::recorded::recorded;
use crate::settings::{Driver, Start};
#[cfg(feature = "sim")]
use crate::simulated;
use gridspan_runtime::driver::{NodeHandle, embedded};
use gridspan_runtime::{Job, JobError, Warning};
use gridspan_topology::GridSpec;
#[cfg(feature = "sim")]
use gridspan_topology::Time;
use std::io::{self, Write};
use std::process::ExitCode;

/// Runs a job with the driver that the [environment](crate::variables) selects, and reports
/// failures on standard error. The exit code is 0 if the job is done, 1 if it failed and 2 if the
/// environment is invalid.
///
/// Call it once, as the last statement of the program's `main`.
pub fn main(job: Job) -> ExitCode {
    match Start::from_environment() {
        Ok(start) => run(job, &start),
        Err(error) => {
            complain(&error.to_string(), "`unset` the variable to use the default");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Runs a job, and reports failures on standard error; see [`main`].
pub fn run(job: Job, start: &Start) -> ExitCode {
    run_with(job, start, |_| {})
}

/// Like [`run`]. If the nodes are threads of this process, calls `begun` once the job runs, with a
/// handle by which other threads ask it for samples and diagnoses, or cancel it.
pub fn run_with(job: Job, start: &Start, begun: impl FnOnce(NodeHandle)) -> ExitCode {
    #[cfg(feature = "net")]
    if start.report_lines {
        node::die_with_launcher();
    }
    match &start.driver {
        #[cfg(feature = "net")]
        Driver::Node => node::run(job),
        Driver::Embedded(spec) => {
            let job = start.settings.apply(job);
            let is_told = start.report_lines;
            let job = if is_told { control::telling(job) } else { warning(job) };
            let job = ending_overdue(job, spec, is_told);
            let job = bound(job, spec, start);
            let (job, records) = recorded(job, start.settings.record.as_ref().filter(|_| is_told));
            let job = control::telling_broadcasts(job, records.as_ref());
            control::tell_build(records.as_ref());
            control::tell_processors(records.as_ref());
            #[cfg(feature = "net")]
            let begun = answering(is_told, begun);
            let outcome = embed(job, spec, begun);
            let code = conclude(outcome, spec.layout(), start.report_lines);
            control::tell_records(records.as_ref());
            code
        }
        #[cfg(feature = "sim")]
        Driver::Simulated(spec) => {
            let is_told = start.report_lines;
            simulate(job, spec, start, move |now, events| {
                if is_told {
                    Control::Simulating { virtual_ns: now.as_nanos(), events }.tell();
                }
            })
        }
    }
}

/// Like [`run`]. If the job is simulated, calls `observe` with the virtual time and the number of
/// events once a second of real time, in place of reports to a launcher.
#[cfg(feature = "sim")]
pub fn run_observed(
    job: Job,
    start: &Start,
    observe: impl FnMut(Time, u64) + Send + 'static,
) -> ExitCode {
    match &start.driver {
        Driver::Simulated(spec) => simulate(job, spec, start, observe),
        _ => run(job, start),
    }
}

#[cfg(feature = "sim")]
fn simulate(
    job: Job,
    spec: &GridSpec,
    start: &Start,
    observe: impl FnMut(Time, u64) + Send + 'static,
) -> ExitCode {
    let is_told = start.report_lines;
    let job = control::telling_moves(start.settings.apply(job), move |report| {
        if is_told {
            Control::Balanced(report.clone()).tell();
        } else {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "balance {report}");
        }
    });
    let job = match is_told {
        true => job.on_checkpoint(|report| Control::Checkpoint(report.clone()).tell()),
        false => job,
    };
    let (job, records) = recorded(job, start.settings.record.as_ref().filter(|_| is_told));
    let job = control::telling_broadcasts(job, records.as_ref());
    control::tell_build(records.as_ref());
    let (outcome, summary) = simulated::run(job, spec, start.settings.time_limit, observe);
    match summary {
        Some(summary) if start.report_lines => Control::Simulated(summary).tell(),
        // Standard error may be closed.
        Some(summary) => drop(writeln!(io::stderr(), "{summary}")),
        None => {}
    }
    let code = conclude(outcome, spec.layout(), start.report_lines);
    control::tell_records(records.as_ref());
    code
}

/// Makes the job print its warnings.
fn warning(job: Job) -> Job {
    job.on_warning(warn)
}

fn warn(warning: &Warning) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "warning: {warning}");
}

/// Binds the PEs of a job, which are all in this process, if the settings say so.
fn bound(job: Job, spec: &GridSpec, start: &Start) -> Job {
    let pes = spec.layout().pe_count();
    let share = HostShare { before: 0, pes };
    let (job, unbound) = binding::bind(job, start.settings.bind, 0..pes, share);
    match unbound.map(|error| Warning::NotBound { reason: error.to_string() }) {
        Some(warning) if start.report_lines => Control::Warning(warning).tell(),
        Some(warning) => warn(&warning),
        None => {}
    }
    job
}

/// Makes the process end if PE 0 is still inside a handler long after the time limit, because a
/// thread cannot be stopped from outside.
fn ending_overdue(job: Job, spec: &GridSpec, report_lines: bool) -> Job {
    let layout = spec.layout().clone();
    job.on_failure(move |error| {
        if matches!(error, JobError::TimeLimit { .. }) {
            conclude(Err(error.clone()), &layout, report_lines);
            std::process::exit(i32::from(EXIT_FAILED));
        }
    })
}

/// Lets the launcher, if there is one, ask the job for samples and diagnoses, before `begun` is
/// called.
#[cfg(feature = "net")]
fn answering(is_told: bool, begun: impl FnOnce(NodeHandle)) -> impl FnOnce(NodeHandle) {
    let answer = is_told.then(node::answer_launcher);
    move |node: NodeHandle| {
        if let Some(answer) = answer {
            answer(node.clone());
        }
        begun(node);
    }
}

fn embed(job: Job, spec: &GridSpec, begun: impl FnOnce(NodeHandle)) -> Result<(), JobError> {
    match spec.layout().node_count() {
        1 => embedded::run_with(job, spec.layout().pe_count(), begun),
        #[cfg(feature = "net")]
        _ => embedded::run_emulated_with(job, spec, begun),
        #[cfg(not(feature = "net"))]
        _ => Err(gridspan_runtime::StartError::Feature {
            what: "a grid of several nodes".to_owned(),
            feature: "net".to_owned(),
        }
        .into()),
    }
}
