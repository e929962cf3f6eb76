//! Moving the coordinator to another node.
//!
//! **Start.** Main names the node. What is under way between the coordinator and machines that do
//! not move with it comes to its end first: a rebalance, the measurement of places, a planning job,
//! plans that not all nodes have confirmed. The job goes on meanwhile.
//!
//! **Transfer.** The coordinator becomes a [`CoordinatorState`], which the [host](super::host) of
//! its node sends to that of the other, and is made again from it there, with all counts,
//! collections, collective operations and questions. Its clock goes on from where it stood. It then
//! tells all nodes where it is. Packets that come to the old node go on to the new one, so that
//! none is lost; nothing relies on the order in which those of several kinds arrive.
//!
//! **What does not move.** The strategy and the gate, which have learned from rebalances, and the
//! advisor for broadcasts, whose plans go out from the node that it was made for. If the gate still
//! judges a rebalance, listeners hear that it gave up, and the rebalance is not undone.

use super::event::Asker;
use super::machine::Coordinator;
use super::state::advice::{Advice, TransferredAdvice};
use super::state::balance::Balances;
use super::state::broadcasts::{RequestOrders, WaitsForNumber};
use super::state::collections::CollectionState;
use super::state::membership::Members;
use super::state::publications::Publications;
use super::state::quiescence::QuiescenceRounds;
use super::state::reductions::Accumulators;
use super::state::stall::StallWatch;
use super::state::survey::Survey;
use super::state::timers::Timers;
use crate::address::id::{ActorId, CollectionId};
use crate::message::{Control, CoordinatorPlace, Spread};
use crate::pe::{Common, Pieces};
use gridspan_bcast::PlanId;
use gridspan_topology::{NodeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A coordinator on its way to another node.
#[derive(Serialize, Deserialize)]
pub(super) struct CoordinatorState {
    pub(super) place: CoordinatorPlace,
    /// The node that it comes from.
    pub(super) before: NodeId,
    /// Who waits for the transfer, and the transfers that come after it.
    asker: Asker,
    transfers: VecDeque<(NodeId, Asker)>,
    now: Time,
    timers: Timers,
    pieces: Pieces,
    created: u64,
    processed: u64,
    handovers: u64,
    collections: BTreeMap<CollectionId, CollectionState>,
    requests: RequestOrders,
    accumulators: Accumulators,
    result_numbers: BTreeMap<ActorId, u64>,
    quiescence: QuiescenceRounds,
    publications: Publications,
    survey: Survey,
    balances: Balances,
    uses_steps: bool,
    advice: TransferredAdvice,
    members: Members,
    stall: StallWatch,
}

impl Coordinator {
    /// Main wants the coordinator to run on this node, and gets an answer once it does.
    pub(super) fn transfer(&mut self, asker: Asker, to: NodeId) {
        self.transfers.push_back((to, asker));
    }

    /// Begins the next transfer, if there is one and nothing stands against it. The host of this
    /// node then takes the coordinator.
    pub(super) fn begin_transfer(&mut self) {
        while self.departing.is_none() && self.outcome.is_none() && self.is_settled() {
            match self.transfers.pop_front() {
                Some((to, asker)) if to == self.node => self.answer(asker, ()),
                Some(departure) => {
                    self.departing = Some(departure);
                    self.retire_plans();
                    self.conclude_balances();
                }
                None => return,
            }
        }
    }

    /// Whether it moves as soon as nothing stands against that: nothing else of the kind begins.
    pub(super) fn is_to_move(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// Whether nothing is under way with machines that stay behind.
    fn is_settled(&self) -> bool {
        self.balances.is_settled() && self.survey.is_settled() && self.advice.is_settled()
    }

    /// Has all relays forget the plans for tree broadcasts from here, once those under way are
    /// over.
    fn retire_plans(&mut self) {
        let retired: Vec<PlanId> = std::mem::take(&mut self.advice.published).into_iter().collect();
        if !retired.is_empty() {
            self.spread_own(Spread::Plan { plan: None, retired });
        }
    }

    /// Where the coordinator goes, if it is to leave this node now.
    pub(super) fn departs_to(&self) -> Option<CoordinatorPlace> {
        self.departing.map(|(node, _)| CoordinatorPlace { term: self.term + 1, node })
    }

    /// What goes to the node that it moves to; nothing if it stays.
    pub(super) fn into_state(self) -> Option<CoordinatorState> {
        let (place, (_, asker)) = (self.departs_to()?, self.departing?);
        Some(CoordinatorState {
            place,
            before: self.node,
            asker,
            transfers: self.transfers,
            now: self.now,
            timers: self.timers,
            pieces: self.pieces,
            created: self.created,
            processed: self.processed,
            handovers: self.handovers,
            collections: self.collections,
            requests: self.requests,
            accumulators: self.accumulators,
            result_numbers: self.result_numbers,
            quiescence: self.quiescence,
            publications: self.publications,
            survey: self.survey,
            balances: self.balances,
            uses_steps: self.uses_steps,
            advice: self.advice.into_transferred(self.node, place),
            members: self.members,
            stall: self.stall,
        })
    }

    /// The coordinator that has come to this node, where the time is `now`.
    pub(super) fn from_state(common: Common, now: Time, state: CoordinatorState) -> (Self, Asker) {
        let node = state.place.node;
        let tree = Arc::new(common.broadcasts.tree(&common.layout, node));
        let common = Common { coordinator: node, tree, ..common };
        let mut coordinator = Self {
            term: state.place.term,
            transfers: state.transfers,
            // It goes on from where it stood, whatever the time is here.
            clock_ahead_ns: i128::from(state.now.0) - i128::from(now.0),
            now: state.now,
            timers: state.timers,
            pieces: state.pieces,
            created: state.created,
            processed: state.processed,
            handovers: state.handovers,
            collections: state.collections,
            requests: state.requests,
            accumulators: state.accumulators,
            result_numbers: state.result_numbers,
            quiescence: state.quiescence,
            publications: state.publications,
            survey: state.survey,
            balances: state.balances,
            uses_steps: state.uses_steps,
            advice: Advice::from_transferred(state.advice),
            members: state.members,
            stall: state.stall,
            ..Self::new(node, common)
        };
        coordinator.charge();
        (coordinator, state.asker)
    }

    /// Counts what has come in the budget of this node.
    fn charge(&mut self) {
        let Self { budget, requests, collections, .. } = self;
        requests.charge_to(budget);
        for waiting in collections.values_mut().flat_map(|state| &mut state.waiting) {
            match waiting {
                WaitsForNumber::Request(request) | WaitsForNumber::Broadcast(request) => {
                    request.charge_to(budget);
                }
                WaitsForNumber::Insertion { .. } => {}
            }
        }
    }

    /// Tells all nodes where it is, from here to each, so that they have a connection over which to
    /// watch each other, and answers main.
    pub(super) fn tell_place(&mut self, asker: Asker) {
        let (place, layout) = (self.place(), self.common.layout.clone());
        let founders = layout.nodes().map(|node| layout.leader(node));
        for leader in founders.chain(self.guest_leaders()) {
            self.post(leader, Control::CoordinatorAt(place));
        }
        self.answer(asker, ());
    }
}
