//! Order between two actors: the messages from one to the other are numbered, in [`CHANNELS`]
//! channels.
//!
//! Messages of one priority share a channel, and so keep their order. Neighbouring priorities are
//! in different channels, so that an urgent message need not wait for a less urgent one. Distant
//! priorities may share a channel, so that a pair keeps few counters however many priorities it
//! uses. Messages of all steps share one channel, since their sender proceeds from step to step.
//!
//! **Start.** As long as no message of a pair has left its PE in a channel, the messages in that
//! channel have no numbers and go straight into the mailbox. The first message that takes another
//! path gets number zero. From then on all messages of the pair in this channel are numbered,
//! wherever the two actors live.
//!
//! **Steady state.** The receiver lets a message pass when its number is the next one. It holds
//! early messages and drops repeated ones, so that neither forwarding, nor a rebalance, nor a
//! re-established connection can reorder or repeat messages.
//!
//! `order` explains the order between messages and broadcasts.
//!
//! **Migration.** Both counters and the held messages move with the actor.

use super::budget::AccountedEnvelope;
use super::counters::{Counters, Way};
use super::sent_broadcasts::SentBroadcasts;
use crate::address::id::{ActorId, CollectionId, SectionId};
use crate::address::index::Key;
use crate::message::Earlier;
use crate::message::envelope::Header;
use crate::pe::rank::is_step;
use std::collections::{BTreeMap, BTreeSet};

/// The name space for broadcasts. All broadcasts of a collection have one identity, since they are
/// in one order, with one counter per member.
pub(crate) const BROADCAST: CollectionId = CollectionId(u32::MAX - 1);

/// The identity of a collection's broadcasts.
pub(crate) fn broadcasts_of(collection: CollectionId) -> ActorId {
    ActorId { collection: BROADCAST, key: Key(u128::from(collection.0)) }
}

/// Number of channels of a pair, besides the channel of its steps.
const CHANNELS: i32 = 16;

/// The channel of all steps.
const STEPS: i32 = CHANNELS;

#[inline]
pub(crate) fn channel(priority: i32) -> i32 {
    if is_step(priority) { STEPS } else { priority.rem_euclid(CHANNELS) }
}

/// The counters of one actor, or of a PE's own sends.
#[derive(Default)]
pub(crate) struct Channels {
    /// The number of the next message from each sender.
    pub(crate) expected: Counters,
    /// The number of the next message to each receiver, in each numbered channel.
    pub(crate) next: Counters,
    /// Messages and broadcasts that wait here, by source, channel and number.
    pub(crate) held: BTreeMap<(ActorId, i32, u64), AccountedEnvelope>,
    /// Channels whose next message is held because it comes after a broadcast.
    pub(crate) blocked: BTreeSet<Way>,
    pub(crate) sent_broadcasts: SentBroadcasts,
    pub(crate) section_reductions: BTreeMap<SectionId, u64>,
}

impl Channels {
    /// The key under which a message is held.
    pub(crate) fn held_key(header: &Header) -> (ActorId, i32, u64) {
        let Header { to, source, priority, sequence, is_broadcast, .. } = *header;
        match is_broadcast {
            true => (broadcasts_of(to.collection), 0, sequence),
            false => (source, channel(priority), sequence),
        }
    }

    /// Takes the next number for a message to `to`.
    #[inline(always)]
    pub(crate) fn take_next(&mut self, to: ActorId, priority: i32) -> u64 {
        let channel = channel(priority);
        let next = self.next.entry((to, channel));
        *next += 1;
        let number = *next - 1;
        self.sent_broadcasts.note_sent(to, channel);
        number
    }

    /// Whether messages to `to` in the channel of this priority are numbered.
    #[inline]
    pub(crate) fn is_numbered(&self, to: ActorId, priority: i32) -> bool {
        !self.next.is_empty() && self.next.contains((to, channel(priority)))
    }

    /// Whether a message to `to`, if that actor is here, may need more than a place in its mailbox:
    /// it is numbered, or comes after a broadcast. A sender that has broadcast has numbered its
    /// requests, so that `next` is not empty.
    #[inline]
    pub(crate) fn is_ordered(&self, to: ActorId, priority: i32) -> bool {
        !self.next.is_empty() && self.has_order(to.apart(), priority)
    }

    #[inline(never)]
    fn has_order(&self, to: (CollectionId, u128), priority: i32) -> bool {
        let to = ActorId::joined(to);
        self.next.contains((to, channel(priority))) || self.after(to.collection, priority) > 0
    }

    /// Number of broadcasts to the collection that a message comes after.
    #[inline]
    pub(crate) fn after(&self, collection: CollectionId, priority: i32) -> u64 {
        self.sent_broadcasts.after(collection, channel(priority))
    }

    /// Notes that the sender makes its broadcast number `count` to a collection, counted from one.
    /// Returns the messages that come before it. The first broadcast in a channel takes time
    /// proportional to the number of the sender's counters, a later one to the number of receivers
    /// since the previous broadcast.
    pub(crate) fn begin_cast(
        &mut self,
        collection: CollectionId,
        priority: i32,
        count: u64,
    ) -> Earlier {
        self.sent_broadcasts.begin((collection, channel(priority)), count, &self.next)
    }

    /// Number of messages from `source` that have passed.
    pub(crate) fn passed(&self, source: ActorId, priority: i32) -> u64 {
        self.expected.get((source, channel(priority))).unwrap_or(0)
    }

    /// Whether the broadcast of this number is held because it comes after this message of the same
    /// sender.
    pub(crate) fn is_awaited(&self, broadcast: u64, message: &Header) -> bool {
        let held = self.held.get(&(broadcasts_of(message.to.collection), 0, broadcast));
        held.is_some_and(|envelope| {
            let header = envelope.header();
            header.source == message.source
                && channel(header.priority) == channel(message.priority)
                && message.sequence < header.after
        })
    }

    /// Recomputes which channels wait for a broadcast, from the held messages.
    pub(crate) fn find_blocked(&mut self) {
        let Self { held, expected, blocked, .. } = self;
        let next = held.keys().filter(|(source, channel, number)| {
            source.collection != BROADCAST
                && expected.get((*source, *channel)).unwrap_or(0) == *number
        });
        *blocked = next.map(|&(source, channel, _)| (source, channel)).collect();
    }

    /// The counter with the number of the next message from this message's sender in its channel.
    pub(super) fn expected_from(&mut self, header: &Header) -> &mut u64 {
        self.expected.entry((header.source, channel(header.priority)))
    }

    /// Lets consecutive messages from one sender pass if the first is the next one, and counts
    /// them. Returns whether they passed. The caller must know that they wait for nothing else and
    /// that nothing waits for them.
    #[inline(always)]
    pub(crate) fn pass(&mut self, first: &Header, messages: u32) -> bool {
        let sequence = first.sequence;
        let expected = self.expected.entry((first.source, channel(first.priority)));
        let is_next = *expected == sequence;
        if is_next {
            *expected += u64::from(messages);
        }
        is_next
    }

    /// Drops the held messages whose turn has come in a channel, even if they come after a
    /// broadcast. Returns their number.
    pub(crate) fn drop_next(&mut self, (source, channel): Way) -> u64 {
        let expected = self.expected.entry((source, channel));
        let mut dropped = 0;
        while self.held.remove(&(source, channel, *expected)).is_some() {
            *expected += 1;
            dropped += 1;
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::envelope::{AnyEnvelope, Envelope};
    use crate::pe::delivery::Budget;
    use gridspan_topology::PeId;

    const COLLECTION: CollectionId = CollectionId(3);
    const SENDER: ActorId = ActorId { collection: CollectionId(8), key: Key(1) };

    fn header(sequence: u64, after: u64, is_broadcast: bool) -> Header {
        Header { after, is_broadcast, ..Header::new(member(1), SENDER, sequence, PeId(0)) }
    }

    fn hold(channels: &mut Channels, header: Header) {
        let envelope: Box<dyn AnyEnvelope> = Box::new(Envelope { header, message: 0u8 });
        let envelope = Budget::default().keep(envelope, 0);
        channels.held.insert(Channels::held_key(&header), envelope);
    }

    #[test]
    fn a_broadcast_awaits_the_earlier_messages_of_its_sender_and_channel() {
        let mut channels = Channels::default();
        hold(&mut channels, header(5, 3, true));

        let is_awaited = |next, number| channels.is_awaited(next, &header(number, 9, false));
        assert!(is_awaited(5, 2));
        assert!(!is_awaited(5, 3), "sent after the broadcast");
        assert!(!is_awaited(4, 2), "another broadcast is next");
        let urgent = Header { priority: 1, ..header(2, 9, false) };
        assert!(!channels.is_awaited(5, &urgent), "of another channel");
        let other = Header { source: member(2), ..header(2, 9, false) };
        assert!(!channels.is_awaited(5, &other), "of another sender");
    }

    #[test]
    fn messages_that_wait_for_a_broadcast_are_found_and_dropped() {
        let mut channels = Channels::default();
        *channels.expected.entry((SENDER, 0)) = 4;
        for number in [4, 5, 7] {
            hold(&mut channels, header(number, 1, false));
        }
        hold(&mut channels, header(0, 9, true));

        channels.find_blocked();

        assert_eq!(channels.blocked, BTreeSet::from([(SENDER, 0)]));
        assert_eq!(channels.drop_next((SENDER, 0)), 2);
        assert_eq!((channels.passed(SENDER, 0), channels.held.len()), (6, 2));
        channels.find_blocked();
        assert!(channels.blocked.is_empty(), "the next message has not arrived");
    }

    fn member(key: u128) -> ActorId {
        ActorId { collection: COLLECTION, key: Key(key) }
    }

    fn named(earlier: &Earlier) -> Vec<(u128, u64)> {
        let messages = |key| (key, earlier.messages(Key(key)));
        (0..10).map(messages).filter(|&(_, messages)| messages > 0).collect()
    }

    #[test]
    fn a_broadcast_names_the_receivers_since_the_previous_broadcast() {
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
        assert_eq!(channels.after(COLLECTION, 0), 0);
        channels.begin_cast(COLLECTION, 0, 1);
        channels.begin_cast(COLLECTION, 5, 2);
        let after = |priority| channels.after(COLLECTION, priority);
        assert_eq!([after(0), after(5), after(1)], [1, 2, 0]);
        assert_eq!(channels.after(CollectionId(4), 0), 0);
    }

    #[test]
    fn sent_broadcasts_are_restored_from_records() {
        let mut channels = Channels::default();
        channels.begin_cast(COLLECTION, 0, 1);
        channels.take_next(member(9), 0);
        let records = channels.sent_broadcasts.records();

        channels.sent_broadcasts = SentBroadcasts::from_records(&records);

        assert_eq!(channels.after(COLLECTION, 0), 1);
        assert_eq!(named(&channels.begin_cast(COLLECTION, 0, 2)), [(9, 1)]);
    }
}
