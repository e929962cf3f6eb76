//! The record of a sender's broadcasts, which keeps its messages to single members in order with
//! them.
//!
//! The state is kept by collection and channel, and only for collections that the sender has
//! broadcast to. It contains the receivers of messages since the last broadcast. Earlier receivers
//! need no entry, since no member takes a broadcast before the previous one.

use super::counters::{Counters, Way};
use crate::address::id::{ActorId, CollectionId};
use crate::address::index::Key;
use crate::message::Earlier;
use std::collections::{BTreeMap, BTreeSet};

/// A sender's broadcasts.
#[derive(Default)]
pub(crate) struct SentBroadcasts(BTreeMap<(CollectionId, i32), ToCollection>);

/// The broadcasts to one collection in one channel.
#[derive(Default)]
struct ToCollection {
    /// Number of broadcasts that the sender had requested in all channels, up to the last one in
    /// this channel.
    count: u64,
    /// The members to which the sender has sent numbered messages since that broadcast.
    since: BTreeSet<Key>,
}

/// The encoded form of one entry.
type Record = (CollectionId, i32, u64, Vec<Key>);

impl SentBroadcasts {
    /// Number of broadcasts to the collection that precede the next message.
    #[inline]
    pub(super) fn after(&self, collection: CollectionId, channel: i32) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&(collection, channel)).map_or(0, |sent| sent.count)
    }

    /// Begins broadcast number `count`, counted from one. Returns the messages that come before it,
    /// with the numbers from `next`.
    pub(super) fn begin(
        &mut self,
        (collection, channel): (CollectionId, i32),
        count: u64,
        next: &Counters,
    ) -> Earlier {
        let since = match self.0.get_mut(&(collection, channel)) {
            Some(sent) => std::mem::take(&mut sent.since),
            None => {
                let is_in =
                    |&((to, of), _): &(Way, u64)| to.collection == collection && of == channel;
                next.iter().filter(is_in).map(|((to, _), _)| to.key).collect()
            }
        };
        self.0.entry((collection, channel)).or_default().count = count;
        let sent = |key: Key| {
            let next = next.get((ActorId { collection, key }, channel));
            (key, next.unwrap_or(0))
        };
        Earlier::from_sorted(since.into_iter().map(sent))
    }

    /// Notes a numbered message to a member.
    #[inline]
    pub(super) fn note_sent(&mut self, to: ActorId, channel: i32) {
        if self.0.is_empty() {
            return;
        }
        if let Some(sent) = self.0.get_mut(&(to.collection, channel)) {
            sent.since.insert(to.key);
        }
    }

    /// The entries in encoded form, in a fixed order.
    pub(crate) fn records(&self) -> Vec<Record> {
        let record = |(&(collection, channel), sent): (&(CollectionId, i32), &ToCollection)| {
            (collection, channel, sent.count, sent.since.iter().copied().collect())
        };
        self.0.iter().map(record).collect()
    }

    pub(crate) fn from_records(records: &[Record]) -> Self {
        let sent = |(collection, channel, count, since): &Record| {
            let since = since.iter().copied().collect();
            ((*collection, *channel), ToCollection { count: *count, since })
        };
        Self(records.iter().map(sent).collect())
    }
}
