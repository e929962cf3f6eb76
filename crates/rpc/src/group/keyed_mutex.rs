//! A mutex per key, for futures of one task.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The keys that are taken, with the wakers of the futures that wait for each.
#[derive(Debug)]
pub(super) struct KeyedMutex<K> {
    taken: RefCell<BTreeMap<K, Vec<Waker>>>,
}

impl<K> Default for KeyedMutex<K> {
    fn default() -> Self {
        Self { taken: RefCell::default() }
    }
}

/// Holds a key until this guard is dropped.
#[derive(Debug)]
pub(super) struct KeyedGuard<'a, K: Ord + Copy> {
    locks: &'a KeyedMutex<K>,
    key: K,
}

impl<K: Ord + Copy> KeyedMutex<K> {
    /// Waits until the key is free, and takes it.
    pub(super) async fn take(&self, key: K) -> KeyedGuard<'_, K> {
        poll_fn(|cx| {
            let mut taken = self.taken.borrow_mut();
            match taken.get_mut(&key) {
                None => {
                    taken.insert(key, Vec::new());
                    Poll::Ready(())
                }
                Some(waiting) => {
                    waiting.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        KeyedGuard { locks: self, key }
    }
}

impl<K: Ord + Copy> Drop for KeyedGuard<'_, K> {
    fn drop(&mut self) {
        // Wake all waiting futures, because some may have been dropped.
        let waiting = self.locks.taken.borrow_mut().remove(&self.key);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }
}
