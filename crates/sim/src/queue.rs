//! The event queue, ordered by time.

use gridspan_topology::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events ordered by time and, at equal times, by insertion.
///
/// The heap holds small keys, and the events stay in slots, because events are large and a heap
/// moves its entries often.
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    added: u64,
}

impl<E> EventQueue<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), added: 0 }
    }

    /// Adds an event. Returns its unique number.
    pub(crate) fn push(&mut self, at: Time, event: E) -> u64 {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 events wait at a time")
            }
        };
        let number = self.added;
        self.added += 1;
        self.heap.push(Reverse((at, number, slot)));
        number
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The number that the next event gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.added
    }

    /// The queued events with their numbers, in arbitrary order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &E)> {
        self.heap.iter().filter_map(|&Reverse((_, number, slot))| {
            Some((number, self.slots.get(slot as usize)?.as_ref()?))
        })
    }

    /// Removes the next event, with its time and number.
    pub(crate) fn pop(&mut self) -> Option<(Time, u64, E)> {
        let Reverse((at, number, slot)) = self.heap.pop()?;
        self.free.push(slot);
        let event = self.slots[slot as usize].take()?;
        Some((at, number, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_they_were_added() {
        let mut queue = EventQueue::new();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b')] {
            queue.push(Time(at), event);
        }
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, _, event)| event).collect();
        assert_eq!(order, "abcd");
    }

    #[test]
    fn slots_are_reused() {
        let mut queue = EventQueue::new();
        for round in 0..100 {
            queue.push(Time(round), round);
            assert_eq!(queue.pop().map(|(_, _, event)| event), Some(round));
        }
        assert_eq!(queue.slots.len(), 1);
    }
}
