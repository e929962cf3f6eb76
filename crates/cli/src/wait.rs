//! `gridctl wait`: waits until jobs have ended.

use crate::args::WaitArgs;
use crate::attach::{self, Attention};
use crate::error::{CliError, JobEndError};
use crate::job_folder::JobFolder;
use crate::nodes;
use crate::progress::Progress;
use crate::request::{Answer, Pending, Request, send};
use crate::status::Status;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between checks of the files of a job.
const LOOK: Duration = Duration::from_millis(50);

/// A job that is awaited.
enum Awaited {
    /// One that leaves its exit code in its folder.
    Detached(JobFolder),
    /// One whose launcher answers with the exit code, if it takes requests.
    Attached(Box<Status>, io::Result<Pending>),
}

/// Waits for jobs. Returns the first exit code that is not 0, or the error in its place.
pub(crate) fn run(args: &WaitArgs) -> Result<ExitCode, CliError> {
    let until = args.timeout.and_then(|time| Instant::now().checked_add(time));
    // Asks all jobs before it waits for the first one, since only a running job can answer.
    let jobs: Vec<Awaited> =
        args.jobs.iter().map(|id| Awaited::find(id)).collect::<Result<_, _>>()?;
    let progress = Progress::begin("waiting for jobs".to_owned(), Some(jobs.len() as u64));
    let ends = jobs.into_iter().map(|job| job.end(until)).inspect(|_| progress.advance());
    let ends: Vec<_> = ends.collect();
    progress.end();
    first_failure(ends).map(ExitCode::from)
}

/// Returns the first end that is not the exit code 0, and reports the errors of later ones.
fn first_failure(ends: Vec<Result<u8, CliError>>) -> Result<u8, CliError> {
    let mut first = Ok(0);
    for end in ends {
        if matches!(first, Ok(0)) {
            first = end;
        } else if let Err(error) = end {
            error.report();
        }
    }
    first
}

impl Awaited {
    fn find(id: &str) -> Result<Self, CliError> {
        // A user without a home has no detached jobs.
        if let Ok(folder) = attach::find(Some(id)) {
            return Ok(Self::Detached(folder));
        }
        let job = nodes::find(Some(id))?;
        let pending = send(&job, &Request::Wait);
        Ok(Self::Attached(job.into(), pending))
    }

    /// Waits for the end of the job, but not beyond `until`. Returns the exit code of the job.
    fn end(self, until: Option<Instant>) -> Result<u8, CliError> {
        match self {
            Self::Detached(folder) => end_of_detached(&folder, until),
            Self::Attached(job, pending) => end_of_attached(&job, pending, until),
        }
    }
}

fn end_of_detached(folder: &JobFolder, until: Option<Instant>) -> Result<u8, CliError> {
    let mut attention = Attention::new(&[]);
    loop {
        if let Some(code) = folder.exit_code() {
            return Ok(code);
        }
        if has_passed(until) {
            return Err(JobEndError::StillRuns { job: folder.id.clone() }.into());
        }
        attention.ensure(folder)?;
        thread::sleep(LOOK);
    }
}

fn end_of_attached(
    job: &Status,
    pending: io::Result<Pending>,
    until: Option<Instant>,
) -> Result<u8, CliError> {
    let id = || job.id.clone();
    match pending.and_then(|pending| pending.answer(until)) {
        Ok(Some(Answer::Ended(code))) => return Ok(code),
        Ok(Some(Answer::Refused(reason))) => return Err(CliError::Refused { job: id(), reason }),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return Err(JobEndError::StillRuns { job: id() }.into());
        }
        // The launcher of the job takes no requests, or was killed.
        Ok(_) | Err(_) => {}
    }
    while job.is_running() {
        if has_passed(until) {
            return Err(JobEndError::StillRuns { job: id() }.into());
        }
        thread::sleep(LOOK);
    }
    Err(JobEndError::UnknownExit { job: id() }.into())
}

fn has_passed(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() >= until)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_job_that_has_not_ended_with_0_determines_the_exit_code() {
        let unknown = |job: &str| -> Result<u8, CliError> {
            Err(JobEndError::UnknownExit { job: job.to_owned() }.into())
        };
        assert_eq!(first_failure(vec![Ok(0), Ok(3), unknown("b"), Ok(4)]).unwrap(), 3);
        let error = first_failure(vec![Ok(0), unknown("a"), Ok(3)]).unwrap_err();
        assert!(error.to_string().contains("the job a "), "{error}");
        assert_eq!(first_failure(vec![Ok(0)]).unwrap(), 0);
    }
}
