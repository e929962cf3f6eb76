//! Deferred actions.

use crate::pe::callback::Callback;
use gridspan_topology::Time;
use std::collections::BTreeMap;

/// Identifies a timer, so that it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId(pub(crate) Time, pub(crate) u64);

/// The timers of a PE, by due time and, among equals, in the order in which they were set.
pub(crate) struct Timers<C> {
    due: BTreeMap<TimerId, Callback<C>>,
    set: u64,
}

impl<C> Default for Timers<C> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), set: 0 }
    }
}

impl<C> Timers<C> {
    pub(crate) fn set(&mut self, at: Time, action: Callback<C>) -> TimerId {
        let id = TimerId(at, self.set);
        self.set += 1;
        self.due.insert(id, action);
        id
    }

    /// Cancels a timer. Returns whether it was still pending.
    pub(crate) fn cancel(&mut self, id: TimerId) -> bool {
        self.due.remove(&id).is_some()
    }

    pub(crate) fn next(&self) -> Option<Time> {
        // A timer at the end of time only waits to be cancelled.
        self.due.first_key_value().map(|(id, _)| id.0).filter(|&at| at < Time::MAX)
    }

    pub(crate) fn take_due(&mut self, now: Time) -> Option<Callback<C>> {
        let entry = self.due.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}
