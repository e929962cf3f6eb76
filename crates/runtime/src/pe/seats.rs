//! Messages to and from actors that sit on two PEs: to both seats, from one of them. `twin` tells
//! how that comes.

use super::core::Core;
use super::state::{Place, TwinSeat};
use crate::Actor;
use crate::envelope::{Envelope, Header};
use crate::id::{ActorId, KindId, Seat, Sender};
use crate::wire::Control;
use gridspan_topology::PeId;

/// Where to send a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seats {
    pub(super) first: PeId,
    /// Another PE that gets it too.
    pub(super) second: Option<PeId>,
    /// The epoch of this knowledge.
    pub(super) epoch: u32,
}

impl Seats {
    /// All PEs that get the message.
    pub(super) fn all(self) -> impl Iterator<Item = PeId> {
        std::iter::once(self.first).chain(self.second)
    }
}

impl Core {
    /// Where an actor sits as far as this PE knows. The root knows the homes of members whose
    /// collection is not known here yet.
    pub(super) fn seats(&self, id: ActorId) -> Seats {
        self.seats_of(id, self.resident(id).is_some())
    }

    /// The same, for who knows whether it lives here. Always inlined: what is asked for every
    /// message that leaves is most often known without a search.
    #[inline(always)]
    fn seats_of(&self, id: ActorId, is_here: bool) -> Seats {
        let is_settled =
            self.directory.is_empty() && self.departing.is_empty() && self.twins.is_empty();
        // Nobody has moved as far as this PE knows, as in many jobs for ever.
        if is_settled && let Some(local) = self.collections.get(id.collection) {
            let first = if is_here { self.me } else { self.home_in(local, id.key) };
            return Seats { first, second: None, epoch: 0 };
        }
        self.known_seats(id, is_here)
    }

    #[inline(never)]
    fn known_seats(&self, id: ActorId, is_here: bool) -> Seats {
        let one = |first, epoch| Seats { first, second: None, epoch };
        if is_here || !self.departing.is_empty() && self.departing.contains_key(&id) {
            return match self.twins.get(id).filter(|seat| seat.is_known()) {
                Some(&TwinSeat { other, epoch, .. }) => {
                    Seats { first: self.me, second: Some(other), epoch }
                }
                None => one(self.me, 0),
            };
        }
        match self.directory.place(id) {
            Some(Place { pe, epoch, twin, .. }) => Seats { first: pe, second: twin, epoch },
            None => one(self.home(id).unwrap_or(Self::ROOT), 0),
        }
    }

    /// Where to send a message that goes to one PE only, and what to write on it.
    pub(super) fn believed(&self, id: ActorId) -> (PeId, u32) {
        let Seats { first, second, epoch } = self.seats(id);
        (first, Place { twin: second, ..Place::at(first, epoch) }.epoch_for_one())
    }

    /// Whether neither the sender nor a receiver here sit on another PE too; otherwise messages
    /// between them are numbered wherever they are.
    #[inline]
    pub(super) fn is_single(&self, sender: Sender, (kind, slot): (KindId, u32)) -> bool {
        self.twins.is_empty()
            || !(self.is_twin(Sender::Actor(Seat { kind, slot })) || self.is_twin(sender))
    }

    #[inline(never)]
    fn is_twin(&self, sender: Sender) -> bool {
        let Sender::Actor(Seat { kind, slot }) = sender else { return false };
        let member = self.members.get(kind.index()).and_then(|members| members.get(slot as usize));
        member.is_some_and(|member| member.as_ref().is_some_and(|member| member.is_twin))
    }

    /// The sender's seat here, if it sits on another PE too.
    #[inline]
    fn twin_seat(&self, sender: Sender) -> Option<&TwinSeat> {
        match !self.twins.is_empty() && self.is_twin(sender) {
            true => self.twins.get(self.sender_id(sender)),
            false => None,
        }
    }

    /// Whether the other seat of the sender sends this message, if it has one.
    #[inline]
    pub(super) fn is_sent_elsewhere(&self, sender: Sender, to: ActorId) -> bool {
        self.twin_seat(sender).is_some_and(|seat| !seat.sends_to(to))
    }

    /// Whether this is the second seat of the sender: what nobody can tell apart by numbers leaves
    /// from the first.
    #[inline]
    pub(crate) fn is_second(&self, sender: Sender) -> bool {
        self.twin_seat(sender).is_some_and(TwinSeat::is_second)
    }

    /// Sends a message that has its number, to all seats of its receiver; `is_here` tells whether
    /// that lives here.
    #[inline]
    pub(super) fn send_to_seats<A: Actor>(
        &mut self,
        (kind, is_here): (KindId, bool),
        mut header: Header,
        message: A::Message,
    ) {
        let seats = self.seats_of(header.to, is_here);
        header.epoch = seats.epoch;
        if let Some(second) = seats.second {
            self.created += 1;
            self.put_out::<A>(second, kind, &header, message.clone());
        }
        match seats.first == self.me {
            true => self.arrive::<A>(kind, Envelope { header, message }),
            false => self.put_out::<A>(seats.first, kind, &header, message),
        }
    }

    /// A message is here for an actor that sits elsewhere too: passes it on if it may not be there.
    #[cold]
    pub(super) fn pass_on<A: Actor>(&mut self, kind: KindId, envelope: &Envelope<A::Message>) {
        let Header { to, origin, .. } = envelope.header;
        let Some(seat) = self.twins.get(to).filter(|seat| seat.owes(&envelope.header)) else {
            return;
        };
        let &TwinSeat { other, epoch, .. } = seat;
        let (is_known, is_second) = (seat.is_known(), seat.is_second());
        let header = Header { epoch, ..envelope.header };
        self.created += 1;
        self.put_out::<A>(other, kind, &header, envelope.message.clone());
        if is_known && origin != self.me {
            let (pe, twin) = if is_second { (other, self.me) } else { (self.me, other) };
            self.tell_place(origin, to, Place { twin: Some(twin), ..Place::at(pe, epoch) });
        }
    }

    /// Tells a PE where an actor is.
    pub(super) fn tell_place(&mut self, to: PeId, id: ActorId, place: Place) {
        let Place { pe, epoch, gone, twin } = place;
        self.post(to, Control::Location { id, pe, epoch, gone, twin });
    }
}
