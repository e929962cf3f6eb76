//! Members that live on a PE: those that are about to, those that do, and those that leave.

use crate::address::id::{ActorId, CollectionId, KindId, RebalanceId};
use crate::pe::delivery::{AccountedEnvelope, Channels};
use crate::pe::measure::edges::EdgeCache;
use crate::pe::rank::FAR;
use bytes::Bytes;
use gridspan_balance::HandlingTime;
use gridspan_topology::PeId;
use std::time::Duration;

/// A member that lives here.
pub(crate) struct Member {
    pub(crate) id: ActorId,
    /// How often it has moved, or got or lost a replica.
    pub(crate) epoch: u32,
    /// The number of the next broadcast it has to handle.
    pub(crate) broadcasts: u64,
    pub(crate) reductions: u64,
    pub(crate) syncs: u64,
    pub(crate) synced: bool,
    pub(crate) load_ns: u64,
    pub(crate) paced: Paced,
    /// What its state took when it was last encoded.
    pub(crate) state_bytes: Option<u64>,
    pub(crate) channels: Option<Box<Channels>>,
    /// Whom it talks to, while that is measured.
    pub(crate) ring: EdgeCache,
    /// From it to another site, in messages.
    pub(crate) border_hops: u8,
    /// Whether it lives on another PE too.
    pub(crate) is_replicated: bool,
}

impl Member {
    /// Lets broadcasts with consecutive numbers pass if it is the turn of the first, and nothing
    /// waits for it. Returns whether they passed.
    pub(crate) fn pass_broadcasts(&mut self, first: u64, count: u32) -> bool {
        let holds = self.channels.as_ref().is_some_and(|channels| !channels.held.is_empty());
        let is_next = self.broadcasts == first && !holds;
        if is_next {
            self.broadcasts += u64::from(count);
        }
        is_next
    }
}

/// What a member takes for a message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paced {
    /// Handlers that were timed in this window, where it lives now.
    pub(crate) handled: u32,
    /// The part of its load that it had when it came here in this window.
    pub(crate) carried_ns: u64,
    /// Where it was when that was last taken, and nanoseconds per message.
    pub(crate) last: Option<(PeId, u64)>,
}

impl Paced {
    /// Notes that a handler was timed.
    #[inline]
    pub(crate) fn note(&mut self) {
        self.handled = self.handled.saturating_add(1);
    }

    /// Ends the window, in which the member's load was `load_ns`, of which `share` counts. Returns
    /// what it took on `here` beside what it took in the window before.
    pub(crate) fn take(&mut self, here: PeId, load_ns: u64, share: f64) -> Option<HandlingTime> {
        let carried = std::mem::take(&mut self.carried_ns);
        let handled = std::mem::take(&mut self.handled);
        if handled == 0 {
            return None;
        }
        let now = load_ns.saturating_sub(carried) as f64 * share / f64::from(handled);
        let now = now as u64;
        let (pe_before, before) = self.last.replace((here, now))?;
        let [now, before] = [now, before].map(Duration::from_nanos);
        Some(HandlingTime { now, before, pe_before })
    }
}

/// Members that are about to be made, and the numbers of the collective operations they begin with.
pub(crate) struct NewMembers {
    pub(crate) collection: CollectionId,
    pub(crate) epoch: u32,
    pub(crate) reductions: u64,
    pub(crate) broadcasts: u64,
    pub(crate) syncs: u64,
    /// The conversations of an earlier member of the same index.
    pub(crate) channels: Option<Box<Channels>>,
}

impl NewMembers {
    /// The members that a collection begins with.
    pub(crate) fn first(collection: CollectionId) -> Self {
        Self { collection, epoch: 0, reductions: 0, broadcasts: 0, syncs: 0, channels: None }
    }

    pub(crate) fn member(&mut self, id: ActorId) -> Member {
        let Self { epoch, reductions, broadcasts, syncs, .. } = *self;
        Member {
            id,
            epoch,
            broadcasts,
            reductions,
            syncs,
            synced: false,
            load_ns: 0,
            paced: Paced::default(),
            state_bytes: None,
            channels: self.channels.take(),
            ring: EdgeCache::default(),
            border_hops: FAR,
            is_replicated: false,
        }
    }
}

/// An actor that was offered to another PE.
pub(crate) struct Departing {
    pub(crate) kind: KindId,
    pub(crate) slot: u32,
    pub(crate) to: PeId,
    pub(crate) member: Member,
    pub(crate) mailbox: Vec<(i32, Bytes)>,
    /// Messages that came since.
    pub(crate) arrivals: Vec<AccountedEnvelope>,
    /// The rebalance that this is part of.
    pub(crate) plan: Option<RebalanceId>,
}

/// What an actor asked for itself while it was being handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: ActorId,
    pub(crate) wish: Wish,
}

/// What an actor can ask for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To live on another PE.
    Migrate(PeId),
    /// To be no more.
    Destroy,
    /// To go on from the sync point that it has reached.
    Resume,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_takes_for_a_message_is_told_with_where_it_was_before() {
        let mut paced = Paced::default();
        (0..4).for_each(|_| paced.note());
        assert_eq!(paced.take(PeId(1), 4_000, 1.0), None, "nothing to compare with");
        assert_eq!(paced.take(PeId(1), 0, 1.0), None, "nothing was handled");

        // It moves after 700 ns more, and handles two messages of 3 us there, of half of a
        // processor.
        paced.carried_ns = 700;
        (0..2).for_each(|_| paced.note());
        let pace = paced.take(PeId(2), 12_700, 0.5).unwrap();

        let [now, before] = [pace.now, pace.before].map(|time| time.as_nanos());
        assert_eq!((now, before, pace.pe_before), (3_000, 1_000, PeId(1)));
    }
}
