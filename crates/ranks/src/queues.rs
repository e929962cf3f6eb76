//! Queues by key, for a rank that has few of them most of the time.
//!
//! A `BTreeMap` node and a `VecDeque` usually allocate room for several entries, but most ranks
//! wait for one receive. So the first queues are in a list, with room for one entry each. Further
//! queues are in a map, which has no empty queue.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// Largest number of queues in the list. Up to about this length, a search of the list is faster
/// than one of a map. A rank with few partners needs no more, and reuses the empty ones.
const LISTED_MAX: usize = 8;

/// Queues by key.
pub(crate) struct Queues<K, T> {
    listed: Vec<(K, VecDeque<T>)>,
    /// Has no key of the list and no empty queue.
    others: BTreeMap<K, VecDeque<T>>,
}

impl<K, T> Default for Queues<K, T> {
    fn default() -> Self {
        Self { listed: Vec::new(), others: BTreeMap::new() }
    }
}

impl<K: Copy + Ord, T> Queues<K, T> {
    fn position(&self, key: &K) -> Option<usize> {
        self.listed.iter().position(|(other, _)| other == key)
    }

    /// The queue of a key, which may be empty.
    pub(crate) fn get(&self, key: &K) -> Option<&VecDeque<T>> {
        match self.position(key) {
            Some(at) => Some(&self.listed[at].1),
            None if self.others.is_empty() => None,
            None => self.others.get(key),
        }
    }

    /// The queue of a key, to change its entries. To remove one, call [`remove`](Self::remove).
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut VecDeque<T>> {
        match self.position(key) {
            Some(at) => Some(&mut self.listed[at].1),
            None => self.others.get_mut(key),
        }
    }

    /// The queue of a key, to which the caller adds an entry.
    pub(crate) fn queue(&mut self, key: K) -> &mut VecDeque<T> {
        let new = || VecDeque::with_capacity(1);
        if let Some(at) = self.position(&key) {
            return &mut self.listed[at].1;
        }
        if !self.others.is_empty() {
            return self.others.entry(key).or_insert_with(new);
        }
        if let Some(at) = self.listed.iter().position(|(_, queue)| queue.is_empty()) {
            self.listed[at].0 = key;
            return &mut self.listed[at].1;
        }
        if self.listed.len() == LISTED_MAX {
            return self.others.entry(key).or_insert_with(new);
        }
        if self.listed.is_empty() {
            self.listed.reserve_exact(1);
        }
        self.listed.push((key, new()));
        let last = self.listed.len() - 1;
        &mut self.listed[last].1
    }

    /// Removes an entry of the queue of a key.
    pub(crate) fn remove(&mut self, key: &K, at: usize) -> Option<T> {
        let queue = self.get_mut(key)?;
        let entry = queue.remove(at);
        if queue.is_empty() {
            // This does nothing if the queue is in the list.
            self.others.remove(key);
        }
        entry
    }

    /// All queues, in any order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &VecDeque<T>> {
        self.listed.iter().map(|(_, queue)| queue).chain(self.others.values())
    }

    /// The queues of a range of keys, in any order.
    pub(crate) fn range(
        &self,
        keys: RangeInclusive<K>,
    ) -> impl Iterator<Item = (&K, &VecDeque<T>)> {
        let others = self.others.range(keys.clone());
        let listed = self.listed.iter().map(|(key, queue)| (key, queue));
        listed.filter(move |(key, _)| keys.contains(*key)).chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_are_those_of_a_map_of_queues(
            events in proptest::collection::vec((0_u32..20, any::<bool>()), 0..200),
        ) {
            let mut queues = Queues::default();
            let mut model: BTreeMap<u32, VecDeque<usize>> = BTreeMap::new();
            for (number, (key, is_added)) in events.into_iter().enumerate() {
                if is_added {
                    queues.queue(key).push_back(number);
                    model.entry(key).or_default().push_back(number);
                } else {
                    let expected = model.get_mut(&key).and_then(VecDeque::pop_front);
                    prop_assert_eq!(queues.remove(&key, 0), expected);
                }
                model.retain(|_, queue| !queue.is_empty());
                for key in 0..20 {
                    let found = queues.get(&key).filter(|queue| !queue.is_empty());
                    prop_assert_eq!(found, model.get(&key));
                }
                let mut found: Vec<_> = queues.range(5..=12).collect();
                found.retain(|(_, queue)| !queue.is_empty());
                found.sort();
                prop_assert!(found.into_iter().eq(model.range(5..=12)));
                let entries = queues.values().map(VecDeque::len).sum::<usize>();
                prop_assert_eq!(entries, model.values().map(VecDeque::len).sum::<usize>());
                prop_assert!(queues.listed.len() <= LISTED_MAX);
                prop_assert!(queues.others.values().all(|queue| !queue.is_empty()));
            }
        }
    }

    #[test]
    fn one_entry_takes_the_room_of_one() {
        let mut queues = Queues::default();
        queues.queue(7).push_back(1_u64);
        assert_eq!((queues.listed.capacity(), queues.listed[0].1.capacity()), (1, 1));
        queues.remove(&7, 0);
        queues.queue(8).push_back(2);
        assert_eq!(queues.listed.len(), 1, "the empty queue is used again");
    }
}
