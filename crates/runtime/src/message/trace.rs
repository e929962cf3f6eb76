//! The trace of a message: where it comes from, for the recording of a job. Only recorded jobs send
//! traces: behind the messages of a frame, beside the value of a payload, or behind an encoded
//! payload.

use crate::message::codec::{self, DecodeError};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The mark at the end of a payload with a trace: random bytes, with which no other payload ends by
/// chance.
const MARK: [u8; 16] = [
    0x8e, 0x1f, 0x52, 0xd3, 0x07, 0xb9, 0x64, 0xaa, 0x3c, 0xe0, 0x95, 0x7b, 0xd8, 0x41, 0xf6, 0x2d,
];
/// Bytes behind a payload: PE, span and time, and the mark.
const TRAILER_BYTES: usize = 4 + 8 + 8 + MARK.len();
/// The number that stands for no span.
const NO_SPAN: u64 = u64::MAX;
/// Approximate bytes of the trace of a message in a frame.
const TRACE_BYTES: usize = 14;
/// Number of bytes that a trace adds to a message in the memory budget: those of an entry of
/// [`Traces`], and those of the number that holds the size of the message.
pub(crate) const TRACE_MEMORY: usize = size_of::<(Trace, u32)>() + size_of::<u32>();

/// Where a message comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trace {
    /// The PE that sent it, by its number in the recording.
    pub(crate) pe: u32,
    /// The span in that PE's recording.
    pub(crate) span: Option<u64>,
    /// When it was sent, in nanoseconds since the start of the recording.
    pub(crate) sent_ns: u64,
}

/// The traces of the messages of a frame, in order. Messages of equal trace share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traces(Vec<(Trace, u32)>);

impl Traces {
    pub(crate) fn push(&mut self, trace: Trace) {
        match self.0.last_mut() {
            Some((last, messages)) if *last == trace => *messages += 1,
            _ => self.0.push((trace, 1)),
        }
    }

    /// Approximate number of bytes on the wire.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * TRACE_BYTES
    }

    /// Reads the traces of this number of messages, which take up all of `bytes`.
    pub(crate) fn decode(messages: u32, bytes: &[u8]) -> Result<Self, DecodeError> {
        const WHAT: &str = "the traces of messages";
        let traces: Self = codec::decode(WHAT, bytes)?;
        let all: u64 = traces.0.iter().map(|(_, messages)| u64::from(*messages)).sum();
        match all == u64::from(messages) {
            true => Ok(traces),
            false => Err(DecodeError::new(WHAT, "they are more or fewer than the messages")),
        }
    }

    /// The trace of each message.
    pub(crate) fn each(&self) -> impl Iterator<Item = Trace> {
        self.0.iter().flat_map(|(trace, messages)| std::iter::repeat_n(*trace, *messages as usize))
    }
}

impl Trace {
    /// Puts the trace behind an encoded payload.
    pub(crate) fn append(self, bytes: &mut Vec<u8>) {
        bytes.reserve_exact(TRAILER_BYTES);
        bytes.extend_from_slice(&self.pe.to_le_bytes());
        bytes.extend_from_slice(&self.span.unwrap_or(NO_SPAN).to_le_bytes());
        bytes.extend_from_slice(&self.sent_ns.to_le_bytes());
        bytes.extend_from_slice(&MARK);
    }

    /// Splits an encoded payload from the trace behind it, if there is one.
    pub(crate) fn take(bytes: Bytes) -> (Bytes, Option<Self>) {
        let found = bytes.len().checked_sub(TRAILER_BYTES).and_then(|length| {
            let trailer = bytes[length..].strip_suffix(&MARK)?;
            let (pe, rest) = trailer.split_first_chunk()?;
            let (span, rest) = rest.split_first_chunk()?;
            let (sent_ns, _) = rest.split_first_chunk()?;
            let span = Some(u64::from_le_bytes(*span)).filter(|span| *span != NO_SPAN);
            let (pe, sent_ns) = (u32::from_le_bytes(*pe), u64::from_le_bytes(*sent_ns));
            Some((length, Self { pe, span, sent_ns }))
        });
        match found {
            Some((length, trace)) => (bytes.slice(..length), Some(trace)),
            None => (bytes, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(span: impl Into<Option<u64>>) -> Trace {
        Trace { pe: 3, span: span.into(), sent_ns: 1_000_000 }
    }

    #[test]
    fn traces_of_a_frame_are_read_as_they_were_written() {
        let each = [trace(7), trace(7), trace(None), trace(8), trace(7)];
        let mut traces = Traces::default();
        each.iter().for_each(|trace| traces.push(*trace));
        let bytes = codec::encode(&traces);
        assert!(bytes.len() <= traces.bytes());
        let read = Traces::decode(5, &bytes).unwrap();
        assert_eq!(read.each().collect::<Vec<_>>(), each);
        assert!(Traces::decode(4, &bytes).is_err());
        assert!(Traces::decode(5, &bytes[1..]).is_err());
    }

    #[test]
    fn a_trace_behind_bytes_is_read_as_it_was_written() {
        for span in [Some(9), None] {
            let mut bytes = vec![1_u8; 100];
            trace(span).append(&mut bytes);
            let (bytes, found) = Trace::take(bytes.into());
            assert_eq!(bytes, vec![1_u8; 100]);
            assert_eq!(found, Some(trace(span)));
        }
    }

    #[test]
    fn bytes_without_a_trace_are_left_alone() {
        for length in [0, 10, 35, 36, 100] {
            let bytes = Bytes::from(vec![1_u8; length]);
            assert_eq!(Trace::take(bytes.clone()), (bytes, None));
        }
    }
}
