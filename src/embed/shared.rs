//! The state of a job for the tasks and threads that wait for it.

use super::event::Event;
use gridspan_runtime::JobError;
use gridspan_runtime::driver::NodeHandle;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Largest number of events that wait to be read.
const EVENTS_MAX: usize = 1024;

/// State shared by the thread of a job and the tasks and threads that wait for it.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    is_cancelled: AtomicBool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) outcome: Option<Result<(), JobError>>,
    events: VecDeque<Event>,
    /// Tasks to wake at the next change, by reader.
    wakers: BTreeMap<u64, Waker>,
    /// Number of readers so far.
    readers: u64,
    /// Handle that cancels the job, while it runs on threads.
    node: Option<NodeHandle>,
}

impl State {
    /// Returns the next event, or `Some(None)` if the job has ended and all events were read.
    /// Returns `None` if there is no event yet.
    pub(super) fn next_event(&mut self) -> Option<Option<Event>> {
        match self.events.pop_front() {
            None if self.outcome.is_none() => None,
            event => Some(event),
        }
    }
}

/// Waits for changes of the state, on a thread or as a task.
pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    number: u64,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let number = {
            let mut state = lock(&shared.state);
            state.readers += 1;
            state.readers
        };
        Self { shared, number }
    }

    /// Blocks until `find` returns a value.
    pub(super) fn wait_for<R>(&self, mut find: impl FnMut(&mut State) -> Option<R>) -> R {
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(found) = find(&mut state) {
                return found;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Is ready once `find` returns a value; wakes the task at each change until then.
    pub(super) fn poll<R>(
        &self,
        cx: &Context<'_>,
        mut find: impl FnMut(&mut State) -> Option<R>,
    ) -> Poll<R> {
        let mut state = lock(&self.shared.state);
        match find(&mut state) {
            Some(found) => Poll::Ready(found),
            None => {
                state.wakers.insert(self.number, cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        lock(&self.shared.state).wakers.remove(&self.number);
    }
}

impl Shared {
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        let node = lock(&self.state).node.clone();
        if let Some(node) = node {
            node.cancel();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// Records that the job runs on threads from now on.
    pub(super) fn begin(&self, node: &NodeHandle) {
        lock(&self.state).node = Some(node.clone());
        // The job may have been cancelled while its threads were created.
        if self.is_cancelled() {
            node.cancel();
        }
    }

    pub(super) fn report(&self, event: Event) {
        self.change(|state| {
            if state.events.len() == EVENTS_MAX {
                let oldest = state.events.iter().position(Event::is_output).unwrap_or(0);
                state.events.remove(oldest);
            }
            state.events.push_back(event);
        });
    }

    pub(super) fn end(&self, outcome: Result<(), JobError>) {
        self.change(|state| {
            state.outcome = Some(outcome);
            state.node = None;
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.changed.notify_all();
        wakers.into_values().for_each(Waker::wake);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
