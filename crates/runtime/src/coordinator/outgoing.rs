//! Sending from the coordinator: to one PE, to all PEs, in pieces.

use super::event::{Asker, CoordinatorCommand, FollowUp};
use super::machine::Coordinator;
use crate::address::id::COORDINATOR;
use crate::message::payload::Payload;
use crate::message::probe::ProbeOrder;
use crate::message::{Control, FlowId, OutgoingControl, Packet, Spread, Travel};
use gridspan_bcast::PlanId;
use gridspan_topology::{NodeId, PeId};
use serde::Serialize;

impl Coordinator {
    pub(super) fn post(&mut self, to: PeId, control: Control) {
        if control.is_counted() {
            self.created += 1;
        }
        self.post_uncounted(to, control);
    }

    /// Sends a control without counting it for quiescence, for example to a guest.
    pub(super) fn post_uncounted(&mut self, to: PeId, control: Control) {
        self.out.push(CoordinatorCommand::Send { to, packet: Packet::control(control) });
    }

    /// Sends a control whose size grows with the number of actors; in pieces if it goes to another
    /// node.
    pub(super) fn post_large(&mut self, to: PeId, control: Control) {
        if self.common.layout.node_of(to) == self.node {
            return self.post(to, control);
        }
        if control.is_counted() {
            self.created += 1;
        }
        for piece in self.pieces.split(&control) {
            self.out.push(CoordinatorCommand::Send {
                to,
                packet: Packet::control(Control::Piece(piece)),
            });
        }
    }

    /// Sends a control to every PE: `make` creates one for each PE of this node, and one that
    /// relays pass on to all others.
    pub(super) fn post_to_all(&mut self, make: impl Fn() -> Control) {
        for pe in self.pes_here() {
            self.post(pe, make());
        }
        // The control may be large, such as a plan: it is made only if a node receives it.
        if self.has_others() {
            self.post_to_others(&make());
        }
    }

    /// Sends a control to every PE of other nodes.
    pub(super) fn post_to_others(&mut self, control: &Control) {
        if !self.has_others() {
            return;
        }
        let others = self.common.layout.pe_count() - self.pes_here().len() as u32;
        if control.is_counted() {
            self.created += u64::from(others);
        }
        self.send_over_tree(OutgoingControl::new(control));
    }

    pub(super) fn answer<T: Serialize + Send + 'static>(&mut self, asker: Asker, answer: T) {
        let answer = Payload::new(answer);
        self.post(asker.pe, Control::Reply { slot: asker.slot, answer });
    }

    /// Orders nodes to measure links.
    pub(super) fn send_orders(&mut self, orders: Vec<(NodeId, ProbeOrder)>) {
        for (node, order) in orders {
            self.post(self.common.layout.leader(node), Control::Probe(order));
        }
    }

    /// Hands a tree broadcast to the relay, with the plan for its size.
    fn send_over_tree(&mut self, control: OutgoingControl) {
        let bytes = control.bytes() as u64;
        let flow = self.advice.next_flow;
        self.advice.next_flow += 1;
        let chosen = self.advice.choose(bytes);
        let plan = chosen.unwrap_or(PlanId { root: self.node, version: 0 });
        // Broadcasts of the runtime itself tell nothing about later ones of the job.
        let is_learning = !control.is_internal;
        self.spread_own(Spread::TreeBroadcast { control, plan, flow });
        if is_learning {
            let travel = Travel { flow: FlowId::TreeBroadcast(flow), plan, bytes };
            self.follow_ups.push_back(FollowUp::BroadcastBegun(travel));
        }
    }

    pub(super) fn spread(&mut self, from: PeId, spread: Spread) {
        self.out.push(CoordinatorCommand::Relay { from, packet: Packet::spread(spread) });
    }

    pub(super) fn spread_own(&mut self, spread: Spread) {
        self.spread(COORDINATOR, spread);
    }

    pub(super) fn has_others(&self) -> bool {
        self.common.layout.node_count() > 1
    }

    pub(super) fn pes_here(
        &self,
    ) -> impl DoubleEndedIterator<Item = PeId> + ExactSizeIterator + use<> {
        self.common.layout.place(self.node).pes.clone().map(PeId)
    }
}
