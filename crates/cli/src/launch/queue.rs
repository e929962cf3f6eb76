//! The queue of reports to print. Output and frequent reports of nodes wait for room, so that a
//! flood stalls the program that prints it instead of filling this process's memory. The launcher's
//! own reports never wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Number of queued bytes at which [`Queue::push_waiting`] waits.
const BYTES_MAX: usize = 4 << 20;
/// Bytes counted for a waiting item in addition to its content.
const ITEM_BYTES: usize = 64;

/// A queue with a byte budget.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    has_room: Condvar,
    has_items: Condvar,
}

struct State<T> {
    items: Vec<T>,
    bytes: usize,
    is_closed: bool,
}

impl<T> Queue<T> {
    /// Creates an empty queue.
    pub(super) fn new() -> Self {
        let state = State { items: vec![], bytes: 0, is_closed: false };
        Self { state: Mutex::new(state), has_room: Condvar::new(), has_items: Condvar::new() }
    }

    /// Adds an item of `bytes` bytes once there is room. Items for a closed queue are dropped.
    pub(super) fn push_waiting(&self, item: T, bytes: usize) {
        let state = self.lock();
        let state = self
            .has_room
            .wait_while(state, |state| state.bytes >= BYTES_MAX && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        self.add(state, item, bytes + ITEM_BYTES);
    }

    /// Adds an item at once, even if there is no room. It does not count against the byte budget.
    /// Items for a closed queue are dropped.
    pub(super) fn push(&self, item: T) {
        self.add(self.lock(), item, 0);
    }

    /// Adds an item as [`push`](Self::push) does, but before all queued items.
    pub(super) fn push_first(&self, item: T) {
        let mut state = self.lock();
        if !state.is_closed {
            state.items.insert(0, item);
            self.has_items.notify_one();
        }
    }

    fn add(&self, mut state: MutexGuard<'_, State<T>>, item: T, bytes: usize) {
        if !state.is_closed {
            state.items.push(item);
            state.bytes += bytes;
            self.has_items.notify_one();
        }
    }

    /// Swaps all items with an empty vector, after waiting for at least one. Returns false if the
    /// queue is closed and empty.
    pub(super) fn take(&self, empty: &mut Vec<T>) -> bool {
        let state = self.lock();
        let mut state = self
            .has_items
            .wait_while(state, |state| state.items.is_empty() && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.items, empty);
        state.bytes = 0;
        self.has_room.notify_all();
        !empty.is_empty()
    }

    /// Closes the queue for further items; queued items can still be taken.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.has_items.notify_all();
        self.has_room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn push_waiting_waits_for_room_and_push_does_not() {
        let queue = Queue::new();
        let pushed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..100 {
                    queue.push_waiting(number, 1 << 20);
                    pushed.fetch_add(1, Ordering::SeqCst);
                }
                queue.close();
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(pushed.load(Ordering::SeqCst) <= 4);
            queue.push(1000);
            let (mut taken, mut batch) = (vec![], vec![]);
            while queue.take(&mut batch) {
                taken.append(&mut batch);
            }
            assert_eq!(taken.iter().filter(|&&number| number < 1000).count(), 100);
            assert!(taken.contains(&1000));
        });
    }

    #[test]
    fn a_closed_queue_accepts_no_items() {
        let queue = Queue::new();
        queue.push(2);
        queue.push_first(1);
        queue.close();

        queue.push(3);
        queue.push_first(0);
        queue.push_waiting(4, 1);

        let mut taken = vec![];
        assert!(queue.take(&mut taken));
        assert_eq!(taken, [1, 2]);
        assert!(!queue.take(&mut vec![]));
    }

    #[test]
    fn closing_the_queue_ends_all_waiting() {
        let queue = Queue::new();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100).for_each(|n| queue.push_waiting(n, 1 << 20)));
            std::thread::sleep(Duration::from_millis(20));
            queue.close();
        });
    }
}
