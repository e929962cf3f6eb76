//! Frames between relays.

use super::broadcast::FlowId;
use super::control::{Arrival, Multicast, MulticastTarget};
use super::packet::write_ends;
use super::spread::MulticastHead;
use crate::address::id::CollectionId;
use crate::message::codec::{self, DecodeError};
use crate::message::frame::Frame;
use crate::message::payload::Payload;
use bytes::Bytes;
use gridspan_bcast::{BroadcastPlan, PlanId, Tree};
use gridspan_topology::{NodeId, PeId};
use serde::{Deserialize, Serialize};

/// Header of a part of a tree broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentHead {
    pub(crate) plan: PlanId,
    /// Index of the plan's tree.
    pub(crate) stripe: u32,
    /// Number of the broadcast.
    pub(crate) flow: u64,
    /// Offset of the part in the whole, in bytes.
    pub(crate) offset: u64,
    /// Length of the whole, in bytes.
    pub(crate) total: u64,
}

/// Header of a part of a large multicast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MulticastSegment {
    /// Number of the multicast.
    pub(crate) flow: u64,
    /// Index of the tree.
    pub(crate) stripe: u32,
    /// Offset of the part in the whole, in bytes.
    pub(crate) offset: u64,
    /// Length of the whole, in bytes.
    pub(crate) total: u64,
    pub(crate) tree: Tree,
    /// Nodes that only forward it.
    pub(crate) relays: Vec<NodeId>,
    /// The name under which nodes report to the coordinator, if it wants reports.
    pub(crate) report: Option<FlowId>,
}

/// Header of a message between two agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentMessageHead {
    pub(crate) pool: CollectionId,
    /// Number of the message among those between the two nodes.
    pub(crate) number: u64,
}

/// A node's report that it has all of a tree broadcast or multicast, with its observations. It goes
/// to the relay where the transfer began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CarriedHead {
    pub(crate) flow: FlowId,
    pub(crate) arrivals: Vec<Arrival>,
}

/// A new plan, if there is one, and retired plans, each with the number from which on no tree
/// broadcast uses it. All plans have the same root.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PlanHead {
    pub(crate) plan: Option<BroadcastPlan>,
    pub(crate) retired: Vec<(PlanId, u64)>,
}

/// A frame for the relay of a node.
pub(crate) enum SpreadFrame {
    Multicast(Multicast),
    Segment { origin: PeId, head: SegmentHead, payload: Bytes },
    MulticastSegment { origin: PeId, head: Box<MulticastSegment>, payload: Bytes },
    Plan(Box<PlanHead>),
    AgentMessage { head: AgentMessageHead, message: Bytes },
    Carried(CarriedHead),
    Telemetry { message: Bytes },
}

/// The tags of frames for a relay, in the ninth byte: this one and the six below. Packets between
/// two PEs have other tags (`packet`).
const MULTICAST: u8 = 2;
const SEGMENT: u8 = 3;
const PLAN: u8 = 4;
const CAST: u8 = 5;
const AGENT_MESSAGE: u8 = 6;
const CARRIED: u8 = 7;
const TELEMETRY: u8 = 8;
/// Stands in place of the receiver in frames for a relay.
const NO_RECEIVER: PeId = PeId(u32::MAX);

/// Whether a frame is for the relay of the node, and not for one of its PEs.
pub fn is_for_relay(frame: &[u8]) -> bool {
    matches!(frame.get(8), Some(&(MULTICAST..=TELEMETRY)))
}

/// Whether a frame is a message between agents, which takes an agent time to process.
pub fn is_agent_message(frame: &[u8]) -> bool {
    frame.get(8) == Some(&AGENT_MESSAGE)
}

impl SpreadFrame {
    pub(crate) fn decode(frame: &Bytes) -> Result<Self, DecodeError> {
        const WHAT: &str = "a frame for a relay";
        let short = || DecodeError::new(WHAT, "shorter than its header");
        let origin = PeId(u32::from_le_bytes(*frame.first_chunk().ok_or_else(short)?));
        let (&tag, rest) = frame.get(8..).and_then(<[u8]>::split_first).ok_or_else(short)?;
        match tag {
            MULTICAST => {
                let (head, message) = codec::decode_front(WHAT, rest)?;
                let head: MulticastHead = head;
                let message = Payload::Bytes(frame.slice_ref(message));
                Ok(Self::Multicast(head.multicast(head.targets.clone(), message)))
            }
            SEGMENT => {
                let (head, payload) = codec::decode_front(WHAT, rest)?;
                Ok(Self::Segment { origin, head, payload: frame.slice_ref(payload) })
            }
            CAST => {
                let (head, payload) = codec::decode_front(WHAT, rest)?;
                Ok(Self::MulticastSegment {
                    origin,
                    head: Box::new(head),
                    payload: frame.slice_ref(payload),
                })
            }
            AGENT_MESSAGE => {
                let (head, message) = codec::decode_front(WHAT, rest)?;
                Ok(Self::AgentMessage { head, message: frame.slice_ref(message) })
            }
            CARRIED => Ok(Self::Carried(codec::decode(WHAT, rest)?)),
            TELEMETRY => Ok(Self::Telemetry { message: frame.slice_ref(rest) }),
            PLAN => Ok(Self::Plan(Box::new(codec::decode(WHAT, rest)?))),
            tag => Err(DecodeError::new(WHAT, format_args!("unknown tag {tag}"))),
        }
    }

    /// Encodes a multicast as a frame. Its message is already encoded.
    pub(crate) fn multicast(
        multicast: &Multicast,
        targets: Vec<MulticastTarget>,
        message: Bytes,
    ) -> Frame {
        let head = MulticastHead::new(multicast, targets);
        frame(MULTICAST, multicast.origin, &head, (&[], message))
    }

    /// Encodes a part of a large multicast as a frame.
    pub(crate) fn multicast_segment(
        origin: PeId,
        head: &MulticastSegment,
        payload: (&[u8], Bytes),
    ) -> Frame {
        frame(CAST, origin, head, payload)
    }

    /// Encodes a message between agents as a frame.
    pub(crate) fn agent_message(origin: PeId, head: &AgentMessageHead, message: Bytes) -> Frame {
        frame(AGENT_MESSAGE, origin, head, (&[], message))
    }

    /// Makes a frame of an encoded message about the counters of nodes.
    pub(crate) fn telemetry(origin: PeId, message: Vec<u8>) -> Frame {
        frame(TELEMETRY, origin, &(), (&[], message.into()))
    }

    /// Encodes a node's report as a frame.
    pub(crate) fn carried(origin: PeId, head: &CarriedHead) -> Frame {
        frame(CARRIED, origin, head, (&[], Bytes::new()))
    }

    /// Encodes a part of a tree broadcast as a frame.
    pub(crate) fn segment(origin: PeId, head: &SegmentHead, payload: (&[u8], Bytes)) -> Frame {
        frame(SEGMENT, origin, head, payload)
    }
}

impl PlanHead {
    /// Returns the root of all plans that it names, if they have the same one.
    pub(crate) fn root(&self) -> Option<NodeId> {
        let plan = self.plan.as_ref().map(BroadcastPlan::id);
        let mut roots =
            self.retired.iter().map(|(plan, _)| *plan).chain(plan).map(|plan| plan.root);
        let root = roots.next()?;
        roots.all(|other| other == root).then_some(root)
    }

    pub(crate) fn into_frame(self, origin: PeId) -> Frame {
        frame(PLAN, origin, &self, (&[], Bytes::new()))
    }
}

/// Encodes a frame whose payload consists of a part that is copied and a part that is shared.
fn frame<T: Serialize>(tag: u8, origin: PeId, head: &T, payload: (&[u8], Bytes)) -> Frame {
    /// Initial capacity for the head; a head without targets is smaller.
    const HEAD_BYTES: usize = 64;
    let (front, body) = payload;
    let mut frame = Vec::with_capacity(HEAD_BYTES + front.len());
    frame.resize(8, 0);
    write_ends(origin, NO_RECEIVER, &mut frame);
    frame.push(tag);
    codec::append(head, &mut frame);
    frame.extend_from_slice(front);
    Frame::new(frame, body)
}
