//! Notices about nodes: to the coordinator, and to the agents and pools of this node.

use crate::address::id::COORDINATOR;
use crate::message::{Control, MembershipEvent, MembershipMessage, Packet, Spread};
use crate::pe::core::Core;
use crate::pe::membership::pool_hooks::PoolEvent;

impl Core {
    /// Sends the coordinator a message about a node.
    pub(super) fn tell_coordinator(&mut self, message: MembershipMessage) {
        self.post(COORDINATOR, Control::Membership(message));
    }

    /// Notifies the agents of this node. The packet takes the same path as the opening of an agent,
    /// so that no newly opened agent misses it.
    pub(super) fn tell_agents(&mut self, event: MembershipEvent) {
        self.outbox.packet(self.me, Packet::spread(Spread::MembershipEvent(event)));
    }

    /// Notifies the members here of collections that share work with other nodes.
    pub(in crate::pe) fn tell_pools(&mut self, event: PoolEvent) {
        for (collection, hooks) in self.membership.pools.clone() {
            (hooks.tell)(self, collection, event);
        }
    }
}
