//! What one sender has broadcast, as far as its messages to single members have to be in order with
//! it.
//!
//! Kept by collection and channel, and only for those that it has broadcast to: others pay nothing.
//! Messages are noted that come between two broadcasts; what came before the earlier one needs no
//! saying, since nobody takes the later one before.

use super::counters::{Counters, Way};
use crate::address::id::{ActorId, CollectionId};
use crate::address::index::Key;
use crate::message::Earlier;
use std::collections::{BTreeMap, BTreeSet};

/// A sender's broadcasts.
#[derive(Default)]
pub(crate) struct SentBroadcasts(BTreeMap<(CollectionId, i32), ToCollection>);

/// Those to one collection in one channel.
#[derive(Default)]
struct ToCollection {
    /// How many it had asked for, in all channels, with the last one in this.
    count: u64,
    /// Whom it has sent numbered messages since.
    since: BTreeSet<Key>,
}

/// How they travel.
type Record = (CollectionId, i32, u64, Vec<Key>);

impl SentBroadcasts {
    /// How many broadcasts a message to the collection comes after.
    #[inline]
    pub(super) fn after(&self, collection: CollectionId, channel: i32) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&(collection, channel)).map_or(0, |sent| sent.count)
    }

    /// Broadcast number `count` begins, counted from one. Returns which messages come before it, of
    /// those that `next` counts.
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

    /// A numbered message goes to a member.
    #[inline]
    pub(super) fn note_sent(&mut self, to: ActorId, channel: i32) {
        if self.0.is_empty() {
            return;
        }
        if let Some(sent) = self.0.get_mut(&(to.collection, channel)) {
            sent.since.insert(to.key);
        }
    }

    /// In a fixed order.
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
