//! Stages of a node's membership in a job, and the messages about them.

use crate::error::JobError;
use gridspan_topology::{ByteCount, NodeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Stage of a node's membership. The nodes of the job's layout are active from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Some nodes do not know the member yet.
    Joining,
    /// All nodes know the member: it may request tasks.
    Active,
    /// The member takes no more tasks, and hands back the tasks that it can. A founder *rests*: it
    /// remains a member until the job stops or the node is lost.
    Draining,
    /// The member has left. Its number is not used again.
    Left,
    /// The member does not answer: the tasks that it held are run again. Its number is not used
    /// again.
    Lost,
    /// A founder does not answer, and the job may yet go on without it: nodes drop what it sends.
    Suspended,
}

impl Stage {
    /// Whether the member no longer takes part. Other nodes then drop the tasks that it passed on.
    pub(crate) fn is_gone(self) -> bool {
        matches!(self, Self::Left | Self::Lost)
    }
}

/// Reports that a guest has reached a stage, or that a founder rests, is suspended or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipEvent {
    pub(crate) node: NodeId,
    pub(crate) stage: Stage,
}

/// Why the job cannot go on without a founder, as far as one node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Need {
    /// An actor or main waits for an answer from there.
    Answer,
    /// The founder has borrowed tasks in this number of loans that the node's log of loans has
    /// dropped because of its limit.
    Loans { loans: u64, limit_bytes: u64 },
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Answer => f.write_str("an actor or main waits for an answer from there"),
            Self::Loans { loans, limit_bytes } => {
                let limit = ByteCount(limit_bytes);
                write!(f, "its log of loans, limited to {limit}, lacks {loans} of the loans")
            }
        }
    }
}

/// Messages about nodes that join a running job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum MembershipMessage {
    /// To the coordinator: the sender's node asks to join. It runs the program with this
    /// fingerprint, has `pes` PEs, and can be reached at `contact`.
    Join { fingerprint: u64, pes: u32, contact: String },
    /// From the coordinator to all nodes of the layout: a node joins, and can be reached at
    /// `contact`.
    Announce { node: NodeId, contact: String },
    /// To the coordinator: the sender's node knows the joining node.
    Acknowledge { node: NodeId },
    /// To the coordinator: the sender's node asks to leave.
    Leave,
    /// To the coordinator: no node waits for the sender's node any longer, or the sender's node
    /// cannot wait longer.
    Drained,
    /// To the coordinator: a node does not answer.
    Unreachable { node: NodeId, error: JobError },
    /// From the coordinator: to the node that is now active, and to all nodes if it drains or is
    /// gone.
    Reached(MembershipEvent),
    /// From the coordinator to all other founders: this founder does not answer; say whether the
    /// job can go on without it.
    Suspend { node: NodeId },
    /// To the coordinator: the sender's node drops what this founder sends. `need`: why the job
    /// cannot go on without it, as far as the sender's node knows.
    Spares { node: NodeId, need: Option<Need> },
    /// To the coordinator: the job needs a founder that is lost.
    Needs { node: NodeId },
    /// From main's node to the coordinator: these founders are about to leave.
    Rest { nodes: Vec<NodeId> },
}
