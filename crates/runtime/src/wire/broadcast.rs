//! What is said of a broadcast beside its message: who asked for it, and how it travels.

use super::earlier::Earlier;
use crate::id::ActorId;
use crate::parcel::Parcel;
use gridspan_bcast::{Plan, PlanId};
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

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

/// Something large that was sent by a plan, and of which nodes report what they saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FlowId {
    /// Of the root.
    Announcement(u64),
    /// Of the root.
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

/// What the root is to bring to everyone for a broadcast.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Wanted {
    /// The message, with its number.
    Message(Parcel),
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
    New { plan: Box<Plan>, bytes: u64 },
    /// They take one that the node knows.
    Take { plan: PlanId, bytes: u64 },
    /// A plan is not taken any more.
    Retire(PlanId),
}
