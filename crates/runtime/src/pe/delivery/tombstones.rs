//! Tombstones: the channels of destroyed members, kept on their homes.
//!
//! A new member may be inserted under the same index while messages to the destroyed one are in
//! flight. Senders number messages and receivers count them, so the numbers must continue: the home
//! counts messages for a destroyed member in their order, and drops them. `endings` explains how a
//! tombstone arrives here and passes to a new member.

use super::budget::{AccountedEnvelope, Budget};
use super::channels::{Channels, channel};
use super::verdict::{Receiver, Verdict, verdict};
use crate::address::id::{ActorId, SectionId};
use crate::message::Insertion;
use crate::message::envelope::Header;
use crate::pe::timers::TimerId;
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// Bytes of memory for a tombstone of a member that never existed, in a tree that is at least half
/// full. The budget counts them until the job ends, since messages for the member may always
/// arrive.
const TOMBSTONE_BYTES: usize = size_of::<Channels>() + 2 * size_of::<(ActorId, Box<Channels>)>();

/// The tombstones of members whose home this PE is.
#[derive(Default)]
pub(super) struct Tombstones {
    channels: BTreeMap<ActorId, Box<Channels>>,
    /// Insertions that wait for a tombstone, with the timers of their deadlines.
    pub(super) insertions: BTreeMap<ActorId, (TimerId, Box<Insertion>)>,
}

impl Tombstones {
    /// Stores a tombstone. Returns the number of dropped messages: those that waited for a
    /// broadcast, since no message waits for one at a tombstone.
    pub(super) fn set(&mut self, id: ActorId, mut channels: Box<Channels>) -> u64 {
        channels.find_blocked();
        let blocked = std::mem::take(&mut channels.blocked);
        let dropped = blocked.into_iter().map(|way| channels.drop_next(way)).sum();
        self.channels.insert(id, channels);
        dropped
    }

    /// Removes a tombstone and returns its channels for a new member.
    pub(super) fn take(&mut self, id: ActorId) -> Option<Box<Channels>> {
        self.channels.remove(&id)
    }

    /// Takes a message for a member that is gone or never existed, on the member's home `me`, and
    /// drops it in its turn, with the messages that waited for it. Returns the number of messages
    /// dropped now, or `None` if the message was a repeated one. The tombstone of a member that
    /// never existed counts in `budget`: a sender can name any number of such members.
    pub(super) fn handle(
        &mut self,
        me: PeId,
        envelope: AccountedEnvelope,
        budget: &Budget,
    ) -> Option<u64> {
        let header = *envelope.header();
        let channels = self.channels.entry(header.to).or_insert_with(|| {
            budget.keep_forever(TOMBSTONE_BYTES);
            Box::default()
        });
        let expected = channels.expected_from(&header);
        let receiver = Receiver::Here { expected: *expected, waits: false };
        match verdict(me, &header, receiver) {
            Verdict::Deliver => {
                *expected += 1;
                Some(1 + channels.drop_next((header.source, channel(header.priority))))
            }
            Verdict::Hold(_) => {
                let key = Channels::held_key(&header);
                channels.held.insert(key, envelope).is_none().then_some(0)
            }
            Verdict::Drop(_) | Verdict::Forward { .. } => None,
        }
    }

    /// Whether a message to a destroyed member has been handled or dropped before.
    pub(super) fn has_passed(&self, header: &Header) -> bool {
        let channels = self.channels.get(&header.to);
        channels.is_some_and(|known| header.sequence < known.passed(header.source, header.priority))
    }

    /// The number of reductions over each section that a destroyed member has contributed to.
    pub(super) fn sections(&self, id: ActorId) -> Vec<(SectionId, u64)> {
        let sections = self.channels.get(&id).map(|channels| &channels.section_reductions);
        sections.into_iter().flatten().map(|(&section, &next)| (section, next)).collect()
    }

    /// Sets these numbers for the next member of this index.
    pub(super) fn set_sections(&mut self, id: ActorId, sections: Vec<(SectionId, u64)>) {
        self.channels.entry(id).or_default().section_reductions = sections.into_iter().collect();
    }

    /// Number of messages that wait here for an earlier one.
    pub(super) fn held(&self) -> u64 {
        self.channels.values().map(|channels| channels.held.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::CollectionId;
    use crate::address::index::Key;
    use crate::message::envelope::{AnyEnvelope, Envelope};

    #[test]
    fn each_missing_member_to_which_messages_come_counts_once_in_the_budget() {
        let (mut tombstones, budget) = (Tombstones::default(), Budget::default());
        let actor = |key| ActorId { collection: CollectionId(1), key: Key(key) };
        let mut counted = Vec::new();
        for (to, sequence) in [(1, 0), (1, 1), (2, 0)] {
            let header = Header::new(actor(to), actor(9), sequence, PeId(0));
            let envelope: Box<dyn AnyEnvelope> = Box::new(Envelope { header, message: 0u8 });
            let envelope = Budget::default().keep(envelope, 0);
            assert_eq!(tombstones.handle(PeId(0), envelope, &budget), Some(1));
            counted.push(budget.bytes());
        }
        assert_eq!(counted, [TOMBSTONE_BYTES, TOMBSTONE_BYTES, 2 * TOMBSTONE_BYTES]);
    }
}
