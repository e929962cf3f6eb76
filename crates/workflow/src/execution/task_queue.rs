//! The server's part in an execution: orders that wait for data, and their order of execution.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Orders `O` of a server, in order of arrival, and the keys `K` of the data that they wait for. Of
/// the orders whose data is there, the one with the lowest place begins first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskQueue<K: Ord, O> {
    orders: BTreeMap<u64, Waiting<K, O>>,
    count: u64,
    /// Orders by the missing data that they need.
    needed_by: BTreeMap<K, Vec<u64>>,
    /// Orders whose data is there, by place.
    ready: BTreeSet<(u32, u64)>,
}

/// An order and the data that it waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting<K: Ord, O> {
    order: O,
    place: u32,
    missing: BTreeSet<K>,
}

impl<K: Ord, O> Default for TaskQueue<K, O> {
    fn default() -> Self {
        let (orders, needed_by, ready) = Default::default();
        Self { orders, count: 0, needed_by, ready }
    }
}

impl<K: Ord + Copy, O> TaskQueue<K, O> {
    /// Adds an order that lacks the data in `missing`; returns its number.
    pub fn add(&mut self, order: O, place: u32, missing: BTreeSet<K>) -> u64 {
        let number = self.count;
        self.count += 1;
        for &key in &missing {
            self.needed_by.entry(key).or_default().push(number);
        }
        if missing.is_empty() {
            self.ready.insert((place, number));
        }
        self.orders.insert(number, Waiting { order, place, missing });
        number
    }

    /// Notes the arrival of data.
    pub fn arrived(&mut self, key: K) {
        for number in self.needed_by.remove(&key).unwrap_or_default() {
            if let Some(waiting) = self.orders.get_mut(&number) {
                waiting.missing.remove(&key);
                if waiting.missing.is_empty() {
                    self.ready.insert((waiting.place, number));
                }
            }
        }
    }

    /// Number of orders.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Whether there are no orders.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    /// Whether the order with this number could begin.
    pub fn is_ready(&self, number: u64) -> bool {
        self.orders.get(&number).is_some_and(|waiting| waiting.missing.is_empty())
    }

    /// Whether an order could begin.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the lowest place of the orders that wait for data.
    pub fn place_for(&self, key: K) -> Option<u32> {
        let waiting = self.needed_by.get(&key)?.iter().filter_map(|number| self.orders.get(number));
        waiting.map(|waiting| waiting.place).min()
    }

    /// Takes the order that begins next.
    pub fn begin(&mut self) -> Option<O> {
        let (_, number) = self.ready.pop_first()?;
        Some(self.orders.remove(&number)?.order)
    }

    /// Takes the first order for which `is_it` is true, whether its data is there or not.
    pub fn take(&mut self, is_it: impl Fn(&O) -> bool) -> Option<O> {
        let found = self.orders.iter().find(|(_, waiting)| is_it(&waiting.order));
        let number = found.map(|(number, _)| *number)?;
        self.remove(number)
    }

    /// Takes the order with this number, if it has not begun.
    pub fn remove(&mut self, number: u64) -> Option<O> {
        let Waiting { order, place, missing } = self.orders.remove(&number)?;
        self.ready.remove(&(place, number));
        for key in missing {
            if let Some(needed) = self.needed_by.get_mut(&key) {
                needed.retain(|needed| *needed != number);
                if needed.is_empty() {
                    self.needed_by.remove(&key);
                }
            }
        }
        Some(order)
    }

    /// Takes all orders for which `is_it` is true, in order of arrival.
    pub fn take_all(&mut self, is_it: impl Fn(&O) -> bool) -> Vec<O> {
        let all = std::mem::take(&mut self.orders).into_iter();
        let (taken, rest): (Vec<_>, Vec<_>) = all.partition(|(_, waiting)| is_it(&waiting.order));
        self.orders = rest.into_iter().collect();
        let orders = &self.orders;
        self.ready.retain(|(_, number)| orders.contains_key(number));
        self.needed_by.retain(|_, needed| {
            needed.retain(|number| orders.contains_key(number));
            !needed.is_empty()
        });
        taken.into_iter().map(|(_, waiting)| waiting.order).collect()
    }
}
