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
//! **Migration.** Both counters and the held messages move with the actor.

use crate::envelope::{AnyEnvelope, Header};
use crate::id::{ActorId, CollectionId, SectionId};
use crate::pe::PlantedFault;
use crate::rank::is_step;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The source of numbered broadcasts, which have one counter per member.
pub(crate) const BROADCAST: CollectionId = CollectionId(u32::MAX - 1);

/// Channels of a pair, besides that of its steps.
const CHANNELS: i32 = 16;

/// The channel of all steps.
const STEPS: i32 = CHANNELS;

/// The channel of a priority.
#[inline]
fn channel(priority: i32) -> i32 {
    if is_step(priority) { STEPS } else { priority.rem_euclid(CHANNELS) }
}

/// Whether a message's turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// An earlier one is still on its way.
    Later,
    /// It was here before.
    Repeated,
}

/// The counters of one actor, or of a PE's own sends.
#[derive(Default)]
pub(crate) struct Channels {
    pub(crate) expected: FxHashMap<(ActorId, i32), u64>,
    pub(crate) next: FxHashMap<(ActorId, i32), u64>,
    pub(crate) held: BTreeMap<(ActorId, i32, u64), Box<dyn AnyEnvelope>>,
    pub(crate) section_reductions: BTreeMap<SectionId, u64>,
}

impl Channels {
    /// Under which key a message is held.
    pub(crate) fn held_key(header: &Header) -> (ActorId, i32, u64) {
        let Header { source, priority, sequence, .. } = *header;
        // Broadcasts are in one order, whatever their priority.
        let priority = if source.collection == BROADCAST { 0 } else { priority };
        (source, channel(priority), sequence)
    }

    /// The number of the next message to `to`; every call takes one.
    pub(crate) fn take_next(&mut self, to: ActorId, priority: i32) -> u64 {
        let next = self.next.entry((to, channel(priority))).or_default();
        *next += 1;
        *next - 1
    }

    /// Whether messages to `to` are numbered.
    #[inline]
    pub(crate) fn is_numbered(&self, to: ActorId, priority: i32) -> bool {
        !self.next.is_empty() && self.next.contains_key(&(to, channel(priority)))
    }

    /// Judges a message from `source`, and counts it if its turn is now.
    pub(crate) fn judge(
        &mut self,
        source: ActorId,
        priority: i32,
        sequence: u64,
        fault: PlantedFault,
    ) -> Turn {
        let expected = self.expected.entry((source, channel(priority))).or_default();
        judge(expected, sequence, fault)
    }

    /// Takes out the held message that follows the last one passed, if it is there.
    pub(crate) fn take_held(
        &mut self,
        source: ActorId,
        priority: i32,
        expected: u64,
    ) -> Option<Box<dyn AnyEnvelope>> {
        if self.held.is_empty() {
            return None;
        }
        self.held.remove(&(source, channel(priority), expected))
    }
}

/// Compares a number with the one expected, and counts on if they agree.
pub(crate) fn judge(expected: &mut u64, sequence: u64, fault: PlantedFault) -> Turn {
    if fault == PlantedFault::HoldSkipped {
        return Turn::Now;
    }
    match sequence.cmp(expected) {
        std::cmp::Ordering::Equal => {
            *expected += 1;
            Turn::Now
        }
        std::cmp::Ordering::Greater => Turn::Later,
        std::cmp::Ordering::Less => Turn::Repeated,
    }
}
