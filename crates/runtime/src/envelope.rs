//! Messages with their routing, one by one and in batches. Nothing here knows an actor, only the
//! type of its messages.

use crate::codec;
use crate::id::{ActorId, KindId};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::any::Any;

/// Where a message comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) to: ActorId,
    pub(crate) source: ActorId,
    /// Counts the messages from `source` to `to` at this priority.
    pub(crate) sequence: u64,
    pub(crate) priority: i32,
    /// How often the receiver had moved, as far as whoever chose the way knew.
    pub(crate) epoch: u32,
    /// How often the message was forwarded.
    pub(crate) hops: u8,
    /// The PE that sent it first; it is told where the receiver really is.
    pub(crate) origin: PeId,
}

/// A message to an actor whose messages are of type `M`.
pub(crate) struct Envelope<M> {
    pub(crate) header: Header,
    pub(crate) message: M,
}

/// A message of a type that is not known here: one that waits for something.
pub(crate) trait AnyEnvelope: Send {
    fn header(&self) -> &Header;
    fn header_mut(&mut self) -> &mut Header;
    /// Appends it, encoded.
    fn append(&self, bytes: &mut Vec<u8>);
    /// The [`Envelope`] itself, for whoever knows its type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<M: Serialize + Send + 'static> AnyEnvelope for Envelope<M> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn append(&self, bytes: &mut Vec<u8>) {
        codec::append(&self.header, bytes);
        codec::append(&self.message, bytes);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Messages to actors of one type, in the order they were sent.
pub(crate) struct EnvelopeBatch<M> {
    pub(crate) kind: KindId,
    pub(crate) envelopes: Vec<Envelope<M>>,
    /// What the messages own on the heap.
    pub(crate) heap_bytes: usize,
}

/// An [`EnvelopeBatch`] of a type that is not known here.
pub(crate) trait Batch: Send {
    /// The type of the receivers.
    fn kind(&self) -> KindId;
    /// How many messages.
    fn len(&self) -> usize;
    /// Appends all of them to `bytes`.
    fn append(&self, bytes: &mut Vec<u8>);
    /// Appends messages from the one at `begin` on until there are `target` bytes. Returns how many,
    /// at least one.
    fn append_some(&self, begin: usize, target: usize, bytes: &mut Vec<u8>) -> usize;
    /// What they count for in the memory budget.
    fn bytes(&self) -> usize;
    /// For appending to a batch that is still open.
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// The batch itself, for whoever knows its type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<M: Serialize + Send + 'static> Batch for EnvelopeBatch<M> {
    fn kind(&self) -> KindId {
        self.kind
    }

    fn len(&self) -> usize {
        self.envelopes.len()
    }

    fn append(&self, bytes: &mut Vec<u8>) {
        for envelope in &self.envelopes {
            envelope.append(bytes);
        }
    }

    fn append_some(&self, begin: usize, target: usize, bytes: &mut Vec<u8>) -> usize {
        let mut messages = 0;
        for envelope in &self.envelopes[begin..] {
            envelope.append(bytes);
            messages += 1;
            if bytes.len() >= target {
                break;
            }
        }
        messages
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.envelopes) + self.heap_bytes
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
