//! Metadata of broadcasts: their senders, their order, and their plans.

use super::earlier::Earlier;
use crate::address::id::ActorId;
use crate::message::payload::Payload;
use gridspan_bcast::{BroadcastPlan, PlanId};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The sender of a broadcast, and its order among the sender's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) source: ActorId,
    /// Number of broadcasts to the collection that the sender has requested, including this one.
    /// Zero for the runtime's own broadcasts, on which no message depends.
    pub(crate) count: u64,
    /// Numbers of earlier messages to single members.
    pub(crate) earlier: Earlier,
}

impl Asked {
    /// Returns a copy without the earlier messages, for use where they do not matter.
    pub(crate) fn without_earlier(&self) -> Self {
        let Self { source, count, .. } = *self;
        Self { source, count, earlier: Earlier::default() }
    }
}

/// The order of a broadcast among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BroadcastOrder {
    /// In the total order of the collection, with this number.
    Total(u64),
    /// In the total order, with a number that the coordinator sends separately.
    TotalApart,
    /// Ordered only among unordered broadcasts of the same PE and channel, with this number. Their
    /// source is the PE's stream of unordered broadcasts, and not an actor.
    Fifo(u64),
}

/// The right to number the broadcasts of a collection, as it passes between the coordinator and a
/// PE; `coordinator/sequencer.rs` describes the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SequencerRight {
    /// Number of times the right was granted, including this one.
    pub(crate) term: u64,
    /// The number of the next broadcast.
    pub(crate) next: u64,
    /// Number of broadcasts so far of each sender that the PE knows: when the right is granted, of
    /// the last sender; when it is returned, of all for which the PE has numbered broadcasts, too.
    pub(crate) numbered: BTreeMap<ActorId, u64>,
}

/// Messages about the right to number the broadcasts of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SequencerNews {
    /// From the coordinator: grants the right.
    Grant(SequencerRight),
    /// From the coordinator: recalls the right of this term.
    Recall(u64),
    /// To the coordinator: returns the right.
    Return(SequencerRight),
    /// From a PE that is about to request an insertion, to the other PEs of its node or, from
    /// main's PE, to all PEs: the receiver must give up the right.
    Renounce,
}

/// Identifies a large message that follows a plan, in the reports of nodes that have received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FlowId {
    /// A tree broadcast of the coordinator.
    TreeBroadcast(u64),
    /// A multicast of a PE of the coordinator's node.
    Multicast(u64),
    /// A direct broadcast of this PE, which it sends to all nodes itself.
    Direct(PeId, u64),
}

/// The flow, plan and size of a direct broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Travel {
    pub(crate) flow: FlowId,
    pub(crate) plan: PlanId,
    pub(crate) bytes: u64,
}

/// What the coordinator must send to all nodes for a broadcast.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Wanted {
    /// The message, with its number.
    Message(Payload),
    /// The number only: the sender itself sends the message to all nodes.
    Number(Travel),
}

impl Wanted {
    /// Returns the number of bytes of the encoded message, or zero while it is a value.
    pub(crate) fn wire_len(&self) -> usize {
        match self {
            Self::Message(message) => message.wire_len(),
            Self::Number(_) => 0,
        }
    }
}

/// News about the plans for a node's own broadcasts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PlanNews {
    /// Messages of about `bytes` bytes use this new plan.
    New { plan: Box<BroadcastPlan>, bytes: u64 },
    /// Messages of about `bytes` bytes use a plan that the node knows.
    Take { plan: PlanId, bytes: u64 },
    /// A plan is no longer used.
    Retire(PlanId),
}
