//! An ordered map whose tree is compiled once for all types of values.

use slab::Slab;
use std::collections::BTreeMap;

/// An ordered map with its values beside the tree.
///
/// The compiler translates a `BTreeMap` again for each type of value: about 10,000 lines of LLVM's
/// intermediate code. The runtime has maps for each type of actor or task, and here these share one
/// tree for each type of key. The memory for values grows, but never shrinks.
pub(crate) struct SlabMap<K, V> {
    places: BTreeMap<K, usize>,
    values: Slab<V>,
}

impl<K, V> Default for SlabMap<K, V> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), values: Slab::new() }
    }
}

impl<K: Ord + Copy, V> SlabMap<K, V> {
    /// The keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> {
        self.places.keys().copied()
    }

    /// The values, in the order of their keys.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.places.values().filter_map(|&place| self.values.get(place))
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.values.get_mut(*self.places.get(&key)?)
    }

    /// Returns the value of this key, which is a new one if there was none.
    pub(crate) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let values = &mut self.values;
        let place = *self.places.entry(key).or_insert_with(|| values.insert(V::default()));
        &mut self.values[place]
    }

    /// Replaces the value of this key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        let place = self.values.insert(value);
        if let Some(before) = self.places.insert(key, place) {
            self.values.try_remove(before);
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        self.values.try_remove(self.places.remove(&key)?)
    }

    /// The entries, in the order of their keys.
    pub(crate) fn into_entries(mut self) -> impl Iterator<Item = (K, V)> {
        let places = self.places.into_iter();
        places.filter_map(move |(key, place)| Some((key, self.values.try_remove(place)?)))
    }

    /// Removes the entries from this key on, and returns them in the order of their keys.
    pub(crate) fn split_off(&mut self, first: K) -> Vec<(K, V)> {
        let mut removed = Vec::new();
        for (key, place) in self.places.split_off(&first) {
            removed.extend(self.values.try_remove(place).map(|value| (key, value)));
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_order_of_their_keys() {
        let mut map = SlabMap::default();
        for (key, value) in [(5, 'e'), (1, 'a'), (3, 'x')] {
            map.insert(key, value);
        }
        map.insert(3, 'c');
        assert_eq!(map.remove(1), Some('a'));
        assert_eq!(map.remove(1), None);
        // This value takes the place of the removed one.
        map.insert(9, 'i');

        assert_eq!(map.keys().collect::<Vec<_>>(), [3, 5, 9]);
        assert_eq!(map.values().collect::<String>(), "cei");
        assert_eq!(map.values.len(), 3);
        assert_eq!(map.split_off(4), [(5, 'e'), (9, 'i')]);
        assert_eq!(map.keys().collect::<Vec<_>>(), [3]);
        assert_eq!(map.values.len(), 1);
        map.insert(1, 'a');
        assert_eq!(map.into_entries().collect::<Vec<_>>(), [(1, 'a'), (3, 'c')]);
    }

    #[test]
    fn a_missing_value_is_created() {
        let mut map: SlabMap<u8, Vec<u8>> = SlabMap::default();
        map.get_or_default(2).push(1);
        map.get_or_default(2).push(2);
        assert_eq!(map.get_mut(2), Some(&mut vec![1, 2]));
        assert_eq!(map.get_mut(3), None);
    }
}
