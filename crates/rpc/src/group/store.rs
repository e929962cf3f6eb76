//! What a server keeps for groups: data, and orders that wait for some.

use super::order::{DataKey, Held, Order};
use gridspan_runtime::Numbers;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An order and how much of it is missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    order: Order,
    missing: usize,
}

/// Data by key, and orders in the order in which they came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    data: BTreeMap<DataKey, Held>,
    orders: BTreeMap<u64, Waiting>,
    count: u64,
    /// The orders that need data which is not there.
    needed_by: BTreeMap<DataKey, Vec<u64>>,
    /// Orders whose data is there, by place.
    ready: BTreeSet<(u32, u64)>,
    /// All groups below have ended, and some others.
    floor: u32,
    ended: BTreeSet<u32>,
}

impl Store {
    /// An order comes.
    pub(crate) fn add(&mut self, order: Order) {
        let number = self.count;
        self.count += 1;
        let missing: BTreeSet<DataKey> =
            order.inputs.iter().copied().filter(|key| !self.data.contains_key(key)).collect();
        for &key in &missing {
            self.needed_by.entry(key).or_default().push(number);
        }
        if missing.is_empty() {
            self.ready.insert((order.place, number));
        }
        self.orders.insert(number, Waiting { order, missing: missing.len() });
    }

    /// Whether a group has ended: what is on its way for it is not wanted.
    pub(crate) fn is_over(&self, group: u32) -> bool {
        group < self.floor || self.ended.contains(&group)
    }

    /// A group ends, and all below `floor` have; gives its orders.
    pub(crate) fn end(&mut self, group: u32, floor: u32) -> Vec<Order> {
        self.ended.insert(group);
        self.floor = self.floor.max(floor);
        self.ended.retain(|&group| group >= floor);
        let (floor, ended) = (self.floor, &self.ended);
        let is_over = |group: u32| group < floor || ended.contains(&group);
        self.data.retain(|key, _| !is_over(key.group));
        self.needed_by.retain(|key, _| !is_over(key.group));
        let orders = self.orders.extract_if(.., |_, waiting| is_over(waiting.order.group));
        let orders: Vec<(u64, Waiting)> = orders.collect();
        self.ready.retain(|(_, number)| self.orders.contains_key(number));
        orders.into_iter().map(|(_, waiting)| waiting.order).collect()
    }

    /// Data comes. What is there stays as it is.
    pub(crate) fn put(&mut self, key: DataKey, held: Held) {
        if self.is_over(key.group) {
            return;
        }
        self.data.entry(key).or_insert(held);
        for number in self.needed_by.remove(&key).unwrap_or_default() {
            if let Some(waiting) = self.orders.get_mut(&number) {
                waiting.missing -= 1;
                if waiting.missing == 0 {
                    self.ready.insert((waiting.order.place, number));
                }
            }
        }
    }

    /// Whether an order could begin.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The order that begins, and its arguments one after the other; or why one of them will never be.
    pub(crate) fn next(&mut self) -> Option<(Order, Result<Vec<u8>, String>)> {
        let (_, number) = self.ready.pop_first()?;
        let order = self.orders.remove(&number)?.order;
        let mut arguments = Vec::new();
        for key in &order.inputs {
            match self.data.get(key) {
                Some(Ok(bytes)) => arguments.extend_from_slice(bytes),
                Some(Err(reason)) => return Some((order.clone(), Err(reason.clone()))),
                None => return Some((order.clone(), Err("an argument was freed".to_owned()))),
            }
        }
        Some((order, Ok(arguments)))
    }

    pub(crate) fn get(&self, key: DataKey) -> Held {
        self.data.get(&key).cloned().unwrap_or_else(|| Err("the data was freed".to_owned()))
    }

    pub(crate) fn free(&mut self, keys: &[DataKey]) {
        for key in keys {
            self.data.remove(key);
        }
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        let bytes = |held: &Held| held.as_ref().map_or(0, |bytes: &Numbers<u8>| bytes.len());
        self.data.values().map(|held| bytes(held) as u64).sum()
    }

    /// Gives all data and orders away.
    pub(crate) fn drain(&mut self) -> (Vec<(DataKey, Held)>, Vec<Order>) {
        self.ready.clear();
        self.needed_by.clear();
        let data = std::mem::take(&mut self.data).into_iter().collect();
        let orders = std::mem::take(&mut self.orders).into_values();
        (data, orders.map(|waiting| waiting.order).collect())
    }
}
