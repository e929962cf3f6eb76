//! Errors of `gridctl check`.

use crate::slurm::AllocationError;
use thiserror::Error;

/// `gridctl check` cannot reach the hosts in the way that `gridctl run` would. It has checked no
/// host.
#[derive(Debug, Error)]
pub(crate) enum CheckCommandError {
    /// The nodes would be tasks of Slurm.
    #[error("gridctl checks hosts over ssh, but in this allocation of Slurm srun starts the nodes")]
    Tasks,
    /// The variables of Slurm cannot be used.
    #[error(transparent)]
    Allocation(AllocationError),
}

impl CheckCommandError {
    /// Returns the next step.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::Tasks | Self::Allocation(_) => {
                "`srun --overlap --label gridctl check --emulate 1x1 …` checks each host, but not \
                 the network between them; `--hostfile FILE` checks hosts that let ssh in, and \
                 `--emulate 1x1` this machine"
                    .into()
            }
        }
    }
}
