//! Messages with their routing headers, one by one and in batches. The code here depends on the
//! type of an actor's messages, but not on the actor.
//!
//! Messages of a batch often come from one actor and go to one actor, so that a header repeats
//! except for its number. Such a *series* has one header, in memory as on the wire (`header`), and
//! its receiver takes it as one where possible.

use crate::address::id::KindId;
use crate::message::codec::{self, DecodeError};
pub(crate) use crate::message::header::Header;
use crate::message::header::HeaderDelta;
use crate::message::trace::{TRACE_MEMORY, Trace, Traces};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::{Any, type_name};
use std::vec;

/// A message to an actor whose messages are of type `M`.
pub(crate) struct Envelope<M> {
    pub(crate) header: Header,
    pub(crate) message: M,
}

/// A waiting message, of a type that is not known here.
pub(crate) trait AnyEnvelope: Send {
    fn header(&self) -> &Header;
    fn header_mut(&mut self) -> &mut Header;
    /// Appends the encoded envelope.
    fn append(&self, bytes: &mut Vec<u8>);
    /// Returns another envelope, with a copy of the message.
    fn copy(&self) -> Box<dyn AnyEnvelope>;
    /// Returns the [`Envelope`] itself, for code that knows its type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    /// Returns a reference to the [`Envelope`].
    fn as_any(&self) -> &dyn Any;
}

impl<M: Clone + Serialize + Send + 'static> AnyEnvelope for Envelope<M> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn append(&self, bytes: &mut Vec<u8>) {
        HeaderDelta::begin().append(&self.header, bytes);
        codec::append(&self.message, bytes);
    }

    fn copy(&self) -> Box<dyn AnyEnvelope> {
        Box::new(Self { header: self.header, message: self.message.clone() })
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl<M: DeserializeOwned> Envelope<M> {
    /// Reads an envelope that was encoded outside of a batch, and returns it with the rest.
    pub(crate) fn take(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (header, rest) = HeaderDelta::begin().take(bytes)?;
        let (message, rest) = codec::decode_front(type_name::<M>(), rest)?;
        Ok((Self { header, message }, rest))
    }
}

/// Consecutive messages of one sender to one receiver, whose headers differ only in their numbers.
pub(crate) struct Series {
    pub(crate) first: Header,
    /// Number of messages; their sequence numbers are consecutive.
    pub(crate) messages: u32,
}

impl Series {
    /// Whether a message with this header is the next in the series.
    #[inline]
    fn is_continued_by(&self, header: &Header) -> bool {
        let sequence = self.first.sequence.wrapping_add(u64::from(self.messages));
        header.sequence == sequence && header.is_like(&self.first)
    }

    /// Returns the headers of all messages.
    pub(crate) fn headers(&self) -> impl Iterator<Item = Header> {
        let Self { first, messages } = *self;
        (0..u64::from(messages)).map(move |position| Header {
            sequence: first.sequence.wrapping_add(position),
            ..first
        })
    }
}

/// Messages to actors of one type on one PE, in the order they were sent.
pub(crate) struct EnvelopeBatch<M> {
    pub(crate) kind: KindId,
    series: Vec<Series>,
    /// The messages of all series, one after the other.
    messages: Vec<M>,
    /// Number of bytes that the messages own on the heap.
    heap_bytes: usize,
    /// Where the messages come from, while the job is recorded.
    traces: Option<Box<BatchTraces>>,
}

/// Where the messages of a batch come from, and their sizes in bytes.
#[derive(Default)]
pub(crate) struct BatchTraces {
    traces: Traces,
    sizes: Vec<u32>,
}

impl BatchTraces {
    fn push(&mut self, trace: Trace, bytes: usize) {
        self.traces.push(trace);
        self.sizes.push(size(bytes));
    }

    /// The trace and the size of each message.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Trace, u32)> {
        self.traces.each().zip(self.sizes.iter().copied())
    }
}

/// Maximum number of bytes that are reserved for the messages of a batch before they are decoded:
/// more than nearly all batches need, and little for a peer that sends a wrong number.
const RESERVED_BYTES_MAX: usize = 1 << 20;

/// Returns for how many of the stated `messages`, encoded in `bytes` bytes, to reserve memory.
fn reserved<M>(messages: u32, bytes: usize) -> usize {
    // A message takes at least a byte on the wire, but may take far more in memory.
    let fitting = RESERVED_BYTES_MAX / size_of::<M>().max(1);
    (messages as usize).min(bytes).min(fitting)
}

/// Converts a size to 32 bits; larger sizes become the maximum.
fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

impl<M> EnvelopeBatch<M> {
    /// Creates an empty batch for actors of this type.
    pub(crate) fn new(kind: KindId) -> Self {
        Self { kind, series: Vec::new(), messages: Vec::new(), heap_bytes: 0, traces: None }
    }

    /// Adds a message, which owns `heap_bytes` on the heap. Always inlined, so that the message is
    /// moved once.
    #[inline(always)]
    pub(crate) fn push(&mut self, header: &Header, message: M, heap_bytes: usize) {
        let continues = self.series.last().is_some_and(|series| series.is_continued_by(header));
        self.add(continues, header, message);
        self.heap_bytes += heap_bytes;
    }

    /// Adds a message that `continues` the last series, if there is one, or starts another.
    #[inline(always)]
    fn add(&mut self, continues: bool, header: &Header, message: M) {
        match self.series.last_mut() {
            Some(series) if continues => series.messages += 1,
            _ => self.series.push(Series { first: *header, messages: 1 }),
        }
        self.messages.push(message);
    }

    /// Returns the size in memory without the heap data of the messages.
    #[inline]
    pub(crate) fn own_bytes(&self) -> usize {
        size_of_val(&*self.series) + size_of_val(&*self.messages)
    }

    /// Takes the traces of the messages, if the job is recorded.
    pub(crate) fn take_traces(&mut self) -> Option<Box<BatchTraces>> {
        self.traces.take()
    }

    /// Returns the series, and the messages of all of them.
    pub(crate) fn into_series(self) -> (Vec<Series>, vec::IntoIter<M>) {
        (self.series, self.messages.into_iter())
    }
}

impl<M: DeserializeOwned> EnvelopeBatch<M> {
    /// Decodes a batch from the network: exactly `messages` messages and, if it `is_traced`, their
    /// traces, and nothing else.
    pub(crate) fn decode(
        kind: KindId,
        messages: u32,
        bytes: &[u8],
        is_traced: bool,
    ) -> Result<Self, DecodeError> {
        let mut batch = Self::new(kind);
        let mut sizes = Vec::new();
        batch.messages.reserve(reserved::<M>(messages, bytes.len()));
        let mut route = HeaderDelta::begin();
        let mut rest = bytes;
        for _ in 0..messages {
            let (continues, tail) = route.take_next(rest)?;
            let (message, tail) = codec::decode_front(type_name::<M>(), tail)?;
            batch.add(continues, route.header(), message);
            if is_traced {
                sizes.push(size(rest.len() - tail.len()));
            }
            rest = tail;
        }
        if is_traced {
            let traces = Traces::decode(messages, rest)?;
            batch.traces = Some(Box::new(BatchTraces { traces, sizes }));
            return Ok(batch);
        }
        match rest {
            [] => Ok(batch),
            _ => Err(DecodeError::new(type_name::<M>(), TOO_LONG)),
        }
    }
}

/// The reason for refusing bytes after the last message.
pub(crate) const TOO_LONG: &str = "bytes after the last message";

/// An [`EnvelopeBatch`] of a type that is not known here.
pub(crate) trait Batch: Any + Send {
    /// Returns the type of the receivers.
    fn kind(&self) -> KindId;
    /// Returns the number of bytes that count towards the memory budget.
    fn bytes(&self) -> usize;
    /// Notes where the last message comes from, and its size.
    fn trace(&mut self, trace: Trace, bytes: usize);
}

impl<M: Send + 'static> Batch for EnvelopeBatch<M> {
    fn kind(&self) -> KindId {
        self.kind
    }

    fn bytes(&self) -> usize {
        let traces = self.traces.as_ref().map_or(0, |traces| traces.sizes.len() * TRACE_MEMORY);
        self.own_bytes() + self.heap_bytes + traces
    }

    fn trace(&mut self, trace: Trace, bytes: usize) {
        self.traces.get_or_insert_default().push(trace, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::{ActorId, CollectionId};
    use crate::address::index::Key;
    use gridspan_topology::PeId;
    use proptest::prelude::*;

    const KIND: KindId = KindId(0);

    fn header(to: u128, sequence: u64, priority: i32) -> Header {
        let actor = |key| ActorId { collection: CollectionId(1), key: Key(key) };
        let (epoch, hops, is_broadcast, origin, after) = (0, 0, false, PeId(0), 0);
        let (to, source) = (actor(to), actor(100));
        Header { to, source, sequence, priority, epoch, hops, is_broadcast, origin, after }
    }

    fn batch_of(messages: &[(Header, u16)]) -> EnvelopeBatch<u16> {
        let mut batch = EnvelopeBatch::new(KIND);
        messages.iter().for_each(|(header, message)| batch.push(header, *message, 0));
        batch
    }

    fn taken_apart(batch: EnvelopeBatch<u16>) -> Vec<(Header, u16)> {
        let (series, messages) = batch.into_series();
        series.iter().flat_map(Series::headers).zip(messages).collect()
    }

    fn lengths(batch: &EnvelopeBatch<u16>) -> Vec<u32> {
        batch.series.iter().map(|series| series.messages).collect()
    }

    fn messages() -> impl Strategy<Value = Vec<(Header, u16)>> {
        let header = (0..2u128, 0..3u64, 0..2i32)
            .prop_map(|(to, sequence, priority)| header(to, sequence, priority));
        prop::collection::vec((header, any::<u16>()), 0..30)
    }

    #[test]
    fn messages_of_one_pair_with_consecutive_numbers_share_a_header() {
        let headers = [
            header(1, 5, 0),
            header(1, 6, 0),
            header(1, 7, 0),
            header(1, 9, 0),
            header(1, 10, 1),
            header(2, 11, 1),
            header(2, 12, 1),
        ];
        let batch = batch_of(&headers.map(|header| (header, 0)));
        assert_eq!(lengths(&batch), [3, 1, 1, 2], "a gap, another priority, another receiver");
        assert_eq!(batch.bytes(), 4 * size_of::<Series>() + 7 * 2);
    }

    #[test]
    fn traces_count_towards_the_memory_budget() {
        let mut batch = batch_of(&[(header(1, 0, 0), 7), (header(1, 1, 0), 8)]);
        let untraced = batch.bytes();
        let trace = Trace { pe: 2, span: None, sent_ns: 90 };
        [5, 6].into_iter().for_each(|bytes| batch.trace(trace, bytes));
        assert_eq!(batch.bytes(), untraced + 2 * TRACE_MEMORY);
    }

    proptest! {
        #[test]
        fn a_batch_returns_the_messages_put_into_it(messages in messages()) {
            prop_assert_eq!(taken_apart(batch_of(&messages)), messages);
        }

        #[test]
        fn a_decoded_batch_equals_the_encoded_one(messages in messages()) {
            let (mut bytes, mut route) = (Vec::new(), HeaderDelta::begin());
            for (header, message) in &messages {
                route.append(header, &mut bytes);
                codec::append(message, &mut bytes);
            }
            let batch = EnvelopeBatch::decode(KIND, messages.len() as u32, &bytes, false).unwrap();
            prop_assert_eq!(lengths(&batch), lengths(&batch_of(&messages)));
            prop_assert_eq!(taken_apart(batch), messages);
        }
    }

    #[test]
    fn the_memory_reserved_for_a_batch_is_limited_by_its_length_and_by_the_size_of_messages() {
        assert_eq!(reserved::<u16>(30, 100), 30);
        assert_eq!(reserved::<u16>(u32::MAX, 100), 100, "the stated number is too high");
        assert_eq!(reserved::<[u64; 512]>(u32::MAX, 1 << 20), 256);
        assert_eq!(reserved::<[u8; 2 << 20]>(3, 100), 0, "one message exceeds the limit");
        assert_eq!(reserved::<()>(30, 100), 30);
    }

    #[test]
    fn a_batch_of_wrong_length_is_refused() {
        let (mut bytes, mut route) = (Vec::new(), HeaderDelta::begin());
        route.append(&header(1, 0, 0), &mut bytes);
        codec::append(&7u16, &mut bytes);
        assert!(EnvelopeBatch::<u16>::decode(KIND, 1, &bytes, false).is_ok());
        assert!(EnvelopeBatch::<u16>::decode(KIND, 2, &bytes, false).is_err());
        assert!(EnvelopeBatch::<u16>::decode(KIND, 0, &bytes, false).is_err());
        assert!(EnvelopeBatch::<u16>::decode(KIND, 1, &bytes, true).is_err(), "no traces");
    }

    #[test]
    fn traces_follow_the_messages_of_a_batch() {
        let (mut bytes, mut route) = (Vec::new(), HeaderDelta::begin());
        for sequence in [0, 1] {
            route.append(&header(1, sequence, 0), &mut bytes);
            codec::append(&7u16, &mut bytes);
        }
        let trace = |span| Trace { pe: 2, span: Some(span), sent_ns: 90 };
        let mut traces = Traces::default();
        [trace(4), trace(5)].into_iter().for_each(|trace| traces.push(trace));
        let first_bytes = bytes.len() as u32 - 2;
        codec::append(&traces, &mut bytes);

        let mut batch = EnvelopeBatch::<u16>::decode(KIND, 2, &bytes, true).unwrap();

        let found: Vec<_> = batch.take_traces().unwrap().each().collect();
        assert_eq!(found, [(trace(4), first_bytes), (trace(5), 2)]);
        assert!(EnvelopeBatch::<u16>::decode(KIND, 2, &bytes, false).is_err());
    }
}
