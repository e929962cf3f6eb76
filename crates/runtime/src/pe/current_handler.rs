//! The handler that a PE is running, visible to other threads of its node.
//!
//! A PE inside a handler answers no messages. Before it calls a handler, it stores the actor's
//! identity here with a few plain stores, and a watchdog reads it from another thread.

use crate::address::id::{ActorId, CollectionId, KindId};
use crate::address::index::Key;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The kind that means no handler.
const NONE: u32 = u32::MAX;

/// The handler that a PE is running. Written by that PE alone.
pub(crate) struct CurrentHandler {
    /// Number of handlers that have begun.
    number: AtomicU64,
    kind: AtomicU32,
    collection: AtomicU32,
    key: [AtomicU64; 2],
}

impl Default for CurrentHandler {
    fn default() -> Self {
        Self {
            number: AtomicU64::new(0),
            kind: AtomicU32::new(NONE),
            collection: AtomicU32::new(0),
            key: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }
}

impl CurrentHandler {
    /// Notes that a handler of this actor begins.
    #[inline]
    pub(crate) fn begin(&self, kind: KindId, id: ActorId) {
        let (collection, key) = (id.collection, id.key.0);
        self.number.store(self.number.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.collection.store(collection.0, Ordering::Relaxed);
        self.key[0].store((key >> 64) as u64, Ordering::Relaxed);
        self.key[1].store(key as u64, Ordering::Relaxed);
        self.kind.store(u32::from(kind.0), Ordering::Relaxed);
    }

    /// Notes that the last handler has ended.
    #[inline]
    pub(crate) fn end(&self) {
        self.kind.store(NONE, Ordering::Relaxed);
    }

    /// Returns the number of the running handler, and its actor. If another handler begins during
    /// the call, the two may not belong together; rely on them only if two calls return the same.
    pub(crate) fn look(&self) -> Option<(u64, KindId, ActorId)> {
        let number = self.number.load(Ordering::Relaxed);
        let kind = u16::try_from(self.kind.load(Ordering::Relaxed)).ok()?;
        let [high, low] = &self.key;
        let key = u128::from(high.load(Ordering::Relaxed)) << 64
            | u128::from(low.load(Ordering::Relaxed));
        let collection = CollectionId(self.collection.load(Ordering::Relaxed));
        Some((number, KindId(kind), ActorId { collection, key: Key(key) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_seen_while_it_runs() {
        let current = CurrentHandler::default();
        assert_eq!(current.look(), None);
        let id = ActorId { collection: CollectionId(3), key: Key(7 << 100 | 9) };
        current.begin(KindId(2), id);
        assert_eq!(current.look(), Some((1, KindId(2), id)));
        current.begin(KindId(2), id);
        assert_eq!(current.look(), Some((2, KindId(2), id)), "another one");
        current.end();
        assert_eq!(current.look(), None);
    }
}
