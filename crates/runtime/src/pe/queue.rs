//! Ready messages to the actors of one type.

use super::core::Core;
use super::state::{Lanes, Queue};
use crate::Actor;
use crate::codec::{self, DecodeError};
use crate::id::KindId;
use crate::rank::{FAR, FIRST_STEP, Rank, is_step};
use bytes::Bytes;
use std::any::{Any, type_name};
use std::collections::{BTreeMap, VecDeque};

/// What a message counts for in the memory budget.
#[inline]
pub(crate) fn message_bytes<A: Actor>(message: &A::Message) -> usize {
    size_of::<A::Message>() + A::heap_bytes(message)
}

/// A ready message and the member it is for.
pub(crate) struct Ready<M> {
    pub(crate) slot: u32,
    pub(crate) message: M,
}

/// Ready messages to actors of type `A`.
pub(crate) struct TypedQueue<A: Actor> {
    normal: VecDeque<Ready<A::Message>>,
    others: BTreeMap<Rank, VecDeque<Ready<A::Message>>>,
}

impl<A: Actor> Default for TypedQueue<A> {
    fn default() -> Self {
        Self { normal: VecDeque::new(), others: BTreeMap::new() }
    }
}

impl<A: Actor> TypedQueue<A> {
    #[inline]
    pub(crate) fn push(&mut self, slot: u32, rank: Rank, message: A::Message) {
        match rank {
            Rank::NORMAL => &mut self.normal,
            _ => self.others.entry(rank).or_default(),
        }
        .push_back(Ready { slot, message });
    }

    #[inline]
    pub(crate) fn pop(&mut self, rank: Rank) -> Option<Ready<A::Message>> {
        if rank == Rank::NORMAL {
            return self.normal.pop_front();
        }
        self.pop_other(rank)
    }

    #[cold]
    fn pop_other(&mut self, rank: Rank) -> Option<Ready<A::Message>> {
        let lane = self.others.get_mut(&rank)?;
        let ready = lane.pop_front();
        if lane.is_empty() {
            self.others.remove(&rank);
        }
        ready
    }

    fn lanes(&self) -> impl Iterator<Item = &VecDeque<Ready<A::Message>>> {
        std::iter::once(&self.normal).chain(self.others.values())
    }
}

impl<A: Actor> Queue for TypedQueue<A> {
    fn extract(
        &mut self,
        kind: KindId,
        slot: u32,
        lanes: &mut Lanes,
    ) -> (Vec<(i32, Bytes)>, usize) {
        let mut extracted = Vec::new();
        let mut bytes = 0;
        let all = std::iter::once((Rank::NORMAL, &mut self.normal))
            .chain(self.others.iter_mut().map(|(&rank, lane)| (rank, lane)));
        for (rank, lane) in all {
            let taken: Vec<bool> = lane.iter().map(|ready| ready.slot == slot).collect();
            if !taken.contains(&true) {
                continue;
            }
            lane.retain(|ready| {
                let stays = ready.slot != slot;
                if !stays {
                    bytes += message_bytes::<A>(&ready.message);
                    extracted.push((rank.priority, codec::encode(&ready.message).into()));
                }
                stays
            });
            lanes.remove(kind, rank, &taken);
        }
        self.others.retain(|_, lane| !lane.is_empty());
        (extracted, bytes)
    }

    fn push_encoded(
        &mut self,
        slot: u32,
        rank: Rank,
        message: &[u8],
    ) -> Result<usize, DecodeError> {
        let message = codec::decode(type_name::<A::Message>(), message)?;
        let bytes = message_bytes::<A>(&message);
        self.push(slot, rank, message);
        Ok(bytes)
    }

    fn rank_anew(&mut self, kind: KindId, hops: &dyn Fn(u32) -> u8, lanes: &mut Lanes) {
        let first = Rank { priority: FIRST_STEP, hops: 0 };
        for (rank, lane) in self.others.split_off(&first) {
            lanes.remove(kind, rank, &vec![true; lane.len()]);
            for Ready { slot, message } in lane {
                let rank = Rank::new(rank.priority, hops(slot));
                self.push(slot, rank, message);
                lanes.push(kind, rank);
            }
        }
    }

    fn waiting(&self) -> BTreeMap<u32, u64> {
        let mut waiting = BTreeMap::new();
        for ready in self.lanes().flatten() {
            *waiting.entry(ready.slot).or_default() += 1;
        }
        waiting
    }
}

impl Core {
    #[inline]
    pub(super) fn queue<A: Actor>(&mut self, kind: KindId) -> Option<&mut TypedQueue<A>> {
        let queue: &mut dyn Any = &mut **self.queues.get_mut(kind.index())?;
        queue.downcast_mut()
    }

    /// Puts a message into a mailbox. What nearly all messages take is kept short.
    #[inline]
    pub(crate) fn push_ready<A: Actor>(
        &mut self,
        kind: KindId,
        slot: u32,
        priority: i32,
        message: A::Message,
    ) {
        if priority != Rank::NORMAL.priority {
            return self.push_ranked::<A>(kind, slot, priority, message);
        }
        if self.ready_bytes > self.common.limits.hard_bytes {
            // The job ends; a handler that goes on sending must not take more.
            return self.check_budget();
        }
        let bytes = message_bytes::<A>(&message);
        match self.queue::<A>(kind) {
            Some(queue) => queue.normal.push_back(Ready { slot, message }),
            None => return self.fail_type_mismatch(type_name::<A>()),
        }
        self.ready_bytes += bytes;
        self.lanes.push_normal(kind, 1);
    }

    /// Puts messages into a mailbox, in order.
    pub(super) fn push_all_ready<A: Actor>(
        &mut self,
        kind: KindId,
        slot: u32,
        priority: i32,
        mut messages: impl ExactSizeIterator<Item = A::Message>,
    ) {
        if messages.len() == 1
            && let Some(message) = messages.next()
        {
            return self.push_ready::<A>(kind, slot, priority, message);
        }
        if priority != Rank::NORMAL.priority {
            return messages
                .for_each(|message| self.push_ranked::<A>(kind, slot, priority, message));
        }
        let mut bytes = 0;
        let ready = messages.map(|message| {
            bytes += message_bytes::<A>(&message);
            Ready { slot, message }
        });
        let Some(queue) = self.queue::<A>(kind) else {
            return self.fail_type_mismatch(type_name::<A>());
        };
        let before = queue.normal.len();
        queue.normal.extend(ready);
        let added = queue.normal.len() - before;
        self.ready_bytes += bytes;
        if added > 0 {
            self.lanes.push_normal(kind, added as u32);
        }
    }

    #[inline(never)]
    fn push_ranked<A: Actor>(
        &mut self,
        kind: KindId,
        slot: u32,
        priority: i32,
        message: A::Message,
    ) {
        let bytes = message_bytes::<A>(&message);
        let rank = self.rank(kind, slot, priority);
        match self.queue::<A>(kind) {
            Some(queue) => queue.push(slot, rank, message),
            None => return self.fail_type_mismatch(type_name::<A>()),
        }
        self.ready_bytes += bytes;
        self.lanes.push(kind, rank);
    }

    /// The place of a message for the member in `slot` in the order of what is ready.
    #[inline]
    pub(super) fn rank(&mut self, kind: KindId, slot: u32, priority: i32) -> Rank {
        if !is_step(priority) {
            return Rank::new(priority, 0);
        }
        if !self.uses_steps {
            self.note_step();
        }
        Rank::new(priority, self.member(kind, slot).map_or(FAR, |member| member.border_hops))
    }
}
