//! Reports how a job ended, to people or to a launcher.

use crate::advice;
use crate::control::{Control, Failure};
use gridspan_runtime::JobError;
use gridspan_topology::Layout;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit code of a job that failed.
pub const EXIT_FAILED: u8 = 1;
/// The exit code when it was not clear what to run, or how.
pub const EXIT_USAGE: u8 = 2;

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
