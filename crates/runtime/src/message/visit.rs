//! What guests, founders and the coordinator tell each other of who takes part.

use crate::error::JobError;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};

/// About guests: nodes that join a running job to work on its tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Visit {
    /// From a guest to the coordinator: it is there, runs the job with this fingerprint, has so
    /// many PEs, and can be reached there.
    Knock { fingerprint: u64, pes: u32, contact: String },
    /// From the coordinator to all founders: a guest takes part, and where it can be reached.
    Came { guest: NodeId, contact: String },
    /// To the coordinator: the sender's node knows that.
    Noted { guest: NodeId },
    /// From the coordinator to the guest: everybody knows it, so it can ask for tasks.
    Begin,
    /// From a guest to the coordinator: it is to leave. From the coordinator to the guest:
    /// everybody has been told.
    Leave,
    /// From the coordinator to all founders: a guest takes no more tasks, and gives none.
    Left { guest: NodeId },
    /// From a guest to the coordinator: it has nothing any more that others wait for, or cannot
    /// wait longer.
    Goodbye,
    /// From the coordinator to all nodes: a guest is gone, what it owes is to be done again, and
    /// what has come through it is to be dropped.
    Gone { guest: NodeId },
    /// To the coordinator: a guest does not answer.
    Lost { guest: NodeId, error: JobError },
}
