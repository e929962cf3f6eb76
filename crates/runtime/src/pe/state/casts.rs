//! What one sender has broadcast, as far as its messages to single members have to be in order with it.
//!
//! Kept by collection and channel, and only for those that it has broadcast to: others pay nothing. Messages are
//! noted that come between two broadcasts; what came before the earlier one needs no saying, since nobody
//! takes the later one before.

use super::channel::{Channels, channel};
use crate::id::{ActorId, CollectionId};
use crate::index::Key;
use crate::wire::Earlier;
use std::collections::{BTreeMap, BTreeSet};

/// A sender's broadcasts.
#[derive(Default)]
pub(crate) struct Casts(BTreeMap<(CollectionId, i32), Cast>);

/// Those to one collection in one channel.
#[derive(Default)]
struct Cast {
    /// How many it had asked for, in all channels, with the last one in this.
    count: u64,
    /// Whom it has sent numbered messages since.
    since: BTreeSet<Key>,
}

/// How casts travel.
type Record = (CollectionId, i32, u64, Vec<Key>);

impl Casts {
    /// How many broadcasts a message to the collection comes after.
    #[inline]
    pub(crate) fn after(&self, collection: CollectionId, priority: i32) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&(collection, channel(priority))).map_or(0, |cast| cast.count)
    }

    /// A numbered message goes to a member.
    #[inline]
    pub(super) fn note_sent(&mut self, to: ActorId, channel: i32) {
        if self.0.is_empty() {
            return;
        }
        if let Some(cast) = self.0.get_mut(&(to.collection, channel)) {
            cast.since.insert(to.key);
        }
    }

    /// In a fixed order.
    pub(crate) fn records(&self) -> Vec<Record> {
        let record = |(&(collection, channel), cast): (&(CollectionId, i32), &Cast)| {
            (collection, channel, cast.count, cast.since.iter().copied().collect())
        };
        self.0.iter().map(record).collect()
    }

    pub(crate) fn from_records(records: &[Record]) -> Self {
        let cast = |(collection, channel, count, since): &Record| {
            let since = since.iter().copied().collect();
            ((*collection, *channel), Cast { count: *count, since })
        };
        Self(records.iter().map(cast).collect())
    }
}

impl Channels {
    /// The sender makes its broadcast number `count` to a collection, counted from one. Returns which messages come
    /// before it. The first in a channel takes time in proportion to the sender's conversations, later ones to those
    /// in which something was said since.
    pub(crate) fn begin_cast(
        &mut self,
        collection: CollectionId,
        priority: i32,
        count: u64,
    ) -> Earlier {
        let channel = channel(priority);
        let since = match self.casts.0.get_mut(&(collection, channel)) {
            Some(cast) => std::mem::take(&mut cast.since),
            None => {
                let is_in =
                    |&&(to, of): &&(ActorId, i32)| to.collection == collection && of == channel;
                self.next.keys().filter(is_in).map(|(to, _)| to.key).collect()
            }
        };
        self.casts.0.entry((collection, channel)).or_default().count = count;
        let sent = |key: Key| {
            let next = self.next.get(&(ActorId { collection, key }, channel));
            (key, next.copied().unwrap_or(0))
        };
        Earlier::from_sorted(since.into_iter().map(sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLLECTION: CollectionId = CollectionId(3);

    fn member(key: u128) -> ActorId {
        ActorId { collection: COLLECTION, key: Key(key) }
    }

    fn named(earlier: &Earlier) -> Vec<(u128, u64)> {
        let messages = |key| (key, earlier.messages(Key(key)));
        (0..10).map(messages).filter(|&(_, messages)| messages > 0).collect()
    }

    #[test]
    fn a_broadcast_names_whom_its_sender_wrote_to_since_the_one_before() {
        let mut channels = Channels::default();
        channels.take_next(member(1), 0);
        channels.take_next(member(1), 0);
        channels.take_next(member(2), 5);
        channels.take_next(ActorId { collection: CollectionId(4), key: Key(6) }, 0);

        assert_eq!(named(&channels.begin_cast(COLLECTION, 0, 1)), [(1, 2)]);
        channels.take_next(member(7), 0);
        assert_eq!(named(&channels.begin_cast(COLLECTION, 0, 2)), [(7, 1)]);
        assert_eq!(named(&channels.begin_cast(COLLECTION, 5, 3)), [(2, 1)]);
        assert_eq!(named(&channels.begin_cast(COLLECTION, 0, 4)), []);
    }

    #[test]
    fn messages_come_after_the_broadcasts_of_their_own_channel() {
        let mut channels = Channels::default();
        assert_eq!(channels.casts.after(COLLECTION, 0), 0);
        channels.begin_cast(COLLECTION, 0, 1);
        channels.begin_cast(COLLECTION, 5, 2);
        let after = |priority| channels.casts.after(COLLECTION, priority);
        assert_eq!([after(0), after(5), after(1)], [1, 2, 0]);
        assert_eq!(channels.casts.after(CollectionId(4), 0), 0);
    }

    #[test]
    fn casts_travel() {
        let mut channels = Channels::default();
        channels.begin_cast(COLLECTION, 0, 1);
        channels.take_next(member(9), 0);
        let records = channels.casts.records();

        channels.casts = Casts::from_records(&records);

        assert_eq!(channels.casts.after(COLLECTION, 0), 1);
        assert_eq!(named(&channels.begin_cast(COLLECTION, 0, 2)), [(9, 1)]);
    }
}
