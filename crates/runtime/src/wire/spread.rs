//! What goes to PEs of several nodes: a PE hands it over once, and the nodes' carriers bring it.

use super::control::{Control, Multicast, MulticastTarget};
use super::packet::{Packet, write_ends};
use crate::codec::{self, DecodeError};
use crate::id::{ActorId, CollectionId, KindId};
use crate::parcel::Parcel;
use bytes::Bytes;
use gridspan_bcast::PlanId;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// Something for PEs of several nodes.
pub(crate) enum Spread {
    /// For those PEs of other nodes that are named as targets.
    Multicast(Multicast),
    /// For all PEs of other nodes.
    Announcement(Announcement),
}

/// A control packet for all PEs. What is large in it stays apart, so that all PEs of a node share it.
#[derive(Debug)]
pub(crate) struct Announcement {
    head: Head,
    payload: Bytes,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Head {
    Broadcast {
        kind: KindId,
        collection: CollectionId,
        number: u64,
        priority: i32,
    },
    Publish {
        id: u32,
    },
    /// Anything else: the payload is the encoded packet.
    Control,
}

impl Announcement {
    pub(crate) fn new(control: Control) -> Self {
        let (head, payload) = match control {
            Control::Broadcast { kind, collection, number, message, priority } => {
                let head = Head::Broadcast { kind, collection, number, priority };
                (head, message.into_bytes())
            }
            Control::Publish { id, value } => (Head::Publish { id }, value),
            control => (Head::Control, codec::encode(&control).into()),
        };
        Self { head, payload }
    }

    /// The packet, for one of the PEs.
    pub(crate) fn control(&self) -> Result<Control, DecodeError> {
        Ok(match self.head {
            Head::Broadcast { kind, collection, number, priority } => {
                let message = Parcel::Bytes(self.payload.clone());
                Control::Broadcast { kind, collection, number, message, priority }
            }
            Head::Publish { id } => Control::Publish { id, value: self.payload.clone() },
            Head::Control => codec::decode("an announcement", &self.payload)?,
        })
    }

    /// The announcement as the bytes that travel.
    pub(crate) fn into_bytes(self) -> Bytes {
        let mut bytes = codec::encode(&self.head);
        bytes.extend_from_slice(&self.payload);
        bytes.into()
    }

    /// What [`into_bytes`](Self::into_bytes) made.
    pub(crate) fn from_bytes(bytes: &Bytes) -> Result<Self, DecodeError> {
        let (head, payload) = codec::decode_front("an announcement", bytes)?;
        Ok(Self { head, payload: bytes.slice_ref(payload) })
    }
}

/// A part of an announcement on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentHead {
    /// How it travels.
    pub(crate) plan: PlanId,
    /// Over which of the plan's trees.
    pub(crate) stripe: u32,
    /// Which of the root's announcements.
    pub(crate) flow: u64,
    /// Where the part begins in it, and how long all of it is, in bytes.
    pub(crate) offset: u64,
    pub(crate) total: u64,
}

#[derive(Serialize, Deserialize)]
struct MulticastHead {
    kind: KindId,
    collection: CollectionId,
    source: ActorId,
    priority: i32,
    targets: Vec<MulticastTarget>,
}

/// A frame for the carrier of a node.
pub(crate) enum SpreadFrame {
    Multicast(Multicast),
    Segment { origin: PeId, head: SegmentHead, payload: Bytes },
}

/// Tags of a frame's ninth byte; those of packets between two PEs come before.
const MULTICAST: u8 = 2;
const SEGMENT: u8 = 3;
/// In the place of a receiver: the frame is for a carrier.
const NOBODY: PeId = PeId(u32::MAX);

impl SpreadFrame {
    /// Whether a frame is for the carrier of the node, and not for one of its PEs.
    pub(crate) fn is_one(frame: &[u8]) -> bool {
        matches!(frame.get(8), Some(&(MULTICAST | SEGMENT)))
    }

    pub(crate) fn decode(frame: &Bytes) -> Result<Self, DecodeError> {
        const WHAT: &str = "a frame for a carrier";
        let short = || DecodeError::new(WHAT, "shorter than its header");
        let origin = PeId(u32::from_le_bytes(*frame.first_chunk().ok_or_else(short)?));
        let (&tag, rest) = frame.get(8..).and_then(<[u8]>::split_first).ok_or_else(short)?;
        match tag {
            MULTICAST => {
                let (head, message) = codec::decode_front(WHAT, rest)?;
                let MulticastHead { kind, collection, source, priority, targets } = head;
                let message = Parcel::Bytes(frame.slice_ref(message));
                Ok(Self::Multicast(Multicast {
                    kind,
                    collection,
                    source,
                    priority,
                    origin,
                    targets,
                    message,
                }))
            }
            SEGMENT => {
                let (head, payload) = codec::decode_front(WHAT, rest)?;
                Ok(Self::Segment { origin, head, payload: frame.slice_ref(payload) })
            }
            tag => Err(DecodeError::new(WHAT, format_args!("unknown tag {tag}"))),
        }
    }

    /// A multicast whose message is encoded, as a frame.
    pub(crate) fn multicast(
        multicast: &Multicast,
        targets: Vec<MulticastTarget>,
        message: &[u8],
    ) -> Bytes {
        let Multicast { kind, collection, source, priority, origin, .. } = *multicast;
        let head = MulticastHead { kind, collection, source, priority, targets };
        frame(MULTICAST, origin, &head, message)
    }

    /// A part of an announcement, as a frame.
    pub(crate) fn segment(origin: PeId, head: &SegmentHead, payload: &[u8]) -> Bytes {
        frame(SEGMENT, origin, head, payload)
    }
}

fn frame<T: Serialize>(tag: u8, origin: PeId, head: &T, payload: &[u8]) -> Bytes {
    /// A head without targets is smaller.
    const HEAD_BYTES: usize = 64;
    let mut frame = Vec::with_capacity(HEAD_BYTES + payload.len());
    frame.resize(8, 0);
    write_ends(origin, NOBODY, &mut frame);
    frame.push(tag);
    codec::append(head, &mut frame);
    frame.extend_from_slice(payload);
    frame.into()
}

impl Packet {
    /// Something that the carrier of the node is to bring to other nodes.
    pub(crate) fn spread(spread: Spread) -> Self {
        Self(super::Content::Spread(Box::new(spread)))
    }
}
