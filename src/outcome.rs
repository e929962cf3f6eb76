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
    if report_lines {
        Control::Failed(Failure::of(&error, layout)).tell();
    } else {
        complain(&error.to_string(), advice::hint(&error));
    }
    ExitCode::from(EXIT_FAILED)
}

/// Says what went wrong and what to do; a standard error that is closed is no reason to panic.
pub(crate) fn complain<'a>(error: &str, hint: impl Into<Option<&'a str>>) {
    let _ = writeln!(io::stderr(), "error: {error}");
    if let Some(hint) = hint.into() {
        let _ = writeln!(io::stderr(), "hint: {hint}");
    }
}
