//! What a PE keeps of members that are no more, and whose home it is: their conversations.
//!
//! Another member may be inserted under the same index, while messages are on their way to the one
//! that was destroyed. Both ends number their messages, so the numbers have to go on: messages for
//! a member that is gone are counted in their order, and dropped. How a tombstone comes here, and
//! passes to a new member, is told in `endings`.

use super::budget::AccountedEnvelope;
use super::channels::{Channels, channel};
use super::verdict::{Receiver, Verdict, verdict};
use crate::address::id::ActorId;
use crate::message::Insertion;
use crate::pe::timers::TimerId;
use gridspan_topology::PeId;
use std::collections::BTreeMap;

/// The tombstones of members whose home this PE is.
#[derive(Default)]
pub(super) struct Tombstones {
    channels: BTreeMap<ActorId, Box<Channels>>,
    /// Insertions that wait for news of an end, and until when.
    pub(super) insertions: BTreeMap<ActorId, (TimerId, Box<Insertion>)>,
}

impl Tombstones {
    /// A member is gone. Returns how many messages are dropped that waited for a broadcast: none
    /// does where nobody is.
    pub(super) fn set(&mut self, id: ActorId, mut channels: Box<Channels>) -> u64 {
        channels.find_blocked();
        let blocked = std::mem::take(&mut channels.blocked);
        let dropped = blocked.into_iter().map(|way| channels.drop_next(way)).sum();
        self.channels.insert(id, channels);
        dropped
    }

    /// What a new member takes over.
    pub(super) fn take(&mut self, id: ActorId) -> Option<Box<Channels>> {
        self.channels.remove(&id)
    }

    /// Takes a message for a member that is gone, or never was, on its home `me`: it is dropped
    /// when its turn has come, with those that waited for it. Returns how many are dropped now;
    /// `None` if it was here before.
    pub(super) fn handle(&mut self, me: PeId, envelope: AccountedEnvelope) -> Option<u64> {
        let header = *envelope.header();
        let channels = self.channels.entry(header.to).or_default();
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

    /// How many messages wait here for an earlier one.
    pub(super) fn held(&self) -> u64 {
        self.channels.values().map(|channels| channels.held.len() as u64).sum()
    }
}
