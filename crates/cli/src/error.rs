//! Errors of commands, with hints on the next step.

use crate::host_file::HostFileError;
use crate::job_folder::Refusal;
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
use gridspan_topology::{EmulateError, HostRangeError, MatrixTextError, SiteError};
use signal_hook::consts::SIGPIPE;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use thiserror::Error;

/// Exit code of a process that SIGPIPE ends.
pub(crate) const EXIT_PIPE: u8 = exit_code(SIGPIPE);
/// Exit code when a time limit of the user has passed: that of timeout(1).
pub(crate) const EXIT_TIMEOUT: u8 = 124;

/// A failed command. Nothing of the job was started, or all of it has ended.
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
    /// A variable to set for the nodes has no value.
    #[error("--env: `{name}` is not set here")]
    Unset { name: String },
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
    /// A detached job would consist of tasks of Slurm, which end with their launcher.
    #[error("a job in an allocation of Slurm cannot be detached")]
    DetachedTasks,
    /// A detached job on one machine has a witness.
    #[error("--witness is for a job on several hosts")]
    WitnessOfOneHost,
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
    /// No launcher has started this agent.
    #[error("this process is no task of a job")]
    NoTask,
    /// An agent cannot reach the launcher.
    #[error("cannot reach the launcher on {launcher}: {error}")]
    NoLauncher {
        /// Its host and port.
        launcher: String,
        error: io::Error,
    },
    /// The launcher refuses an agent.
    #[error("the launcher refuses this task: {reason}")]
    NotEnrolled { reason: String },
    /// A registry cannot be opened or reached.
    #[error(transparent)]
    Registry(#[from] RemoteError),
    /// No token is named, and there is no daemon with a default one.
    #[error("no daemon of this user is running")]
    NoRegistry,
    /// A registry has no server, or none can be reached.
    #[error("no server of the registry can be reached")]
    NoServer,
    /// Servers cannot complete a workflow.
    #[error("`{task}` was not executed: {reason}")]
    Stuck { task: String, reason: String },
    /// Plain GridRPC cannot map a group of calls, because it maps each call separately.
    #[error("on real servers a workflow is a group, which `gridrpc` does not map")]
    Individual,
    /// A remote call failed.
    #[error("{failure} ({})", gridspan_rpc::calls::error_string(failure.code()))]
    Call {
        #[from]
        failure: RpcError,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read { path: PathBuf, error: io::Error },
    /// Arguments of a remote call cannot be used.
    #[error("cannot use the arguments in {}: {reason}", .path.display())]
    CallArguments { path: PathBuf, reason: String },
    /// A file of round trips is not text.
    #[error("cannot read {}: it is not text in UTF-8", .path.display())]
    BinaryMatrix { path: PathBuf },
    /// A file of round trips is malformed.
    #[error("{}, {error}", .path.display())]
    Matrix {
        path: PathBuf,
        /// The mistake and its position.
        error: MatrixTextError,
    },
    /// A file of round trips contains none.
    #[error("{}, line 1, column 1: there are no round trips", .path.display())]
    EmptyMatrix { path: PathBuf },
    /// The flags name no place to start nodes.
    #[error("--probe needs a place to start nodes")]
    NoPlace,
    /// The measuring nodes failed, as already reported, or were interrupted.
    #[error("the links could not be measured")]
    NotMeasured {
        /// The exit code of the measurement.
        code: u8,
    },
    /// The requested job does not run, or no job runs.
    #[error("{}", no_job(.id.as_deref()))]
    NoJob {
        /// The requested job.
        id: Option<String>,
        /// The running jobs.
        running: Vec<String>,
    },
    /// The requested job was not started with `--detach`, or no job was.
    #[error("{}", no_detached_job(.id.as_deref()))]
    NoDetachedJob {
        /// The requested job.
        id: Option<String>,
        /// The detached jobs.
        known: Vec<String>,
    },
    /// No launcher attends to a detached job, and none can be started.
    #[error("no launcher attends to the job {job}")]
    Unattended {
        job: String,
        /// Its folder.
        path: PathBuf,
    },
    /// The launcher of a detached job must run on another machine.
    #[error("the launcher of {job} has ended, and the job was started on {machine}")]
    ElsewhereDetached { job: String, machine: String },
    /// Another launcher attends to a detached job, or did so a moment ago.
    #[error("a launcher attends to the job {job}: {by}")]
    Attended {
        job: String,
        /// The launcher.
        by: String,
    },
    /// Too few keepers agree to a launcher of a detached job.
    #[error("the job {job} may not go on: {reason}")]
    NoQuorum {
        job: String,
        /// How many agree, and how many are needed.
        reason: String,
    },
    /// The launcher that was started for a detached job has given up.
    #[error("{}", .0.reason)]
    RefusedLauncher(Refusal),
    /// A host has no node of a detached job that still runs.
    #[error("{host} has no node of a detached job{}: {reason}", .id.as_ref().map(|id| format!(" `{id}`")).unwrap_or_default())]
    NothingKept {
        host: String,
        /// The requested job.
        id: Option<String>,
        /// The reason, from the host.
        reason: String,
    },
    /// The folder in which a job was started does not exist on this machine.
    #[error("the job was started in {}, which is not on this machine", .path.display())]
    NoStartFolder { path: PathBuf },
    /// No launcher attends to a job whose nodes are kept on several hosts, so none can kill them.
    #[error("the job {job} has no launcher, and only a launcher can kill its nodes on other hosts")]
    OnlyKept { job: String },
    /// A job runs on another machine, where it can be killed.
    #[error("the job {job} runs on {machine}")]
    OtherMachine { job: String, machine: String },
    /// A killed job has not ended.
    #[error("the job {job} has not ended")]
    NotKilled { job: String },
    /// A job has not ended in time.
    #[error("the job {job} still runs")]
    StillRuns { job: String },
    /// A job has ended, and its launcher has not reported the exit code.
    #[error("the job {job} has ended, with an exit code that is not known")]
    UnknownExit { job: String },
    /// The folder of a job cannot be removed.
    #[error("cannot remove {}: {error}", .path.display())]
    Remove { path: PathBuf, error: io::Error },
    /// A recording cannot be read, or its folder cannot be used.
    #[error(transparent)]
    Recording(#[from] RecordError),
    /// Nothing can be predicted.
    #[error(transparent)]
    Forecast(#[from] ForecastError),
    /// A plan names no grid.
    #[error("there is no grid to plan for")]
    PlanFor,
    /// A plan names neither a recording nor a program.
    #[error("there is nothing to plan")]
    PlanOf,
    /// A plan names both.
    #[error("a plan is made from recordings or from a program, not from both")]
    PlanOfTwo,
    /// A plan for a size lacks the sizes of its recordings.
    #[error("--size needs two recordings and the size of each")]
    PlanSizes,
    /// The run that a plan simulates has failed.
    #[error("the simulated run has failed: {reason}")]
    NotRecorded {
        /// What it printed.
        reason: String,
    },
    /// The flag cannot be combined with `--record`.
    #[error("a job with --record cannot have {flag}")]
    RecordedWith { flag: &'static str },
    /// A job has spare nodes and guests.
    #[error("a job with --spare nodes cannot have --guests whose loss ends it")]
    SparesWithGuests,
    /// A job whose nodes are threads has spare nodes.
    #[error("--spare needs nodes that are processes: use -n, --grid or --driver cluster")]
    SparesOfThreads,
    /// All nodes are spare.
    #[error("--spare: no node is left to start")]
    AllSpare,
    /// A running job refuses a request.
    #[error("the job {job} refuses: {reason}")]
    Refused { job: String, reason: String },
    /// A running job cannot be reached.
    #[error("cannot reach the job {job}: {error}")]
    Unreachable { job: String, error: io::Error },
    /// The grid has nothing of that name that the command takes.
    #[error("the grid of the job has no {what} `{name}`")]
    UnknownNode {
        /// What the command takes: `node`, or `node or site`.
        what: &'static str,
        name: String,
        /// The nodes of the grid.
        nodes: Vec<String>,
    },
    /// No node that could join has that name.
    #[error("the job has no node or site `{name}`")]
    NoNodeToAdd {
        name: String,
        /// The nodes of the job.
        nodes: Vec<String>,
    },
    /// The command does not say at which of several sites new nodes are.
    #[error("the job has several sites, and the new nodes could be at any of them")]
    WhichSite {
        /// Their names.
        sites: Vec<String>,
    },
    /// The names of hosts cannot be expanded.
    #[error("`{pattern}`: {error}")]
    HostPattern {
        /// The names as written.
        pattern: String,
        error: HostRangeError,
    },
    /// `--here` was given outside of an allocation of Slurm.
    #[error("--here: this is no allocation of Slurm")]
    NotInAllocation,
    /// An allocation of Slurm cannot be used.
    #[error("cannot use the allocation {job} of Slurm: {reason}")]
    NoAllocation {
        /// Its number.
        job: String,
        reason: String,
    },
    /// A file cannot be used as an invitation.
    #[error("cannot use the invitation {}: {error}", .path.display())]
    Invitation { path: PathBuf, error: io::Error },
    /// A program is not the one with which the job was started.
    #[error("{} is not the program that the job runs", .path.display())]
    OtherProgram { path: PathBuf },
    /// No invitation to the job, or to the requested site, is left.
    #[error("there is no invitation to join `{id}` left{}", .site.as_ref().map(|site| format!(" at site `{site}`")).unwrap_or_default())]
    NotInvited {
        id: String,
        /// The requested site.
        site: Option<String>,
    },
    /// The job has no links.
    #[error("job {id} runs as a single node, and a node has no links")]
    NoLinks { id: String },
    /// The job has not measured its links.
    #[error("job {id} has not measured its links yet")]
    NotMeasuredYet { id: String },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write { path: PathBuf, error: io::Error },
    /// The flags name no grid to broadcast over.
    #[error("there is no grid to broadcast over")]
    NoGrid,
    /// The flags name no servers.
    #[error("there is no grid of servers to run on")]
    NoServers,
    /// A grid has more servers than the limit.
    #[error("{servers} servers are too many to map to")]
    TooManyServers {
        /// Number of its servers.
        servers: usize,
        /// Largest number of servers.
        limit: usize,
    },
    /// A file has no workflow that can be mapped.
    #[error("{}: {reason}", .path.display())]
    Workflow { path: PathBuf, reason: String },
    /// A heuristic cannot map the workflow.
    #[error("--heuristic: {0}")]
    Map(#[from] gridspan_workflow::MapError),
    /// No host of the grid has this name.
    #[error("--slow: there is no host `{}` in the grid", .name.escape_debug())]
    NoHost {
        /// The name as written.
        name: String,
    },
    /// The node that is to broadcast does not exist, or its name is ambiguous.
    #[error("there is no node `{}` in the grid", .name.escape_debug())]
    NoRoot {
        /// The name as written.
        name: String,
        /// The nodes of the grid, in short.
        nodes: String,
    },
    /// A grid has no node to broadcast to.
    #[error("the grid has a single node, so there is none to broadcast to")]
    Alone,
    /// A grid is too large to plan for.
    #[error("{nodes} nodes in {clusters} clusters are too many to plan a broadcast for")]
    TooLarge {
        /// Number of its nodes.
        nodes: usize,
        /// Number of its clusters.
        clusters: usize,
        /// Largest numbers of nodes and of clusters.
        limits: [usize; 2],
    },
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
    /// Standard input is a terminal, from which a background process may not read.
    #[error("--stdin {nodes}: standard input is a terminal")]
    TerminalInput {
        /// The nodes that should read it, as the user has named them.
        nodes: &'static str,
    },
    /// Nodes cannot get the standard input of gridctl.
    #[error("--stdin {nodes}: {reason}")]
    NoInput {
        /// The nodes, as the user has named them.
        nodes: &'static str,
        reason: &'static str,
    },
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
    /// [`EXIT_TIMEOUT`] for [`Self::StillRuns`], the measurement's own code, at least 1, for
    /// [`Self::NotMeasured`], and 1 for other failures.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            _ if self.is_broken_pipe() => ExitCode::from(EXIT_PIPE),
            Self::Arguments(error) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            Self::NotMeasured { code } => ExitCode::from((*code).max(gridspan::EXIT_FAILED)),
            Self::StillRuns { .. } => ExitCode::from(EXIT_TIMEOUT),
            Self::Lab(error) if error.is_usage() => ExitCode::from(gridspan::EXIT_USAGE),
            Self::Lab(_)
            | Self::Identity(_)
            | Self::Enrolment(_)
            | Self::NoLauncher { .. }
            | Self::NotEnrolled { .. }
            | Self::Registry(_)
            | Self::NoRegistry
            | Self::NoServer
            | Self::Stuck { .. }
            | Self::NotRecorded { .. }
            | Self::Call { .. }
            | Self::System { .. }
            | Self::Metrics { .. }
            | Self::Checkpoint(_)
            | Self::Witness(_)
            | Self::WitnessHost { .. }
            | Self::Write { .. }
            | Self::Refused { .. }
            | Self::NoAllocation { .. }
            | Self::Unreachable { .. }
            | Self::Unattended { .. }
            | Self::ElsewhereDetached { .. }
            | Self::Attended { .. }
            | Self::NoQuorum { .. }
            | Self::RefusedLauncher(_)
            | Self::NothingKept { .. }
            | Self::NoStartFolder { .. }
            | Self::OnlyKept { .. }
            | Self::OtherMachine { .. }
            | Self::NotKilled { .. }
            | Self::UnknownExit { .. }
            | Self::Remove { .. }
            | Self::NotInvited { .. }
            | Self::Invitation { .. }
            | Self::OtherProgram { .. }
            | Self::NoLinks { .. }
            | Self::NotMeasuredYet { .. } => ExitCode::from(gridspan::EXIT_FAILED),
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

fn no_detached_job(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("there is no detached job `{id}`"),
        None => "there is no detached job".to_owned(),
    }
}

mod hint;
#[cfg(test)]
mod tests;

impl From<EmulatedRunError> for CliError {
    fn from(error: EmulatedRunError) -> Self {
        match error {
            EmulatedRunError::Registry(error) => Self::Registry(error),
            EmulatedRunError::GivenUp { task, reason } => Self::Stuck { task, reason },
        }
    }
}
