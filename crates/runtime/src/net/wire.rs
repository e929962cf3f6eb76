//! The encoding of a connection's data: stream kinds, frame headers and heartbeats.
//!
//! The first byte of a unidirectional stream gives its kind.
//!
//! | stream | content |
//! | --- | --- |
//! | [`STREAM_SMALL`] | frames one after another: number, length, bytes |
//! | [`STREAM_BULK`] | one frame: number, length, bytes, end of stream |
//!
//! Numbers and lengths are LEB128. A QUIC datagram carries one [`Received`], which is both the
//! heartbeat and the acknowledgement. Datagrams are read even while streams are not, so that a node
//! that accepts no more frames still counts as alive and still lets the other side drop
//! acknowledged frames.

use crate::session::Received;
use bytes::{BufMut, BytesMut};
use thiserror::Error;

/// The first byte of the stream of small frames.
pub(super) const STREAM_SMALL: u8 = 1;
/// The first byte of a stream of one bulk frame.
pub(super) const STREAM_BULK: u8 = 2;
/// The first byte of a datagram with a heartbeat.
const DATAGRAM_BEAT: u8 = 1;

/// Maximum length in bytes of a number: ten bytes hold 64 bits in groups of seven.
const LEB128_BYTES_MAX: usize = 10;
/// Length in bytes of the longest frame header: two numbers.
pub(super) const HEADER_BYTES_MAX: usize = 2 * LEB128_BYTES_MAX;
/// Maximum number of ranges in a datagram; later heartbeats acknowledge the others. At up to 12
/// bytes each, the ranges fit into a packet of 1,200 bytes, which every path carries.
const RANGES_MAX: usize = 64;

/// The other side sent bytes that a correct node does not send: the connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum WireError {
    /// A number does not fit 64 bits.
    #[error("a number is longer than 64 bits")]
    Number,
    /// A frame is larger than the limit.
    #[error("a frame of {bytes} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The length in the header.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A stream begins with an unknown byte.
    #[error("a stream of the unknown kind {0}")]
    StreamKind(u8),
    /// A datagram is not a heartbeat.
    #[error("a datagram that is not a heartbeat")]
    Datagram,
    /// A stream ended or was reset in the middle of a frame.
    #[error("a stream ended in the middle of a frame")]
    Truncated,
    /// A frame arrived before one that must precede it.
    #[error("frame {number} came before frame {expected}")]
    OutOfOrder {
        /// The number of the frame.
        number: u64,
        /// The number of the next frame in order.
        expected: u64,
    },
}

/// A frame's number and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    pub(super) bytes: u64,
}

impl Header {
    pub(super) fn write(self, to: &mut BytesMut) {
        write_number(to, self.number);
        write_number(to, self.bytes);
    }

    /// Decodes a header, and returns it with its length; `None` if `from` ends before the header
    /// does.
    pub(super) fn read(from: &[u8], limit: u64) -> Result<Option<(Self, usize)>, WireError> {
        let Some((number, first)) = read_number(from)? else { return Ok(None) };
        let Some((bytes, second)) = read_number(&from[first..])? else { return Ok(None) };
        if bytes > limit {
            return Err(WireError::TooLarge { bytes, limit });
        }
        Ok(Some((Self { number, bytes }, first + second)))
    }
}

/// Encodes a heartbeat. Ranges beyond [`RANGES_MAX`] are omitted, which is safe: a later heartbeat
/// acknowledges them.
pub(super) fn write_beat(to: &mut BytesMut, received: &Received) {
    to.put_u8(DATAGRAM_BEAT);
    write_number(to, received.small);
    write_number(to, received.bulk);
    let ranges = &received.bulk_above[..received.bulk_above.len().min(RANGES_MAX)];
    let mut end_before = received.bulk;
    for &(first, end) in ranges {
        write_number(to, first - end_before);
        write_number(to, end - first);
        end_before = end;
    }
}

/// Decodes a heartbeat.
pub(super) fn read_beat(from: &[u8]) -> Result<Received, WireError> {
    let mut rest = from.strip_prefix(&[DATAGRAM_BEAT]).ok_or(WireError::Datagram)?;
    let mut next = || -> Result<u64, WireError> {
        let (number, bytes) = read_number(rest)?.ok_or(WireError::Datagram)?;
        rest = &rest[bytes..];
        Ok(number)
    };
    let mut received = Received { small: next()?, bulk: next()?, bulk_above: vec![] };
    let mut end_before = received.bulk;
    while !rest.is_empty() {
        let mut next = || -> Result<u64, WireError> {
            let (number, bytes) = read_number(rest)?.ok_or(WireError::Datagram)?;
            rest = &rest[bytes..];
            Ok(number)
        };
        let first = end_before.checked_add(next()?).ok_or(WireError::Number)?;
        let end = first.checked_add(next()?).ok_or(WireError::Number)?;
        received.bulk_above.push((first, end));
        end_before = end;
        if received.bulk_above.len() > RANGES_MAX {
            return Err(WireError::Datagram);
        }
    }
    Ok(received)
}

fn write_number(to: &mut BytesMut, mut number: u64) {
    while number >= 0x80 {
        to.put_u8(number as u8 | 0x80);
        number >>= 7;
    }
    to.put_u8(number as u8);
}

fn read_number(from: &[u8]) -> Result<Option<(u64, usize)>, WireError> {
    let mut number = 0u64;
    for (at, &byte) in from.iter().take(LEB128_BYTES_MAX).enumerate() {
        let part = u64::from(byte & 0x7f);
        if at == LEB128_BYTES_MAX - 1 && byte > 1 {
            return Err(WireError::Number);
        }
        number |= part << (7 * at);
        if byte < 0x80 {
            return Ok(Some((number, at + 1)));
        }
    }
    if from.len() >= LEB128_BYTES_MAX { Err(WireError::Number) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_that_states_four_gibibytes_is_refused() {
        let mut bytes = BytesMut::new();
        Header { number: 7, bytes: 4 << 30 }.write(&mut bytes);
        let error = Header::read(&bytes, 64 << 20).unwrap_err();
        assert_eq!(error, WireError::TooLarge { bytes: 4 << 30, limit: 64 << 20 });
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        assert_eq!(read_number(&[0xff; 10]), Err(WireError::Number));
        assert_eq!(read_number(&[0xff; 9]), Ok(None));
    }

    proptest! {
        #[test]
        fn decoding_inverts_encoding(number: u64, bytes: u64, cut in 0usize..HEADER_BYTES_MAX) {
            let header = Header { number, bytes };
            let mut written = BytesMut::new();
            header.write(&mut written);
            prop_assert!(written.len() <= HEADER_BYTES_MAX);
            let length = written.len();
            prop_assert_eq!(Header::read(&written, u64::MAX), Ok(Some((header, length))));
            let cut = cut.min(length - 1);
            prop_assert_eq!(Header::read(&written[..cut], u64::MAX), Ok(None));
        }

        #[test]
        fn decoded_signs_of_life_equal_the_encoded_ones(
            small: u64,
            steps in prop::collection::vec((1u64..9, 1u64..9), 0..9),
        ) {
            let mut received = Received { small, bulk: 5, bulk_above: vec![] };
            let mut end = 5;
            for (gap, length) in steps {
                received.bulk_above.push((end + gap, end + gap + length));
                end += gap + length;
            }
            let mut written = BytesMut::new();
            write_beat(&mut written, &received);
            prop_assert_eq!(read_beat(&written), Ok(received));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_beat(&bytes);
            let _ = Header::read(&bytes, 1000);
        }
    }
}
