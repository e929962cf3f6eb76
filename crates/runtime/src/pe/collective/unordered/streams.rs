//! Unordered broadcasts to one collection, as state of a PE.
//!
//! The broadcasts of one PE in one channel are a *stream*. That PE numbers them.

use crate::address::id::{ActorId, CollectionId};
use crate::address::index::Key;
use crate::pe::delivery::{AccountedBroadcast, Channels, Way};
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// The name space of streams. To members, a stream is a sender of messages.
const STREAM: CollectionId = CollectionId(u32::MAX - 2);

/// The identity of the streams from a PE.
pub(crate) fn stream_of(pe: PeId) -> ActorId {
    ActorId { collection: STREAM, key: Key(u128::from(pe.0)) }
}

/// The identity under which a PE numbers its unordered broadcasts to a collection.
pub(crate) fn streams_to(collection: CollectionId) -> ActorId {
    ActorId { collection: STREAM, key: Key(u128::from(collection.0)) }
}

/// Whether a message from this source is an unordered broadcast.
pub(crate) fn is_stream(source: ActorId) -> bool {
    source.collection == STREAM
}

/// The next number of each stream: source, channel, number.
pub(crate) type StreamNumbers = Vec<(ActorId, i32, u64)>;

/// All streams to one collection that have reached a PE.
#[derive(Default)]
pub(crate) struct Streams(BTreeMap<Way, Stream>);

#[derive(Default)]
struct Stream {
    /// The number of the next broadcast.
    next: u64,
    /// Broadcasts that arrived before an earlier one.
    early: BTreeMap<u64, AccountedBroadcast>,
    /// Members that have left, each with the range of broadcasts that this PE forwards to it: the
    /// first number, and the end of the range.
    debts: BTreeMap<Key, (u64, u64)>,
}

impl Streams {
    /// Bytes that a stream takes until the end of the job.
    pub(crate) const STREAM_BYTES: usize = size_of::<(Way, Stream)>();

    pub(crate) fn contains(&self, way: Way) -> bool {
        self.0.contains_key(&way)
    }

    /// The number of the next broadcast of a stream.
    pub(crate) fn next(&self, way: Way) -> u64 {
        self.0.get(&way).map_or(0, |stream| stream.next)
    }

    /// The number of the next broadcast of each stream.
    pub(crate) fn numbers(&self) -> StreamNumbers {
        self.0.iter().map(|(&(source, channel), stream)| (source, channel, stream.next)).collect()
    }

    /// Keeps a broadcast until its turn. Returns false if it has arrived before.
    pub(crate) fn keep(&mut self, way: Way, number: u64, broadcast: AccountedBroadcast) -> bool {
        let stream = self.0.entry(way).or_default();
        number >= stream.next && stream.early.insert(number, broadcast).is_none()
    }

    /// Removes and returns the broadcast whose turn has come, if it has arrived.
    pub(crate) fn take_early(&mut self, way: Way) -> Option<AccountedBroadcast> {
        let stream = self.0.get_mut(&way)?;
        stream.early.remove(&stream.next)
    }

    /// Number of broadcasts that wait for an earlier one.
    pub(crate) fn early(&self) -> u64 {
        self.0.values().map(|stream| stream.early.len() as u64).sum()
    }

    /// Passes the next broadcast of a stream. Returns its number, and the departed members to which
    /// this PE owes it.
    pub(crate) fn pass(&mut self, way: Way) -> (u64, Vec<Key>) {
        let stream = self.0.entry(way).or_default();
        let number = stream.next;
        stream.next += 1;
        let is_owed = |(key, (from, end)): (&Key, &(u64, u64))| {
            (*from..*end).contains(&number).then_some(*key)
        };
        let owed = stream.debts.iter().filter_map(is_owed).collect();
        stream.debts.retain(|_, (_, end)| *end > number + 1);
        (number, owed)
    }

    /// Notes that a member leaves for a PE whose next numbers are `there`. This PE forwards to it
    /// the broadcasts that have passed there and not yet here.
    pub(crate) fn owe(&mut self, member: Key, there: &[(ActorId, i32, u64)]) {
        for &(source, channel, end) in there {
            let from = self.next((source, channel));
            if end > from {
                let stream = self.0.entry((source, channel)).or_default();
                stream.debts.insert(member, (from, end));
            }
        }
    }

    /// Sets the numbers of a new member to those of this PE: the member receives the broadcasts
    /// that pass here from now on. Broadcasts that an earlier member with the same index received
    /// elsewhere do not matter.
    pub(crate) fn admit(&self, channels: &mut Option<Box<Channels>>) {
        if let Some(channels) = channels {
            let known: Vec<Way> = channels.expected.iter().map(|(way, _)| way).collect();
            for way in known.into_iter().filter(|way| is_stream(way.0)) {
                *channels.expected.entry(way) = 0;
            }
        }
        for (&way, stream) in self.0.iter().filter(|(_, stream)| stream.next > 0) {
            *channels.get_or_insert_default().expected.entry(way) = stream.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBER: Key = Key(4);

    fn way(pe: u32) -> Way {
        (stream_of(PeId(pe)), 0)
    }

    fn after(numbers: &[(u32, u64)]) -> Streams {
        let mut streams = Streams::default();
        for &(pe, passed) in numbers {
            (0..passed).for_each(|number| assert_eq!(streams.pass(way(pe)).0, number));
        }
        streams
    }

    #[test]
    fn a_pe_owes_the_broadcasts_that_have_passed_on_the_new_pe_only() {
        let mut here = after(&[(0, 2), (1, 5)]);
        let there = after(&[(0, 4), (1, 5), (7, 1)]);

        here.owe(MEMBER, &there.numbers());

        assert_eq!(here.pass(way(0)), (2, vec![MEMBER]));
        assert_eq!(here.pass(way(0)), (3, vec![MEMBER]));
        assert_eq!(here.pass(way(0)), (4, vec![]));
        assert_eq!(here.pass(way(1)), (5, vec![]));
        assert_eq!(here.pass(way(7)), (0, vec![MEMBER]));
        assert_eq!(here.pass(way(7)), (1, vec![]));
    }

    #[test]
    fn a_new_member_gets_the_numbers_of_its_pe() {
        let here = after(&[(0, 2)]);
        let mut channels = Some(Box::<Channels>::default());
        let other = (ActorId { collection: CollectionId(1), key: Key(0) }, 0);
        let expected = &mut channels.get_or_insert_default().expected;
        for (way, number) in [(way(0), 9), (way(1), 5), (other, 3)] {
            *expected.entry(way) = number;
        }

        here.admit(&mut channels);

        let channels = channels.unwrap();
        let expected = [way(0), way(1), other].map(|way| channels.expected.get(way));
        assert_eq!(expected, [Some(2), Some(0), Some(3)]);
        let mut none = None;
        Streams::default().admit(&mut none);
        assert!(none.is_none(), "no stream has reached the PE");
    }
}
