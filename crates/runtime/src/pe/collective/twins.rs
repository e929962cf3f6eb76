//! Second seats as a part of rebalances: what strategies are told of them, and how a plan's are
//! begun and ended.
//!
//! A plan first moves actors and ends second seats, and begins others when all that is over, at the
//! PEs where the actors are by then. What becomes of each is reported as the end of a move is.

use crate::id::{ActorId, CollectionId, RebalanceId};
use crate::pe::core::Core;
use crate::pe::measure::{id_of, key_of};
use crate::pe::state::Then;
use crate::wire::{Control, TwinOrder};
use gridspan_balance::{Plan, Snapshot, Twin};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// What a plan wants of PEs.
#[derive(Default)]
pub(crate) struct TwinOrders {
    pub(crate) begin: BTreeMap<PeId, Vec<TwinOrder>>,
    pub(crate) end: BTreeMap<PeId, Vec<ActorId>>,
}

impl TwinOrders {
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
        for twin in &plan.end {
            // Who moves gives up its second seat anyway.
            if let Some(&(now, then)) = now_and_then.get(&twin.actor)
                && now == then
            {
                orders.end.entry(now).or_default().push(id_of(twin.actor));
            }
        }
        for Twin { actor, at, serves } in &plan.begin {
            if let Some(&(_, then)) = now_and_then.get(actor) {
                let serves = serves.iter().map(|&key| id_of(key)).collect();
                let order = TwinOrder { id: id_of(*actor), at: *at, serves };
                orders.begin.entry(then).or_default().push(order);
            }
        }
        orders
    }
}

/// Adds to a snapshot who may have a second seat, and who has.
pub(super) fn note_seats(core: &Core, snapshot: &mut Snapshot, twins: Vec<TwinOrder>) {
    if core.common.pure.is_empty() {
        return;
    }
    let is_pure = |collection| {
        let local = core.collections.get(CollectionId(collection));
        local.is_some_and(|local| core.common.pure.contains(&local.info.kind))
    };
    let actors = snapshot.actors.iter().enumerate();
    let pure = actors.filter(|(_, actor)| actor.migratable && is_pure(actor.id.collection));
    snapshot.pure = pure.map(|(at, _)| at as u32).collect();
    let twin = |TwinOrder { id, at, serves }: TwinOrder| Twin {
        actor: key_of(id),
        at,
        serves: serves.into_iter().map(key_of).collect(),
    };
    snapshot.twins = twins.into_iter().map(twin).collect();
    snapshot.twins.sort_by_key(|twin| twin.actor);
}

impl Core {
    /// Who sits here and has a second seat elsewhere.
    pub(super) fn twins_here(&self) -> Vec<TwinOrder> {
        let first = self.twins.iter().filter(|(_, seat)| !seat.is_second() && seat.is_known());
        let order = |(id, seat): (ActorId, &crate::pe::state::TwinSeat)| TwinOrder {
            id,
            at: seat.other,
            serves: seat.serves.iter().copied().collect(),
        };
        first.map(order).collect()
    }

    /// How many messages actors have handled here that are not handled at another seat as well.
    pub(super) fn handled_once(&self) -> u64 {
        self.statistics.handled.saturating_sub(self.twins.doubled)
    }

    /// Has those of a plan's second seats ended that are to end. Runs on the root.
    pub(super) fn post_ends(&mut self, rebalance: RebalanceId, end: BTreeMap<PeId, Vec<ActorId>>) {
        for (pe, end) in end {
            self.post_large(pe, Control::Twins { rebalance, begin: Vec::new(), end });
        }
    }

    /// Has those begun that are to begin, when all else is over. Runs on the root. Whether there
    /// are any.
    pub(super) fn post_begins(&mut self, rebalance: RebalanceId) -> bool {
        let Some(root) = &mut self.root else { return false };
        let begin = std::mem::take(&mut root.balances.begins);
        if begin.is_empty() {
            return false;
        }
        root.balances.missing = begin.values().map(Vec::len).sum();
        root.waves.created += 1;
        for (pe, begin) in begin {
            self.post_large(pe, Control::Twins { rebalance, begin, end: Vec::new() });
        }
        true
    }

    /// Ends second seats on behalf of a plan.
    pub(in crate::pe) fn end_twins(&mut self, plan: RebalanceId, ended: &[ActorId]) {
        for &id in ended {
            match self.twins.get(id).is_some_and(|seat| !seat.is_second()) {
                true => self.end_twin(id, Then::Report(plan)),
                false => self.note_moved(Some(plan), false),
            }
        }
    }
}
