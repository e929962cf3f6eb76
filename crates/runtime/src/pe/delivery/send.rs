//! The sending side: a message gets a number, if those between its sender and its receiver are
//! numbered, and goes to the receiver.
//!
//! A reference can arrive before the description of its collection, since a member may pass it on
//! while others are still being created. Until the description arrives, messages go to main's PE,
//! which knows every collection.

use super::channels::Channels;
use super::directory::Route;
use crate::Actor;
use crate::address::id::{ActorId, COORDINATOR, CollectionId, KindId, Sender, Slot};
use crate::error::{GridError, JobError};
use crate::message::envelope::{Envelope, Header};
use crate::message::payload::Payload;
use crate::pe::core::Core;
use std::any::{TypeId, type_name};

impl Core {
    /// Sends one message.
    #[inline]
    pub(crate) fn send<A: Actor>(
        &mut self,
        sender: Sender,
        to: ActorId,
        priority: i32,
        message: A::Message,
    ) {
        // The sender's channels come first, while the sender is in the processor's cache.
        let channels = self.known_channels(sender);
        let resident = self.resident(to);
        if let Some((kind, slot)) = resident
            && !channels.is_some_and(|channels| channels.is_ordered(to, priority))
            && (self.replicas.is_empty() || self.is_single(sender, (kind, slot)))
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
                && (self.replicas.is_empty() || self.is_single(sender, (kind, slot)))
                && let Some(member) = self.member_in(Slot { kind, index: slot })
                && self.has_taken(member, source, after)
            {
                self.note_sent::<A>(sender, to, &message);
                return self.push_ready::<A>(kind, slot, priority, message);
            }
            self.channels(sender).take_next(to, priority)
        };
        if !self.replicas.is_empty() && self.is_sent_elsewhere(sender, to) {
            return;
        }
        self.note_sent::<A>(sender, to, &message);
        let Route { pe, second, epoch } = self.route_of(to, is_here);
        let header =
            Header { priority, epoch, after, ..Header::new(to, source, sequence, self.me) };
        if let Some(second) = second {
            self.created += 1;
            self.put_out::<A>(second, kind, &header, message.clone());
        }
        match pe == self.me {
            true => self.arrive_here::<A>(kind, Envelope { header, message }),
            false => self.put_out::<A>(pe, kind, &header, message),
        }
    }

    /// Sends the result of a reduction, which the coordinator has numbered, from the home of its
    /// target to the target.
    pub(crate) fn send_result(
        &mut self,
        kind: KindId,
        (to, number): (ActorId, u64),
        message: Payload,
    ) {
        let Some(known) = self.common.kind(kind) else { return };
        let epoch = self.route(to).epoch_for_one();
        self.created += 1;
        let header = Header::new(to, ActorId::system(COORDINATOR), number, self.me);
        match known.envelope(Header { epoch, ..header }, message) {
            Ok(envelope) => self.dispatch_envelope(kind, envelope),
            Err(error) => self.fail(JobError::Protocol(error.to_string())),
        }
    }

    /// Sends a message of this PE. The caller knows the type of the receiver only by its number.
    pub(crate) fn send_encoded(&mut self, kind: KindId, to: ActorId, message: Payload) {
        let Some(known) = self.common.kind(kind) else { return };
        let after = self.delivery.system.after(to.collection, 0);
        let sequence = self.delivery.system.take_next(to, 0);
        let epoch = self.route(to).epoch_for_one();
        self.created += 1;
        let source = ActorId::system(self.me);
        let header = Header { epoch, after, ..Header::new(to, source, sequence, self.me) };
        match known.envelope(header, message) {
            Ok(envelope) => self.dispatch_envelope(kind, envelope),
            Err(error) => self.fail(JobError::Protocol(error.to_string())),
        }
    }

    /// Counts a message that leaves its sender.
    #[inline(always)]
    fn note_sent<A: Actor>(&mut self, sender: Sender, to: ActorId, message: &A::Message) {
        self.created += 1;
        if self.measures.is_some() {
            self.note_edge::<A>(sender, to.apart(), message);
        }
    }

    /// The type of a collection's members, from its description or, until that arrives, from the
    /// reference.
    pub(crate) fn kind_in<A: Actor>(&mut self, collection: CollectionId) -> Option<KindId> {
        if let Some(local) = self.collections.get(collection) {
            return Some(local.info.kind);
        }
        let kind = self.common.kind_of(TypeId::of::<A>());
        if kind.is_none() {
            self.fail(GridError::NotRegistered(type_name::<A>().to_owned()).into());
        }
        kind
    }

    pub(crate) fn channels(&mut self, sender: Sender) -> &mut Channels {
        self.conversations(sender).1
    }

    /// The sender's identity for numbering, and its channels.
    #[inline(always)]
    pub(in crate::pe) fn conversations(&mut self, sender: Sender) -> (ActorId, &mut Channels) {
        if let Sender::Actor(Slot { kind, index }) = sender
            && let Some(Some(member)) = self.members[kind.index()].get_mut(index as usize)
        {
            return (member.id, member.channels.get_or_insert_default());
        }
        (ActorId::system(self.me), &mut self.delivery.system)
    }

    /// The sender's channels, if it has any: most senders have never sent to another PE. Always
    /// inlined, since a call would cost as much as the look-up.
    #[inline(always)]
    fn known_channels(&self, sender: Sender) -> Option<&Channels> {
        match sender {
            Sender::Pe => Some(&self.delivery.system),
            Sender::Actor(slot) => self.member_in(slot)?.channels.as_deref(),
        }
    }
}
