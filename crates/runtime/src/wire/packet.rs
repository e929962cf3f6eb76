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
/// A batch is cut into frames of about so many bytes: far below what a transport refuses, far above
/// what its overhead matters for.
const FRAME_BYTES: usize = 1 << 20;

impl Packet {
    pub(crate) fn control(control: Control) -> Self {
        Self(Content::Control(Box::new(control)))
    }

    /// Appends the packet from one PE to another to a frame.
    pub fn append_frame(&self, from: PeId, to: PeId, frame: &mut Vec<u8>) {
        frame.extend_from_slice(&from.0.to_le_bytes());
        frame.extend_from_slice(&to.0.to_le_bytes());
        match &self.0 {
            Content::Batch(batch) => {
                frame.push(MESSAGES);
                codec::append(&(batch.kind(), batch.len() as u32), frame);
                batch.append(frame);
            }
            Content::Encoded(batch) => {
                frame.push(MESSAGES);
                codec::append(&(batch.kind, batch.messages), frame);
                frame.extend_from_slice(&batch.bytes);
            }
            Content::Control(control) => {
                frame.push(CONTROL);
                codec::append(control, frame);
            }
        }
    }

    /// Reads what [`append_frame`](Self::append_frame) wrote: sender, receiver and packet. Messages
    /// stay encoded until the receiver takes them.
    pub fn from_frame(frame: &Bytes) -> Result<(PeId, PeId, Self), DecodeError> {
        const WHAT: &str = "a frame";
        let Some((head, body)) = frame.split_at_checked(9) else {
            return Err(DecodeError::new(WHAT, "shorter than its header"));
        };
        let pe = |at: usize| {
            PeId(u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]))
        };
        let (from, to) = (pe(0), pe(4));
        match head[8] {
            MESSAGES => {
                let ((kind, messages), rest) = codec::decode_front(WHAT, body)?;
                let bytes = frame.slice_ref(rest);
                let batch = EncodedBatch { kind, messages, bytes };
                Ok((from, to, Self(Content::Encoded(batch))))
            }
            CONTROL => Ok((from, to, Self::control(codec::decode(WHAT, body)?))),
            tag => Err(DecodeError::new(WHAT, format_args!("unknown tag {tag}"))),
        }
    }

    /// Encodes the packet as frames. A batch becomes several if it is large, so that no frame comes
    /// near the limit of the transport unless one message does.
    pub fn frames(&self, from: PeId, to: PeId, emit: &mut dyn FnMut(Vec<u8>)) {
        let Content::Batch(batch) = &self.0 else {
            let mut frame = Vec::new();
            self.append_frame(from, to, &mut frame);
            return emit(frame);
        };
        let mut done = 0;
        while done < batch.len() {
            let mut body = Vec::new();
            let messages = batch.append_some(done, FRAME_BYTES, &mut body);
            done += messages;
            let mut frame = Vec::with_capacity(body.len() + 32);
            frame.extend_from_slice(&from.0.to_le_bytes());
            frame.extend_from_slice(&to.0.to_le_bytes());
            frame.push(MESSAGES);
            codec::append(&(batch.kind(), messages as u32), &mut frame);
            frame.append(&mut body);
            emit(frame);
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
