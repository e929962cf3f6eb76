//! The members of a PE: arriving, resident and leaving ones.

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
    /// Number of times that it has moved, or gained or lost a replica.
    pub(crate) epoch: u32,
    /// The number of the next broadcast to take.
    pub(crate) broadcasts: u64,
    /// The number of the next reduction over its collection.
    pub(crate) reductions: u64,
    /// The number of the next sync point. Counted only if actors are balanced.
    pub(crate) syncs: u64,
    /// Whether it waits at a sync point.
    pub(crate) synced: bool,
    /// Load since the last measurement, in nanoseconds.
    pub(crate) load_ns: u64,
    pub(crate) paced: Paced,
    /// Size of its encoded state in bytes, as last determined.
    pub(crate) state_bytes: Option<u64>,
    pub(crate) channels: Option<Box<Channels>>,
    /// The position in the ring of its receivers, while edges are measured.
    pub(crate) ring: EdgeCache,
    /// Number of message hops from it to another site.
    pub(crate) border_hops: u8,
    /// Whether it has a replica on another PE.
    pub(crate) is_replicated: bool,
}

impl Member {
    /// Lets broadcasts with consecutive numbers pass if the first is the next one and no message is
    /// held. Returns whether they passed.
    pub(crate) fn pass_broadcasts(&mut self, first: u64, count: u32) -> bool {
        let holds = self.channels.as_ref().is_some_and(|channels| !channels.held.is_empty());
        let is_next = self.broadcasts == first && !holds;
        if is_next {
            self.broadcasts += u64::from(count);
        }
        is_next
    }
}

/// Measurements of the time that a member takes per message, or per unit of work if its type
/// [counts its work](crate::Actor::COUNTS_WORK).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paced {
    /// Number of handlers that were timed in this window on the current PE.
    pub(crate) handled: u32,
    /// Number of units of work that it has counted in this window on the current PE.
    pub(crate) units: u32,
    /// The part of its load that it brought along when it moved here in this window.
    pub(crate) carried_ns: u64,
    /// The PE of the last measurement, and the time per message or unit there in nanoseconds.
    pub(crate) last: Option<(PeId, u64)>,
}

impl Paced {
    /// Notes that a handler was timed.
    #[inline]
    pub(crate) fn note(&mut self) {
        self.handled = self.handled.saturating_add(1);
    }

    /// Counts a unit of work.
    pub(crate) fn count_work(&mut self) {
        self.units = self.units.saturating_add(1);
    }

    /// Ends the window. The member's load was `load_ns`, of which the fraction `share` counts.
    /// Returns the time per unit of work, or per message if not `by_units`, on `here`, and the same
    /// in the last earlier window with any; `None` if either is missing.
    pub(crate) fn take(
        &mut self,
        by_units: bool,
        here: PeId,
        (load_ns, share): (u64, f64),
    ) -> Option<HandlingTime> {
        let carried = std::mem::take(&mut self.carried_ns);
        let (handled, units) = (std::mem::take(&mut self.handled), std::mem::take(&mut self.units));
        let count = if by_units { units } else { handled };
        if count == 0 {
            return None;
        }
        let now = load_ns.saturating_sub(carried) as f64 * share / f64::from(count);
        let now = now as u64;
        let (pe_before, before) = self.last.replace((here, now))?;
        let [now, before] = [now, before].map(Duration::from_nanos);
        Some(HandlingTime { now, before, pe_before })
    }
}

/// Members that are about to be created, and the numbers of their first collective operations.
pub(crate) struct NewMembers {
    pub(crate) collection: CollectionId,
    pub(crate) epoch: u32,
    pub(crate) reductions: u64,
    pub(crate) broadcasts: u64,
    pub(crate) syncs: u64,
    /// The channels of an earlier member of the same index.
    pub(crate) channels: Option<Box<Channels>>,
}

impl NewMembers {
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

/// An actor that has been offered to another PE.
pub(crate) struct Departing {
    pub(crate) kind: KindId,
    pub(crate) slot: u32,
    pub(crate) to: PeId,
    pub(crate) member: Member,
    pub(crate) mailbox: Vec<(i32, Bytes)>,
    /// Messages that have arrived since the offer.
    pub(crate) arrivals: Vec<AccountedEnvelope>,
    /// The rebalance that this move is part of.
    pub(crate) plan: Option<RebalanceId>,
}

/// A request of an actor about itself, made in a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: ActorId,
    pub(crate) wish: Wish,
}

/// The actions that an actor can request for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Move to another PE.
    Migrate(PeId),
    /// End.
    Destroy,
    /// Continue from the sync point that it has reached.
    Resume,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_per_message_is_reported_with_the_previous_time_and_pe() {
        let mut paced = Paced::default();
        (0..4).for_each(|_| paced.note());
        assert_eq!(paced.take(false, PeId(1), (4_000, 1.0)), None, "nothing to compare with");
        assert_eq!(paced.take(false, PeId(1), (0, 1.0)), None, "nothing was handled");

        // It moves after 700 ns more. On the new PE it handles two messages of 3 us each, with half
        // of a processor.
        paced.carried_ns = 700;
        (0..2).for_each(|_| paced.note());
        let pace = paced.take(false, PeId(2), (12_700, 0.5)).unwrap();

        let [now, before] = [pace.now, pace.before].map(|time| time.as_nanos());
        assert_eq!((now, before, pace.pe_before), (3_000, 1_000, PeId(1)));
    }

    #[test]
    fn messages_are_not_counted_where_the_type_counts_its_work() {
        let mut paced = Paced::default();
        // On the second PE the same work takes seven messages in place of one.
        for (pe, messages) in [(1, 1), (2, 7)] {
            paced.count_work();
            (0..messages).for_each(|_| paced.note());
            let pace = paced.take(true, PeId(pe), (4_000, 1.0));
            if pe == 2 {
                let pace = pace.unwrap();
                assert_eq!(pace.now, pace.before);
            }
        }
        paced.note();
        assert_eq!(paced.take(true, PeId(2), (500, 1.0)), None, "no unit");
    }
}
