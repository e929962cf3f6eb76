//! Things to do later.

use super::core::Core;
use gridspan_topology::Time;
use std::collections::BTreeMap;

/// What a timer does when it fires.
pub(super) type Action = Box<dyn FnOnce(&mut Core) + Send>;

/// Names a timer, so that it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerId(Time, u64);

/// The timers of a PE, by due time and, among equals, in the order they were set.
#[derive(Default)]
pub(super) struct Timers {
    due: BTreeMap<TimerId, Action>,
    set: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at: Time, action: Action) -> TimerId {
        let id = TimerId(at, self.set);
        self.set += 1;
        self.due.insert(id, action);
        id
    }

    pub(super) fn cancel(&mut self, id: TimerId) {
        self.due.remove(&id);
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.due.first_key_value().map(|(id, _)| id.0)
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<Action> {
        let entry = self.due.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }
}
