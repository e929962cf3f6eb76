//! An actor in transit to another PE or to a replica, and the record that its tombstone keeps.

use crate::address::id::{ActorId, CollectionId, KindId, SectionId};
use crate::address::index::Key;
use bytes::Bytes;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// An actor in transit, with all state that its channels need to continue where it arrives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Migrant {
    pub(crate) id: ActorId,
    pub(crate) kind: KindId,
    /// The actor's epoch after the move.
    pub(crate) epoch: u32,
    pub(crate) state: Bytes,
    /// Ready messages: priority and encoded message.
    pub(crate) mailbox: Vec<(i32, Bytes)>,
    pub(crate) record: MemberRecord,
    /// Encoded envelopes held for an earlier message.
    pub(crate) held: Vec<Bytes>,
}

impl Migrant {
    /// Returns the number of bytes it holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        let mailbox = self.mailbox.iter().map(|(_, message)| message.len());
        self.state.len() + mailbox.sum::<usize>() + self.held.iter().map(Bytes::len).sum::<usize>()
    }
}

/// The runtime's state of a member, which moves with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// The next expected messages: source, channel, sequence number.
    pub(crate) expected: Vec<(ActorId, i32, u64)>,
    /// The next messages to be sent: receiver, channel, sequence number.
    pub(crate) next: Vec<(ActorId, i32, u64)>,
    /// The member's broadcasts, by collection and channel. The number counts its broadcasts to the
    /// collection in all channels, up to its last one in this channel; the keys are the members to
    /// which it has sent messages in this channel since that broadcast.
    pub(crate) sent_broadcasts: Vec<(CollectionId, i32, u64, Vec<Key>)>,
    /// The number of the next broadcast.
    pub(crate) broadcasts: u64,
    /// Number of reductions it has contributed to.
    pub(crate) reductions: u64,
    /// Number of reductions over each section it has contributed to.
    pub(crate) section_reductions: Vec<(SectionId, u64)>,
    /// Number of times it has reached its sync point.
    pub(crate) syncs: u64,
    /// Whether it waits at its sync point.
    pub(crate) synced: bool,
    /// Compute time of its handlers since the last measurement, in nanoseconds.
    pub(crate) load_ns: u64,
    /// The PE where it was in the last window, and its nanoseconds per message there.
    pub(crate) pace: Option<(PeId, u64)>,
}
