//! What a server keeps for groups: data, and orders that wait for some.

use super::disk::Room;
use super::object_store::ObjectStore;
use super::order::{DataKey, DataPacket, Held, Piece, TaskOrder};
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
        let inputs = order.inputs.iter().copied();
        let missing = inputs.filter(|&key| !self.objects.has(key)).collect();
        let place = order.place;
        self.orders.add(order, place, missing);
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
        self.orders.take_all(|order| is_over(order.group))
    }

    /// A piece of data comes.
    pub(crate) fn arrive(&mut self, piece: Piece) {
        let key = piece.key;
        if self.is_wanted(key) && self.objects.arrive(piece) {
            self.orders.arrived(key);
        }
    }

    /// Data comes. What is there stays as it is.
    pub(crate) fn put(&mut self, key: DataKey, held: Held) {
        if self.is_wanted(key) {
            self.objects.put(key, held);
            self.orders.arrived(key);
        }
    }

    /// Whether an order could begin.
    pub(crate) fn has_ready(&self) -> bool {
        self.orders.has_ready()
    }

    /// The order that begins, and its arguments one after the other; or why one of them will never
    /// be.
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

    /// Takes the order whose first result this is, if it has not begun.
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
        self.orders.take_all(|_| true)
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
