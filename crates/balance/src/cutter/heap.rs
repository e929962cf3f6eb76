//! A priority queue of vertices by gain. Gains can change while vertices are in the queue.

/// Place of a vertex that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// A binary heap, greatest gain first; the order of equal gains depends on the order of operations.
#[derive(Clone, Debug, Default)]
pub(super) struct GainHeap {
    heap: Vec<(i64, u32)>,
    place: Vec<u32>,
}

impl GainHeap {
    /// Creates an empty heap for `vertices` vertices.
    pub(super) fn new(vertices: usize) -> Self {
        Self { heap: Vec::new(), place: vec![ABSENT; vertices] }
    }

    /// Returns the greatest gain and its vertex.
    #[inline]
    pub(super) fn peek(&self) -> Option<(i64, u32)> {
        self.heap.first().copied()
    }

    #[inline]
    pub(super) fn contains(&self, vertex: u32) -> bool {
        self.place[vertex as usize] != ABSENT
    }

    /// Inserts a vertex or changes its gain.
    #[inline]
    pub(super) fn set(&mut self, vertex: u32, gain: i64) {
        let place = self.place[vertex as usize];
        if place == ABSENT {
            self.heap.push((gain, vertex));
            self.rise(self.heap.len() - 1);
        } else {
            let before = std::mem::replace(&mut self.heap[place as usize].0, gain);
            if gain > before {
                self.rise(place as usize);
            } else if gain < before {
                self.sink(place as usize);
            }
        }
    }

    /// Adds to the gain of a vertex; does nothing if the vertex is not in the heap.
    #[inline]
    pub(super) fn add(&mut self, vertex: u32, change: i64) {
        let place = self.place[vertex as usize];
        if place != ABSENT {
            let gain = self.heap[place as usize].0.saturating_add(change);
            self.set(vertex, gain);
        }
    }

    /// Adds `change` twice to the gain of a vertex; does nothing if the vertex is not in the heap.
    /// (An edge that changes between cut and uncut counts twice, and twice the greatest weight
    /// overflows an `i64`.)
    #[inline]
    pub(super) fn add_twice(&mut self, vertex: u32, change: i64) {
        let place = self.place[vertex as usize];
        if place != ABSENT {
            let gain = self.heap[place as usize].0 + change + change;
            self.set(vertex, gain);
        }
    }

    /// Removes the vertex with the greatest gain.
    pub(super) fn pop(&mut self) -> Option<(i64, u32)> {
        let top = self.peek()?;
        self.remove(top.1);
        Some(top)
    }

    /// Removes a vertex if it is in the heap.
    pub(super) fn remove(&mut self, vertex: u32) {
        let place = std::mem::replace(&mut self.place[vertex as usize], ABSENT);
        if place == ABSENT {
            return;
        }
        let Some(last) = self.heap.pop() else { return };
        if last.1 != vertex {
            let before = std::mem::replace(&mut self.heap[place as usize], last);
            self.place[last.1 as usize] = place;
            if last.0 > before.0 {
                self.rise(place as usize);
            } else {
                self.sink(place as usize);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        for (_, vertex) in self.heap.drain(..) {
            self.place[vertex as usize] = ABSENT;
        }
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let above = (at - 1) / 2;
            if self.heap[above].0 >= entry.0 {
                break;
            }
            self.put(at, self.heap[above]);
            at = above;
        }
        self.put(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let mut below = 2 * at + 1;
            if below >= self.heap.len() {
                break;
            }
            if below + 1 < self.heap.len() && self.heap[below + 1].0 > self.heap[below].0 {
                below += 1;
            }
            if self.heap[below].0 <= entry.0 {
                break;
            }
            self.put(at, self.heap[below]);
            at = below;
        }
        self.put(at, entry);
    }

    #[inline]
    fn put(&mut self, at: usize, entry: (i64, u32)) {
        self.heap[at] = entry;
        self.place[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_heap_agrees_with_a_map(steps in prop::collection::vec((0..20_u32, -9..9_i64), 0..200)) {
            let (mut heap, mut model) = (GainHeap::new(20), BTreeMap::new());
            for (step, (vertex, gain)) in steps.into_iter().enumerate() {
                match step % 4 {
                    3 => {
                        heap.remove(vertex);
                        model.remove(&vertex);
                    }
                    _ => {
                        heap.set(vertex, gain);
                        model.insert(vertex, gain);
                    }
                }
                prop_assert_eq!(heap.peek().map(|top| top.0), model.values().max().copied());
            }
            while let Some((gain, vertex)) = heap.pop() {
                prop_assert_eq!(model.values().max(), Some(&gain));
                prop_assert_eq!(model.remove(&vertex), Some(gain));
            }
            prop_assert!(model.is_empty());
        }
    }
}
