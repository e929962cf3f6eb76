//! A packet between two PEs, as a value and as frames.

use super::control::Control;
use crate::codec::{self, DecodeError};
use crate::envelope::Batch;
use crate::id::KindId;
use bytes::Bytes;
use gridspan_topology::PeId;

/// Something one PE sends to another.
pub struct Packet(pub(crate) Content);

pub(crate) enum Content {
    /// Messages to actors of one type, as values.
    Batch(Box<dyn Batch>),
    /// Messages to actors of one type, as they came over the network.
    Encoded(EncodedBatch),
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
/// A batch is cut into frames of about so many bytes: far above what a frame costs by itself, and few
/// enough to count as a small frame. Those share a stream and come in order, so that their messages
/// need not be held for earlier ones.
const FRAME_BYTES: usize = 32 << 10;

impl Packet {
    pub(crate) fn control(control: Control) -> Self {
        Self(Content::Control(Box::new(control)))
    }

    /// Reads one of the [`frames`](Self::frames): sender, receiver and packet. Messages stay encoded
    /// until the receiver takes them.
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

    /// Encodes the packet as frames. A batch becomes several if it is large, so that no frame comes
    /// near the limit of the transport unless one message does.
    pub fn frames(&self, from: PeId, to: PeId, emit: &mut dyn FnMut(Vec<u8>)) {
        let mut begin = Vec::new();
        begin.extend_from_slice(&from.0.to_le_bytes());
        begin.extend_from_slice(&to.0.to_le_bytes());
        match &self.0 {
            Content::Batch(batch) => {
                let mut done = 0;
                while done < batch.len() {
                    let mut frame = begin.clone();
                    let count_at = begin_messages(batch.kind(), 0, &mut frame);
                    let messages = batch.append_some(done, FRAME_BYTES, &mut frame);
                    frame[count_at..count_at + 4].copy_from_slice(&(messages as u32).to_le_bytes());
                    done += messages;
                    emit(frame);
                }
            }
            Content::Encoded(batch) => {
                begin_messages(batch.kind, batch.messages, &mut begin);
                begin.extend_from_slice(&batch.bytes);
                emit(begin);
            }
            Content::Control(control) => {
                begin.push(CONTROL);
                codec::append(control, &mut begin);
                emit(begin);
            }
        }
    }

    /// Whether it carries no messages of the application, so that it may pass those.
    pub(crate) fn is_control(&self) -> bool {
        match &self.0 {
            Content::Batch(_) | Content::Encoded(_) => false,
            Content::Control(control) => {
                !matches!(**control, Control::Multicast(_) | Control::Broadcast { .. })
            }
        }
    }

    /// Bytes that the packet holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Content::Batch(batch) => batch.bytes(),
            Content::Encoded(batch) => batch.bytes.len(),
            Content::Control(control) => match &**control {
                Control::Multicast(multicast) => multicast.message.wire_len(),
                Control::Broadcast { message, .. } => message.wire_len(),
                Control::MigrateOffer(migrant) => migrant.state.len(),
                _ => 0,
            },
        }
    }
}

/// Begins a frame of so many messages. Returns where their number stands.
fn begin_messages(kind: KindId, messages: u32, frame: &mut Vec<u8>) -> usize {
    frame.push(MESSAGES);
    frame.extend_from_slice(&kind.0.to_le_bytes());
    frame.extend_from_slice(&messages.to_le_bytes());
    frame.len() - 4
}
