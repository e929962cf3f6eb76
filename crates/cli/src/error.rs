//! Errors of commands, with hints on the next step. Errors of one command are in a separate file.

mod add;
mod advice;
mod bcast;
mod check;
mod detached;
mod hint;
mod job_end;
mod join;
mod plan;
mod rpc;
mod run_flags;
mod task;
mod topo;

pub(crate) use add::AddCommandError;
pub(crate) use bcast::BcastCommandError;
pub(crate) use check::CheckCommandError;
pub(crate) use detached::DetachedJobError;
pub(crate) use job_end::JobEndError;
pub(crate) use join::JoinCommandError;
pub(crate) use plan::PlanCommandError;
pub(crate) use rpc::RpcCommandError;
pub(crate) use run_flags::RunFlagError;
pub(crate) use task::TaskError;
pub(crate) use topo::TopoCommandError;

use crate::host_file::HostFileError;
use crate::lab::LabError;
use crate::signals::exit_code;
use crate::slurm::AllocationError;
use crate::witness::WitnessAddressError;
use gridspan::variables::{GridLoadError, VariableError};
use gridspan_plan::ForecastError;
use gridspan_record::RecordError;
use gridspan_rpc::calls::RpcError;
use gridspan_rpc_net::{EmulatedRunError, RemoteError};
use gridspan_runtime::net::{EnrolmentError, IdentityError};
use gridspan_topology::{EmulateError, SiteError};
use signal_hook::consts::SIGPIPE;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use thiserror::Error;

/// Exit code of a process that SIGPIPE ends.
pub(crate) const EXIT_PIPE: u8 = exit_code(SIGPIPE);
/// Exit code when a time limit of the user has passed: that of timeout(1).
pub(crate) const EXIT_TIMEOUT: u8 = 124;

/// A failed command. If it ran a job that is not detached, no part of that job goes on.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    /// The command names no program.
    #[error("there is no program to run")]
    NoProgram,
    /// A name that is neither a built-in job nor a path.
    #[error("there is no built-in job `{name}`")]
    UnknownJob {
        name: String,
        /// Jobs with similar names.
        near: Vec<&'static str>,
        /// Whether a file of that name is in the current directory.
        is_file: bool,
    },
    /// An option of gridctl follows the job's name.
    #[error(
        "the job `{job}` has no option `{option}`; it is an option of gridctl: write it before the job's name"
    )]
    Misplaced {
        option: String,
        /// The subcommand that has it.
        verb: &'static str,
        job: String,
    },
    /// A checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] gridspan::StartError),
    /// Nodes cannot run in the folder of `--wdir`.
    #[error("--wdir: cannot run in {}: {error}", .path.display())]
    Folder { path: PathBuf, error: io::Error },
    /// A built-in job refuses its arguments, or prints its help.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// An argument of a built-in job is not text.
    #[error("an argument of the job is not UTF-8 text")]
    NotText,
    /// A program cannot be started.
    #[error("cannot start {}: {error}", .path.display())]
    Start { path: PathBuf, error: io::Error },
    /// A grid file cannot be used.
    #[error(transparent)]
    Grid(#[from] GridLoadError),
    /// A host file cannot be used.
    #[error("{}:{error}", .path.display())]
    HostFile {
        /// Its path, or the variable with its content.
        path: PathBuf,
        /// The line and the mistake.
        error: HostFileError,
    },
    /// A host file cannot be read.
    #[error("cannot read the host file {}: {error}", .path.display())]
    ReadHostFile { path: PathBuf, error: io::Error },
    /// The hosts of a file or an allocation do not form a grid.
    #[error("{of}: {error}")]
    Hosts {
        /// The file, or the variable, that names them.
        of: String,
        error: SiteError,
    },
    /// The variables of Slurm cannot be used.
    #[error(transparent)]
    Allocation(#[from] AllocationError),
    /// The witness of a job cannot be used.
    #[error("cannot use the witness: {0}")]
    Witness(#[source] io::Error),
    /// The host that is to be the witness of a job cannot be used.
    #[error("cannot use the witness {reason}")]
    WitnessHost {
        /// The arguments with which `ssh` reaches it.
        host: String,
        /// Its address, and the reason.
        reason: String,
    },
    /// The location of the witness of a job is malformed.
    #[error(transparent)]
    WitnessAddress(#[from] WitnessAddressError),
    /// The launcher cannot accept tasks of Slurm.
    #[error(transparent)]
    Enrolment(#[from] EnrolmentError),
    /// A registry cannot be opened or reached.
    #[error(transparent)]
    Registry(#[from] RemoteError),
    /// A remote call failed.
    #[error("{failure} ({})", gridspan_rpc::calls::error_string(failure.code()))]
    Call {
        #[from]
        failure: RpcError,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    /// The requested job does not run, or no job runs.
    #[error("{}", no_job(.id.as_deref()))]
    NoJob {
        /// The requested job.
        id: Option<String>,
        /// The running jobs.
        running: Vec<String>,
    },
    /// The folder of a job cannot be removed.
    #[error("cannot remove {}: {error}", .path.display())]
    Remove { path: PathBuf, error: io::Error },
    /// A recording cannot be read, or its folder cannot be used.
    #[error(transparent)]
    Recording(#[from] RecordError),
    /// Nothing can be predicted.
    #[error(transparent)]
    Forecast(#[from] ForecastError),
    /// A running job refuses a request.
    #[error("the job {job} refuses: {reason}")]
    Refused { job: String, reason: String },
    /// A running job cannot be reached.
    #[error("cannot reach the job {job}: {error}")]
    Unreachable { job: String, error: io::Error },
    /// The grid of the job has no node of that name, and no site if the command also takes sites.
    #[error("the grid of the job has no {what} `{name}`")]
    UnknownNode {
        /// What the command takes: `node`, or `node or site`.
        what: &'static str,
        name: String,
        /// The nodes of the grid.
        nodes: Vec<String>,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
    /// A heuristic cannot map the workflow.
    #[error("--heuristic: {0}")]
    Map(#[from] gridspan_workflow::MapError),
    /// Two recordings are of different jobs.
    #[error("the recordings are of different jobs, `{a}` and `{b}`")]
    OtherJobs {
        /// The job of the first one.
        a: String,
        /// The job of the second one.
        b: String,
    },
    /// A file of measurements for balancing cannot be used.
    #[error("{}: {reason}", .path.display())]
    Snapshot { path: PathBuf, reason: String },
    /// The path of a dump is invalid.
    #[error("--balance-dump: {0}")]
    Output(io::Error),
    /// A shorthand for a grid is malformed.
    #[error("--emulate: {0}")]
    Emulate(#[from] EmulateError),
    /// The number of nodes is too large.
    #[error("--nodes: {0}")]
    Nodes(SiteError),
    /// The sites are invalid.
    #[error("--site: {0}")]
    Sites(SiteError),
    /// The address of a host of the grid cannot be found.
    #[error("cannot find the address of host `{host}`: {error}")]
    Address { host: String, error: io::Error },
    /// An environment variable has an invalid value.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// A lab cannot run.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Certificates cannot be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Metrics cannot be served.
    #[error("--metrics {address}: {error}")]
    Metrics {
        /// The address to listen at.
        address: String,
        error: io::Error,
    },
    /// The system refuses an operation that launching needs.
    #[error("cannot {what}: {error}")]
    System {
        /// The operation.
        what: &'static str,
        error: io::Error,
    },
    /// `gridctl add` cannot ask for the new nodes.
    #[error(transparent)]
    Add(#[from] AddCommandError),
    /// `gridctl bcast` cannot plan.
    #[error(transparent)]
    Bcast(#[from] BcastCommandError),
    /// `gridctl check` cannot reach the hosts as `gridctl run` would.
    #[error(transparent)]
    Check(#[from] CheckCommandError),
    /// A detached job cannot be found, attended or taken over.
    #[error(transparent)]
    Detached(#[from] DetachedJobError),
    /// A job does not end, or its exit code is unknown.
    #[error(transparent)]
    JobEnd(#[from] JobEndError),
    /// `gridctl join` has no invitation that it can use.
    #[error(transparent)]
    Join(#[from] JoinCommandError),
    /// `gridctl plan` has too few or too many arguments, its recording does not fit the grid, or the
    /// run that it simulates fails.
    #[error(transparent)]
    Plan(#[from] PlanCommandError),
    /// `gridctl rpc` has no registry, servers or workflow that it can use.
    #[error(transparent)]
    Rpc(#[from] RpcCommandError),
    /// Flags of `gridctl run` cannot be combined, or cannot be used here.
    #[error(transparent)]
    RunFlags(#[from] RunFlagError),
    /// An agent cannot join its launcher.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// `gridctl topo` has no links to show.
    #[error(transparent)]
    Topo(#[from] TopoCommandError),
}

impl CliError {
    /// Returns a function for `map_err` that wraps an error of the system.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    /// Whether the reader of the output has closed it, as `| head` does. It is not an error to
    /// report.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::System { error, .. } if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Prints the error and the next step.
    pub(crate) fn report(&self) {
        if self.is_broken_pipe() {
            return;
        }
        // With standard error closed, the error cannot be reported.
        let _ = match self {
            Self::Arguments(error) => error.print(),
            _ => match self.hint() {
                Some(hint) => writeln!(io::stderr(), "error: {self}\nhint: {hint}"),
                None => writeln!(io::stderr(), "error: {self}"),
            },
        };
    }

    /// Returns 0 for requested help, 2 for usage errors, [`EXIT_PIPE`] for a broken pipe,
    /// [`EXIT_TIMEOUT`] for [`JobEndError::StillRuns`], the measurement's own code, at least 1, for
    /// [`TopoCommandError::NotMeasured`], and 1 for other failures.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            _ if self.is_broken_pipe() => ExitCode::from(EXIT_PIPE),
            Self::Arguments(error) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            Self::Topo(TopoCommandError::NotMeasured { code }) => {
                ExitCode::from((*code).max(gridspan::EXIT_FAILED))
            }
            Self::JobEnd(JobEndError::StillRuns { .. }) => ExitCode::from(EXIT_TIMEOUT),
            Self::Lab(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Add(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Detached(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Plan(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Rpc(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Task(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Topo(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Lab(_)
            | Self::Identity(_)
            | Self::Enrolment(_)
            | Self::Registry(_)
            | Self::Call { .. }
            | Self::System { .. }
            | Self::Metrics { .. }
            | Self::Checkpoint(_)
            | Self::Witness(_)
            | Self::WitnessHost { .. }
            | Self::Write { .. }
            | Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Remove { .. }
            | Self::Add(_)
            | Self::Detached(_)
            | Self::Plan(_)
            | Self::Rpc(_)
            | Self::Task(_)
            | Self::Topo(_)
            | Self::JobEnd(_)
            | Self::Join(_) => ExitCode::from(gridspan::EXIT_FAILED),
            _ => ExitCode::from(gridspan::EXIT_USAGE),
        }
    }
}

fn no_job(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("there is no running job `{id}`"),
        None => "there is no running job to ask".to_owned(),
    }
}

impl From<EmulatedRunError> for CliError {
    fn from(error: EmulatedRunError) -> Self {
        match error {
            EmulatedRunError::Registry(error) => Self::Registry(error),
            EmulatedRunError::GivenUp { task, reason } => {
                RpcCommandError::Stuck { task, reason }.into()
            }
        }
    }
}

#[cfg(test)]
mod tests;
