//! A running job: its result, its events, and a way to cancel it.

use super::event::Event;
use super::shared::{Reader, Shared, State, lock};
use gridspan_runtime::JobError;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

/// A job that runs beside the program that has started it; see the [module](super).
///
/// As a future it resolves to the result of the job, once. Dropping it cancels the job.
///
/// ```
/// use gridspan::embed::{Runner, Running};
/// use gridspan::prelude::*;
///
/// let running: Running<u32> = Runner::on_threads(2).start(Job::new("count"), async |grid| {
///     Ok(grid.layout().pe_count())
/// });
/// assert_eq!(running.wait(), Ok(2));
/// ```
#[must_use = "dropping a running job cancels it; wait for it, or detach it"]
pub struct Running<T> {
    reader: Reader,
    value: Arc<Mutex<Option<T>>>,
    thread: Option<JoinHandle<()>>,
    is_detached: bool,
}

impl<T> Running<T> {
    /// Creates the handle of a job. Its main puts the result into `value`; `thread` is `None` if it
    /// could not start.
    pub(super) fn new(
        shared: Arc<Shared>,
        value: Arc<Mutex<Option<T>>>,
        thread: Option<JoinHandle<()>>,
    ) -> Self {
        Self { reader: Reader::new(shared), value, thread, is_detached: false }
    }

    /// Blocks this thread until the job has ended. Returns the value of its main, or the error that
    /// ended the job.
    pub fn wait(mut self) -> Result<T, JobError> {
        let outcome = self.reader.wait_for(|state| state.outcome.clone());
        self.result(outcome)
    }

    fn result(&mut self, outcome: Result<(), JobError>) -> Result<T, JobError> {
        if let Some(thread) = self.thread.take() {
            // The thread has ended the job as its last action, and returns nothing.
            let _ = thread.join();
        }
        outcome?;
        lock(&self.value).take().ok_or(JobError::ResultTaken)
    }

    /// Whether the job has ended.
    pub fn is_over(&self) -> bool {
        self.reader.shared.has_ended()
    }

    /// Returns a handle that cancels the job, for other threads and tasks.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(self.reader.shared.clone())
    }

    /// Returns the future events of the job, and those that are still unread.
    pub fn events(&self) -> Events {
        Events(Reader::new(self.reader.shared.clone()))
    }

    /// Lets the job continue, and drops its result.
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T, JobError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.reader.poll(cx, |state| state.outcome.clone()) {
            Poll::Ready(outcome) => Poll::Ready(self.result(outcome)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if !self.is_detached {
            self.reader.shared.cancel();
        }
    }
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

/// Cancels a running job.
///
/// ```
/// use gridspan::embed::Runner;
/// use gridspan::prelude::*;
///
/// let running = Runner::on_threads(1).start(Job::new("wait"), async |grid| {
///     Ok(grid.sleep(Duration::from_secs(3_600)).await?)
/// });
/// running.cancel_handle().cancel();
/// assert_eq!(running.wait(), Err(JobError::Cancelled));
/// ```
#[derive(Clone)]
pub struct CancelHandle(Arc<Shared>);

impl CancelHandle {
    /// Ends the job with [`JobError::Cancelled`], unless it has ended. Returns at once; the job
    /// ends when the handlers that run have returned.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelHandle")
    }
}

/// The events of a running job, up to its end. Each event is read once.
///
/// At most 1,024 events wait to be read. A further one replaces the oldest line of
/// [output](Event::Output) or, if there is none, the oldest event. As an iterator it blocks;
/// [`next_event`](Self::next_event) is for async code.
///
/// ```
/// use gridspan::embed::Runner;
/// use gridspan::prelude::*;
///
/// let running = Runner::on_threads(1).start(Job::new("nothing"), async |_grid| Ok(()));
/// // Ends with the job.
/// for event in running.events() {
///     println!("{event:?}");
/// }
/// assert_eq!(running.wait(), Ok(()));
/// ```
pub struct Events(Reader);

impl Events {
    /// Resolves to the next event, or to `None` once the job has ended.
    pub async fn next_event(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.0.poll(cx, State::next_event)).await
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.0.wait_for(State::next_event)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
