//! Messages about actors that live on two PEs at once; `pe/replicas/protocol.rs` describes the
//! protocol.

use super::Migrant;
use crate::address::id::{ActorId, CollectionId};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// Messages between the PEs of two replicas. `epoch`: the actor's epoch while it has two replicas.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ReplicaControl {
    /// Asks the receiver to hold the replica of this actor, which sends to the actors in `serves`.
    Offer { migrant: Box<Migrant>, serves: Vec<ActorId> },
    /// Accepts the replica. `broadcasts`: the number of the first broadcast that the replica gets
    /// there.
    Accepted { id: ActorId, epoch: u32, broadcasts: u64 },
    /// Refuses the replica.
    Refused { id: ActorId, epoch: u32, reason: String },
    /// Asks the second replica to end once it has reached the frontier.
    End { id: ActorId, epoch: u32, until: Frontier },
    /// Reports that the second replica has ended. `reached` lists all its receivers.
    Ended { id: ActorId, epoch: u32, reached: Frontier },
}

impl ReplicaControl {
    /// Returns the number of bytes that the message holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Offer { migrant, serves } => migrant.bytes() + size_of_val(&**serves),
            _ => 0,
        }
    }

    /// Returns the collection whose description is needed to handle the message, if any.
    pub(crate) fn needs_collection(&self) -> Option<CollectionId> {
        match self {
            Self::Offer { migrant, .. } => Some(migrant.id.collection),
            _ => None,
        }
    }
}

/// Next sequence numbers: the other actor, channel, number.
pub(crate) type Counters = Vec<(ActorId, i32, u64)>;

/// Progress of one replica, which the other one has to reach: the primary sends its progress when
/// it asks the second replica to end, and the second sends its progress when it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frontier {
    /// The numbers of the next messages to the actors that the second replica serves. A replica
    /// that gets a frontier goes on until it has reached these numbers.
    pub(crate) sent: Counters,
    /// The numbers of the next messages to the actor. A replica that has handled all messages
    /// before these must have reached the numbers in `sent`; otherwise the actor is not
    /// deterministic.
    pub(crate) heard: Counters,
    /// The number of the next broadcast to the actor.
    pub(crate) broadcasts: u64,
}

/// A replica: its actor, its PE, and the actors to which it sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaOrder {
    pub(crate) id: ActorId,
    pub(crate) at: PeId,
    pub(crate) serves: Vec<ActorId>,
}
