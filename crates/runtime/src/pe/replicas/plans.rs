//! Replicas as a part of rebalances: what a PE reports of them, and ends on behalf of a plan.

use super::ReplicaState;
use crate::address::id::ActorId;
use crate::message::ReplicaOrder;
use crate::pe::core::Core;

impl Core {
    /// Who lives here and has a replica elsewhere.
    pub(crate) fn replicas_here(&self) -> Vec<ReplicaOrder> {
        let first = self
            .replicas
            .iter()
            .filter(|(_, replica)| !replica.is_secondary() && replica.is_known());
        let order = |(id, replica): (ActorId, &ReplicaState)| ReplicaOrder {
            id,
            at: replica.other,
            serves: replica.serves.iter().copied().collect(),
        };
        first.map(order).collect()
    }
}
