//! The data and the waiting orders that a server keeps for groups.

use super::disk::Room;
use super::object_store::ObjectStore;
use super::order::{DataKey, DataPacket, GroupData, Held, Piece, TaskOrder};
use super::ranges::Ranges;
use crate::block::EncodedBlock;
use gridspan_workflow::execution::TaskQueue;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Data by key, and orders.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Store {
    objects: ObjectStore,
    orders: TaskQueue<DataKey, TaskOrder>,
    /// All groups below this number have ended.
    floor: u32,
    /// The groups from `floor` on that have ended.
    ended: BTreeSet<u32>,
    /// Freed data of groups that have not ended.
    freed: BTreeMap<u32, Ranges>,
}

impl Store {
    /// Sets the space for data.
    pub(crate) fn set_room(&mut self, room: Room) {
        self.objects.set_room(room);
    }

    pub(crate) fn add(&mut self, order: TaskOrder) {
        let inputs = order.inputs.iter().copied();
        let missing = inputs.filter(|&key| !self.objects.has(key)).collect();
        let place = order.place;
        self.orders.add(order, place, missing);
    }

    /// Whether data may still be needed: it was not freed, and its group has not ended. Failed
    /// attempts may send data later than that.
    pub(crate) fn is_wanted(&self, key: DataKey) -> bool {
        let is_free = self.freed.get(&key.group).is_some_and(|freed| freed.contains(key.data));
        !is_free && !self.is_over(key.group)
    }

    /// Whether a group has ended, so that messages for it are dropped.
    pub(crate) fn is_over(&self, group: u32) -> bool {
        group < self.floor || self.ended.contains(&group)
    }

    /// Ends a group and all below `floor`; returns their orders.
    pub(crate) fn end(&mut self, group: u32, floor: u32) -> Vec<TaskOrder> {
        self.ended.insert(group);
        self.floor = self.floor.max(floor);
        // The argument may be lower than that of an earlier call.
        let floor = self.floor;
        self.ended.retain(|&group| group >= floor);
        let ended = &self.ended;
        let is_over = |group: u32| group < floor || ended.contains(&group);
        self.objects.retain(|key| !is_over(key.group));
        self.freed.retain(|&group, _| !is_over(group));
        self.orders.take_all(|order| is_over(order.group))
    }

    /// Adds a piece of data, if it may still be needed.
    pub(crate) fn arrive(&mut self, piece: Piece) {
        let key = piece.key;
        if self.is_wanted(key) && self.objects.arrive(piece) {
            self.orders.arrived(key);
        }
    }

    /// Adds complete data, if it may still be needed. Data that is present already stays.
    pub(crate) fn put(&mut self, key: DataKey, held: Held) {
        if self.is_wanted(key) {
            self.objects.put(key, held);
            self.orders.arrived(key);
        }
    }

    /// Whether an order can begin.
    pub(crate) fn has_ready(&self) -> bool {
        self.orders.has_ready()
    }

    /// Takes the next order that can begin, with its concatenated arguments, or the reason why one
    /// of them will never exist.
    pub(crate) fn next(&mut self) -> Option<(TaskOrder, Held)> {
        let order = self.orders.begin()?;
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

    /// Removes the order with this first result, if it has not begun.
    pub(crate) fn withdraw(&mut self, first: DataKey) -> Option<TaskOrder> {
        let is_it = |packet: &DataPacket| packet.key == first;
        self.orders.take(|order| order.outputs.first().is_some_and(is_it))
    }

    pub(crate) fn has(&self, key: DataKey) -> bool {
        self.objects.has(key)
    }

    pub(crate) fn get(&mut self, key: DataKey) -> Held {
        self.objects.get(key)
    }

    /// Returns a segment of data, with the number of segments.
    pub(crate) fn piece(&mut self, key: DataKey, index: u32) -> Piece {
        self.objects.piece(key, index)
    }

    pub(crate) fn free(&mut self, group: u32, data: &Ranges) {
        if !self.is_over(group) {
            self.freed.entry(group).or_default().merge(data);
            self.objects.retain_of(group, |version| !data.contains(version));
        }
    }

    /// Returns the data of a group that goes on after a restoration. Forgets data that is
    /// incomplete or will never exist.
    pub(crate) fn resume(&mut self, group: u32) -> GroupData {
        let dropped = self.freed.get(&group).cloned().unwrap_or_default();
        GroupData { held: self.objects.resume(group), dropped }
    }

    /// Returns the freed data of a group that has not ended, if there is any.
    pub(crate) fn freed_of(&self, group: u32) -> Option<&Ranges> {
        self.freed.get(&group).filter(|freed| !freed.is_empty())
    }

    /// Accepts freed data again.
    pub(crate) fn take_back(&mut self, group: u32, data: &Ranges) {
        if let Some(freed) = self.freed.get_mut(&group) {
            data.ranges().flatten().for_each(|number| freed.remove(number));
        }
    }

    /// Number of bytes that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.objects.bytes()
    }

    /// Removes and returns all orders.
    pub(crate) fn take_orders(&mut self) -> Vec<TaskOrder> {
        self.orders.take_all(|_| true)
    }

    /// Removes and returns a piece of data for another server, until none is left.
    pub(crate) fn give(&mut self) -> Option<Piece> {
        self.objects.give()
    }

    pub(crate) fn clear(&mut self) {
        self.objects.retain(|_| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_floor_keeps_no_groups_below_the_latest() {
        let mut store = Store::default();

        store.end(9, 8);
        store.end(3, 2);

        assert_eq!((store.floor, store.ended.clone()), (8, BTreeSet::from([9])));
        assert!([3, 7, 9].iter().all(|&group| store.is_over(group)) && !store.is_over(8));
    }
}
