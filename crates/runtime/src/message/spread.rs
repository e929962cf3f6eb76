//! Packets for PEs of several nodes: a PE hands a packet over once, and the nodes' relays forward
//! it.

use super::broadcast::{Asked, BroadcastOrder, FlowId};
use super::control::{Control, Multicast, MulticastTarget};
use crate::address::id::{ActorId, CollectionId, KindId};
use crate::message::MembershipEvent;
use crate::message::codec::{self, DecodeError};
use crate::message::payload::Payload;
use crate::message::steal_agent::StealEvent;
use bytes::Bytes;
use gridspan_bcast::{BroadcastPlan, PlanId, SubPlan, Tree};
use gridspan_topology::{Layout, NodeId, PeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Minimum size in bytes of broadcasts on which nodes report: smaller ones are over before they
/// show the capacity of a link.
pub(crate) const REPORTED_BYTES_MIN: u64 = 30_000;

/// Segment size in bytes of broadcasts and multicasts without a computed plan: several segments for
/// each hop of a deep tree, and large enough to be bulk, so that each has its own stream and delays
/// no messages.
pub(crate) const SEGMENT_BYTES: u64 = 68 << 10;

/// Returns the default plan over this tree of nodes, which all relays know from the start.
pub(crate) fn default_plan(tree: &Tree) -> BroadcastPlan {
    // If no node forwards anything, segments gain nothing.
    let segment_bytes = if tree.depth() > 1 { SEGMENT_BYTES } else { u64::MAX };
    BroadcastPlan::known_to_all(tree.clone(), segment_bytes)
}

/// A packet for PEs of several nodes, or for relays and agents.
pub(crate) enum Spread {
    /// A multicast to PEs of other nodes, which are named as targets.
    Multicast(Multicast),
    /// A large multicast, or a broadcast that starts at this node, which relays forward in segments
    /// over the trees of `sub_plan`.
    SegmentedMulticast {
        multicast: OutgoingControl,
        sub_plan: Arc<SubPlan>,
        /// The name under which nodes report to the coordinator, if it wants reports.
        report: Option<FlowId>,
    },
    /// A broadcast to all PEs of other nodes.
    TreeBroadcast {
        control: OutgoingControl,
        plan: PlanId,
        /// The number of the broadcast.
        flow: u64,
    },
    /// A new plan, if there is one, and retired plans, for the relays of all nodes. A relay forgets
    /// a retired plan once it has all broadcasts that use it. All plans start at this node.
    Plan { plan: Option<Box<BroadcastPlan>>, retired: Vec<PlanId> },
    /// An event for the agent of a pool on this node.
    StealEvent { pool: CollectionId, event: StealEvent },
    /// An event for all agents of this node.
    MembershipEvent(MembershipEvent),
}

impl Spread {
    /// Creates a large multicast from a node that has no plan: it crosses to each site once, in
    /// segments if a node forwards it.
    pub(crate) fn by_sites(layout: &Layout, from: NodeId, multicast: Multicast) -> Self {
        let nodes: BTreeSet<NodeId> =
            multicast.targets.iter().map(|target| layout.node_of(target.pe)).collect();
        let sub_plan = Arc::new(SubPlan::by_sites(layout, from, &nodes, SEGMENT_BYTES));
        let multicast = OutgoingControl::new(&Control::Multicast(multicast));
        Self::SegmentedMulticast { multicast, sub_plan, report: None }
    }
}

/// An outgoing control packet for many PEs: the head, and the part that may be large.
pub(crate) struct OutgoingControl {
    front: Vec<u8>,
    payload: Bytes,
    /// Whether the packet contains no data of the application.
    pub(crate) is_internal: bool,
}

/// A received control packet for many PEs. All PEs of a node share the payload.
pub(crate) struct IncomingControl {
    head: Head,
    payload: Bytes,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Head {
    Broadcast {
        kind: KindId,
        collection: CollectionId,
        order: BroadcastOrder,
        asked: Asked,
        priority: i32,
    },
    Publish {
        id: u32,
    },
    Multicast(MulticastHead),
    /// Any other control: the payload is the encoded packet.
    Control,
}

/// A multicast without its message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MulticastHead {
    kind: KindId,
    collection: CollectionId,
    source: ActorId,
    priority: i32,
    after: u64,
    origin: PeId,
    pub(super) targets: Vec<MulticastTarget>,
}

impl MulticastHead {
    /// Creates the head of a multicast, for these targets.
    pub(super) fn new(multicast: &Multicast, targets: Vec<MulticastTarget>) -> Self {
        let Multicast { kind, collection, source, priority, after, origin, .. } = *multicast;
        Self { kind, collection, source, priority, after, origin, targets }
    }

    /// Rebuilds the multicast, for these targets.
    pub(super) fn multicast(&self, targets: Vec<MulticastTarget>, message: Payload) -> Multicast {
        let Self { kind, collection, source, priority, after, origin, .. } = *self;
        Multicast { kind, collection, source, priority, after, origin, targets, message }
    }
}

impl OutgoingControl {
    pub(crate) fn new(control: &Control) -> Self {
        let (head, payload) = match control {
            Control::Broadcast { kind, collection, order, asked, message, priority } => {
                let (asked, priority) = (asked.clone(), *priority);
                let (kind, collection, order) = (*kind, *collection, *order);
                let head = Head::Broadcast { kind, collection, order, asked, priority };
                (head, message.to_bytes())
            }
            Control::Publish { id, value } => (Head::Publish { id: *id }, value.clone()),
            Control::Multicast(multicast) => {
                let head = MulticastHead::new(multicast, multicast.targets.clone());
                (Head::Multicast(head), multicast.message.to_bytes())
            }
            control => (Head::Control, codec::encode(control).into()),
        };
        let is_internal = matches!(head, Head::Control);
        Self { front: codec::encode(&head), payload, is_internal }
    }

    /// Returns the number of bytes sent: the encoded head, and the payload.
    pub(crate) fn bytes(&self) -> usize {
        self.front.len() + self.payload.len()
    }

    /// Returns a range of these bytes, split into head and payload.
    pub(crate) fn part(&self, range: Range<usize>) -> (&[u8], Bytes) {
        let front = self.front.len();
        let head = range.start.min(front)..range.end.min(front);
        let payload = range.start.max(front) - front..range.end.max(front) - front;
        (&self.front[head], self.payload.slice(payload))
    }
}

impl IncomingControl {
    /// Decodes the packet from all of its [parts](OutgoingControl::part), joined.
    pub(crate) fn from_bytes(bytes: &Bytes) -> Result<Self, DecodeError> {
        let (head, payload) = codec::decode_front("a tree broadcast", bytes)?;
        Ok(Self { head, payload: bytes.slice_ref(payload) })
    }

    /// Returns the control for each PE of a node that the packet concerns.
    pub(crate) fn controls(
        &self,
        here: impl Iterator<Item = PeId> + Clone,
    ) -> Result<Vec<(PeId, Control)>, DecodeError> {
        if let Head::Multicast(head) = &self.head {
            let own = head.targets.iter().filter(|target| here.clone().any(|pe| pe == target.pe));
            let control = |target: &MulticastTarget| {
                let message = Payload::Bytes(self.payload.clone());
                (target.pe, Control::Multicast(head.multicast(vec![target.clone()], message)))
            };
            return Ok(own.map(control).collect());
        }
        here.map(|pe| Ok((pe, self.control()?))).collect()
    }

    fn control(&self) -> Result<Control, DecodeError> {
        Ok(match self.head {
            Head::Multicast(ref head) => {
                let message = Payload::Bytes(self.payload.clone());
                Control::Multicast(head.multicast(head.targets.clone(), message))
            }
            Head::Broadcast { kind, collection, order, ref asked, priority } => {
                let (asked, message) = (asked.clone(), Payload::Bytes(self.payload.clone()));
                Control::Broadcast { kind, collection, order, asked, message, priority }
            }
            Head::Publish { id } => Control::Publish { id, value: self.payload.clone() },
            Head::Control => codec::decode("a tree broadcast", &self.payload)?,
        })
    }
}
