//! Reports the outcome of a job, to people or to a launcher.

use crate::advice;
use crate::control::{Control, Failure};
use gridspan_runtime::{JobError, StartError};
use gridspan_topology::Layout;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit code of a job that failed.
pub const EXIT_FAILED: u8 = 1;
/// The exit code of an invalid request to run a job.
pub const EXIT_USAGE: u8 = 2;

/// Reports the outcome of a job.
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
    ExitCode::from(code_of(&error))
}

/// Returns the exit code of a job that ended with this error.
fn code_of(error: &JobError) -> u8 {
    match error {
        // The variables or the grid are wrong for this program, so nothing ran.
        JobError::CannotStart(
            StartError::TooManyPes { .. } | StartError::NoPes | StartError::Feature { .. },
        ) => EXIT_USAGE,
        _ => EXIT_FAILED,
    }
}

/// Prints the error and the advice, without a panic if standard error is closed.
pub(crate) fn complain<'a>(error: &str, hint: impl Into<Option<&'a str>>) {
    let _ = writeln!(io::stderr(), "error: {error}");
    if let Some(hint) = hint.into() {
        let _ = writeln!(io::stderr(), "hint: {hint}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_of_pes_is_an_error_of_usage_and_a_failed_job_is_not() {
        let too_many = StartError::TooManyPes { pes: 5000, limit: 4096 };
        assert_eq!(code_of(&too_many.into()), EXIT_USAGE);
        assert_eq!(code_of(&StartError::NoPes.into()), EXIT_USAGE);
        assert_eq!(code_of(&JobError::failed("no convergence")), EXIT_FAILED);
    }
}
