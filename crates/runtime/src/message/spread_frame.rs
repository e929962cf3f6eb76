//! What relays send each other, as frames.

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

/// A part of a tree broadcast on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentHead {
    /// How it travels.
    pub(crate) plan: PlanId,
    /// Over which of the plan's trees.
    pub(crate) stripe: u32,
    /// Which of the coordinator's announcements.
    pub(crate) flow: u64,
    /// Where the part begins in it, and how long all of it is, in bytes.
    pub(crate) offset: u64,
    pub(crate) total: u64,
}

/// A part of a large multicast on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MulticastSegment {
    /// Which of the coordinator's large multicasts.
    pub(crate) flow: u64,
    /// The number of its tree.
    pub(crate) stripe: u32,
    /// Where the part begins in it, and how long all of it is, in bytes.
    pub(crate) offset: u64,
    pub(crate) total: u64,
    /// How it travels.
    pub(crate) tree: Tree,
    /// Who only passes it on.
    pub(crate) relays: Vec<NodeId>,
    /// Under which name the coordinator hears what nodes saw of it, if it wants to.
    pub(crate) report: Option<FlowId>,
}

/// Where a message of one agent to another belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentMessageHead {
    pub(crate) pool: CollectionId,
    /// Which of the messages between the two nodes.
    pub(crate) number: u64,
}

/// A node has all of a tree broadcast or multicast: what it saw, for the relay where that began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CarriedHead {
    pub(crate) flow: FlowId,
    pub(crate) arrivals: Vec<Arrival>,
}

/// A plan on its way, if there is one, and those that are forgotten once the tree broadcasts below
/// that number are complete. All are from the root.
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
}

/// Tags of a frame's ninth byte; those of packets between two PEs come before.
const MULTICAST: u8 = 2;
const SEGMENT: u8 = 3;
const PLAN: u8 = 4;
const CAST: u8 = 5;
const AGENT_MESSAGE: u8 = 6;
const CARRIED: u8 = 7;
/// In the place of a receiver: the frame is for a relay.
const NOBODY: PeId = PeId(u32::MAX);

impl SpreadFrame {
    /// Whether a frame is for the relay of the node, and not for one of its PEs.
    pub(crate) fn is_one(frame: &[u8]) -> bool {
        matches!(frame.get(8), Some(&(MULTICAST..=CARRIED)))
    }

    /// Whether it is for an agent there.
    pub(crate) fn is_agent_message(frame: &[u8]) -> bool {
        frame.get(8) == Some(&AGENT_MESSAGE)
    }

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
            PLAN => Ok(Self::Plan(Box::new(codec::decode(WHAT, rest)?))),
            tag => Err(DecodeError::new(WHAT, format_args!("unknown tag {tag}"))),
        }
    }

    /// A multicast whose message is encoded, as a frame.
    pub(crate) fn multicast(
        multicast: &Multicast,
        targets: Vec<MulticastTarget>,
        message: Bytes,
    ) -> Frame {
        let head = MulticastHead::new(multicast, targets);
        frame(MULTICAST, multicast.origin, &head, (&[], message))
    }

    /// A part of a large multicast, as a frame.
    pub(crate) fn multicast_segment(
        origin: PeId,
        head: &MulticastSegment,
        payload: (&[u8], Bytes),
    ) -> Frame {
        frame(CAST, origin, head, payload)
    }

    /// A message between agents, as a frame.
    pub(crate) fn agent_message(origin: PeId, head: &AgentMessageHead, message: Bytes) -> Frame {
        frame(AGENT_MESSAGE, origin, head, (&[], message))
    }

    /// What a node saw, as a frame.
    pub(crate) fn carried(origin: PeId, head: &CarriedHead) -> Frame {
        frame(CARRIED, origin, head, (&[], Bytes::new()))
    }

    /// A part of a tree broadcast, as a frame.
    pub(crate) fn segment(origin: PeId, head: &SegmentHead, payload: (&[u8], Bytes)) -> Frame {
        frame(SEGMENT, origin, head, payload)
    }
}

impl PlanHead {
    /// The root of all that it names, if that is one node.
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

/// A frame whose payload begins with a piece that is copied, and goes on with one that is shared.
fn frame<T: Serialize>(tag: u8, origin: PeId, head: &T, payload: (&[u8], Bytes)) -> Frame {
    /// A head without targets is smaller.
    const HEAD_BYTES: usize = 64;
    let (front, body) = payload;
    let mut frame = Vec::with_capacity(HEAD_BYTES + front.len());
    frame.resize(8, 0);
    write_ends(origin, NOBODY, &mut frame);
    frame.push(tag);
    codec::append(head, &mut frame);
    frame.extend_from_slice(front);
    Frame::new(frame, body)
}
