//! Messages that move the coordinator from one node to another.

use bytes::Bytes;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};

/// Messages between the coordinator's hosts on two nodes.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum TransferMessage {
    /// To the coordinator's next node: its state, encoded.
    State(Bytes),
    /// To the coordinator's previous node: the coordinator now runs at this place.
    Done(CoordinatorPlace),
    /// To the last known place of the coordinator: a frame for it that is too large to be forwarded
    /// in one piece.
    PassedOn(Bytes),
}

/// Place where the coordinator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoordinatorPlace {
    /// Number of times it has moved: of two places, the one with the later term is valid.
    pub term: u64,
    /// The node.
    pub node: NodeId,
}

/// Number of versions of broadcast plans in each term.
const VERSIONS: u64 = 1 << 32;

impl CoordinatorPlace {
    /// Returns a version that is lower than those of all plans that the coordinator makes at this
    /// place, and at least as high as those of earlier places.
    pub(crate) fn versions_after(self) -> u64 {
        self.term.saturating_mul(VERSIONS)
    }
}
