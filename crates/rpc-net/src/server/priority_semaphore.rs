//! A semaphore with priorities, for calls and tasks that compete for a few PEs.

use gridspan_workflow::execution::TaskQueue;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Largest number of waiting calls and tasks; further ones are refused and tried elsewhere.
const WAITING_MAX: usize = 10_000;

/// Issues a limited number of permits. Of the waiting calls and tasks, the one with the lowest
/// place, which is a priority, gets the next permit. Clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct PrioritySemaphore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    free: u32,
    /// The waiting calls and tasks. They wait for a permit only, not for data.
    waiting: TaskQueue<(), oneshot::Sender<Permit>>,
}

/// A permit, which is released when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    /// `None` if the permit was passed on.
    semaphore: Option<PrioritySemaphore>,
}

impl PrioritySemaphore {
    pub(crate) fn new(free: u32) -> Self {
        let state = State { free, waiting: TaskQueue::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a permit. Returns the reason for a refusal, if too many wait.
    pub(crate) async fn enter(&self, place: u32) -> Result<Permit, String> {
        let waiting = {
            let mut state = self.state();
            if state.waiting.len() >= WAITING_MAX {
                // Removes the abandoned waits.
                drop(state.waiting.take_all(oneshot::Sender::is_closed));
            }
            if state.waiting.len() >= WAITING_MAX {
                return Err(format!("{WAITING_MAX} calls and tasks wait at the server already"));
            } else if state.free > 0 {
                state.free -= 1;
                None
            } else {
                let (sender, receiver) = oneshot::channel();
                state.waiting.add(sender, place, BTreeSet::new());
                Some(receiver)
            }
        };
        let permit = match waiting {
            Some(waiting) => waiting.await.ok(),
            None => None,
        };
        // `None` means that a permit was free: the queue drops the sender of a wait that goes on
        // only with the semaphore, which `self` keeps alive.
        Ok(permit.unwrap_or_else(|| Permit { semaphore: Some(self.clone()) }))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(semaphore) = self.semaphore.take() else { return };
        loop {
            let next = {
                let mut state = semaphore.state();
                let next = state.waiting.begin();
                state.free += u32::from(next.is_none());
                next
            };
            let Some(sender) = next else { return };
            match sender.send(Permit { semaphore: Some(semaphore.clone()) }) {
                Ok(()) => return,
                // The receiver no longer waits. The drop of its permit must not serve the next one
                // by recursion, because thousands of waits may be abandoned.
                Err(mut unused) => drop(unused.semaphore.take()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn the_lowest_place_is_first_and_abandoned_waits_are_skipped() {
        let semaphore = PrioritySemaphore::new(1);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(Ok(inside)) = pin!(semaphore.enter(9)).poll(&mut cx) else {
            panic!("it is free")
        };
        let (mut last, mut first) = (pin!(semaphore.enter(3)), pin!(semaphore.enter(1)));
        let mut given_up = Box::pin(semaphore.enter(0));
        assert!(
            last.as_mut().poll(&mut cx).is_pending() && first.as_mut().poll(&mut cx).is_pending()
        );
        assert!(given_up.as_mut().poll(&mut cx).is_pending());
        drop(given_up);

        drop(inside);

        assert!(last.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(Ok(inside)) = first.as_mut().poll(&mut cx) else {
            panic!("it is its turn")
        };
        drop(inside);
        assert!(last.as_mut().poll(&mut cx).is_ready());
        assert_eq!(semaphore.state().free, 1);
    }

    #[test]
    fn thousands_of_abandoned_waits_are_skipped_on_a_small_stack() {
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let passed = small.spawn(|| {
            let semaphore = PrioritySemaphore::new(1);
            let mut cx = Context::from_waker(Waker::noop());
            let Poll::Ready(Ok(inside)) = pin!(semaphore.enter(0)).poll(&mut cx) else {
                panic!("it is free")
            };
            let enter = |place| Box::pin(semaphore.enter(place));
            let mut given_up = (1..10_000).map(enter).collect::<Vec<_>>();
            let mut last = enter(10_000);
            for waiting in given_up.iter_mut().chain([&mut last]) {
                assert!(waiting.as_mut().poll(&mut cx).is_pending());
            }
            drop(given_up);

            drop(inside);

            assert!(last.as_mut().poll(&mut cx).is_ready());
            let state = semaphore.state();
            assert!(state.free == 1 && state.waiting.is_empty());
        });
        passed.unwrap().join().unwrap();
    }
}
