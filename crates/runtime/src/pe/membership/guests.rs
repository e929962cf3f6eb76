//! Guests: which nodes are guests and what they may send; how this node joins and leaves as one.

use crate::address::id::{COORDINATOR, CollectionId};
use crate::message::{Control, MembershipEvent, MembershipMessage, Stage};
use crate::pe::command::PeCommand;
use crate::pe::core::Core;
use crate::pe::membership::pool_hooks::PoolEvent;
use gridspan_topology::{NodeId, PeId};
use std::collections::BTreeSet;
use std::time::Duration;

/// Time after which a leaving guest reports that it is drained, even if other nodes still wait for
/// its results. Tasks that it owes then are repeated.
const GRACE: Duration = Duration::from_secs(20);

impl Core {
    /// Whether this PE belongs to a guest.
    pub(crate) fn is_guest(&self) -> bool {
        self.common.layout.is_guest(self.common.layout.node_of(self.me))
    }

    /// Whether a PE belongs to a guest other than this node.
    pub(in crate::pe) fn is_of_another_guest(&self, pe: PeId) -> bool {
        let layout = &self.common.layout;
        pe != COORDINATOR && !layout.contains(pe) && layout.node_of(pe) != layout.node_of(self.me)
    }

    /// Whether a packet is to be dropped: another guest may send only the controls listed here.
    pub(in crate::pe) fn is_uninvited(&self, from: PeId, control: Option<&Control>) -> bool {
        let is_for_guests = matches!(
            control,
            Some(Control::Membership(_) | Control::WorkerMessage { .. } | Control::Failed { .. })
        );
        !is_for_guests && self.is_of_another_guest(from)
    }

    /// Requests that this node may join. The coordinator announces to the founders the `contact`
    /// under which they reach this node; only drivers understand its form. Runs on the first PE of
    /// a guest.
    pub fn join(&mut self, contact: String) {
        let layout = &self.common.layout;
        let pes = layout.place(layout.node_of(self.me)).pes.len() as u32;
        let fingerprint = self.common.definition.fingerprint;
        self.tell_coordinator(MembershipMessage::Join { fingerprint, pes, contact });
    }

    /// Requests that this node may leave. Runs on the first PE of a guest.
    pub fn leave(&mut self) {
        self.tell_coordinator(MembershipMessage::Leave);
    }

    /// Notes that a guest joins, which the coordinator has announced. Runs on founders.
    pub(super) fn guest_announced(&mut self, node: NodeId, contact: String) {
        self.membership.present.insert(node);
        self.commands.push(PeCommand::Meet { guest: node, contact });
        let event = MembershipEvent { node, stage: Stage::Joining };
        // Sent before the acknowledgement to the coordinator, so that no agent drops the guest's
        // requests.
        self.tell_agents(event);
        self.tell_pools(PoolEvent::Membership(event));
        self.tell_coordinator(MembershipMessage::Acknowledge { node });
    }

    /// Begins to drain this node, which is a guest.
    pub(super) fn begin_draining(&mut self, event: MembershipEvent) {
        let pools: BTreeSet<CollectionId> = self.membership.pools.keys().copied().collect();
        let is_drained = pools.is_empty();
        self.membership.stage = Stage::Draining;
        self.membership.draining = pools;
        self.tell_pools(PoolEvent::Membership(event));
        match is_drained {
            true => self.report_guest_drained(),
            false => self.run_after(GRACE, Self::report_guest_drained),
        }
    }

    /// Notes that no node waits for results of a collection's member here. Runs on the first PE of
    /// a guest that leaves.
    pub(crate) fn pool_drained(&mut self, collection: CollectionId) {
        if self.membership.draining.remove(&collection) && self.membership.draining.is_empty() {
            self.report_guest_drained();
        }
    }

    fn report_guest_drained(&mut self) {
        self.tell_coordinator(MembershipMessage::Drained);
    }
}
