//! Message counts and bytes between pairs of actors, for balancing.
//!
//! An actor of an iterative job sends to the same actors in the same order, again and again. So the
//! pairs of a sender form a ring in the order of their first messages. Most messages are for the
//! next pair in the ring, and need no hash. One list holds the rings of all senders. An iterative
//! job reads it from the beginning to the end, which suits caches.
//!
//! **Bounds.** At most [`PAIRS_MAX`] pairs are kept. When there are more, the pairs with the fewest
//! messages are forgotten, as in lossy counting (G. S. Manku, R. Motwani, 2002): the pairs that
//! matter for a cut remain.

use crate::address::id::ActorId;
use crate::message::Edge;
use rustc_hash::FxHashMap;

/// Maximum number of pairs of one PE, of 64 bytes each.
const PAIRS_MAX: usize = 1 << 18;
/// Maximum size of a ring that is searched linearly; larger ones are searched by hash.
const SEARCHED_MAX: u32 = 16;

/// The pairs of all senders that live on a PE.
#[derive(Default)]
pub(crate) struct Edges {
    pairs: Vec<Pair>,
    /// Positions of the pairs of rings with more than [`SEARCHED_MAX`] pairs, by sender and
    /// receiver.
    index: FxHashMap<(ActorId, ActorId), u32>,
}

struct Pair {
    to: ActorId,
    messages: u64,
    bytes: u64,
    /// The next pair in the sender's ring.
    next: u32,
}

/// A sender's position in its ring.
#[derive(Clone, Copy, Default)]
pub(crate) struct EdgeCache {
    /// The pair of its last message.
    last: u32,
    /// The pair after that.
    next: u32,
    /// Number of pairs in the ring.
    pairs: u32,
}

impl Edges {
    /// Counts a message. Returns false, without counting it, if there is no room for one more pair;
    /// see [`forget`](Self::forget).
    #[inline]
    pub(crate) fn note(
        &mut self,
        from: ActorId,
        ring: &mut EdgeCache,
        to: ActorId,
        bytes: u64,
    ) -> bool {
        if let Some(expected) = self.pairs.get_mut(ring.next as usize)
            && ring.pairs > 0
            && expected.to == to
        {
            expected.messages += 1;
            expected.bytes += bytes;
            (ring.last, ring.next) = (ring.next, expected.next);
            return true;
        }
        self.note_unexpected(from, ring, to, bytes)
    }

    #[inline(never)]
    fn note_unexpected(
        &mut self,
        from: ActorId,
        ring: &mut EdgeCache,
        to: ActorId,
        bytes: u64,
    ) -> bool {
        if let Some(position) = self.find(from, *ring, to) {
            let pair = &mut self.pairs[position as usize];
            pair.messages += 1;
            pair.bytes += bytes;
            (ring.last, ring.next) = (position, pair.next);
            return true;
        }
        let has_room = self.pairs.len() < PAIRS_MAX;
        if has_room {
            self.add(from, ring, Pair { to, messages: 1, bytes, next: 0 });
        }
        has_room
    }

    fn find(&self, from: ActorId, ring: EdgeCache, to: ActorId) -> Option<u32> {
        if ring.pairs > SEARCHED_MAX {
            return self.index.get(&(from, to)).copied();
        }
        self.positions(ring).find(|&position| self.pairs[position as usize].to == to)
    }

    /// The positions of a ring, from the one that is expected next.
    fn positions(&self, ring: EdgeCache) -> impl Iterator<Item = u32> {
        let after = |position: &u32| Some(self.pairs[*position as usize].next);
        let first = (ring.pairs > 0).then_some(ring.next);
        std::iter::successors(first, after).take(ring.pairs as usize)
    }

    /// Adds a pair after the pair of the last message.
    fn add(&mut self, from: ActorId, ring: &mut EdgeCache, mut pair: Pair) {
        let position = self.pairs.len() as u32;
        if ring.pairs == 0 {
            ring.next = position;
        } else {
            self.pairs[ring.last as usize].next = position;
        }
        pair.next = ring.next;
        let to = pair.to;
        self.pairs.push(pair);
        ring.last = position;
        ring.pairs += 1;
        if ring.pairs == SEARCHED_MAX + 1 {
            let all = self.positions(*ring).map(|at| ((from, self.pairs[at as usize].to), at));
            let all: Vec<_> = all.collect();
            self.index.extend(all);
        } else if ring.pairs > SEARCHED_MAX {
            self.index.insert((from, to), position);
        }
    }

    /// Removes all pairs except those of `rings` with more than `least` messages. Leaves the pairs
    /// in the order of the rings.
    fn keep<'a>(&mut self, rings: impl Iterator<Item = (ActorId, &'a mut EdgeCache)>, least: u64) {
        let old = Self { pairs: std::mem::take(&mut self.pairs), index: FxHashMap::default() };
        self.index.clear();
        for (from, ring) in rings {
            let before = std::mem::take(ring);
            for position in old.positions(before) {
                let Pair { to, messages, bytes, .. } = old.pairs[position as usize];
                if messages > least {
                    self.add(from, ring, Pair { to, messages, bytes, next: 0 });
                }
            }
        }
    }

    /// Makes room: removes pairs, those with the fewest messages first, until at most half of
    /// [`PAIRS_MAX`] are left.
    pub(crate) fn forget(&mut self, rings: &mut [(ActorId, &mut EdgeCache)]) {
        let mut least = 1;
        while self.pairs.len() > PAIRS_MAX / 2 {
            self.keep(rings.iter_mut().map(|(from, ring)| (*from, &mut **ring)), least);
            least *= 2;
        }
    }

    /// Takes all counts, in the order of the rings. Removes the pairs without messages since the
    /// last call.
    pub(crate) fn take(&mut self, rings: &mut [(ActorId, &mut EdgeCache)]) -> Vec<Edge> {
        self.keep(rings.iter_mut().map(|(from, ring)| (*from, &mut **ring)), 0);
        let mut all = Vec::with_capacity(self.pairs.len());
        for (from, ring) in rings {
            self.drain(*from, **ring, &mut all);
        }
        all
    }

    /// Takes the counts of a sender that leaves, and appends them to `into`.
    pub(crate) fn take_one(&mut self, from: ActorId, ring: EdgeCache, into: &mut Vec<Edge>) {
        let first = into.len();
        self.drain(from, ring, into);
        if ring.pairs > SEARCHED_MAX {
            for edge in &into[first..] {
                self.index.remove(&(from, edge.to));
            }
        }
    }

    fn drain(&mut self, from: ActorId, ring: EdgeCache, into: &mut Vec<Edge>) {
        let mut position = ring.next;
        for _ in 0..ring.pairs {
            let Pair { to, messages, bytes, next } = &mut self.pairs[position as usize];
            let (messages, bytes) = (std::mem::take(messages), std::mem::take(bytes));
            into.push(Edge { from, to: *to, messages, bytes });
            position = *next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::CollectionId;
    use crate::address::index::Key;
    use std::collections::BTreeMap;

    fn actor(key: u128) -> ActorId {
        ActorId { collection: CollectionId(0), key: Key(key) }
    }

    /// Two senders, 0 and 1.
    #[derive(Default)]
    struct World {
        edges: Edges,
        rings: [EdgeCache; 2],
    }

    impl World {
        fn note(&mut self, from: usize, to: u128, bytes: u64) -> bool {
            self.edges.note(actor(from as u128), &mut self.rings[from], actor(to), bytes)
        }

        fn rings(&mut self) -> (&mut Edges, Vec<(ActorId, &mut EdgeCache)>) {
            let rings = self.rings.iter_mut().enumerate();
            (&mut self.edges, rings.map(|(from, ring)| (actor(from as u128), ring)).collect())
        }

        fn take(&mut self) -> Vec<(u128, u128, u64, u64)> {
            let (edges, mut rings) = self.rings();
            let all = edges.take(&mut rings).into_iter();
            all.map(|edge| (edge.from.key.0, edge.to.key.0, edge.messages, edge.bytes)).collect()
        }
    }

    #[test]
    fn messages_and_bytes_add_up_by_pair_in_any_order() {
        let mut world = World::default();
        for (from, to) in [(0, 5), (1, 5), (0, 7), (0, 5), (0, 7), (0, 7), (1, 0), (0, 9)] {
            assert!(world.note(from, to, 10 + to as u64));
        }
        let taken = [(0, 9, 1, 19), (0, 5, 2, 30), (0, 7, 3, 51), (1, 5, 1, 15), (1, 0, 1, 10)];

        let mut all = world.take();
        all.sort_unstable();
        let mut expected = taken;
        expected.sort_unstable();
        assert_eq!(all, expected);
        world.note(0, 7, 1);
        assert_eq!(world.take(), [(0, 7, 1, 1)], "the others are forgotten");
        assert_eq!(world.take(), []);
    }

    #[test]
    fn many_receivers_in_any_order_are_found() {
        let mut world = World::default();
        let mut expected = BTreeMap::new();
        for round in 0..10_u128 {
            for at in 0..1000_u128 {
                let to = (at * 7 + round * at % 13) % (900 + round * 10);
                let from = (at % 3 == 0) as usize;
                world.note(from, to, 1);
                *expected.entry((from as u128, to)).or_insert(0) += 1;
            }
            if round == 5 {
                // The second sender leaves and comes back.
                let mut left = Vec::new();
                let ring = std::mem::take(&mut world.rings[1]);
                world.edges.take_one(actor(1), ring, &mut left);
                let of_one = expected.iter().filter(|((from, _), _)| *from == 1);
                assert_eq!(left.len(), of_one.count());
                expected.retain(|(from, _), _| *from == 0);
            }
        }
        let all: BTreeMap<_, _> =
            world.take().into_iter().map(|(from, to, count, _)| ((from, to), count)).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn pairs_with_many_messages_are_kept() {
        let mut world = World::default();
        for round in 0..3 {
            (0..1000).for_each(|i| assert!(world.note(0, i % 100, 1)));
            for key in 0..PAIRS_MAX as u128 {
                let to = 1_000 + round * PAIRS_MAX as u128 + key;
                if !world.note(1, to, 1) {
                    let (edges, mut rings) = world.rings();
                    edges.forget(&mut rings);
                    assert!(world.note(1, to, 1));
                }
            }
        }
        assert!(world.edges.pairs.len() <= PAIRS_MAX);
        let loud = world.take().into_iter().filter(|(from, ..)| *from == 0);
        assert_eq!(loud.map(|(_, _, messages, _)| messages).sum::<u64>(), 3 * 1000);
    }
}
