//! What a server keeps for groups: data, and orders that wait for some.

use super::disk::Room;
use super::object_store::ObjectStore;
use super::order::{DataKey, Held, Piece, TaskOrder};
use super::ranges::Ranges;
use crate::block::EncodedBlock;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An order and how much of it is missing.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    order: TaskOrder,
    missing: usize,
}

/// Data by key, and orders in the order in which they came.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    objects: ObjectStore,
    orders: BTreeMap<u64, Waiting>,
    count: u64,
    /// The orders that need data which is not there.
    needed_by: BTreeMap<DataKey, Vec<u64>>,
    /// Orders whose data is there, by place.
    ready: BTreeSet<(u32, u64)>,
    /// All groups below have ended, and some others.
    floor: u32,
    ended: BTreeSet<u32>,
    /// What nobody needs any more of groups that go on.
    freed: BTreeMap<u32, Ranges>,
}

impl Store {
    /// How much may be kept from now on.
    pub(crate) fn furnish(&mut self, room: Room) {
        self.objects.furnish(room);
    }

    /// An order comes.
    pub(crate) fn add(&mut self, order: TaskOrder) {
        let number = self.count;
        self.count += 1;
        let missing: BTreeSet<DataKey> =
            order.inputs.iter().copied().filter(|&key| !self.objects.has(key)).collect();
        for &key in &missing {
            self.needed_by.entry(key).or_default().push(number);
        }
        if missing.is_empty() {
            self.ready.insert((order.place, number));
        }
        self.orders.insert(number, Waiting { order, missing: missing.len() });
    }

    /// Whether data may still be needed: what comes late of an attempt that came to nothing is not
    /// wanted.
    pub(crate) fn is_wanted(&self, key: DataKey) -> bool {
        let is_free = self.freed.get(&key.group).is_some_and(|freed| freed.contains(key.data));
        !is_free && !self.is_over(key.group)
    }

    /// Whether a group has ended: what is on its way for it is not wanted.
    pub(crate) fn is_over(&self, group: u32) -> bool {
        group < self.floor || self.ended.contains(&group)
    }

    /// A group ends, and all below `floor` have; gives its orders.
    pub(crate) fn end(&mut self, group: u32, floor: u32) -> Vec<TaskOrder> {
        self.ended.insert(group);
        self.floor = self.floor.max(floor);
        self.ended.retain(|&group| group >= floor);
        let (floor, ended) = (self.floor, &self.ended);
        let is_over = |group: u32| group < floor || ended.contains(&group);
        self.objects.retain(|key| !is_over(key.group));
        self.freed.retain(|&group, _| !is_over(group));
        self.needed_by.retain(|key, _| !is_over(key.group));
        let all = std::mem::take(&mut self.orders).into_iter();
        let (over, rest): (Vec<_>, Vec<_>) =
            all.partition(|(_, waiting)| is_over(waiting.order.group));
        self.orders = rest.into_iter().collect();
        self.ready.retain(|(_, number)| self.orders.contains_key(number));
        over.into_iter().map(|(_, waiting)| waiting.order).collect()
    }

    /// A piece of data comes.
    pub(crate) fn arrive(&mut self, piece: Piece) {
        let key = piece.key;
        if self.is_wanted(key) && self.objects.arrive(piece) {
            self.is_there(key);
        }
    }

    /// Data comes. What is there stays as it is.
    pub(crate) fn put(&mut self, key: DataKey, held: Held) {
        if self.is_wanted(key) {
            self.objects.put(key, held);
            self.is_there(key);
        }
    }

    fn is_there(&mut self, key: DataKey) {
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

    /// The order that begins, and its arguments one after the other; or why one of them will never
    /// be.
    pub(crate) fn next(&mut self) -> Option<(TaskOrder, Held)> {
        let (_, number) = self.ready.pop_first()?;
        let order = self.orders.remove(&number)?.order;
        let mut segments = Vec::new();
        for &key in &order.inputs {
            match self.objects.get(key) {
                Ok(block) => segments.extend(block.into_segments()),
                Err(reason) => return Some((order, Err(reason))),
            }
        }
        segments.retain(|segment| !segment.is_empty());
        Some((order, Ok(EncodedBlock::of(segments))))
    }

    /// Takes the order whose first result this is, if it has not begun.
    pub(crate) fn withdraw(&mut self, first: DataKey) -> Option<TaskOrder> {
        let is_it =
            |order: &TaskOrder| order.outputs.first().is_some_and(|packet| packet.key == first);
        let found = self.orders.iter().find(|(_, waiting)| is_it(&waiting.order));
        let number = found.map(|(number, _)| *number)?;
        self.ready.retain(|(_, ready)| *ready != number);
        let order = self.orders.remove(&number)?.order;
        for key in &order.inputs {
            if let Some(orders) = self.needed_by.get_mut(key) {
                orders.retain(|needed| *needed != number);
            }
        }
        self.needed_by.retain(|_, orders| !orders.is_empty());
        Some(order)
    }

    pub(crate) fn has(&self, key: DataKey) -> bool {
        self.objects.has(key)
    }

    pub(crate) fn get(&mut self, key: DataKey) -> Held {
        self.objects.get(key)
    }

    /// A segment of data, and how many there are.
    pub(crate) fn piece(&mut self, key: DataKey, index: u32) -> Piece {
        self.objects.piece(key, index)
    }

    /// Data of a group is not needed any more.
    pub(crate) fn free(&mut self, group: u32, data: &Ranges) {
        if !self.is_over(group) {
            self.freed.entry(group).or_default().merge(data);
            self.objects.retain_of(group, |version| !data.contains(version));
        }
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.objects.bytes()
    }

    /// Gives all orders away.
    pub(crate) fn take_orders(&mut self) -> Vec<TaskOrder> {
        self.ready.clear();
        self.needed_by.clear();
        std::mem::take(&mut self.orders).into_values().map(|waiting| waiting.order).collect()
    }

    /// Gives a piece of data away, until nothing is left.
    pub(crate) fn give(&mut self) -> Option<Piece> {
        self.objects.give()
    }

    /// Forgets all data.
    pub(crate) fn clear(&mut self) {
        self.objects.retain(|_| false);
    }
}
