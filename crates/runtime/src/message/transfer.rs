//! How the coordinator passes from one node to another.

use bytes::Bytes;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};

/// What the hosts of the coordinator on two nodes tell each other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum TransferMessage {
    /// To the node that the coordinator moves to: its state, encoded.
    State(Bytes),
    /// To the node that it was on: it runs at this place now.
    Done(CoordinatorPlace),
    /// To where it runs, as far as the sender knows: a frame for it that is too large for one.
    PassedOn(Bytes),
}

/// Where the coordinator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorPlace {
    /// How often it has moved: of two places, that of the later term counts.
    pub term: u64,
    /// The node.
    pub node: NodeId,
}

/// Each term has so many versions of plans for broadcasts.
const VERSIONS: u64 = 1 << 32;

impl CoordinatorPlace {
    /// Plans that the coordinator makes at this place have greater versions, and those of earlier
    /// places have not.
    pub(crate) fn versions_after(self) -> u64 {
        self.term.saturating_mul(VERSIONS)
    }
}
