//! What can be wrong with a command, and the next step.

use gridspan::variables::{GridLoadError, VariableError};
use gridspan_rpc::calls::RpcError;
use gridspan_rpc_net::{EmulatedRunError, RemoteError};
use gridspan_runtime::net::IdentityError;
use gridspan_topology::{EmulateError, MatrixTextError, SiteError};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use thiserror::Error;

/// The exit code of a process that SIGPIPE ends.
pub(crate) const EXIT_PIPE: u8 = 128 + 13;

/// A command that could not be carried out. Nothing of the job was started, or all of it has ended.
#[derive(Debug, Error)]
pub(crate) enum CliError {
    /// The command does not say what to run.
    #[error("there is no program to run")]
    NoProgram,
    /// A name that is neither a job's nor a path.
    #[error("there is no built-in job `{name}`")]
    UnknownJob {
        /// The name.
        name: String,
        /// Jobs whose names are near.
        near: Vec<&'static str>,
        /// Whether a file of that name lies in the current directory.
        is_file: bool,
    },
    /// An option of gridctl stands behind the job's name.
    #[error("the job `{job}` has no option `{option}`; gridctl has, before the job's name")]
    Misplaced {
        /// The option.
        option: String,
        /// The verb that has it.
        verb: &'static str,
        /// The job.
        job: String,
    },
    /// A variable that nodes are to see has no value.
    #[error("--env: `{name}` is not set here")]
    Unset {
        /// Its name.
        name: String,
    },
    /// Nodes cannot run in a folder.
    #[error("--wdir: cannot run in {}: {error}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A built-in job refuses its arguments, or was asked for help.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// An argument of a built-in job is not text.
    #[error("an argument of the job is not UTF-8 text")]
    NotText,
    /// A program cannot be started.
    #[error("cannot start {}: {error}", .path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A grid file cannot be used.
    #[error(transparent)]
    Grid(#[from] GridLoadError),
    /// A registry cannot be opened or reached.
    #[error(transparent)]
    Registry(#[from] RemoteError),
    /// There is no token to take where none is named.
    #[error("no daemon of this user is there")]
    NoRegistry,
    /// There is no server of a registry, or none can be reached.
    #[error("no server of the registry can be reached")]
    NobodyServes,
    /// Servers cannot execute a workflow to its end.
    #[error("`{task}` was not executed: {reason}")]
    Stuck {
        /// The task.
        task: String,
        /// Why.
        reason: String,
    },
    /// Calls one by one are not a group.
    #[error("on real servers a workflow is a group, which `gridrpc` does not map")]
    Individual,
    /// A remote call failed.
    #[error("{failure} ({})", gridspan_rpc::calls::error_string(failure.code()))]
    Call {
        /// Why.
        #[from]
        failure: RpcError,
    },
    /// A file of round trips cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A file of round trips says something wrong.
    #[error("{}, {error}", .path.display())]
    Matrix {
        /// Its path.
        path: PathBuf,
        /// What is wrong, and where.
        error: MatrixTextError,
    },
    /// A file of round trips has none.
    #[error("{}, line 1, column 1: there are no round trips", .path.display())]
    EmptyMatrix {
        /// Its path.
        path: PathBuf,
    },
    /// Nothing says where to start nodes.
    #[error("--probe does not say where to start nodes")]
    NoPlace,
    /// The nodes that were to measure have failed, which was said, or were interrupted.
    #[error("the links could not be measured")]
    NotMeasured {
        /// The exit code of the measurement.
        code: u8,
    },
    /// There is no such running job, or none at all.
    #[error("{}", no_job(.id.as_deref()))]
    NoJob {
        /// The job that was asked for.
        id: Option<String>,
        /// Those that run.
        running: Vec<String>,
    },
    /// A file cannot be used as an invitation.
    #[error("cannot take the invitation {}: {error}", .path.display())]
    Invitation {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The program is not the one that the job was started with.
    #[error("{} is not the program that the job runs", .path.display())]
    OtherProgram {
        /// Where it is.
        path: PathBuf,
    },
    /// Nobody may join the job any more, or at that site.
    #[error("there is no invitation to join `{id}` left{}", .site.as_ref().map(|site| format!(" at site `{site}`")).unwrap_or_default())]
    NotInvited {
        /// The job.
        id: String,
        /// The site that was asked for.
        site: Option<String>,
    },
    /// The job has no links.
    #[error("job {id} runs as a single node, and a node has no links")]
    NoLinks {
        /// The job.
        id: String,
    },
    /// The job has not measured its links.
    #[error("job {id} has not measured its links yet")]
    NotMeasuredYet {
        /// The job.
        id: String,
    },
    /// A picture cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Nothing says over which grid to broadcast.
    #[error("there is no grid to broadcast over")]
    NoGrid,
    /// Nothing says which servers there are.
    #[error("there is no grid of servers to run on")]
    NoServers,
    /// A grid with more servers than are mapped to.
    #[error("{servers} servers are too many to map to")]
    TooManyServers {
        /// Its servers.
        servers: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A file holds no workflow that can be mapped.
    #[error("{}: {reason}", .path.display())]
    Workflow {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A heuristic cannot map the workflow.
    #[error("--heuristic: {0}")]
    Map(#[from] gridspan_workflow::MapError),
    /// No host of the grid is called so.
    #[error("--slow: there is no host `{}` in the grid", .name.escape_debug())]
    NoHost {
        /// What was written.
        name: String,
    },
    /// The node that is to broadcast does not exist, or several are called that.
    #[error("there is no node `{}` in the grid", .name.escape_debug())]
    NoRoot {
        /// What was written.
        name: String,
        /// The nodes there are, in short.
        nodes: String,
    },
    /// A grid with nobody to broadcast to.
    #[error("the grid has a single node, and nobody to broadcast to")]
    Alone,
    /// A grid that is too large to plan for.
    #[error("{nodes} nodes in {clusters} clusters are too many to plan a broadcast for")]
    TooLarge {
        /// Its nodes.
        nodes: usize,
        /// Its clusters.
        clusters: usize,
        /// How many there may be.
        limits: [usize; 2],
    },
    /// What was measured for balancing cannot be used.
    #[error("{}: {reason}", .path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A path that makes no sense.
    #[error("--balance-dump: {0}")]
    Output(io::Error),
    /// A shorthand cannot be read.
    #[error("--emulate: {0}")]
    Emulate(#[from] EmulateError),
    /// A number of nodes that is too large.
    #[error("--nodes: {0}")]
    Nodes(SiteError),
    /// Sites that cannot be.
    #[error("--site: {0}")]
    Sites(SiteError),
    /// Nobody knows where a host of the grid is.
    #[error("cannot find the address of host `{host}`: {error}")]
    Address {
        /// The host.
        host: String,
        /// Why not.
        error: io::Error,
    },
    /// The environment asks for something that cannot be.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// Certificates cannot be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The system refuses something that launching needs.
    #[error("cannot {what}: {error}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// Why it cannot be.
        error: io::Error,
    },
}

impl CliError {
    /// For `map_err`: the system refuses to do something.
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    /// Whether nobody reads the output any more, as behind `| head`: that is no error of the
    /// user's.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::System { error, .. } if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Prints the error and the next step.
    pub(crate) fn report(&self) {
        if self.is_broken_pipe() {
            return;
        }
        // With standard error closed there is nobody to tell.
        let _ = match self {
            Self::Arguments(error) => error.print(),
            _ => match self.hint() {
                Some(hint) => writeln!(io::stderr(), "error: {self}\nhint: {hint}"),
                None => writeln!(io::stderr(), "error: {self}"),
            },
        };
    }

    /// 2 for usage, 1 for a machine that refuses, 0 for help that was asked for.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            _ if self.is_broken_pipe() => ExitCode::from(EXIT_PIPE),
            Self::Arguments(error) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
            Self::NotMeasured { code } => ExitCode::from((*code).max(gridspan::EXIT_FAILED)),
            Self::Identity(_)
            | Self::Registry(_)
            | Self::NoRegistry
            | Self::NobodyServes
            | Self::Stuck { .. }
            | Self::Call { .. }
            | Self::System { .. }
            | Self::Write { .. }
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
        None => "there is no file to show and no running job to ask".to_owned(),
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
