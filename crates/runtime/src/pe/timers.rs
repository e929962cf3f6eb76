//! Timers of a PE: deferred actions and delayed messages.

use crate::address::id::{ActorId, KindId, Timer};
use crate::pe::callback::Callback;
use bytes::Bytes;
use gridspan_topology::{PeId, Time};
use std::collections::BTreeMap;

/// Identifies a timer, so that it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId(pub(crate) Time, pub(crate) u64);

/// A delayed message of an actor.
pub(crate) trait Delayed<C>: Send {
    fn send(self: Box<Self>, core: &mut C);
    fn receiver(&self) -> ActorId;
    /// Returns the receiver, its type, and the encoded message.
    fn image(&self) -> (ActorId, KindId, Bytes);
    /// Returns the timer that the sender got, if the job has been restored since then.
    fn timer(&self) -> Option<Timer>;
}

/// The effect of a timer.
pub(crate) enum Due<C> {
    Action(Callback<C>),
    Message(Box<dyn Delayed<C>>),
}

impl<C> Due<C> {
    pub(crate) fn fire(self, core: &mut C) {
        match self {
            Self::Action(action) => action(core),
            Self::Message(message) => message.send(core),
        }
    }
}

/// The timers of a PE, by due time and, among equals, in the order in which they were set.
pub(crate) struct Timers<C> {
    due: BTreeMap<TimerId, Due<C>>,
    set: u64,
    /// Pending restored timers, by the timers that actors got before the restoration.
    restored: BTreeMap<(PeId, TimerId), TimerId>,
}

impl<C> Default for Timers<C> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), set: 0, restored: BTreeMap::new() }
    }
}

impl<C> Timers<C> {
    /// Numbers timers from `number` on, so that no number from before a restoration comes again.
    pub(crate) fn number_from(&mut self, number: u64) {
        self.set = self.set.max(number);
    }

    pub(crate) fn set(&mut self, at: Time, action: Callback<C>) -> TimerId {
        self.insert(at, Due::Action(action))
    }

    pub(crate) fn delay(&mut self, at: Time, message: Box<dyn Delayed<C>>) -> TimerId {
        let restored = message.timer();
        let id = self.insert(at, Due::Message(message));
        if let Some(Timer { pe, at, number }) = restored {
            self.restored.insert((pe, TimerId(at, number)), id);
        }
        id
    }

    fn insert(&mut self, at: Time, due: Due<C>) -> TimerId {
        let id = TimerId(at, self.set);
        self.set += 1;
        self.due.insert(id, due);
        id
    }

    /// Returns the present identity of a timer that was restored.
    pub(crate) fn restored(&self, timer: Timer) -> Option<TimerId> {
        self.restored.get(&(timer.pe, TimerId(timer.at, timer.number))).copied()
    }

    pub(crate) fn delayed(&self) -> impl Iterator<Item = (TimerId, &dyn Delayed<C>)> {
        self.due.iter().filter_map(|(&id, due)| match due {
            Due::Action(_) => None,
            Due::Message(message) => Some((id, &**message)),
        })
    }

    /// Cancels a timer. Returns whether it was still pending.
    pub(crate) fn cancel(&mut self, id: TimerId) -> bool {
        let due = self.due.remove(&id);
        due.iter().for_each(|due| self.forget_restored(due));
        due.is_some()
    }

    pub(crate) fn next(&self) -> Option<Time> {
        // A timer at the maximum time never fires; it can only be cancelled.
        self.due.first_key_value().map(|(id, _)| id.0).filter(|&at| at < Time::MAX)
    }

    pub(crate) fn take_due(&mut self, now: Time) -> Option<Due<C>> {
        let entry = self.due.first_entry()?;
        let due = (entry.key().0 <= now).then(|| entry.remove())?;
        self.forget_restored(&due);
        Some(due)
    }

    fn forget_restored(&mut self, due: &Due<C>) {
        if let Due::Message(message) = due
            && let Some(Timer { pe, at, number }) = message.timer()
        {
            self.restored.remove(&(pe, TimerId(at, number)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message whose sender got this timer before a restoration.
    struct Restored(Timer);

    impl Delayed<()> for Restored {
        fn send(self: Box<Self>, _core: &mut ()) {}

        fn receiver(&self) -> ActorId {
            ActorId::system(self.0.pe)
        }

        fn image(&self) -> (ActorId, KindId, Bytes) {
            (self.receiver(), KindId(0), Bytes::new())
        }

        fn timer(&self) -> Option<Timer> {
            Some(self.0)
        }
    }

    #[test]
    fn restored_timers_are_found_until_they_fire_or_are_cancelled() {
        let mut timers = Timers::<()>::default();
        timers.number_from(100);
        let [fires, cancelled] = [1, 2].map(|number| Timer { pe: PeId(3), at: Time(50), number });
        timers.delay(Time(10), Box::new(Restored(fires)));
        let id = timers.delay(Time(20), Box::new(Restored(cancelled)));
        assert_eq!(timers.restored(cancelled), Some(id));
        assert!(timers.restored(fires).is_some());

        assert!(timers.take_due(Time(9)).is_none());
        assert!(timers.take_due(Time(10)).is_some());
        assert!(timers.cancel(id));

        assert_eq!((timers.restored(fires), timers.restored(cancelled)), (None, None));
        assert!(timers.restored.is_empty());
    }
}
