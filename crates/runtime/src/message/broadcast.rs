//! What is said of a broadcast beside its message: who asked for it, and how it travels.

use super::earlier::Earlier;
use crate::address::id::ActorId;
use crate::message::payload::Payload;
use gridspan_bcast::{BroadcastPlan, PlanId};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who asked for a broadcast, and what it comes after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub(crate) source: ActorId,
    /// How many broadcasts to the collection the sender has asked for, with this one. Zero for the
    /// runtime's own, which nothing comes after.
    pub(crate) count: u64,
    /// Messages to single members that come before.
    pub(crate) earlier: Earlier,
}

impl Asked {
    /// The same for where it makes no difference what it comes after.
    pub(crate) fn without_earlier(&self) -> Self {
        let Self { source, count, .. } = *self;
        Self { source, count, earlier: Earlier::default() }
    }
}

/// In which order with others a broadcast is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BroadcastOrder {
    /// The total order of the collection, where it has this number.
    Total(u64),
    /// The same, but the coordinator sends the number apart.
    TotalApart,
    /// Unordered, but for others of the same PE and channel, among which it has this number. The
    /// PE's name for them stands as the source.
    Fifo(u64),
}

/// The right to number the broadcasts of a collection, as it passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SequencerRight {
    /// How often it was granted, with this time.
    pub(crate) term: u64,
    /// The next number.
    pub(crate) next: u64,
    /// How many broadcasts of a sender have their number, as far as the holder has to know.
    pub(crate) come: BTreeMap<ActorId, u64>,
}

/// How that right passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SequencerNews {
    /// From the coordinator: you have it.
    Grant(SequencerRight),
    /// From the coordinator: return that of this term.
    Recall(u64),
    /// To the coordinator.
    Return(SequencerRight),
    /// From another PE of the node, whose members insert others: you do not want it any more.
    Renounce,
}

/// Something large that was sent by a plan, and of which nodes report what they saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FlowId {
    /// Of the coordinator.
    TreeBroadcast(u64),
    /// Of a PE of the coordinator's node.
    Multicast(u64),
    /// Of this PE: a broadcast that goes from there to everyone.
    Direct(PeId, u64),
}

/// How the message of a direct broadcast travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Travel {
    pub(crate) flow: FlowId,
    pub(crate) plan: PlanId,
    pub(crate) bytes: u64,
}

/// What the coordinator is to bring to everyone for a broadcast.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Wanted {
    /// The message, with its number.
    Message(Payload),
    /// The number only: the sender brings the message to everyone.
    Number(Travel),
}

impl Wanted {
    /// Bytes of the message, or zero while it is a value.
    pub(crate) fn wire_len(&self) -> usize {
        match self {
            Self::Message(message) => message.wire_len(),
            Self::Number(_) => 0,
        }
    }
}

/// News of the plans for what a node itself sends to all.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum PlanNews {
    /// Messages of about so many bytes take a new plan.
    New { plan: Box<BroadcastPlan>, bytes: u64 },
    /// They take one that the node knows.
    Take { plan: PlanId, bytes: u64 },
    /// A plan is not taken any more.
    Retire(PlanId),
}
