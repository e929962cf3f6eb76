//! Moving the coordinator to another node.
//!
//! **Start.** Main names the node. Some operations whose state does not move with the coordinator
//! finish first: a rebalance, the measurement of places and uplinks, a planning job, the
//! confirmation of plans by all nodes. The job continues meanwhile.
//!
//! **Transfer.** The coordinator becomes a [`CoordinatorState`], which the [host](super::host) of
//! its node sends to the other node's host. That host rebuilds the coordinator, with all counts,
//! collections, collective operations and pending requests. The coordinator's clock continues from
//! where it stood. Then the coordinator announces its place to all nodes. The old node forwards
//! packets to the new one, so that none is lost; no protocol relies on the order in which packets
//! of several kinds arrive.
//!
//! **State that stays behind.** The strategy and the gate stay behind, with their knowledge from
//! rebalances. So does the advisor for broadcasts, because its plans start at the node of the
//! coordinator. A rebalance whose effect the gate has not measured yet is reported to listeners
//! with an unknown effect, and is not undone.

use super::event::{Asker, FollowUp};
use super::machine::Coordinator;
use super::reductions::RESULT_NUMBER_BYTES;
use super::state::advice::{Advice, TransferredAdvice};
use super::state::balance::Balances;
use super::state::broadcasts::{RequestOrders, WaitsForNumber};
use super::state::checkpoint::Checkpoints;
use super::state::collections::CollectionState;
use super::state::diagnosis::Diagnosing;
use super::state::membership::Members;
use super::state::phases::Phases;
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

/// The state of a coordinator that moves to another node.
#[derive(Serialize, Deserialize)]
pub(super) struct CoordinatorState {
    pub(super) place: CoordinatorPlace,
    /// The node that the coordinator leaves.
    pub(super) before: NodeId,
    /// The asker that waits for the transfer.
    asker: Asker,
    /// The transfers after this one.
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
    phases: Phases,
    checkpoints: Checkpoints,
    publications: Publications,
    survey: Survey,
    balances: Balances,
    uses_steps: bool,
    advice: TransferredAdvice,
    members: Members,
    stall: StallWatch,
}

impl Coordinator {
    /// Queues main's request to move the coordinator to this node. The request is answered once the
    /// coordinator runs there.
    pub(super) fn transfer(&mut self, asker: Asker, to: NodeId) {
        self.transfers.push_back((to, asker));
    }

    /// Begins the next transfer, if there is one and no operation prevents it. The host of this
    /// node then takes the coordinator. If there is none, begins a rebalance that was postponed for
    /// a checkpoint, or for a transfer to the node where the coordinator already was.
    pub(super) fn begin_transfer(&mut self) {
        while self.may_move()
            && self.is_settled()
            && let Some((to, asker)) = self.transfers.pop_front()
        {
            if to == self.node {
                self.answer(asker, ());
                continue;
            }
            self.departing = Some((to, asker));
            self.retire_plans();
            self.conclude_balances();
        }
        // This waits for no survey: members may wait for the rebalance at their sync points.
        if self.may_move()
            && self.transfers.is_empty()
            && std::mem::take(&mut self.balances.is_put_off)
        {
            self.follow_ups.push_back(FollowUp::BeginRebalance);
        }
    }

    fn may_move(&self) -> bool {
        self.checkpoints.may_move() && self.departing.is_none() && self.outcome.is_none()
    }

    /// Whether a transfer or a checkpoint waits, so that no operation that would delay it may
    /// begin.
    pub(super) fn is_to_pause(&self) -> bool {
        !self.transfers.is_empty() || !self.checkpoints.may_move()
    }

    /// Whether no operation is in progress whose state does not move with the coordinator.
    fn is_settled(&self) -> bool {
        self.balances.is_settled() && self.survey.is_settled() && self.advice.is_settled()
    }

    /// Makes all relays forget the plans for tree broadcasts from here, once the broadcasts in
    /// progress are complete.
    fn retire_plans(&mut self) {
        let retired: Vec<PlanId> = std::mem::take(&mut self.advice.published).into_iter().collect();
        if !retired.is_empty() {
            self.spread_own(Spread::Plan { plan: None, retired });
        }
    }

    /// Returns the coordinator's next place, if it is to leave this node now.
    pub(super) fn departs_to(&self) -> Option<CoordinatorPlace> {
        self.departing.map(|(node, _)| CoordinatorPlace { term: self.term + 1, node })
    }

    /// Returns the state to send to the coordinator's next node, or `None` if it stays.
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
            phases: self.phases,
            checkpoints: self.checkpoints,
            publications: self.publications,
            survey: self.survey,
            balances: self.balances,
            uses_steps: self.uses_steps,
            advice: self.advice.into_transferred(self.node, place),
            members: self.members,
            stall: self.stall,
        })
    }

    /// Rebuilds the coordinator that has moved to this node, where the time is `now`.
    pub(super) fn from_state(common: Common, now: Time, state: CoordinatorState) -> (Self, Asker) {
        let node = state.place.node;
        let tree = Arc::new(common.broadcasts.tree(&common.layout, node));
        let common = Common { coordinator: node, tree, ..common };
        let mut coordinator = Self {
            term: state.place.term,
            transfers: state.transfers,
            // The clock continues from where it stood, whatever the time is here.
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
            phases: state.phases,
            checkpoints: state.checkpoints,
            publications: state.publications,
            survey: state.survey,
            balances: state.balances,
            uses_steps: state.uses_steps,
            advice: Advice::from_transferred(state.advice),
            members: state.members,
            stall: state.stall,
            diagnosing: Diagnosing::of_term(state.place.term),
            ..Self::new(node, common)
        };
        coordinator.charge();
        (coordinator, state.asker)
    }

    /// Charges the transferred requests, and the table of result numbers, to the budget of this
    /// node.
    fn charge(&mut self) {
        let Self { budget, requests, collections, result_numbers, .. } = self;
        requests.charge_to(budget);
        budget.keep_forever(result_numbers.len() * RESULT_NUMBER_BYTES);
        for waiting in collections.values_mut().flat_map(|state| &mut state.waiting) {
            match waiting {
                WaitsForNumber::Request(request) | WaitsForNumber::Broadcast(request) => {
                    request.charge_to(budget);
                }
                WaitsForNumber::Insertion(insertion) => insertion.charge_to(budget),
            }
        }
    }

    /// Announces the coordinator's place from here to each node, and answers main. The announcement
    /// opens a connection to each other node, over which the two nodes detect each other's loss.
    pub(super) fn tell_place(&mut self, asker: Asker) {
        let (place, layout) = (self.place(), self.common.layout.clone());
        let founders = layout.nodes().map(|node| layout.leader(node));
        for leader in founders.chain(self.guest_leaders()) {
            self.post(leader, Control::CoordinatorAt(place));
        }
        self.answer(asker, ());
    }
}
