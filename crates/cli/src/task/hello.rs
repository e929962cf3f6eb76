//! The first message of the agent of a task.

use gridspan_runtime::net::{EnrolmentSecret, NodePublicKey};
use serde::{Deserialize, Serialize};

/// Longest such message, in bytes: the launcher reads it before it knows the sender.
pub(crate) const HELLO_BYTES_MAX: usize = 4 << 10;

/// The version of the frames; agent and launcher must agree.
const VERSION: u32 = 2;

/// The identity of the agent, and the secret that proves it to the launcher.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    version: u32,
    /// The secret of the `srun` that has started the agent.
    pub(crate) secret: EnrolmentSecret,
    /// Number of the task in its step: `SLURM_PROCID`.
    pub(crate) task: u32,
    /// Number of the task on its host: `SLURM_LOCALID`.
    pub(crate) local: u32,
    /// Slurm's name of the host: `SLURMD_NODENAME`.
    pub(crate) host: String,
    /// The key that the agent has made for its node.
    pub(crate) key: NodePublicKey,
}

impl Hello {
    /// The message of the task with this number, which is the `local`-th of its host.
    pub(crate) fn new(
        secret: EnrolmentSecret,
        (task, local): (u32, u32),
        host: String,
        key: NodePublicKey,
    ) -> Self {
        Self { version: VERSION, secret, task, local, host, key }
    }

    /// Whether the agent has the launcher's version of the frames.
    pub(crate) fn has_own_version(&self) -> bool {
        self.version == VERSION
    }
}
