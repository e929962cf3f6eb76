//! Routing headers of messages, and their encoding: a header is written as its difference from the
//! one before.
//!
//! Messages of a batch often come from one actor, or go to one, so that most of a header repeats. A
//! header is a byte of flags and the fields that they announce; a sequence number that follows the
//! previous one is not written. The first header of a batch is compared with an all-zero header.

use crate::address::id::{ActorId, CollectionId};
use crate::address::index::Key;
use crate::message::codec::{self, DecodeError};
use gridspan_topology::PeId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const TO: u8 = 1;
const SOURCE: u8 = 1 << 1;
const SEQUENCE: u8 = 1 << 2;
const PRIORITY: u8 = 1 << 3;
const EPOCH: u8 = 1 << 4;
const HOPS: u8 = 1 << 5;
const ORIGIN: u8 = 1 << 6;
const AFTER: u8 = 1 << 7;

const WHAT: &str = "a message's header";

/// Source, destination and order of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) to: ActorId,
    pub(crate) source: ActorId,
    /// Number of the message among those from `source` to `to` in the channel of this priority.
    pub(crate) sequence: u64,
    pub(crate) priority: i32,
    /// The receiver's number of moves, as known where the message was last routed.
    pub(crate) epoch: u32,
    /// Number of times the message was forwarded.
    pub(crate) hops: u8,
    /// Whether the message is a broadcast to one member. Then `sequence` is its number, which
    /// orders it among all broadcasts of the receiver's collection.
    pub(crate) is_broadcast: bool,
    /// The PE that sent it first, which is notified of the receiver's actual place.
    pub(crate) origin: PeId,
    /// Number of broadcasts of the same sender to the receiver's collection that come before the
    /// message; for a broadcast, number of messages of the same sender to the receiver in this
    /// channel. Zero if none.
    pub(crate) after: u64,
}

impl Header {
    /// Creates the header of a message at priority zero that depends on no broadcast.
    #[inline(always)]
    pub(crate) fn new(to: ActorId, source: ActorId, sequence: u64, origin: PeId) -> Self {
        let (priority, epoch, hops, is_broadcast, after) = (0, 0, 0, false, 0);
        Self { to, source, sequence, priority, epoch, hops, is_broadcast, origin, after }
    }

    /// Whether the header differs from another only in the sequence number.
    #[inline(always)]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let Self { to, source, sequence: _, priority, epoch, hops, is_broadcast, origin, after } =
            *self;
        to == other.to
            && source == other.source
            && priority == other.priority
            && epoch == other.epoch
            && hops == other.hops
            && is_broadcast == other.is_broadcast
            && origin == other.origin
            && after == other.after
    }
}

/// The previous header, with which the next one is compared.
pub(crate) struct HeaderDelta(Header);

impl HeaderDelta {
    /// Creates the state before the first header of a batch.
    pub(crate) fn begin() -> Self {
        let no_actor = ActorId { collection: CollectionId(0), key: Key(0) };
        Self(Header::new(no_actor, no_actor, 0, PeId(0)))
    }

    /// Appends the next header.
    #[inline]
    pub(crate) fn append(&mut self, header: &Header, bytes: &mut Vec<u8>) {
        let sequence = self.0.sequence.wrapping_add(1);
        if header.sequence == sequence && header.is_like(&self.0) {
            self.0.sequence = sequence;
            return bytes.push(0);
        }
        self.append_changed(header, bytes);
    }

    #[inline(never)]
    fn append_changed(&mut self, header: &Header, bytes: &mut Vec<u8>) {
        let last = std::mem::replace(&mut self.0, *header);
        let flag = |differs: bool, flag: u8| if differs { flag } else { 0 };
        let flags = flag(header.to != last.to, TO)
            | flag(header.source != last.source, SOURCE)
            | flag(header.sequence != last.sequence.wrapping_add(1), SEQUENCE)
            | flag(header.priority != last.priority, PRIORITY)
            | flag(header.epoch != last.epoch, EPOCH)
            | flag(header.hops != last.hops || header.is_broadcast != last.is_broadcast, HOPS)
            | flag(header.origin != last.origin, ORIGIN)
            | flag(header.after != last.after, AFTER);
        bytes.push(flags);
        append_if(flags & TO, &header.to, bytes);
        append_if(flags & SOURCE, &header.source, bytes);
        append_if(flags & SEQUENCE, &header.sequence, bytes);
        append_if(flags & PRIORITY, &header.priority, bytes);
        append_if(flags & EPOCH, &header.epoch, bytes);
        append_if(flags & HOPS, &header.hops, bytes);
        append_if(flags & HOPS, &header.is_broadcast, bytes);
        append_if(flags & ORIGIN, &header.origin, bytes);
        append_if(flags & AFTER, &header.after, bytes);
    }

    /// Reads the next header, and returns it with the rest.
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<(Header, &'a [u8]), DecodeError> {
        let (_, rest) = self.take_next(bytes)?;
        Ok((self.0, rest))
    }

    /// Reads the next [`header`](Self::header). Returns whether it continues the previous one, with
    /// the next number and all else equal; and the rest of the bytes.
    #[inline]
    pub(crate) fn take_next<'a>(
        &mut self,
        bytes: &'a [u8],
    ) -> Result<(bool, &'a [u8]), DecodeError> {
        let Some((&flags, rest)) = bytes.split_first() else {
            return Err(DecodeError::new(WHAT, "it ends before the header"));
        };
        self.0.sequence = self.0.sequence.wrapping_add(1);
        let rest = if flags == 0 { rest } else { self.take_fields(flags, rest)? };
        Ok((flags == 0, rest))
    }

    /// Returns the header that was read last.
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        &self.0
    }

    fn take_fields<'a>(&mut self, flags: u8, mut rest: &'a [u8]) -> Result<&'a [u8], DecodeError> {
        take_if(flags & TO, &mut self.0.to, &mut rest)?;
        take_if(flags & SOURCE, &mut self.0.source, &mut rest)?;
        take_if(flags & SEQUENCE, &mut self.0.sequence, &mut rest)?;
        take_if(flags & PRIORITY, &mut self.0.priority, &mut rest)?;
        take_if(flags & EPOCH, &mut self.0.epoch, &mut rest)?;
        take_if(flags & HOPS, &mut self.0.hops, &mut rest)?;
        take_if(flags & HOPS, &mut self.0.is_broadcast, &mut rest)?;
        take_if(flags & ORIGIN, &mut self.0.origin, &mut rest)?;
        take_if(flags & AFTER, &mut self.0.after, &mut rest)?;
        Ok(rest)
    }
}

#[inline]
fn append_if<T: Serialize>(flag: u8, field: &T, bytes: &mut Vec<u8>) {
    if flag != 0 {
        codec::append(field, bytes);
    }
}

fn take_if<T: DeserializeOwned>(
    flag: u8,
    field: &mut T,
    rest: &mut &[u8],
) -> Result<(), DecodeError> {
    if flag != 0 {
        (*field, *rest) = codec::decode_front(WHAT, rest)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> impl Strategy<Value = Header> {
        let actor = || {
            (0..3u32, prop_oneof![0..3u128, any::<u128>()])
                .prop_map(|(id, key)| ActorId { collection: CollectionId(id), key: Key(key) })
        };
        let sequence = prop_oneof![0..4u64, any::<u64>()];
        (actor(), actor(), sequence, -1..2i32, 0..2u32, (0..2u8, any::<bool>()), 0..2u32, 0..2u64)
            .prop_map(
                |(to, source, sequence, priority, epoch, (hops, is_broadcast), origin, after)| {
                    let origin = PeId(origin);
                    Header {
                        to,
                        source,
                        sequence,
                        priority,
                        epoch,
                        hops,
                        is_broadcast,
                        origin,
                        after,
                    }
                },
            )
    }

    proptest! {
        #[test]
        fn decoded_headers_equal_encoded_ones(headers in prop::collection::vec(header(), 0..20)) {
            let mut bytes = Vec::new();
            let mut route = HeaderDelta::begin();
            headers.iter().for_each(|header| route.append(header, &mut bytes));
            let mut route = HeaderDelta::begin();
            let mut rest: &[u8] = &bytes;
            for expected in &headers {
                let (header, tail) = route.take(rest).unwrap();
                prop_assert_eq!(&header, expected);
                rest = tail;
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut route = HeaderDelta::begin();
            let mut rest: &[u8] = &bytes;
            while let Ok((_, tail)) = route.take(rest) {
                prop_assert!(tail.len() < rest.len());
                rest = tail;
            }
        }
    }

    #[test]
    fn a_header_takes_72_bytes_of_memory() {
        assert_eq!(size_of::<Header>(), 72);
    }

    #[test]
    fn the_header_of_the_next_message_of_a_series_takes_one_byte() {
        let actor = |key| ActorId { collection: CollectionId(1), key: Key(key) };
        let first = Header {
            to: actor(1 << 96),
            source: actor(7),
            sequence: 90_000,
            priority: -3,
            epoch: 4,
            hops: 0,
            is_broadcast: false,
            origin: PeId(2),
            after: 3,
        };
        let mut bytes = Vec::new();
        let mut route = HeaderDelta::begin();
        route.append(&first, &mut bytes);
        let before = bytes.len();
        route.append(&Header { sequence: 90_001, ..first }, &mut bytes);
        assert_eq!(bytes.len(), before + 1);
    }
}
