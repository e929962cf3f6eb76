//! What is said about actors that live on two PEs at once; `protocol` has the protocol.

use super::Migrant;
use crate::address::id::{ActorId, CollectionId};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// Between the PEs of two replicas. `epoch`: the actor's while it has both.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ReplicaControl {
    /// Be the replica of this actor, which sends to those that it `serves`.
    Offer { migrant: Box<Migrant>, serves: Vec<ActorId> },
    /// It is. `broadcasts`: the number of the first broadcast that it is given there.
    Accepted { id: ActorId, epoch: u32, broadcasts: u64 },
    /// It cannot be.
    Refused { id: ActorId, epoch: u32, reason: String },
    /// Vanish once it has come so far.
    End { id: ActorId, epoch: u32, until: Frontier },
    /// It has, and has sent to these: receiver and channel.
    Ended { id: ActorId, epoch: u32, sent: Vec<(ActorId, i32)> },
}

impl ReplicaControl {
    /// Bytes that it holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Offer { migrant, serves } => migrant.bytes() + size_of_val(&**serves),
            _ => 0,
        }
    }

    /// The collection without whose description it cannot be handled.
    pub(crate) fn needs_collection(&self) -> Option<CollectionId> {
        match self {
            Self::Offer { migrant, .. } => Some(migrant.id.collection),
            _ => None,
        }
    }
}

/// The next number of messages: the other end, channel, number.
pub(crate) type Counters = Vec<(ActorId, i32, u64)>;

/// How far the primary was when it asked the second to vanish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frontier {
    /// The next messages to those that the second serves. It vanishes once it has sent as much.
    pub(crate) sent: Counters,
    /// The next messages to the actor. Who has handled as much has sent as much, or is not
    /// deterministic.
    pub(crate) heard: Counters,
    /// The number of the next broadcast to it.
    pub(crate) broadcasts: u64,
}

/// A replica: whose, where, and to whom it sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaOrder {
    pub(crate) id: ActorId,
    pub(crate) at: PeId,
    pub(crate) serves: Vec<ActorId>,
}
