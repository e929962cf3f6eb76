//! The way of a message: from its sender to the PE where its receiver lives.
//!
//! A reference can outrun the description of its collection, since a member may pass it on while
//! others are still being made. Messages then go by way of the root, which knows every collection.

use super::{Channels, Early, Place, Turn};
use crate::Actor;
use crate::envelope::{AnyEnvelope, Envelope, EnvelopeBatch, Header, Series};
use crate::error::GridError;
use crate::id::{ActorId, CollectionId, KindId, Sender, Slot};
use crate::pe::core::Core;
use gridspan_topology::PeId;
use std::any::{TypeId, type_name};

/// How often a message is forwarded before it goes by way of its receiver's home. Forwarding
/// follows ever newer knowledge, so that longer chains mean an actor that moves faster than its
/// messages.
const HOPS_MAX: u8 = 8;

impl Core {
    pub(in crate::pe) fn channels(&mut self, sender: Sender) -> &mut Channels {
        self.conversations(sender).1
    }

    /// The name under which the sender's messages are numbered, and the numbers.
    #[inline(always)]
    fn conversations(&mut self, sender: Sender) -> (ActorId, &mut Channels) {
        let system = ActorId::system(self.me);
        let Sender::Actor(Slot { kind, index: slot }) = sender else {
            return (system, &mut self.system);
        };
        match self.members[kind.index()].get_mut(slot as usize) {
            Some(Some(member)) => (member.id, member.channels.get_or_insert_default()),
            _ => (system, &mut self.system),
        }
    }

    /// The name under which the sender's messages are numbered.
    pub(in crate::pe) fn sender_id(&self, sender: Sender) -> ActorId {
        match sender {
            Sender::Pe => ActorId::system(self.me),
            Sender::Actor(slot) => self.id_in(slot),
        }
    }

    /// How often the sender has moved.
    pub(in crate::pe) fn epoch_of(&self, sender: Sender) -> u32 {
        let Sender::Actor(Slot { kind, index }) = sender else { return 0 };
        let member = self.members.get(kind.index()).and_then(|all| all.get(index as usize));
        member.and_then(Option::as_ref).map_or(0, |member| member.epoch)
    }

    /// The sender's numbers, if it has any: most have never sent elsewhere. Always inlined, since a
    /// call would cost as much as finding that out.
    #[inline(always)]
    fn known_channels(&self, sender: Sender) -> Option<&Channels> {
        let Sender::Actor(Slot { kind, index: slot }) = sender else { return Some(&self.system) };
        match self.members.get(kind.index())?.get(slot as usize) {
            Some(Some(member)) => member.channels.as_deref(),
            _ => None,
        }
    }

    /// Sends one message.
    #[inline]
    pub(crate) fn send<A: Actor>(
        &mut self,
        sender: Sender,
        to: ActorId,
        priority: i32,
        message: A::Message,
    ) {
        // First, since the handler has just looked up its own actor.
        let channels = self.known_channels(sender);
        let resident = self.resident(to);
        if let Some((kind, slot)) = resident
            && !channels.is_some_and(|channels| channels.is_ordered(to, priority))
            && self.is_single(sender, (kind, slot))
        {
            self.note_sent::<A>(sender, to, &message);
            return self.push_ready::<A>(kind, slot, priority, message);
        }
        self.send_ordered::<A>(sender, to.apart(), resident.is_some(), priority, message);
    }

    #[inline(never)]
    fn send_ordered<A: Actor>(
        &mut self,
        sender: Sender,
        to: (CollectionId, u128),
        is_here: bool,
        priority: i32,
        message: A::Message,
    ) {
        let to = ActorId::joined(to);
        let Some(kind) = self.kind_in::<A>(to.collection) else { return };
        let (source, channels) = self.conversations(sender);
        let after = channels.after(to.collection, priority);
        let sequence = if after == 0 {
            channels.take_next(to, priority)
        } else {
            if !channels.is_numbered(to, priority)
                && let Some((kind, slot)) = self.resident(to)
                && self.is_single(sender, (kind, slot))
                && let Some(Some(member)) = self.members[kind.index()].get(slot as usize)
                && self.has_taken(member, source, after)
            {
                self.note_sent::<A>(sender, to, &message);
                return self.push_ready::<A>(kind, slot, priority, message);
            }
            self.channels(sender).take_next(to, priority)
        };
        if self.is_sent_elsewhere(sender, to) {
            return;
        }
        self.note_sent::<A>(sender, to, &message);
        let (origin, epoch, hops, is_broadcast) = (self.me, 0, 0, false);
        let header =
            Header { to, source, sequence, priority, epoch, hops, is_broadcast, origin, after };
        self.send_to_destinations::<A>((kind, is_here), header, message);
    }

    /// A message leaves its sender.
    #[inline(always)]
    fn note_sent<A: Actor>(&mut self, sender: Sender, to: ActorId, message: &A::Message) {
        self.created += 1;
        if self.measures.is_some() {
            self.note_edge::<A>(sender, to.apart(), message);
        }
    }

    /// The type of a collection's members: as its description says or, as long as that is on its
    /// way, as the reference does.
    pub(in crate::pe) fn kind_in<A: Actor>(&mut self, collection: CollectionId) -> Option<KindId> {
        if let Some(local) = self.collections.get(collection) {
            return Some(local.info.kind);
        }
        let kind = self.common.kind_of(TypeId::of::<A>());
        if kind.is_none() {
            self.fail(GridError::NotRegistered(type_name::<A>()).into());
        }
        kind
    }

    /// Puts a message into the outbox.
    #[inline]
    pub(crate) fn put_out<A: Actor>(
        &mut self,
        to: PeId,
        kind: KindId,
        header: &Header,
        message: A::Message,
    ) {
        if self.is_over_budget() {
            // The job ends; a handler that goes on sending must not take more.
            return self.check_budget();
        }
        let heap_bytes = A::heap_bytes(&message);
        self.outbox.message(to, kind, header, message, heap_bytes);
    }

    /// Takes a message that came to this PE.
    pub(crate) fn arrive<A: Actor>(&mut self, kind: KindId, envelope: Envelope<A::Message>) {
        let header = envelope.header;
        let Some((kind, slot)) = self.resident(header.to) else {
            return self.astray(kind, Box::new(envelope));
        };
        if !self.replicas.is_empty() {
            self.pass_on::<A>(kind, &envelope);
        }
        if self.pass_at_once(kind, slot, &header, 1) {
            return self.push_ready::<A>(kind, slot, header.priority, envelope.message);
        }
        match self.judge(kind, slot, &header) {
            Turn::Now => {
                self.push_ready::<A>(kind, slot, header.priority, envelope.message);
                self.release_held(kind, slot, &header);
            }
            turn => self.not_now(kind, slot, turn, Box::new(envelope)),
        }
    }

    /// Takes all messages of a batch that came to this PE.
    pub(crate) fn arrive_all<A: Actor>(&mut self, batch: EnvelopeBatch<A::Message>) {
        let kind = batch.kind;
        let (all, mut messages) = batch.into_series();
        for series in &all {
            let Series { first, messages: count } = series;
            let of_series = messages.by_ref().take(*count as usize);
            if let Some((kind, slot)) = self.resident(first.to)
                && self.pass_at_once(kind, slot, first, *count)
            {
                self.push_all_ready::<A>(kind, slot, first.priority, of_series);
                continue;
            }
            for (header, message) in series.headers().zip(of_series) {
                self.arrive::<A>(kind, Envelope { header, message });
            }
        }
    }

    /// Takes a message of any type that came to this PE, or waited here.
    pub(in crate::pe) fn arrive_any(&mut self, kind: KindId, envelope: Box<dyn AnyEnvelope>) {
        if let Some(known) = self.kind(kind) {
            known.arrive(self, kind, envelope);
        }
    }

    /// Sends a message of any type on to another PE.
    pub(in crate::pe) fn forward(
        &mut self,
        kind: KindId,
        to: PeId,
        envelope: Box<dyn AnyEnvelope>,
    ) {
        if let Some(known) = self.kind(kind) {
            known.forward(self, kind, to, envelope);
        }
    }

    /// Deals with a message whose receiver does not live here.
    pub(in crate::pe) fn astray(&mut self, kind: KindId, mut envelope: Box<dyn AnyEnvelope>) {
        let Header { to, epoch, hops, origin, .. } = *envelope.header();
        if self.departing.contains_key(&to) {
            let envelope = self.keep(kind, envelope);
            if let Some(departing) = self.departing.get_mut(&to) {
                departing.arrivals.push(envelope);
            }
            return;
        }
        let Some(home) = self.home(to) else {
            let envelope = self.keep(kind, envelope);
            return self.keep_early(to.collection, Early::Message(kind, envelope));
        };
        let next = match self.directory.place(to) {
            // Whoever sent it here knows of a later move than this PE: the actor is on its way
            // here.
            Some(place) if place.epoch < epoch => {
                return self.hold_boxed(to, kind, envelope);
            }
            Some(Place { gone: true, .. }) if home == self.me => {
                return self.drop_dead_letter(envelope);
            }
            Some(Place { gone: true, epoch, .. }) => (home, epoch),
            Some(place) if hops < HOPS_MAX || home == self.me => {
                if origin != self.me {
                    self.tell_place(origin, to, place);
                }
                (place.pe, place.epoch_for_one())
            }
            Some(_) => (home, 0),
            None if home == self.me || epoch > 0 => {
                return self.hold_boxed(to, kind, envelope);
            }
            None => (home, 0),
        };
        let header = envelope.header_mut();
        header.hops = hops.saturating_add(1);
        header.epoch = next.1;
        self.statistics.forwarded += 1;
        if next.0 == self.me {
            return self.hold_boxed(to, kind, envelope);
        }
        self.forward(kind, next.0, envelope);
    }

    /// Drops a message that nobody will ever handle.
    pub(in crate::pe) fn dead_letter(&mut self, to: ActorId, reason: &str) {
        self.processed += 1;
        self.statistics.dead_letters += 1;
        self.looks.note_nobody(to);
        tracing::warn!(collection = to.collection.0, index = ?to.key, reason, "message dropped");
    }

    /// Learns where an actor lives, and sends on what waited for it.
    pub(in crate::pe) fn learn(&mut self, id: ActorId, place: Place) {
        if self.resident(id).is_some() || self.departing.contains_key(&id) {
            return;
        }
        if self.directory.learn(id, place, self.common.fault) {
            self.release_awaiting(id);
        }
    }

    pub(in crate::pe) fn release_awaiting(&mut self, id: ActorId) {
        if let Some(held) = self.awaiting.remove(&id) {
            for envelope in held.envelopes {
                self.arrive_any(held.kind, envelope.into_inner());
            }
        }
    }
}
