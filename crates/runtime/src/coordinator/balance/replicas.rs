//! Replicas as a part of rebalances: what strategies are told of them, and how a plan's are
//! begun and ended.
//!
//! A plan first moves actors and ends replicas, and begins others when all that is over, at the
//! PEs where the actors are by then. What becomes of each is reported as the end of a move is.

use crate::address::id::{ActorId, CollectionId, RebalanceId};
use crate::address::load_keys::{id_of, key_of};
use crate::coordinator::machine::Coordinator;
use crate::message::Control;
use crate::message::ReplicaOrder;
use gridspan_balance::{Plan, Replica, Snapshot};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// What a plan wants of PEs.
#[derive(Default)]
pub(super) struct ReplicaOrders {
    pub(super) begin: BTreeMap<PeId, Vec<ReplicaOrder>>,
    pub(super) end: BTreeMap<PeId, Vec<ActorId>>,
}

impl ReplicaOrders {
    /// The orders that carry out a plan, which fits the snapshot.
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
            // Who moves gives up its replica anyway.
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
    /// Adds to a snapshot who may have a replica, and who has.
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

    /// Has those of a plan's replicas ended that are to end.
    pub(super) fn post_ends(&mut self, rebalance: RebalanceId, end: BTreeMap<PeId, Vec<ActorId>>) {
        for (pe, end) in end {
            self.post_large(pe, Control::Replicas { rebalance, begin: Vec::new(), end });
        }
    }

    /// Has those begun that are to begin, when all else is over. Whether there
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
