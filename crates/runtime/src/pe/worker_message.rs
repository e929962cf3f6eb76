//! Worker messages: messages between workers of guests and founders, outside the order of actors'
//! messages.
//!
//! Worker messages have no numbers, and quiescence does not count them. Inside a node, its relay
//! gives them to PEs in the name of the first PE.

use super::core::Core;
use crate::address::id::{ActorId, CollectionId, Sender};
use crate::address::index::{ActorIndex, Ix1};
use crate::message::Control;
use crate::message::envelope::Header;
use crate::message::payload::Payload;
use bytes::Bytes;
use gridspan_topology::PeId;

impl Core {
    /// Sends a worker message to the member of a collection on another PE, outside the order of
    /// messages.
    pub(crate) fn send_worker_message(
        &mut self,
        to: PeId,
        collection: CollectionId,
        message: Vec<u8>,
    ) {
        self.post(to, Control::WorkerMessage { collection, message: message.into() });
    }

    /// Gives a worker message to the member here. Drops it if the member no longer exists, and
    /// blames a node that may not send it.
    pub(super) fn handle_worker_message(
        &mut self,
        from: PeId,
        collection: CollectionId,
        message: Bytes,
    ) {
        let layout = self.common.layout.clone();
        let node = self.common.node_of(from);
        let is_foreign = node != layout.node_of(self.me);
        if is_foreign && self.membership.gone.contains(&node) {
            return;
        }
        let id = ActorId { collection, key: Ix1(self.me.0 as i32).key() };
        let Some((number, _)) = self.resident(id) else { return };
        let Some(kind) = self.common.kind(number) else { return };
        let header = Header::new(id, ActorId::system(self.me), 0, self.me);
        let hooks = self.membership.pools.get(&collection);
        if is_foreign && hooks.is_none() {
            return self.blame(
                node,
                "it sent a worker message to an actor that accepts none from other nodes",
            );
        }
        let mut envelope = match kind.envelope(header, Payload::Bytes(message)) {
            Ok(envelope) => envelope,
            Err(error) => return self.blame(node, error),
        };
        if is_foreign && hooks.is_some_and(|hooks| !(hooks.is_allowed)(&layout, node, &*envelope)) {
            return self.blame(node, "it sent a message that may not come from another node");
        }
        // The message gets its number only now: if a number were missing, later messages would wait
        // forever.
        envelope.header_mut().sequence = self.channels(Sender::Pe).take_next(id, 0);
        self.created += 1;
        self.arrive_any(number, envelope);
    }

    /// Whether this is a worker message of a guest. Such a message does not wait for a collection
    /// that is not known here, since it would wait forever: the workers of founders exist before
    /// anything that a guest can answer.
    pub(super) fn is_worker_message_of_guest(&self, from: PeId, control: &Control) -> bool {
        matches!(control, Control::WorkerMessage { .. }) && self.is_of_another_guest(from)
    }
}

#[cfg(test)]
mod tests;
