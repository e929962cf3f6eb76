//! `gridctl attach` and `stop`: prints the output of a detached job, or ends a job; both see that a
//! launcher attends to it.

use crate::args::{AttachArgs, StopArgs};
use crate::detach::spawn;
use crate::error::CliError;
use crate::fetch;
use crate::job_folder::{JobFolder, machine};
use crate::nodes::{self, change};
use crate::request::Request;
use crate::status::Status;
use std::fs::File;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between looks at the files of the job.
const LOOK: Duration = Duration::from_millis(20);
/// Time that a launcher has to lock the folder of the job.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of launchers that are started before the job is given up.
const LAUNCHERS_MAX: u32 = 3;

/// Prints the output of a detached job from its beginning until it ends. Returns its exit code.
pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode, CliError> {
    let id = args.job.as_deref();
    let folder = match &args.from {
        Some(host) => fetch::receive(host, id, args.ssh.as_deref())?,
        None => find(id)?,
    };
    let failed = CliError::system("follow the job");
    // A job from elsewhere has no output here yet.
    folder.output_to_append().map_err(&failed)?;
    let mut output = File::open(folder.output()).map_err(&failed)?;
    let (mut launchers, mut attended) = (0, Instant::now());
    loop {
        // All output precedes the exit code, and the refusal of a launcher that was started below.
        let code = folder.exit_code();
        let refusal = match folder.is_attended().map_err(&failed)? {
            true => None,
            false => folder.refusal().filter(|_| launchers > 0),
        };
        io::copy(&mut output, &mut io::stdout().lock())
            .map_err(CliError::system("print the output of the job"))?;
        if let Some(code) = code {
            return Ok(ExitCode::from(code));
        }
        let has_begun = folder.saved().map_err(&failed)?.is_some();
        if folder.is_attended().map_err(&failed)? {
            attended = Instant::now();
        } else if let Some(refusal) = refusal {
            return Err(CliError::RefusedLauncher(refusal));
        } else if has_begun && launchers < LAUNCHERS_MAX {
            launchers += 1;
            replace_launcher(&folder, &args.ended)?;
            attended = Instant::now();
        } else if has_begun || attended.elapsed() > PATIENCE {
            return Err(CliError::Unattended { path: folder.path().to_owned(), job: folder.id });
        }
        thread::sleep(LOOK);
    }
}

/// Starts another launcher, and waits until it attends to the job or has ended.
fn replace_launcher(folder: &JobFolder, ended: &[String]) -> Result<(), CliError> {
    let failed = CliError::system("start a launcher for the job");
    let start = folder.start().map_err(&failed)?;
    if start.machine != machine() {
        let (job, machine) = (folder.id.clone(), start.machine);
        return Err(CliError::ElsewhereDetached { job, machine });
    }
    if !ended.is_empty() {
        // A mistake is reported at once.
        nodes::named(&start.grid, ended)?;
    }
    let mut launcher = spawn(folder, &start, ended)?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until
        && !folder.is_attended().map_err(&failed)?
        && launcher.try_wait().map_err(&failed)?.is_none()
    {
        thread::sleep(LOOK);
    }
    Ok(())
}

/// Stops a job.
pub(crate) fn stop(args: &StopArgs) -> Result<ExitCode, CliError> {
    let id = args.job.as_deref();
    let job = match nodes::find(id) {
        // A detached job whose launcher was killed.
        Err(CliError::NoJob { .. }) if ensure_launcher(id)? => find_soon(id)?,
        found => found?,
    };
    change(&job, &Request::Stop)
}

/// Starts a launcher for the detached job of that name, or the latest one, if it has none and has
/// not ended. Returns whether it did.
fn ensure_launcher(id: Option<&str>) -> Result<bool, CliError> {
    let Ok(folder) = find(id) else { return Ok(false) };
    let is_attended = folder.is_attended().map_err(CliError::system("look for a launcher"))?;
    let has_begun = folder.saved().is_ok_and(|saved| saved.is_some());
    if is_attended || !has_begun || folder.exit_code().is_some() {
        return Ok(false);
    }
    replace_launcher(&folder, &[]).map(|()| true)
}

/// Finds a job that a launcher begins to attend to.
fn find_soon(id: Option<&str>) -> Result<Status, CliError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match nodes::find(id) {
            Ok(job) if !job.socket().exists() && Instant::now() < until => {}
            Err(CliError::NoJob { .. }) if Instant::now() < until => {}
            found => return found,
        }
        thread::sleep(LOOK);
    }
}

/// Finds the detached job of that name, or the latest one.
fn find(id: Option<&str>) -> Result<JobFolder, CliError> {
    let all = JobFolder::all().map_err(CliError::system("look for detached jobs"))?;
    let found = nodes::of_id_or_last(all, id, |folder| &folder.id);
    found.map_err(|known| CliError::NoDetachedJob { id: id.map(str::to_owned), known })
}
