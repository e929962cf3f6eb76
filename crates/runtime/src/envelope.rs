//! Messages with their routing, one by one and in batches. Nothing here knows an actor, only the
//! type of its messages.

use crate::codec::{self, DecodeError};
use crate::id::KindId;
pub(crate) use crate::route::Header;
use crate::route::Route;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::{Any, type_name};

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
    /// The same, to look at.
    fn as_any(&self) -> &dyn Any;
}

impl<M: Serialize + Send + 'static> AnyEnvelope for Envelope<M> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn append(&self, bytes: &mut Vec<u8>) {
        self.append_after(&mut Route::begin(), bytes);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<M: Serialize> Envelope<M> {
    /// Appends it, encoded, to a batch whose headers so far `route` has seen.
    #[inline]
    pub(crate) fn append_after(&self, route: &mut Route, bytes: &mut Vec<u8>) {
        route.append(&self.header, bytes);
        codec::append(&self.message, bytes);
    }
}

impl<M: DeserializeOwned> Envelope<M> {
    /// Reads an envelope that follows those that `route` has seen, and gives back the rest.
    #[inline]
    pub(crate) fn take<'a>(
        route: &mut Route,
        bytes: &'a [u8],
    ) -> Result<(Self, &'a [u8]), DecodeError> {
        let (header, rest) = route.take(bytes)?;
        let (message, rest) = codec::decode_front(type_name::<M>(), rest)?;
        Ok((Self { header, message }, rest))
    }
}

/// Messages to actors of one type on a PE of the same node, in the order they were sent.
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
