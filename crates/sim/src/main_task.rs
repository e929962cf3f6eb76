//! The job's main function, polled after turns of PE 0.

use gridspan_runtime::pe::Action;
use gridspan_runtime::{Awaited, JobError, MainFuture, MainPort, Program, Time, main_panicked};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Largest number of polls in a row of a main that wakes itself. A main that busy-waits for an
/// actor is polled again after the next turn of PE 0.
const OWN_WAKES_MAX: u32 = 10_000;

/// Largest number of times in a row that main asks for something, and has the answer, at one
/// virtual time. Main takes no virtual time, so a main that waits for a later time by asking for
/// the time in a loop would never end.
const ANSWERS_MAX: u64 = 100_000;

/// Number of references to main's [`Flag`] that exist even if nothing will wake main: two in
/// [`MainTask`] and one in [`Awaited`].
const OWN_HOLDERS: usize = 3;

/// Set when main should be polled.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Main, and its actions for PE 0.
pub(crate) struct MainTask {
    future: Option<MainFuture>,
    flag: Arc<Flag>,
    waker: Waker,
    awaited: Arc<Awaited>,
    actions: Arc<Mutex<Vec<Action>>>,
    pace: Pace,
}

impl MainTask {
    /// Takes main out of a program. It starts with the first poll.
    pub(crate) fn new(program: Program) -> Self {
        let actions: Arc<Mutex<Vec<Action>>> = Arc::default();
        let queue = actions.clone();
        let port: MainPort = Arc::new(move |action| {
            queue.lock().unwrap_or_else(PoisonError::into_inner).push(action);
        });
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(flag.clone());
        let awaited: Arc<Awaited> = Arc::default();
        awaited.set_waker(&waker);
        let future = Some(program.begin_main(port, awaited.clone()));
        Self { future, flag, waker, awaited, actions, pace: Pace::default() }
    }

    /// Polls main while it is woken, by others or by itself, up to `OWN_WAKES_MAX` times. Returns
    /// its outcome once.
    pub(crate) fn poll(&mut self) -> Option<Result<(), JobError>> {
        let future = self.future.as_mut()?;
        for _ in 0..OWN_WAKES_MAX {
            if !self.flag.0.swap(false, Ordering::Relaxed) {
                break;
            }
            let mut context = Context::from_waker(&self.waker);
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
            let outcome = match polled {
                Ok(Poll::Pending) => continue,
                Ok(Poll::Ready(outcome)) => outcome,
                Err(panic) => Err(main_panicked(&*panic)),
            };
            self.future = None;
            return Some(outcome);
        }
        None
    }

    /// Whether main has returned.
    pub(crate) fn is_done(&self) -> bool {
        self.future.is_none()
    }

    /// Whether main waits only for promises of Gridspan, or has returned.
    pub(crate) fn waits_inside(&self) -> bool {
        self.is_done() || self.awaited.is_all(Arc::strong_count(&self.flag) - OWN_HOLDERS)
    }

    /// Takes main's actions for PE 0, in order.
    pub(crate) fn take_actions(&self) -> Vec<Action> {
        std::mem::take(&mut self.actions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The time at which PE 0 may carry out main's actions of `now`.
    pub(crate) fn carried_out_at(&mut self, now: Time) -> Time {
        self.pace.next(now)
    }
}

/// Slows down a main that goes on and on at one virtual time.
#[derive(Default)]
struct Pace {
    due: Time,
    /// Number of times in a row that main had actions when the ones before were carried out.
    answers: u64,
}

impl Pace {
    /// Each wait is a nanosecond longer than the one before, so that a time limit is reached soon.
    fn next(&mut self, now: Time) -> Time {
        self.answers = if now == self.due { self.answers + 1 } else { 0 };
        self.due = now + Duration::from_nanos(self.answers.saturating_sub(ANSWERS_MAX));
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_main_that_goes_on_at_one_time_is_slowed_down() {
        let mut pace = Pace::default();
        for now in (0..3).map(Time) {
            for _ in 0..ANSWERS_MAX {
                assert_eq!(pace.next(now), now);
            }
        }
        let (mut now, mut answers) = (Time(2), 0_u64);
        while now < Time(1_000_000_000) {
            now = pace.next(now);
            answers += 1;
        }
        assert!(answers < 50_000, "{answers} until a second has passed");
        let later = now + Duration::from_secs(1);
        assert_eq!(pace.next(later), later);
    }
}
