//! Errors of `gridctl add`.

use gridspan_topology::HostRangeError;
use thiserror::Error;

/// `gridctl add` cannot ask for the new nodes.
#[derive(Debug, Error)]
pub(crate) enum AddCommandError {
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
}

impl AddCommandError {
    /// Whether the command line is wrong.
    pub(super) fn is_usage(&self) -> bool {
        !matches!(self, Self::NoAllocation { .. })
    }

    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NoNodeToAdd { nodes, .. } => format!(
                "its nodes: {}; `--at SITE` starts a node on a host that the job does not have yet",
                crate::names::abbreviated(nodes.iter().map(String::as_str))
            ),
            Self::WhichSite { sites } => format!("write `--at` with one of {}", sites.join(", ")),
            Self::HostPattern { .. } => "for example `b7`, or `b[7-9]` for three hosts".into(),
            Self::NotInAllocation => {
                "call it inside the other allocation (`salloc … gridctl add --here`), or name it by \
                 `--slurm JOBID`"
                    .into()
            }
            Self::NoAllocation { .. } => {
                "`squeue --me` lists your allocations; inside one, `gridctl add --here` needs no \
                 scontrol"
                    .into()
            }
        }
    }
}
