//! `gridctl attach` prints the output of a detached job, and `gridctl stop` ends a job. Both start
//! a launcher if the job has none.

use crate::args::{AttachArgs, StopArgs};
use crate::detach::spawn;
use crate::error::{CliError, DetachedJobError};
use crate::fetch;
use crate::job_folder::{JobFolder, machine};
use crate::log_file::LogReader;
use crate::nodes::{self, change};
use crate::output::{tell_dropped, warn};
use crate::request::Request;
use crate::status::Status;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Interval between looks at the files of the job.
const LOOK: Duration = Duration::from_millis(20);
/// Time that a launcher has to lock the folder of the job.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of launchers to start for a job.
const LAUNCHERS_MAX: u32 = 3;

/// Ensures that a launcher attends to a job.
pub(crate) struct Attention<'a> {
    /// Nodes, hosts or sites that have ended for good, as the user says.
    ended: &'a [String],
    /// Number of launchers that it has started.
    launchers: u32,
    /// When a launcher was last known to attend to the job.
    attended: Instant,
}

/// Prints the output of a detached job from its beginning until it ends. Returns its exit code.
pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode, CliError> {
    let id = args.job.as_deref();
    let folder = match &args.from {
        Some(host) => fetch::receive(host, id, args.ssh.as_deref())?,
        None => find(id)?,
    };
    let mut output = LogReader::new(folder.output());
    let mut print = || {
        let printed = output.copy_new(&mut io::stdout().lock(), tell_dropped);
        printed.map_err(CliError::system("print the output of the job"))
    };
    if !args.ended.is_empty()
        && folder.exit_code().is_none()
        && folder.is_attended().map_err(CliError::system("follow the job"))?
    {
        warn("a launcher attends to the job; --ended only counts if another one must be started");
    }
    let mut attention = Attention::new(&args.ended);
    loop {
        // All output precedes the exit code.
        let code = folder.exit_code();
        print()?;
        if let Some(code) = code {
            return Ok(ExitCode::from(code));
        }
        if let Err(error) = attention.ensure(&folder) {
            // A launcher that was started above may have printed more before it gave up.
            print()?;
            return Err(error);
        }
        thread::sleep(LOOK);
    }
}

impl<'a> Attention<'a> {
    /// The nodes, hosts or sites of `ended` have ended for good, as the user says.
    pub(crate) fn new(ended: &'a [String]) -> Self {
        Self { ended, launchers: 0, attended: Instant::now() }
    }

    /// Starts another launcher if none attends to the job, up to [`LAUNCHERS_MAX`] times, unless
    /// one of them has refused.
    pub(crate) fn ensure(&mut self, folder: &JobFolder) -> Result<(), CliError> {
        let failed = CliError::system("follow the job");
        let has_begun = folder.saved().map_err(&failed)?.is_some();
        if folder.is_attended().map_err(&failed)? {
            self.attended = Instant::now();
        } else if let Some(refusal) = folder.refusal().filter(|_| self.launchers > 0) {
            return Err(DetachedJobError::RefusedLauncher(refusal).into());
        } else if has_begun && self.launchers < LAUNCHERS_MAX {
            self.launchers += 1;
            replace_launcher(folder, self.ended)?;
            self.attended = Instant::now();
        } else if has_begun || self.attended.elapsed() > PATIENCE {
            let (job, path) = (folder.id.clone(), folder.path().to_owned());
            return Err(DetachedJobError::Unattended { job, path }.into());
        }
        Ok(())
    }
}

/// Starts another launcher, and waits until it attends to the job or has ended.
fn replace_launcher(folder: &JobFolder, ended: &[String]) -> Result<(), CliError> {
    let failed = CliError::system("start a launcher for the job");
    let start = folder.start().map_err(&failed)?;
    if start.machine != machine() {
        let (job, machine) = (folder.id.clone(), start.machine);
        return Err(DetachedJobError::ElsewhereDetached { job, machine }.into());
    }
    if !ended.is_empty() {
        // Reports a wrong name here, and not in the output of the launcher.
        nodes::named(&folder.roster().map_err(&failed)?, ended)?;
    }
    // If this launcher ends before it can say why, the reason of an earlier one must not be shown.
    folder.set_refusal(None).map_err(&failed)?;
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

/// Finds a job whose launcher was just started: waits until the launcher can be reached.
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
pub(crate) fn find(id: Option<&str>) -> Result<JobFolder, CliError> {
    let all = JobFolder::all().map_err(CliError::system("look for detached jobs"))?;
    let found = nodes::of_id_or_last(all, id, |folder| &folder.id);
    found.map_err(|known| {
        CliError::Detached(DetachedJobError::NoDetachedJob { id: id.map(str::to_owned), known })
    })
}
