//! `gridctl kill`: ends a job at once, or some of its nodes.
//!
//! The launcher of the job kills its processes; those on other hosts end with their connections. If
//! the launcher does not answer, or does not end, gridctl kills it and the processes that it has
//! started on this machine. gridctl also kills the processes of a detached job without a launcher,
//! unless keepers on several hosts keep them (see `gridspan::keeper`): another launcher must reach
//! these first.

use crate::args::KillArgs;
use crate::attach;
use crate::error::{CliError, JobEndError};
use crate::job_folder::{JobFolder, machine};
use crate::job_state::JobState;
use crate::nodes;
use crate::output;
use crate::request::{Answer, Request, send};
use crate::signals::exit_code;
use crate::status::Status;
use signal_hook::consts::SIGKILL;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

/// Time that a launcher has to answer. It does so before it kills its processes.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
/// Time that a launcher then has to end. It waits at most 5 s for the processes that it has killed,
/// and at most half a second for the reader of its output.
const END_PATIENCE: Duration = Duration::from_secs(8);
/// Time that killed processes have to end. They are gone unless the kernel is stuck.
const KILL_PATIENCE: Duration = Duration::from_secs(5);
/// Interval between checks of the job's files.
const LOOK: Duration = Duration::from_millis(20);
/// Name of the operation in errors.
const PRINT: &str = "print what was done";
/// Exit code of a killed job.
const EXIT_KILLED: u8 = exit_code(SIGKILL);

/// Kills a job, or some of its nodes.
pub(crate) fn run(args: &KillArgs) -> Result<ExitCode, CliError> {
    let id = Some(&*args.job);
    if !args.node.is_empty() {
        let job = nodes::find(id)?;
        let nodes = nodes::named(&job.whole, &args.node)?;
        return match nodes::answered_soon(&job, &Request::KillNodes { nodes })? {
            Answer::Done(text) => output::print(&format!("{text}\n"), PRINT),
            _ => Err(nodes::unexpected()),
        };
    }
    // A user without a home has no detached jobs.
    let folder = attach::find(id).ok();
    match (nodes::find(id), &folder) {
        (Ok(job), folder) => kill_running(&job, folder.as_ref())?,
        (Err(CliError::NoJob { .. }), Some(folder)) if may_run(folder)? => kill_rest(folder)?,
        (Err(error), _) => return Err(error),
    }
    output::print(&format!("{} is killed\n", args.job), PRINT)
}

/// Whether a job without a launcher may still have running processes.
fn may_run(folder: &JobFolder) -> Result<bool, CliError> {
    let state = JobState::of(folder).map_err(CliError::system("look for the job"))?;
    Ok(!state.is_over())
}

/// Kills a job that has a launcher.
fn kill_running(job: &Status, folder: Option<&JobFolder>) -> Result<(), CliError> {
    if let Some(folder) = folder {
        check_machine(folder)?;
    }
    let until = Instant::now() + ANSWER_PATIENCE;
    let answer = send(job, &Request::Kill).and_then(|pending| pending.answer(Some(until)));
    if matches!(answer, Ok(Some(Answer::Done(_)) | None)) && has_ended_soon(job, folder) {
        return Ok(());
    }
    let not_killed = || CliError::JobEnd(JobEndError::NotKilled { job: job.id.clone() });
    let launcher = job.launcher.ok_or_else(not_killed)?;
    let children = launcher.children();
    // First the launcher, since it could start processes again.
    launcher.kill(Duration::ZERO);
    for child in children {
        child.kill_group(Duration::ZERO);
    }
    match folder {
        Some(folder) => kill_rest(folder),
        None if has_ended_soon(job, None) => Ok(()),
        None => Err(not_killed()),
    }
}

/// Kills the processes of a detached job whose launcher has ended, and notes its end. Refuses if
/// its nodes are kept, since only a launcher can reach them.
fn kill_rest(folder: &JobFolder) -> Result<(), CliError> {
    check_machine(folder)?;
    let failed = CliError::system("kill the job");
    let until = Instant::now() + END_PATIENCE;
    // With this lock, no other launcher can attend to the job.
    let _lock = loop {
        match folder.lock().map_err(&failed)? {
            Some(lock) => break lock,
            None if Instant::now() < until => thread::sleep(LOOK),
            None => return Err(JobEndError::NotKilled { job: folder.id.clone() }.into()),
        }
    };
    if folder.exit_code().is_some() {
        return Ok(());
    }
    if folder.start().map_err(&failed)?.kept.is_some() {
        return Err(JobEndError::OnlyKept { job: folder.id.clone() }.into());
    }
    let saved = folder.saved().map_err(&failed)?.unwrap_or_default();
    for process in saved.processes.values() {
        process.kill_group(Duration::ZERO);
    }
    let until = Instant::now() + KILL_PATIENCE;
    while saved.processes.values().any(|process| process.is_running()) {
        if Instant::now() > until {
            // The job has not ended, so its end is not noted.
            return Err(JobEndError::NotKilled { job: folder.id.clone() }.into());
        }
        thread::sleep(LOOK);
    }
    folder.end(EXIT_KILLED).map_err(failed)
}

/// Refuses a job of another machine that shares the folder.
fn check_machine(folder: &JobFolder) -> Result<(), CliError> {
    let start = folder.start().map_err(CliError::system("look for the job"))?;
    if start.machine == machine() {
        return Ok(());
    }
    Err(JobEndError::OtherMachine { job: folder.id.clone(), machine: start.machine }.into())
}

/// Waits until a job has ended. Returns whether it has.
fn has_ended_soon(job: &Status, folder: Option<&JobFolder>) -> bool {
    let until = Instant::now() + END_PATIENCE;
    loop {
        let is_noted = folder.is_none_or(|folder| folder.exit_code().is_some());
        if !job.is_running() && is_noted {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        thread::sleep(LOOK);
    }
}
