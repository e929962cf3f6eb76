//! Errors of `gridctl rpc`.

use super::advice::NAME_A_GRID;
use std::path::PathBuf;
use thiserror::Error;

/// `gridctl rpc` has no registry, servers or workflow that it can use.
#[derive(Debug, Error)]
pub(crate) enum RpcCommandError {
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
    /// Arguments of a remote call cannot be used.
    #[error("cannot use the arguments in {}: {reason}", .path.display())]
    CallArguments { path: PathBuf, reason: String },
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
    /// No host of the grid has this name.
    #[error("--slow: there is no host `{}` in the grid", .name.escape_debug())]
    NoHost {
        /// The name as written.
        name: String,
    },
}

impl RpcCommandError {
    /// Whether the command line is wrong.
    pub(super) fn is_usage(&self) -> bool {
        !matches!(self, Self::NoRegistry | Self::NoServer | Self::Stuck { .. })
    }

    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NoServer => "start some with `gridctl rpc serve --join FILE`".into(),
            Self::Stuck { .. } => "start more servers, or find out why the others ended".into(),
            Self::Individual => "use one of the other heuristics".into(),
            Self::NoRegistry => {
                "start one with `gridctl rpc serve`, or name the `--token` of another".into()
            }
            Self::CallArguments { .. } => {
                "arguments are JSON in UTF-8, such as `[1, 2]`; divide a call that is too long"
                    .into()
            }
            Self::NoServers => NAME_A_GRID.into(),
            Self::TooManyServers { limit, .. } => format!("name a grid of at most {limit} nodes"),
            Self::Workflow { .. } => {
                "workflows are JSON files in WfFormat, such as those of wfcommons.org".into()
            }
            Self::NoHost { .. } => "`--json` lists the servers".into(),
        }
    }
}
