//! Counters of one actor's conversations, by the other end and channel.
//!
//! An actor of an iterative job receives from the same actors in the same order, again and again,
//! and sends to them in bursts. So the counters are stored in the order of their first use. The
//! next counter to be used is most often the one that was used last, or the one after it. So most
//! look-ups compute no hash, and make few comparisons.

use crate::address::id::ActorId;
use rustc_hash::FxHashMap;

/// The other end of a conversation, and the channel.
pub(crate) type Way = (ActorId, i32);

/// Maximum number of counters that are searched linearly; above it they are found by hash.
const SEARCHED_MAX: usize = 8;

/// One counter for each way, zero before the first use.
#[derive(Clone, Default)]
pub(crate) struct Counters {
    all: Vec<(Way, u64)>,
    /// The position of the counter that was used last.
    last: u32,
    /// The position of each counter, if there are more than [`SEARCHED_MAX`].
    positions: FxHashMap<Way, u32>,
}

impl Counters {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The counter of a way, if the way has been used.
    pub(crate) fn get(&self, way: Way) -> Option<u64> {
        let position = self.expected(way).or_else(|| self.find(way))?;
        self.all.get(position as usize).map(|&(_, count)| count)
    }

    /// Whether a way has been used.
    #[inline]
    pub(crate) fn contains(&self, way: Way) -> bool {
        self.get(way).is_some()
    }

    /// The counter of a way, created if necessary.
    #[inline(always)]
    pub(crate) fn entry(&mut self, way: Way) -> &mut u64 {
        self.last = match self.expected(way) {
            Some(position) => position,
            None => self.find_or_add(way),
        };
        &mut self.all[self.last as usize].1
    }

    /// All used ways with their counters, in the order of their first use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Way, u64)> {
        self.all.iter().copied()
    }

    /// The position of a way, if it is the last used one or the one after that.
    #[inline(always)]
    fn expected(&self, way: Way) -> Option<u32> {
        let is_at =
            |position: u32| self.all.get(position as usize).is_some_and(|&(at, _)| at == way);
        if is_at(self.last) {
            return Some(self.last);
        }
        let next = if self.last as usize + 1 < self.all.len() { self.last + 1 } else { 0 };
        is_at(next).then_some(next)
    }

    #[inline(never)]
    fn find(&self, way: Way) -> Option<u32> {
        if self.all.len() > SEARCHED_MAX {
            return self.positions.get(&way).copied();
        }
        self.all.iter().position(|&(at, _)| at == way).map(|position| position as u32)
    }

    #[inline(never)]
    fn find_or_add(&mut self, way: Way) -> u32 {
        if let Some(position) = self.find(way) {
            return position;
        }
        let position = self.all.len() as u32;
        self.all.push((way, 0));
        if self.all.len() == SEARCHED_MAX + 1 {
            let positions = self.all.iter().zip(0..).map(|(&(way, _), position)| (way, position));
            self.positions = positions.collect();
        } else if self.all.len() > SEARCHED_MAX {
            self.positions.insert(way, position);
        }
        position
    }
}

impl FromIterator<(Way, u64)> for Counters {
    fn from_iter<T: IntoIterator<Item = (Way, u64)>>(counters: T) -> Self {
        let mut all = Self::default();
        for (way, count) in counters {
            *all.entry(way) = count;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::id::CollectionId;
    use crate::address::index::Key;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn way(key: u128) -> Way {
        (ActorId { collection: CollectionId(1), key: Key(key / 2) }, (key % 2) as i32)
    }

    proptest! {
        #[test]
        fn each_way_has_its_own_counter(
            uses in prop::collection::vec(0..40u128, 0..200),
        ) {
            let mut counters = Counters::default();
            let mut reference = BTreeMap::new();
            for &key in &uses {
                *counters.entry(way(key)) += 1;
                *reference.entry(way(key)).or_insert(0u64) += 1;
            }
            for key in 0..40 {
                prop_assert_eq!(counters.get(way(key)), reference.get(&way(key)).copied());
            }
            prop_assert_eq!(counters.iter().collect::<BTreeMap<_, _>>(), reference);
        }
    }

    #[test]
    fn counters_are_listed_in_the_order_of_their_first_use() {
        let mut counters = Counters::default();
        for key in [7, 3, 7, 5, 3] {
            *counters.entry(way(key)) += 1;
        }
        let all: Vec<_> = counters.iter().collect();
        assert_eq!(all, [(way(7), 2), (way(3), 2), (way(5), 1)]);
        assert!(!counters.contains(way(4)));
    }

    #[test]
    fn looking_up_a_counter_does_not_create_it() {
        let counters = Counters::default();
        assert_eq!(counters.get(way(1)), None);
        assert!(counters.is_empty());
    }
}
