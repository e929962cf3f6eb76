//! An actor as it travels: to another PE, to its tombstone, or to a replica.

use crate::address::id::{ActorId, CollectionId, KindId, SectionId};
use crate::address::index::Key;
use bytes::Bytes;
use gridspan_topology::PeId;
use serde::{Deserialize, Serialize};

/// An actor in transit, with all that makes its conversations go on where it arrives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Migrant {
    pub(crate) id: ActorId,
    pub(crate) kind: KindId,
    /// Its epoch where it arrives.
    pub(crate) epoch: u32,
    pub(crate) state: Bytes,
    /// Messages that were ready to be handled: priority and encoded message.
    pub(crate) mailbox: Vec<(i32, Bytes)>,
    pub(crate) record: MemberRecord,
    /// Encoded envelopes that wait for an earlier message.
    pub(crate) held: Vec<Bytes>,
}

impl Migrant {
    /// Bytes that it holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        let mailbox = self.mailbox.iter().map(|(_, message)| message.len());
        self.state.len() + mailbox.sum::<usize>() + self.held.iter().map(Bytes::len).sum::<usize>()
    }
}

/// The part of a member's bookkeeping that moves with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MemberRecord {
    /// The next message expected: source, channel, sequence number.
    pub(crate) expected: Vec<(ActorId, i32, u64)>,
    /// The next message to be sent: receiver, channel, sequence number.
    pub(crate) next: Vec<(ActorId, i32, u64)>,
    /// Its broadcasts: collection, channel, how many of all it had asked for with the last in this
    /// channel, and whom it has sent messages in the channel since.
    pub(crate) sent_broadcasts: Vec<(CollectionId, i32, u64, Vec<Key>)>,
    /// The number of the next broadcast.
    pub(crate) broadcasts: u64,
    /// How many reductions it has contributed to.
    pub(crate) reductions: u64,
    /// How many reductions over a section it has contributed to.
    pub(crate) section_reductions: Vec<(SectionId, u64)>,
    /// How often it has reached its sync point.
    pub(crate) syncs: u64,
    /// Whether it waits there.
    pub(crate) synced: bool,
    /// Compute time that it charged since the last sync point, in nanoseconds.
    pub(crate) load_ns: u64,
    /// Where it was in the last window, and nanoseconds that it took for a message.
    pub(crate) pace: Option<(PeId, u64)>,
}
