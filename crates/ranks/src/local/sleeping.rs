//! The delays for which the tasks of a rank wait.
//!
//! A job is not quiescent while a timer is set. So when a task stops waiting for a delay, the actor
//! cancels its timer. Otherwise main would wait for the timer at the end of a run, and would notice
//! no deadlock before the timer fires.

use super::LocalState;
use gridspan_runtime::Timer;
use std::task::Waker;
use std::time::Duration;

impl LocalState {
    /// Begins a delay, and returns its number.
    pub(crate) fn sleep(&mut self, delay: Duration, waker: &Waker) -> u64 {
        self.last_delay += 1;
        self.delays.push((delay, self.last_delay));
        self.sleeping.insert(self.last_delay, (waker.clone(), None));
        self.last_delay
    }

    /// Notes the timer of a delay.
    pub(crate) fn note_timer(&mut self, delay: u64, timer: Timer) {
        if let Some((_, noted)) = self.sleeping.get_mut(&delay) {
            *noted = Some(timer);
        }
    }

    /// Whether a delay is over; otherwise keeps the waker.
    pub(crate) fn is_over(&mut self, delay: u64, waker: &Waker) -> bool {
        match self.sleeping.get_mut(&delay) {
            Some((sleeping, _)) => {
                sleeping.clone_from(waker);
                false
            }
            None => true,
        }
    }

    /// Wakes the task that waits for a delay, which is over.
    pub(super) fn end_sleep(&mut self, delay: u64) {
        if let Some((waker, _)) = self.sleeping.remove(&delay) {
            waker.wake();
        }
    }

    /// Forgets a delay for which no task waits any more.
    pub(crate) fn forget_sleep(&mut self, delay: u64) {
        match self.sleeping.remove(&delay) {
            Some((_, Some(timer))) => self.unneeded_timers.push(timer),
            Some((_, None)) => self.delays.retain(|(_, other)| *other != delay),
            None => {}
        }
    }
}
