//! Ready messages, by rank and in the order in which they became ready.
//!
//! Each type of messages has its queues, so that a send on the same PE moves the value once
//! and allocates nothing. [`Lanes`] stores from which queues the next messages come, as runs.

use crate::address::id::KindId;
use crate::message::codec::{self, DecodeError};
use crate::message::envelope::{AnyEnvelope, Envelope};
use crate::pe::rank::{FIRST_STEP, Rank};
use crate::pe::recording::causes::Causes;
use crate::pe::slab_map::SlabMap;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::{Any, type_name};
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

/// The order in which messages of all types became ready.
#[derive(Default)]
pub(crate) struct Lanes {
    /// The lane of [`Rank::NORMAL`], which nearly all messages have.
    pub(super) normal: Lane,
    /// The lanes of all other ranks, lower ranks first. None of them is empty.
    others: BTreeMap<Rank, Lane>,
    /// The causes of the messages, while the job is recorded.
    pub(crate) causes: Option<Box<Causes>>,
}

/// The messages of one rank.
#[derive(Default)]
pub(super) struct Lane {
    /// The first run. It is kept when its messages are gone and no other run follows, so that a
    /// mailbox that empties and fills again only changes a count.
    next: Run,
    later: VecDeque<Run>,
}

/// Consecutive messages from one typed queue.
#[derive(Clone, Copy, Default)]
struct Run {
    kind: KindId,
    messages: u32,
}

impl Lane {
    /// Adds consecutive messages of one type, at least one.
    #[inline]
    pub(super) fn push(&mut self, kind: KindId, messages: u32) {
        if self.later.is_empty() && (self.next.kind == kind || self.next.messages == 0) {
            self.next = Run { kind, messages: self.next.messages + messages };
        } else {
            self.push_later(kind, messages);
        }
    }

    #[inline(never)]
    fn push_later(&mut self, kind: KindId, messages: u32) {
        match self.later.back_mut() {
            Some(run) if run.kind == kind => run.messages += messages,
            _ => self.later.push_back(Run { kind, messages }),
        }
    }

    /// The type of the next message.
    #[inline]
    fn peek(&self) -> Option<KindId> {
        (self.next.messages > 0).then_some(self.next.kind)
    }

    /// Takes the next message if it is of this type.
    #[inline]
    fn take(&mut self, kind: KindId) -> bool {
        if self.peek() != Some(kind) {
            return false;
        }
        self.next.messages -= 1;
        if self.next.messages == 0
            && let Some(run) = self.later.pop_front()
        {
            self.next = run;
        }
        true
    }

    /// Removes messages of one type; `taken` states for each of them, in order, whether it is
    /// removed.
    fn remove(&mut self, kind: KindId, taken: &[bool]) {
        let mut taken = taken.iter();
        let runs = std::iter::once(&mut self.next).chain(&mut self.later);
        for run in runs.filter(|run| run.kind == kind) {
            let gone = taken.by_ref().take(run.messages as usize).filter(|&&gone| gone).count();
            run.messages -= gone as u32;
        }
        self.later.retain(|run| run.messages > 0);
        if self.next.messages == 0
            && let Some(run) = self.later.pop_front()
        {
            self.next = run;
        }
    }
}

impl Lanes {
    pub(crate) fn push(&mut self, kind: KindId, rank: Rank) {
        match rank {
            Rank::NORMAL => self.normal.push(kind, 1),
            _ => self.others.entry(rank).or_default().push(kind, 1),
        }
        if let Some(causes) = &mut self.causes {
            causes.push(kind, rank, 1);
        }
    }

    /// The rank and type of the next message.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(Rank, KindId)> {
        if self.others.is_empty() {
            return Some((Rank::NORMAL, self.normal.peek()?));
        }
        self.peek_all()
    }

    #[cold]
    fn peek_all(&self) -> Option<(Rank, KindId)> {
        let (&rank, lane) = self.others.first_key_value()?;
        match self.normal.peek() {
            Some(kind) if rank > Rank::NORMAL => Some((Rank::NORMAL, kind)),
            _ => Some((rank, lane.peek()?)),
        }
    }

    /// Takes the next message if it has this rank and type.
    #[inline]
    pub(crate) fn take(&mut self, rank: Rank, kind: KindId) -> bool {
        if rank == Rank::NORMAL && self.others.is_empty() {
            return self.normal.take(kind);
        }
        self.take_from_all(rank, kind)
    }

    #[cold]
    fn take_from_all(&mut self, rank: Rank, kind: KindId) -> bool {
        if self.peek_all() != Some((rank, kind)) {
            return false;
        }
        if rank == Rank::NORMAL {
            return self.normal.take(kind);
        }
        let Some(lane) = self.others.get_mut(&rank) else { return false };
        lane.take(kind);
        if lane.peek().is_none() {
            self.others.remove(&rank);
        }
        true
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.peek().is_none()
    }

    /// Removes messages of one type that were taken out of their queue. `taken` states for each
    /// message of that type and rank, in order, whether it was.
    pub(crate) fn remove(&mut self, kind: KindId, rank: Rank, taken: &[bool]) {
        if let Some(causes) = &mut self.causes {
            causes.remove(kind, rank, taken);
        }
        if rank == Rank::NORMAL {
            return self.normal.remove(kind, taken);
        }
        if let Some(lane) = self.others.get_mut(&rank) {
            lane.remove(kind, taken);
            if lane.peek().is_none() {
                self.others.remove(&rank);
            }
        }
    }
}

/// A queue of messages whose type is not known here.
pub(crate) trait Queue: Any + Send {
    /// Removes all messages for a member from the queue and from `lanes`. Returns them in order, as
    /// priority and encoded message, with the number of bytes that they held in the memory budget.
    fn extract(&mut self, kind: KindId, slot: u32, lanes: &mut Lanes)
    -> (Vec<(i32, Bytes)>, usize);
    /// Adds an encoded message. Returns the number of bytes that it takes in the memory budget.
    fn push_encoded(&mut self, slot: u32, rank: Rank, message: &[u8])
    -> Result<usize, DecodeError>;
    /// Adds a message. Returns the number of bytes that it takes in the memory budget, or `None` if
    /// it is for actors of another type.
    fn push_envelope(
        &mut self,
        slot: u32,
        rank: Rank,
        envelope: Box<dyn AnyEnvelope>,
    ) -> Option<usize>;
    /// Ranks messages of steps again, by the hops of the member in each slot, and updates `lanes`.
    fn rank_anew(&mut self, kind: KindId, hops: &dyn Fn(u32) -> u8, lanes: &mut Lanes);
    /// All messages, by slot: priority and encoded message, in order.
    fn image(&self) -> BTreeMap<u32, Vec<(i32, Bytes)>>;
    /// Number of waiting messages.
    fn len(&self) -> usize;
    /// Number of waiting messages per slot.
    fn waiting(&self) -> BTreeMap<u32, u64>;
}

/// A ready message and its receiver.
pub(crate) struct Ready<M> {
    pub(crate) slot: u32,
    pub(crate) message: M,
}

/// Ready messages of type `M` to actors of type `A`.
pub(crate) struct TypedQueue<A, M> {
    pub(super) normal: VecDeque<Ready<M>>,
    /// None of them is empty.
    others: SlabMap<Rank, VecDeque<Ready<M>>>,
    /// Returns the bytes that a message counts for in the memory budget.
    bytes: fn(&M) -> usize,
    /// Distinguishes queues of different actor types with the same message type.
    actor: PhantomData<fn() -> A>,
}

impl<A, M> TypedQueue<A, M> {
    pub(crate) fn new(bytes: fn(&M) -> usize) -> Self {
        Self { normal: VecDeque::new(), others: SlabMap::default(), bytes, actor: PhantomData }
    }

    #[inline]
    pub(crate) fn push(&mut self, slot: u32, rank: Rank, message: M) {
        match rank {
            Rank::NORMAL => &mut self.normal,
            _ => self.others.get_or_default(rank),
        }
        .push_back(Ready { slot, message });
    }

    #[inline]
    pub(crate) fn pop(&mut self, rank: Rank) -> Option<Ready<M>> {
        if rank == Rank::NORMAL {
            return self.normal.pop_front();
        }
        self.pop_other(rank)
    }

    #[cold]
    fn pop_other(&mut self, rank: Rank) -> Option<Ready<M>> {
        let lane = self.others.get_mut(rank)?;
        let ready = lane.pop_front();
        if lane.is_empty() {
            self.others.remove(rank);
        }
        ready
    }

    fn lanes(&self) -> impl Iterator<Item = &VecDeque<Ready<M>>> {
        std::iter::once(&self.normal).chain(self.others.values())
    }
}

impl<A: 'static, M: Serialize + DeserializeOwned + Send + 'static> Queue for TypedQueue<A, M> {
    fn extract(
        &mut self,
        kind: KindId,
        slot: u32,
        lanes: &mut Lanes,
    ) -> (Vec<(i32, Bytes)>, usize) {
        let mut extracted = Vec::new();
        let mut bytes = 0;
        let ranks: Vec<Rank> = std::iter::once(Rank::NORMAL).chain(self.others.keys()).collect();
        for rank in ranks {
            let lane = match rank {
                Rank::NORMAL => Some(&mut self.normal),
                _ => self.others.get_mut(rank),
            };
            let Some(lane) = lane else { continue };
            let taken: Vec<bool> = lane.iter().map(|ready| ready.slot == slot).collect();
            if !taken.contains(&true) {
                continue;
            }
            lane.retain(|ready| {
                let stays = ready.slot != slot;
                if !stays {
                    bytes += (self.bytes)(&ready.message);
                    extracted.push((rank.priority, codec::encode(&ready.message).into()));
                }
                stays
            });
            if rank != Rank::NORMAL && lane.is_empty() {
                self.others.remove(rank);
            }
            lanes.remove(kind, rank, &taken);
        }
        (extracted, bytes)
    }

    fn push_encoded(
        &mut self,
        slot: u32,
        rank: Rank,
        message: &[u8],
    ) -> Result<usize, DecodeError> {
        let message = codec::decode(type_name::<M>(), message)?;
        let bytes = (self.bytes)(&message);
        self.push(slot, rank, message);
        Ok(bytes)
    }

    fn push_envelope(
        &mut self,
        slot: u32,
        rank: Rank,
        envelope: Box<dyn AnyEnvelope>,
    ) -> Option<usize> {
        let Envelope { message, .. } = *envelope.into_any().downcast::<Envelope<M>>().ok()?;
        let bytes = (self.bytes)(&message);
        self.push(slot, rank, message);
        Some(bytes)
    }

    fn rank_anew(&mut self, kind: KindId, hops: &dyn Fn(u32) -> u8, lanes: &mut Lanes) {
        let first = Rank { priority: FIRST_STEP, hops: 0 };
        for (rank, lane) in self.others.split_off(first) {
            lanes.remove(kind, rank, &vec![true; lane.len()]);
            for Ready { slot, message } in lane {
                let rank = Rank::new(rank.priority, hops(slot));
                self.push(slot, rank, message);
                lanes.push(kind, rank);
            }
        }
    }

    fn image(&self) -> BTreeMap<u32, Vec<(i32, Bytes)>> {
        let mut image: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let ranks = std::iter::once(Rank::NORMAL).chain(self.others.keys());
        for (rank, lane) in ranks.zip(self.lanes()) {
            for Ready { slot, message } in lane {
                let message = codec::encode(message).into();
                image.entry(*slot).or_default().push((rank.priority, message));
            }
        }
        image
    }

    fn len(&self) -> usize {
        self.lanes().map(VecDeque::len).sum()
    }

    fn waiting(&self) -> BTreeMap<u32, u64> {
        let mut waiting = BTreeMap::new();
        for ready in self.lanes().flatten() {
            *waiting.entry(ready.slot).or_default() += 1;
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(priority: i32) -> Rank {
        Rank::new(priority, 0)
    }

    fn drain(lanes: &mut Lanes) -> Vec<(i32, u16)> {
        let mut order = Vec::new();
        while let Some((rank, kind)) = lanes.peek() {
            assert!(lanes.take(rank, kind));
            order.push((rank.priority, kind.0));
        }
        order
    }

    #[test]
    fn lower_priorities_go_first_and_equal_ones_keep_their_order() {
        let mut lanes = Lanes::default();
        for (kind, priority) in [(1, 0), (2, 5), (3, -1), (1, 0), (2, 0), (3, -1)] {
            lanes.push(KindId(kind), rank(priority));
        }
        assert_eq!(drain(&mut lanes), [(-1, 3), (-1, 3), (0, 1), (0, 1), (0, 2), (5, 2)]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn an_emptied_lane_takes_messages_of_any_type() {
        let mut lanes = Lanes::default();
        for round in [[1, 1, 2], [2, 2, 1], [3, 1, 1]] {
            round.iter().for_each(|&kind| lanes.push(KindId(kind), rank(0)));
            lanes.push(KindId(4), rank(1));
            let [a, b, c] = round;
            assert_eq!(drain(&mut lanes), [(0, a), (0, b), (0, c), (1, 4)]);
            assert!(lanes.is_empty());
        }
    }

    #[test]
    fn removing_messages_keeps_the_order_of_the_rest() {
        let mut lanes = Lanes::default();
        for kind in [1, 1, 2, 1, 2] {
            lanes.push(KindId(kind), rank(0));
        }
        lanes.remove(KindId(1), rank(0), &[true, false, true]);
        assert_eq!(drain(&mut lanes), [(0, 1), (0, 2), (0, 2)]);
    }

    #[test]
    fn the_next_run_takes_the_place_of_a_removed_run() {
        let mut lanes = Lanes::default();
        for (kind, priority) in [(1, 0), (2, 0), (1, 0), (1, 3), (1, 3)] {
            lanes.push(KindId(kind), rank(priority));
        }
        lanes.remove(KindId(1), rank(0), &[true, false]);
        lanes.remove(KindId(1), rank(3), &[true, true]);
        assert_eq!(drain(&mut lanes), [(0, 2), (0, 1)]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn only_the_next_message_can_be_taken() {
        let mut lanes = Lanes::default();
        lanes.push(KindId(1), rank(0));
        assert!(!lanes.take(rank(0), KindId(2)), "of another type");
        lanes.push(KindId(1), rank(-1));
        assert!(!lanes.take(rank(0), KindId(1)), "one with a lower number goes first");
        assert_eq!(drain(&mut lanes), [(-1, 1), (0, 1)]);
    }
}
