//! Broadcasts that wait for their number.

use crate::address::id::{ActorId, CollectionId, KindId};
use crate::message::payload::Payload;
use crate::message::{Asked, Wanted};
use crate::pe::{Accounted, Budget};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Broadcast requests by sender. Requests of one sender get numbers in the order in which it made
/// them.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RequestOrders(pub(crate) BTreeMap<(CollectionId, ActorId), RequestOrder>);

impl RequestOrders {
    /// Bytes of memory for each sender that has broadcast to a collection, in a table that is at
    /// least half full. An entry is needed as long as messages of its sender may arrive. So there
    /// are as many entries as actors that have broadcast since the start, and they count towards
    /// the memory budget.
    const BYTES: usize = 2 * size_of::<((CollectionId, ActorId), RequestOrder)>();

    /// Bytes of the entries of all senders, without their requests.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * Self::BYTES
    }

    /// Charges all requests to another budget.
    pub(crate) fn charge_to(&mut self, budget: &Budget) {
        for order in self.0.values_mut() {
            budget.keep_forever(Self::BYTES);
            order.early.values_mut().for_each(|request| request.charge_to(budget));
        }
    }

    /// Returns the number of requests of a sender that were accepted in its order.
    pub(crate) fn accepted(&self, name: (CollectionId, ActorId)) -> u64 {
        self.0.get(&name).map_or(0, |order| order.accepted)
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

/// Broadcast requests of one sender.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RequestOrder {
    /// Number of requests that were accepted in the sender's order.
    pub(crate) accepted: u64,
    /// Requests that arrived early, by their position in the sender's order, counted from one.
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

/// A request that waits for its number while a PE has the right to number, or while an insertion is
/// in progress.
#[derive(Serialize, Deserialize)]
pub(crate) enum WaitsForNumber {
    /// A broadcast request as it arrived, while a PE had the right to number.
    Request(Accounted<BroadcastRequest>),
    /// A broadcast request that is next in its sender's order.
    Broadcast(Accounted<BroadcastRequest>),
    /// The insertion of a member.
    Insertion(Accounted<WaitingInsertion>),
}

/// The insertion of a member, which waits for the broadcasts before it.
#[derive(Serialize, Deserialize)]
pub(crate) struct WaitingInsertion {
    pub(crate) id: ActorId,
    pub(crate) init: Payload,
    pub(crate) at: PeId,
}
