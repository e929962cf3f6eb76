//! A packet from a PE, as a value and as frames.

use super::control::Control;
use super::spread::Spread;
use crate::address::id::KindId;
use crate::message::codec::{self, DecodeError};
use crate::message::envelope::Batch;
use crate::message::header::{Header, HeaderDelta};
use bytes::Bytes;
use gridspan_topology::PeId;
use serde::Serialize;

/// Something one PE sends to another.
pub struct Packet(pub(crate) Content);

pub(crate) enum Content {
    /// Messages to actors of one type, as values. Does not leave the node.
    Batch(Box<dyn Batch>),
    /// Messages to actors of one type, on their way to another node.
    Frame(MessageFrame),
    /// Messages to actors of one type, as they came over the network.
    Encoded(EncodedBatch),
    /// For PEs of several other nodes. Goes to the relay of the node.
    Spread(Box<Spread>),
    /// Anything else.
    Control(Box<Control>),
}

/// Messages to actors of one type, as bytes.
#[derive(Clone, Debug)]
pub(crate) struct EncodedBatch {
    pub(crate) kind: KindId,
    pub(crate) messages: u32,
    pub(crate) bytes: Bytes,
}

/// Tag of a frame's first byte.
const MESSAGES: u8 = 0;
/// Tag of a frame's first byte.
const CONTROL: u8 = 1;
/// Messages are cut into frames of about so many bytes: far above what a frame costs by itself, and
/// few enough to count as a small frame. Those share a stream and come in order, so that their
/// messages need not be held for earlier ones.
const FRAME_BYTES: usize = 32 << 10;
/// The memory that a frame begins with: a question or an answer fits.
const FRAME_BYTES_FIRST: usize = 256;
/// Sender, receiver, tag, type and number of messages.
const MESSAGES_HEADER_BYTES: usize = 4 + 4 + 1 + 2 + 4;

impl Packet {
    pub(crate) fn control(control: Control) -> Self {
        Self(Content::Control(Box::new(control)))
    }

    /// Reads what [`into_frame`](Self::into_frame) wrote: sender, receiver and packet. Messages
    /// stay encoded until the receiver takes them.
    pub fn from_frame(frame: &Bytes) -> Result<(PeId, PeId, Self), DecodeError> {
        const WHAT: &str = "a frame";
        let short = || DecodeError::new(WHAT, "shorter than its header");
        let (from, rest) = frame.split_first_chunk().ok_or_else(short)?;
        let (to, rest) = rest.split_first_chunk().ok_or_else(short)?;
        let (&tag, rest) = rest.split_first().ok_or_else(short)?;
        let content = match tag {
            MESSAGES => {
                let (kind, rest) = rest.split_first_chunk().ok_or_else(short)?;
                let (messages, rest) = rest.split_first_chunk().ok_or_else(short)?;
                Content::Encoded(EncodedBatch {
                    kind: KindId(u16::from_le_bytes(*kind)),
                    messages: u32::from_le_bytes(*messages),
                    bytes: frame.slice_ref(rest),
                })
            }
            CONTROL => Content::Control(Box::new(codec::decode(WHAT, rest)?)),
            tag => return Err(DecodeError::new(WHAT, format_args!("unknown tag {tag}"))),
        };
        let pe = |bytes: &[u8; 4]| PeId(u32::from_le_bytes(*bytes));
        Ok((pe(from), pe(to), Self(content)))
    }

    /// The packet as a frame for another node.
    pub fn into_frame(self, from: PeId, to: PeId) -> Vec<u8> {
        let mut frame = match self.0 {
            Content::Frame(frame) => return frame.finish(from, to),
            Content::Encoded(batch) => {
                let mut frame = MessageFrame::new(batch.kind);
                frame.bytes.extend_from_slice(&batch.bytes);
                frame.messages = batch.messages;
                return frame.finish(from, to);
            }
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

    /// Something that the relay of the node is to bring to other nodes.
    pub(crate) fn spread(spread: Spread) -> Self {
        Self(Content::Spread(Box::new(spread)))
    }

    /// Whether it is for the relay of the node that it comes from, and not for a PE.
    pub fn is_spread(&self) -> bool {
        matches!(self.0, Content::Spread(_))
    }

    /// Whether it carries no messages of the application, so that it may pass those.
    pub(crate) fn is_control(&self) -> bool {
        match &self.0 {
            Content::Batch(_) | Content::Frame(_) | Content::Encoded(_) | Content::Spread(_) => {
                false
            }
            Content::Control(control) => {
                !matches!(**control, Control::Multicast(_) | Control::Broadcast { .. })
            }
        }
    }

    /// The type of the actors that it is for, if it is messages.
    pub(crate) fn kind(&self) -> Option<KindId> {
        match &self.0 {
            Content::Batch(batch) => Some(batch.kind()),
            Content::Frame(frame) => Some(frame.kind),
            Content::Encoded(batch) => Some(batch.kind),
            Content::Spread(_) | Content::Control(_) => None,
        }
    }

    /// Bytes that the packet holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Content::Batch(batch) => batch.bytes(),
            Content::Frame(frame) => frame.bytes.len(),
            Content::Encoded(batch) => batch.bytes.len(),
            Content::Spread(_) => 0,
            Content::Control(control) => control.bytes(),
        }
    }
}

/// Messages to actors of one type, encoded one after the other as they are sent.
pub(crate) struct MessageFrame {
    pub(crate) kind: KindId,
    messages: u32,
    route: HeaderDelta,
    /// Room for the frame's header, and the messages.
    bytes: Vec<u8>,
}

impl MessageFrame {
    pub(crate) fn new(kind: KindId) -> Self {
        let mut bytes = Vec::with_capacity(FRAME_BYTES_FIRST);
        bytes.resize(MESSAGES_HEADER_BYTES, 0);
        Self { kind, messages: 0, route: HeaderDelta::begin(), bytes }
    }

    /// Adds a message. Returns how many bytes that took.
    #[inline]
    pub(crate) fn push<M: Serialize>(&mut self, header: &Header, message: &M) -> usize {
        let before = self.bytes.len();
        self.route.append(header, &mut self.bytes);
        codec::append(message, &mut self.bytes);
        self.messages += 1;
        self.bytes.len() - before
    }

    /// Whether the next message should go into another frame.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= FRAME_BYTES
    }

    fn finish(mut self, from: PeId, to: PeId) -> Vec<u8> {
        write_ends(from, to, &mut self.bytes);
        self.bytes[8] = MESSAGES;
        self.bytes[9..11].copy_from_slice(&self.kind.0.to_le_bytes());
        self.bytes[11..15].copy_from_slice(&self.messages.to_le_bytes());
        self.bytes
    }
}

/// Writes sender and receiver where a frame has them.
pub(super) fn write_ends(from: PeId, to: PeId, frame: &mut [u8]) {
    frame[..4].copy_from_slice(&from.0.to_le_bytes());
    frame[4..8].copy_from_slice(&to.0.to_le_bytes());
}
