//! Messages to and from actors that live on two PEs: to both replicas, from one of them. `replica` tells
//! how that comes.

use super::Place;
use crate::Actor;
use crate::envelope::{Envelope, Header};
use crate::id::{ActorId, KindId, Sender, Slot};
use crate::pe::core::Core;
use crate::pe::replicas::ReplicaState;
use crate::wire::Control;
use gridspan_topology::PeId;

/// Where to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pe) struct Destinations {
    pub(in crate::pe) first: PeId,
    /// Another PE that gets it too.
    pub(in crate::pe) second: Option<PeId>,
    /// The epoch of this knowledge.
    pub(in crate::pe) epoch: u32,
}

impl Destinations {
    /// All PEs that get the message.
    pub(in crate::pe) fn all(self) -> impl Iterator<Item = PeId> {
        std::iter::once(self.first).chain(self.second)
    }
}

impl Core {
    /// Where an actor lives as far as this PE knows. The root knows the homes of members whose
    /// collection is not known here yet.
    pub(in crate::pe) fn destinations(&self, id: ActorId) -> Destinations {
        self.destinations_of(id, self.resident(id).is_some())
    }

    /// The same, for who knows whether it lives here. Always inlined: what is asked for every
    /// message that leaves is most often known without a search.
    #[inline(always)]
    fn destinations_of(&self, id: ActorId, is_here: bool) -> Destinations {
        let is_settled =
            self.directory.is_empty() && self.departing.is_empty() && self.replicas.is_empty();
        // Nobody has moved as far as this PE knows, as in many jobs for ever.
        if is_settled && let Some(local) = self.collections.get(id.collection) {
            let first = if is_here { self.me } else { self.home_in(local, id.key) };
            return Destinations { first, second: None, epoch: 0 };
        }
        self.known_destinations(id, is_here)
    }

    #[inline(never)]
    fn known_destinations(&self, id: ActorId, is_here: bool) -> Destinations {
        let one = |first, epoch| Destinations { first, second: None, epoch };
        if is_here || !self.departing.is_empty() && self.departing.contains_key(&id) {
            return match self.replicas.get(id).filter(|replica| replica.is_known()) {
                Some(&ReplicaState { other, epoch, .. }) => {
                    Destinations { first: self.me, second: Some(other), epoch }
                }
                None => one(self.me, 0),
            };
        }
        match self.directory.place(id) {
            Some(Place { pe, epoch, replica, .. }) => {
                Destinations { first: pe, second: replica, epoch }
            }
            None => one(self.home(id).unwrap_or(Self::ROOT), 0),
        }
    }

    /// Where to send a message that goes to one PE only, and what to write on it.
    pub(in crate::pe) fn believed(&self, id: ActorId) -> (PeId, u32) {
        let Destinations { first, second, epoch } = self.destinations(id);
        (first, Place { replica: second, ..Place::at(first, epoch) }.epoch_for_one())
    }

    /// Whether neither the sender nor a receiver here live on another PE too; otherwise messages
    /// between them are numbered wherever they are.
    #[inline]
    pub(in crate::pe) fn is_single(&self, sender: Sender, (kind, slot): (KindId, u32)) -> bool {
        self.replicas.is_empty()
            || !(self.is_replicated(Sender::Actor(Slot { kind, index: slot }))
                || self.is_replicated(sender))
    }

    #[inline(never)]
    fn is_replicated(&self, sender: Sender) -> bool {
        let Sender::Actor(Slot { kind, index: slot }) = sender else { return false };
        let member = self.members.get(kind.index()).and_then(|members| members.get(slot as usize));
        member.is_some_and(|member| member.as_ref().is_some_and(|member| member.is_replicated))
    }

    /// The sender's replica here, if it lives on another PE too.
    #[inline]
    fn replica_state(&self, sender: Sender) -> Option<&ReplicaState> {
        match !self.replicas.is_empty() && self.is_replicated(sender) {
            true => self.replicas.get(self.sender_id(sender)),
            false => None,
        }
    }

    /// Whether the other replica of the sender sends this message, if it has one.
    #[inline]
    pub(in crate::pe) fn is_sent_elsewhere(&self, sender: Sender, to: ActorId) -> bool {
        self.replica_state(sender).is_some_and(|replica| !replica.sends_to(to))
    }

    /// Whether this is the replica of the sender: what nobody can tell apart by numbers leaves
    /// from the first.
    #[inline]
    pub(crate) fn is_secondary(&self, sender: Sender) -> bool {
        self.replica_state(sender).is_some_and(ReplicaState::is_secondary)
    }

    /// Sends a message that has its number, to all replicas of its receiver; `is_here` tells whether
    /// that lives here.
    #[inline]
    pub(in crate::pe) fn send_to_destinations<A: Actor>(
        &mut self,
        (kind, is_here): (KindId, bool),
        mut header: Header,
        message: A::Message,
    ) {
        let destinations = self.destinations_of(header.to, is_here);
        header.epoch = destinations.epoch;
        if let Some(second) = destinations.second {
            self.created += 1;
            self.put_out::<A>(second, kind, &header, message.clone());
        }
        match destinations.first == self.me {
            true => self.arrive::<A>(kind, Envelope { header, message }),
            false => self.put_out::<A>(destinations.first, kind, &header, message),
        }
    }

    /// A message is here for an actor that lives elsewhere too: passes it on if it may not be there.
    #[cold]
    pub(in crate::pe) fn pass_on<A: Actor>(
        &mut self,
        kind: KindId,
        envelope: &Envelope<A::Message>,
    ) {
        let Header { to, origin, .. } = envelope.header;
        let Some(replica) = self.replicas.get(to).filter(|replica| replica.owes(&envelope.header))
        else {
            return;
        };
        let &ReplicaState { other, epoch, .. } = replica;
        let (is_known, is_secondary) = (replica.is_known(), replica.is_secondary());
        let header = Header { epoch, ..envelope.header };
        self.created += 1;
        self.put_out::<A>(other, kind, &header, envelope.message.clone());
        if is_known && origin != self.me {
            let (pe, replica) = if is_secondary { (other, self.me) } else { (self.me, other) };
            self.tell_place(origin, to, Place { replica: Some(replica), ..Place::at(pe, epoch) });
        }
    }

    /// Tells a PE where an actor is.
    pub(in crate::pe) fn tell_place(&mut self, to: PeId, id: ActorId, place: Place) {
        let Place { pe, epoch, gone, replica } = place;
        self.post(to, Control::Location { id, pe, epoch, gone, replica });
    }
}
