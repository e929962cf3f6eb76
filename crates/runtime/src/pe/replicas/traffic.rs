//! Messages to and from replicated actors: to both replicas, from one of them.

use super::state::ReplicaState;
use crate::address::id::{ActorId, KindId, Sender, Slot};
use crate::message::envelope::{AnyEnvelope, Header};
use crate::pe::core::Core;
use crate::pe::delivery::Place;

impl Core {
    /// Whether neither the sender nor the receiver here is replicated. Messages of replicated
    /// actors are always numbered.
    #[cold]
    pub(crate) fn is_single(&self, sender: Sender, (kind, slot): (KindId, u32)) -> bool {
        let receiver = Sender::Actor(Slot { kind, index: slot });
        !self.is_replicated(receiver) && !self.is_replicated(sender)
    }

    fn is_replicated(&self, sender: Sender) -> bool {
        self.sending(sender).is_some_and(|member| member.is_replicated)
    }

    /// The state of the sender's replica here, if the sender is replicated.
    #[inline]
    fn replica_state(&self, sender: Sender) -> Option<&ReplicaState> {
        match !self.replicas.is_empty() && self.is_replicated(sender) {
            true => self.replicas.get(self.sender_id(sender)),
            false => None,
        }
    }

    /// Whether the sender's other replica sends this message.
    #[cold]
    pub(crate) fn is_sent_elsewhere(&self, sender: Sender, to: ActorId) -> bool {
        self.replica_state(sender).is_some_and(|replica| !replica.sends_to(to))
    }

    /// Whether this is the second replica of the sender. Operations without numbers run only at the
    /// primary, since receivers could not recognise the duplicate.
    #[inline]
    pub(crate) fn is_secondary(&self, sender: Sender) -> bool {
        self.replica_state(sender).is_some_and(ReplicaState::is_secondary)
    }

    /// Passes a message for a replicated actor on to its other replica, if that may lack the
    /// message.
    #[cold]
    pub(crate) fn pass_on(&mut self, kind: KindId, envelope: &dyn AnyEnvelope) {
        let header @ Header { to, origin, .. } = *envelope.header();
        let Some(replica) = self.replicas.get(to).filter(|replica| replica.owes(&header)) else {
            return;
        };
        let &ReplicaState { other, epoch, .. } = replica;
        let (is_known, is_secondary) = (replica.is_known(), replica.is_secondary());
        let mut copy = envelope.copy();
        copy.header_mut().epoch = epoch;
        self.created += 1;
        let saved = self.save_cause(&header);
        self.forward(kind, other, copy);
        self.restore_cause(&header, saved);
        if is_known && origin != self.me {
            let (pe, replica) = if is_secondary { (other, self.me) } else { (self.me, other) };
            self.tell_place(origin, to, Place { replica: Some(replica), ..Place::at(pe, epoch) });
        }
    }

    /// Counts a message that a second replica handles: it counts at the primary, which handles it
    /// too.
    pub(crate) fn note_handled_twice(&mut self, to: ActorId) {
        self.replicas.doubled += u64::from(self.replicas.is_secondary(to));
    }

    /// Number of messages handled here, without those that count at a primary elsewhere.
    pub(crate) fn handled_once(&self) -> u64 {
        self.statistics.handled.saturating_sub(self.replicas.doubled)
    }
}
