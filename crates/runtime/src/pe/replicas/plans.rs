//! Replicas in rebalances: a PE's report of its replicated actors.

use super::ReplicaState;
use crate::address::id::ActorId;
use crate::message::ReplicaOrder;
use crate::pe::core::Core;

impl Core {
    /// The actors whose primary lives here and whose second replica was accepted.
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
