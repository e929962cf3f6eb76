//! Order between two actors: the messages from one to the other are numbered, in [`CHANNELS`] channels.
//!
//! Messages of one priority are in one channel, and so in order. Neighbouring priorities are in different ones,
//! so that an urgent message need not wait for one that is not; far ones may share a channel, so
//! that a pair keeps few counters however many priorities it uses. Messages of steps are all in one, since whoever
//! sends them goes from step to step.
//!
//! **Start.** A pair whose messages never left their PE has no numbers at all: they go straight into
//! the mailbox. The first message that takes another way gets number zero, and from then on all
//! messages of the pair are numbered, wherever the two live.
//!
//! **Steady state.** The receiver lets a message pass when its number is the next one. It holds what
//! came too early and drops what it has seen, so that neither forwarding, nor a rebalance, nor a
//! connection that was re-established can reorder or repeat anything.
//!
//! How messages are in order with broadcasts is told in `pe/order.rs`.
//!
//! **Migration.** Both counters and the held messages move with the actor.

use super::casts::Casts;
use crate::envelope::{AnyEnvelope, Header};
use crate::id::{ActorId, CollectionId, SectionId};
use crate::index::Key;
use crate::pe::PlantedFault;
use crate::rank::is_step;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// All broadcasts of a collection stand under one name, since they are in one order, which has one counter per member.
pub(crate) const BROADCAST: CollectionId = CollectionId(u32::MAX - 1);

/// That name.
pub(crate) fn broadcasts_of(collection: CollectionId) -> ActorId {
    ActorId { collection: BROADCAST, key: Key(u128::from(collection.0)) }
}

/// Channels of a pair, besides that of its steps.
const CHANNELS: i32 = 16;

/// The channel of all steps.
const STEPS: i32 = CHANNELS;

/// The channel of a priority.
#[inline]
pub(crate) fn channel(priority: i32) -> i32 {
    if is_step(priority) { STEPS } else { priority.rem_euclid(CHANNELS) }
}

/// Whether a message's turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// An earlier one is still on its way.
    Later,
    /// None is, but a broadcast that it comes after, or, as a broadcast, a message.
    Blocked,
    /// It was here before.
    Repeated,
}

/// The counters of one actor, or of a PE's own sends.
#[derive(Default)]
pub(crate) struct Channels {
    pub(crate) expected: FxHashMap<(ActorId, i32), u64>,
    pub(crate) next: FxHashMap<(ActorId, i32), u64>,
    pub(crate) held: BTreeMap<(ActorId, i32, u64), Box<dyn AnyEnvelope>>,
    /// The channels of which the next message is held, because it comes after a broadcast.
    pub(crate) blocked: BTreeSet<(ActorId, i32)>,
    pub(crate) casts: Casts,
    pub(crate) section_reductions: BTreeMap<SectionId, u64>,
}

impl Channels {
    /// Under which key a message is held.
    pub(crate) fn held_key(header: &Header) -> (ActorId, i32, u64) {
        let Header { to, source, priority, sequence, is_broadcast, .. } = *header;
        match is_broadcast {
            true => (broadcasts_of(to.collection), 0, sequence),
            false => (source, channel(priority), sequence),
        }
    }

    /// The number of the next message to `to`; every call takes one.
    pub(crate) fn take_next(&mut self, to: ActorId, priority: i32) -> u64 {
        let channel = channel(priority);
        let next = self.next.entry((to, channel)).or_default();
        *next += 1;
        let number = *next - 1;
        self.casts.note_sent(to, channel);
        number
    }

    /// Whether messages to `to` are numbered.
    #[inline]
    pub(crate) fn is_numbered(&self, to: ActorId, priority: i32) -> bool {
        !self.next.is_empty() && self.next.contains_key(&(to, channel(priority)))
    }

    /// Whether a message to `to` may need more than a place in its mailbox, if that is here: it is numbered, or comes
    /// after a broadcast. Who broadcasts has numbered his requests.
    #[inline]
    pub(crate) fn is_ordered(&self, to: ActorId, priority: i32) -> bool {
        !self.next.is_empty()
            && (self.next.contains_key(&(to, channel(priority)))
                || self.casts.after(to.collection, priority) > 0)
    }

    /// How many messages from `source` have passed.
    pub(crate) fn passed(&self, source: ActorId, priority: i32) -> u64 {
        self.expected.get(&(source, channel(priority))).copied().unwrap_or(0)
    }

    /// Whether the broadcast of this number is held because it comes after this message, of the same sender.
    pub(crate) fn is_awaited(&self, broadcast: u64, message: &Header) -> bool {
        let held = self.held.get(&(broadcasts_of(message.to.collection), 0, broadcast));
        held.is_some_and(|envelope| {
            let header = envelope.header();
            header.source == message.source
                && channel(header.priority) == channel(message.priority)
                && message.sequence < header.after
        })
    }

    /// Finds out which channels wait for a broadcast, from what is held.
    pub(crate) fn find_blocked(&mut self) {
        let Self { held, expected, blocked, .. } = self;
        let next = held.keys().filter(|(source, channel, number)| {
            source.collection != BROADCAST
                && expected.get(&(*source, *channel)).copied().unwrap_or(0) == *number
        });
        *blocked = next.map(|&(source, channel, _)| (source, channel)).collect();
    }

    /// Judges a message from `source`, and counts it if its turn is now.
    pub(crate) fn judge(
        &mut self,
        source: ActorId,
        priority: i32,
        sequence: u64,
        waits: bool,
        fault: PlantedFault,
    ) -> Turn {
        let expected = self.expected.entry((source, channel(priority))).or_default();
        judge(expected, sequence, waits, fault)
    }

    /// Drops the held messages whose turn it is in a channel, whatever else they come after. Returns how many.
    pub(crate) fn drop_next(&mut self, (source, channel): (ActorId, i32)) -> u64 {
        let expected = self.expected.entry((source, channel)).or_default();
        let mut dropped = 0;
        while self.held.remove(&(source, channel, *expected)).is_some() {
            *expected += 1;
            dropped += 1;
        }
        dropped
    }
}

/// Compares a number with the one expected, and counts on if they agree, unless it `waits` for something else.
pub(crate) fn judge(expected: &mut u64, sequence: u64, waits: bool, fault: PlantedFault) -> Turn {
    if fault == PlantedFault::HoldSkipped {
        return Turn::Now;
    }
    match sequence.cmp(expected) {
        std::cmp::Ordering::Equal if waits => Turn::Blocked,
        std::cmp::Ordering::Equal => {
            *expected += 1;
            Turn::Now
        }
        std::cmp::Ordering::Greater => Turn::Later,
        std::cmp::Ordering::Less => Turn::Repeated,
    }
}
