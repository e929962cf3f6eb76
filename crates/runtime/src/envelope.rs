//! A message with its routing.

use crate::Actor;
use crate::codec::{self, DecodeError};
use crate::id::KindId;
use crate::pe::Core;
use crate::route::Route;
use crate::wire::{Batch, Header};
use std::any::{Any, type_name};

/// A message to an actor of type `A`.
pub(crate) struct Envelope<A: Actor> {
    pub(crate) header: Header,
    pub(crate) message: A::Message,
}

/// A message to an actor whose type is not known here: one that waits for something.
pub(crate) trait AnyEnvelope: Send {
    fn header(&self) -> &Header;
    fn header_mut(&mut self) -> &mut Header;
    /// Hands it to its receiver, or sends it on.
    fn arrive(self: Box<Self>, kind: KindId, core: &mut Core);
    /// Puts it into the mailbox of the member in `slot`; its turn has come.
    fn ready(self: Box<Self>, kind: KindId, slot: u32, core: &mut Core);
    /// Sends it on.
    fn forward(self: Box<Self>, kind: KindId, to: gridspan_topology::PeId, core: &mut Core);
    /// Appends it, encoded.
    fn append(&self, bytes: &mut Vec<u8>);
}

impl<A: Actor> AnyEnvelope for Envelope<A> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn arrive(self: Box<Self>, kind: KindId, core: &mut Core) {
        core.arrive(kind, *self);
    }

    fn ready(self: Box<Self>, kind: KindId, slot: u32, core: &mut Core) {
        core.push_ready::<A>(kind, slot, self.header.priority, self.message);
    }

    fn forward(self: Box<Self>, kind: KindId, to: gridspan_topology::PeId, core: &mut Core) {
        core.outbox.envelope(to, kind, *self);
    }

    fn append(&self, bytes: &mut Vec<u8>) {
        self.append_after(&mut Route::begin(), bytes);
    }
}

impl<A: Actor> Envelope<A> {
    /// Appends it, encoded, to a batch whose headers so far `route` has seen.
    #[inline]
    fn append_after(&self, route: &mut Route, bytes: &mut Vec<u8>) {
        route.append(&self.header, bytes);
        codec::append(&self.message, bytes);
    }

    /// Reads from the front of `bytes` what [`append_after`](Self::append_after) wrote, and gives back the rest.
    #[inline]
    pub(crate) fn take<'a>(
        route: &mut Route,
        bytes: &'a [u8],
    ) -> Result<(Self, &'a [u8]), DecodeError> {
        let (header, rest) = route.take(bytes)?;
        let (message, rest) = codec::decode_front(type_name::<A::Message>(), rest)?;
        Ok((Self { header, message }, rest))
    }
}

/// Messages to actors of type `A`, in the order they were sent.
pub(crate) struct EnvelopeBatch<A: Actor> {
    pub(crate) kind: KindId,
    pub(crate) envelopes: Vec<Envelope<A>>,
}

impl<A: Actor> EnvelopeBatch<A> {
    pub(crate) fn deliver_all(self, core: &mut Core) {
        for envelope in self.envelopes {
            core.arrive(self.kind, envelope);
        }
    }
}

impl<A: Actor> Batch for EnvelopeBatch<A> {
    fn kind(&self) -> KindId {
        self.kind
    }

    fn len(&self) -> usize {
        self.envelopes.len()
    }

    fn append(&self, bytes: &mut Vec<u8>) {
        let mut route = Route::begin();
        for envelope in &self.envelopes {
            envelope.append_after(&mut route, bytes);
        }
    }

    fn append_some(&self, begin: usize, target: usize, bytes: &mut Vec<u8>) -> usize {
        let mut messages = 0;
        let mut route = Route::begin();
        for envelope in &self.envelopes[begin..] {
            envelope.append_after(&mut route, bytes);
            messages += 1;
            if bytes.len() >= target {
                break;
            }
        }
        messages
    }

    fn bytes(&self) -> usize {
        let bytes =
            |envelope: &Envelope<A>| size_of::<Envelope<A>>() + A::heap_bytes(&envelope.message);
        self.envelopes.iter().map(bytes).sum()
    }

    fn deliver(self: Box<Self>, core: &mut Core) {
        self.deliver_all(core);
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
