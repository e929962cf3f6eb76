//! Errors of an agent that starts a node as a task of Slurm.

use std::io;
use thiserror::Error;

/// An agent cannot join its launcher.
#[derive(Debug, Error)]
pub(crate) enum TaskError {
    /// No launcher has started this agent.
    #[error("this process is not a task of a job")]
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
}

impl TaskError {
    /// Whether the command line is wrong.
    pub(super) fn is_usage(&self) -> bool {
        matches!(self, Self::NoTask)
    }

    /// Returns the next step, unless the error already states it.
    pub(super) fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoTask => "`gridctl run` starts tasks itself, inside an allocation of Slurm".into(),
            Self::NoLauncher { .. } => {
                "hosts of the allocation must reach this port of the launcher's host by TCP, as they reach \
                 srun"
                    .into()
            }
            Self::NotEnrolled { .. } => return None,
        })
    }
}
