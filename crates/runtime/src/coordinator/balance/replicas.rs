//! Replicas in rebalances: the information that strategies get, and how a plan begins and ends
//! replicas.
//!
//! A plan first moves actors and ends replicas. Then the PEs on which the actors now live begin new
//! replicas. PEs report each start and end of a replica in the same way as a move.

use crate::address::id::{ActorId, CollectionId, RebalanceId};
use crate::address::load_keys::{id_of, key_of};
use crate::coordinator::machine::Coordinator;
use crate::message::Control;
use crate::message::ReplicaOrder;
use gridspan_balance::{Plan, Replica, Snapshot};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// Orders of a plan to PEs about replicas.
#[derive(Default)]
pub(super) struct ReplicaOrders {
    pub(super) begin: BTreeMap<PeId, Vec<ReplicaOrder>>,
    pub(super) end: BTreeMap<PeId, Vec<ActorId>>,
}

impl ReplicaOrders {
    /// Returns the orders that carry out a plan; empty if the plan does not fit the snapshot.
    pub(super) fn of(snapshot: &Snapshot, plan: &Plan) -> Self {
        let mut orders = Self::default();
        if plan.begin.is_empty() && plan.end.is_empty() {
            return orders;
        }
        let Ok(places) = plan.mapping(snapshot) else { return orders };
        let actors = snapshot.actors.iter().zip(places);
        let now_and_then: BTreeMap<_, _> =
            actors.map(|(actor, then)| (actor.id, (actor.pe, then))).collect();
        for replica in &plan.end {
            // An actor that moves gives up its replica anyway.
            if let Some(&(now, then)) = now_and_then.get(&replica.actor)
                && now == then
            {
                orders.end.entry(now).or_default().push(id_of(replica.actor));
            }
        }
        for Replica { actor, at, serves } in &plan.begin {
            if let Some(&(_, then)) = now_and_then.get(actor) {
                let serves = serves.iter().map(|&key| id_of(key)).collect();
                let order = ReplicaOrder { id: id_of(*actor), at: *at, serves };
                orders.begin.entry(then).or_default().push(order);
            }
        }
        orders
    }
}

impl Coordinator {
    /// Adds to a snapshot the actors that may have a replica and those that have one.
    pub(super) fn note_replicas(&self, snapshot: &mut Snapshot, replicas: Vec<ReplicaOrder>) {
        if self.common.deterministic.is_empty() {
            return;
        }
        let is_deterministic = |collection| {
            let state = self.collections.get(&CollectionId(collection));
            state.is_some_and(|state| self.common.deterministic.contains(&state.info.kind))
        };
        let actors = snapshot.actors.iter().enumerate();
        let deterministic =
            actors.filter(|(_, actor)| actor.migratable && is_deterministic(actor.id.collection));
        snapshot.deterministic = deterministic.map(|(at, _)| at as u32).collect();
        let replica = |ReplicaOrder { id, at, serves }: ReplicaOrder| Replica {
            actor: key_of(id),
            at,
            serves: serves.into_iter().map(key_of).collect(),
        };
        snapshot.replicas = replicas.into_iter().map(replica).collect();
        snapshot.replicas.sort_by_key(|replica| replica.actor);
    }

    /// Orders PEs to end the replicas that the plan ends.
    pub(super) fn post_ends(&mut self, rebalance: RebalanceId, end: BTreeMap<PeId, Vec<ActorId>>) {
        for (pe, end) in end {
            self.post_large(pe, Control::Replicas { rebalance, begin: Vec::new(), end });
        }
    }

    /// Orders PEs to begin the plan's new replicas, after its moves and ends. Returns whether there
    /// are any.
    pub(super) fn post_begins(&mut self, rebalance: RebalanceId) -> bool {
        let begin = std::mem::take(&mut self.balances.begins);
        if begin.is_empty() {
            return false;
        }
        self.balances.missing = begin.values().map(Vec::len).sum();
        self.unsettle();
        for (pe, begin) in begin {
            self.post_large(pe, Control::Replicas { rebalance, begin, end: Vec::new() });
        }
        true
    }
}
