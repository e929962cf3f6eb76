//! Broadcasts that wait for their number.

use crate::address::id::{ActorId, CollectionId, KindId};
use crate::message::payload::Payload;
use crate::message::{Asked, Wanted};
use crate::pe::{Accounted, Budget};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Broadcast requests by sender, so that they get their numbers in the order they were sent.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RequestOrders(pub(crate) BTreeMap<(CollectionId, ActorId), RequestOrder>);

impl RequestOrders {
    /// What the coordinator keeps of each sender that has broadcast to a collection, in a table
    /// that is at least half full. It is needed as long as messages of that sender may come, so
    /// that there are as many entries as actors that have ever broadcast, and they count in the
    /// memory budget.
    const BYTES: usize = 2 * size_of::<((CollectionId, ActorId), RequestOrder)>();

    /// Counts all in another budget.
    pub(crate) fn charge_to(&mut self, budget: &Budget) {
        for order in self.0.values_mut() {
            budget.keep_forever(Self::BYTES);
            order.early.values_mut().for_each(|request| request.charge_to(budget));
        }
    }

    /// How many requests of a sender have come in order.
    pub(crate) fn come(&self, name: (CollectionId, ActorId)) -> u64 {
        self.0.get(&name).map_or(0, |order| order.come)
    }

    pub(crate) fn order(
        &mut self,
        name: (CollectionId, ActorId),
        budget: &Budget,
    ) -> &mut RequestOrder {
        self.0.entry(name).or_insert_with(|| {
            budget.keep_forever(Self::BYTES);
            RequestOrder::default()
        })
    }
}

/// Broadcasts that one sender asked for.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RequestOrder {
    /// How many have come in order.
    pub(crate) come: u64,
    /// Others, by how many there are with each.
    pub(crate) early: BTreeMap<u64, Accounted<BroadcastRequest>>,
}

/// A broadcast without a number yet.
#[derive(Serialize, Deserialize)]
pub(crate) struct BroadcastRequest {
    pub(crate) kind: KindId,
    pub(crate) asked: Asked,
    pub(crate) wanted: Wanted,
    pub(crate) priority: i32,
}

/// What needs the number of the next broadcast, while that is not here or not settled.
#[derive(Serialize, Deserialize)]
pub(crate) enum WaitsForNumber {
    /// As it has come, while a PE had the right to number.
    Request(Accounted<BroadcastRequest>),
    /// A broadcast whose sender's turn it is.
    Broadcast(Accounted<BroadcastRequest>),
    /// A new member is wanted.
    Insertion { id: ActorId, init: Payload, at: PeId },
}
