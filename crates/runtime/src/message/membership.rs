//! How far the members of a job have come, and what they and the coordinator tell each other of it.

use crate::error::JobError;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};

/// How far a member has come. The nodes of the job's layout are active from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Not all nodes know it.
    Joining,
    /// All nodes know it: it may ask for tasks.
    Active,
    /// It takes no more tasks, and hands back what it can.
    Draining,
    /// It has left. Its number is not used again.
    Left,
    /// It does not answer: what it owes is done again. Its number is not used again.
    Lost,
}

impl Stage {
    /// Whether it takes part no more, and what has come through it is to be dropped.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Self::Left | Self::Lost)
    }
}

/// A member that joined has reached a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipEvent {
    pub(crate) node: NodeId,
    pub(crate) stage: Stage,
}

/// About nodes that join a running job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum MembershipMessage {
    /// To the coordinator: the sender's node asks to join. It runs the program with this
    /// fingerprint, has so many PEs, and can be reached at `contact`.
    Join { fingerprint: u64, pes: u32, contact: String },
    /// From the coordinator to all nodes of the layout: a node joins, and can be reached there.
    Announce { node: NodeId, contact: String },
    /// To the coordinator: the sender's node knows of that one.
    Acknowledge { node: NodeId },
    /// To the coordinator: the sender's node asks to leave.
    Leave,
    /// To the coordinator: nobody waits for anything of the sender's node any more, or it cannot
    /// wait longer.
    Drained,
    /// To the coordinator: a node does not answer.
    Unreachable { node: NodeId, error: JobError },
    /// From the coordinator: to the node that is active now, and to all if it drains or is gone.
    Reached(MembershipEvent),
}
