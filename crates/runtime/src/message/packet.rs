//! A packet from a PE, as a value and as frames.

use super::control::Control;
use super::spread::Spread;
use crate::address::id::KindId;
use crate::error::JobError;
use crate::message::codec::{self, DecodeError};
use crate::message::envelope::Batch;
#[cfg(feature = "net")]
use crate::message::frame::Frame;
use crate::message::header::{Header, HeaderDelta};
use crate::message::trace::{TRACE_MEMORY, Trace, Traces};
use bytes::Bytes;
use gridspan_topology::PeId;
use serde::Serialize;

/// A unit that one PE sends to another.
pub struct Packet(pub(crate) Content);

pub(crate) enum Content {
    /// Messages to actors of one type, as values. Stays within the node.
    Batch(Box<dyn Batch>),
    /// Messages to actors of one type, encoded for another node.
    Frame(MessageFrame),
    /// Messages to actors of one type, received from the network.
    Encoded(EncodedBatch),
    /// A packet for PEs of several other nodes. Goes to the relay of the node.
    Spread(Box<Spread>),
    /// Any other packet.
    Control(Box<Control>),
    /// A packet that has arrived at its node at this time, while the job is recorded.
    Stamped(u64, Box<Packet>),
}

/// Messages to actors of one type, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct EncodedBatch {
    pub(crate) kind: KindId,
    pub(crate) messages: u32,
    pub(crate) bytes: Bytes,
    /// Whether the traces of the messages follow them.
    pub(crate) is_traced: bool,
}

/// Tag in a frame's ninth byte: messages to actors.
const MESSAGES: u8 = 0;
/// Tag in a frame's ninth byte: a control.
const CONTROL: u8 = 1;
/// Tag in a frame's ninth byte: messages to actors, with their traces. Frames for a relay have the
/// tags in between.
const TRACED_MESSAGES: u8 = 9;
/// Approximate size at which a frame of messages is full: far above the overhead of a frame, and
/// small enough to count as a small frame. Small frames share a stream and arrive in order, so that
/// their messages need not be held for earlier ones.
const FRAME_BYTES: usize = 32 << 10;
/// Initial capacity of a frame: an ask or an answer fits.
const FRAME_BYTES_FIRST: usize = 256;
/// Bytes of sender, receiver, tag, type and number of messages.
const MESSAGES_HEADER_BYTES: usize = 4 + 4 + 1 + 2 + 4;

impl Packet {
    /// Returns the outcome of the job, if the packet announces its end.
    pub(crate) fn stop(&self) -> Option<&Result<(), JobError>> {
        match &self.0 {
            Content::Control(control) => match &**control {
                Control::Stop { outcome } => Some(outcome),
                _ => None,
            },
            _ => None,
        }
    }

    /// Notes when the packet has arrived at its node, in nanoseconds since the driver began. Only
    /// the recording of a job needs it.
    #[must_use]
    pub fn stamped(self, arrived_ns: u64) -> Self {
        Self(Content::Stamped(arrived_ns, Box::new(self)))
    }

    pub(crate) fn control(control: Control) -> Self {
        Self(Content::Control(Box::new(control)))
    }

    /// Reads sender, receiver and packet from a frame that [`into_frame`](Self::into_frame) wrote.
    /// Messages stay encoded until the receiver takes them.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the frame is too short, or its content cannot be decoded.
    pub fn from_frame(frame: &Bytes) -> Result<(PeId, PeId, Self), DecodeError> {
        const WHAT: &str = "a frame";
        let short = || DecodeError::new(WHAT, "shorter than its header");
        let (from, rest) = frame.split_first_chunk().ok_or_else(short)?;
        let (to, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (&tag, rest) = rest.split_first().ok_or_else(short)?;
        let content = match tag {
            MESSAGES | TRACED_MESSAGES => {
                let (kind, rest) = rest.split_first_chunk().ok_or_else(short)?;
                let (messages, rest) = rest.split_first_chunk().ok_or_else(short)?;
                Content::Encoded(EncodedBatch {
                    kind: KindId(u16::from_le_bytes(*kind)),
                    messages: u32::from_le_bytes(*messages),
                    bytes: frame.slice_ref(rest),
                    is_traced: tag == TRACED_MESSAGES,
                })
            }
            CONTROL => Content::Control(Box::new(codec::decode(WHAT, rest)?)),
            tag => return Err(DecodeError::new(WHAT, format_args!("unknown tag {tag}"))),
        };
        let pe = |bytes: &[u8; 4]| PeId(u32::from_le_bytes(*bytes));
        Ok((pe(from), pe(to), Self(content)))
    }

    /// Converts the packet to a frame for another node.
    pub fn into_frame(self, from: PeId, to: PeId) -> Vec<u8> {
        let mut frame = match self.0 {
            Content::Frame(frame) => return frame.finish(from, to),
            Content::Encoded(batch) => {
                let mut frame = MessageFrame::new(batch.kind);
                frame.bytes.extend_from_slice(&batch.bytes);
                frame.messages = batch.messages;
                let mut frame = frame.finish(from, to);
                if batch.is_traced {
                    frame[8] = TRACED_MESSAGES;
                }
                return frame;
            }
            Content::Stamped(_, packet) => return packet.into_frame(from, to),
            Content::Control(control) => {
                let mut frame = vec![0; 8];
                frame.push(CONTROL);
                codec::append(&control, &mut frame);
                frame
            }
            Content::Batch(_) | Content::Spread(_) => {
                unreachable!("these go to PEs or to the relay of the same node only")
            }
        };
        write_ends(from, to, &mut frame);
        frame
    }

    /// Creates a packet that the relay of the node forwards to other nodes.
    pub(crate) fn spread(spread: Spread) -> Self {
        Self(Content::Spread(Box::new(spread)))
    }

    /// Whether the packet is for the relay of the sending node, and not for a PE.
    pub fn is_spread(&self) -> bool {
        matches!(self.0, Content::Spread(_))
    }

    /// Whether the packet contains no messages of the application, so that it may overtake those.
    pub(crate) fn is_control(&self) -> bool {
        match &self.0 {
            Content::Batch(_) | Content::Frame(_) | Content::Encoded(_) | Content::Spread(_) => {
                false
            }
            Content::Control(control) => {
                !matches!(**control, Control::Multicast(_) | Control::Broadcast { .. })
            }
            Content::Stamped(_, packet) => packet.is_control(),
        }
    }

    /// Returns the type of the receiving actors, if the packet contains messages.
    pub(crate) fn kind(&self) -> Option<KindId> {
        match &self.0 {
            Content::Batch(batch) => Some(batch.kind()),
            Content::Frame(frame) => Some(frame.kind),
            Content::Encoded(batch) => Some(batch.kind),
            Content::Stamped(_, packet) => packet.kind(),
            Content::Spread(_) | Content::Control(_) => None,
        }
    }

    /// Returns the number of bytes that the packet holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Content::Batch(batch) => batch.bytes(),
            Content::Frame(frame) => frame.bytes.len() + frame.traces_memory(),
            Content::Encoded(batch) => batch.bytes.len(),
            Content::Spread(_) => 0,
            Content::Control(control) => control.bytes(),
            Content::Stamped(_, packet) => packet.bytes(),
        }
    }
}

/// A frame of messages to actors of one type, which are encoded one after the other as they are
/// sent.
pub(crate) struct MessageFrame {
    pub(crate) kind: KindId,
    messages: u32,
    route: HeaderDelta,
    /// Space for the frame's header, and the messages.
    bytes: Vec<u8>,
    /// The traces of the messages, if the job is recorded.
    traces: Option<Box<Traces>>,
}

impl MessageFrame {
    pub(crate) fn new(kind: KindId) -> Self {
        let mut bytes = Vec::with_capacity(FRAME_BYTES_FIRST);
        bytes.resize(MESSAGES_HEADER_BYTES, 0);
        Self { kind, messages: 0, route: HeaderDelta::begin(), bytes, traces: None }
    }

    /// Adds a message. Returns the number of bytes it takes.
    #[inline]
    pub(crate) fn push<M: Serialize>(&mut self, header: &Header, message: &M) -> usize {
        let before = self.bytes.len();
        self.route.append(header, &mut self.bytes);
        codec::append(message, &mut self.bytes);
        self.messages += 1;
        self.bytes.len() - before
    }

    /// Notes where the last message comes from.
    pub(crate) fn trace(&mut self, trace: Trace) {
        self.traces.get_or_insert_default().push(trace);
    }

    /// Bytes that the traces count for in the memory budget.
    fn traces_memory(&self) -> usize {
        self.traces.as_ref().map_or(0, |_| self.messages as usize * TRACE_MEMORY)
    }

    /// Whether the next message should go into another frame.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let traces = self.traces.as_ref().map_or(0, |traces| traces.bytes());
        self.bytes.len() + traces >= FRAME_BYTES
    }

    fn finish(mut self, from: PeId, to: PeId) -> Vec<u8> {
        write_ends(from, to, &mut self.bytes);
        self.bytes[8] = MESSAGES;
        if let Some(traces) = &self.traces {
            self.bytes[8] = TRACED_MESSAGES;
            codec::append(&**traces, &mut self.bytes);
        }
        self.bytes[9..11].copy_from_slice(&self.kind.0.to_le_bytes());
        self.bytes[11..15].copy_from_slice(&self.messages.to_le_bytes());
        self.bytes
    }
}

/// Number of messages to actors in a frame of this node; 1 for a frame of any other kind.
#[cfg(feature = "net")]
pub(crate) fn messages_in(frame: &Frame) -> u64 {
    // The header is in one piece.
    let header = if frame.head.is_empty() { &frame.body } else { &frame.head };
    match (header.get(8), header.get(11..15).map(<[u8; 4]>::try_from)) {
        (Some(&(MESSAGES | TRACED_MESSAGES)), Some(Ok(messages))) => {
            u32::from_le_bytes(messages).into()
        }
        _ => 1,
    }
}

/// Writes sender and receiver at their place in a frame.
pub(super) fn write_ends(from: PeId, to: PeId, frame: &mut [u8]) {
    frame[..4].copy_from_slice(&from.0.to_le_bytes());
    frame[4..8].copy_from_slice(&to.0.to_le_bytes());
}
