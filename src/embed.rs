//! Runs jobs inside another program: on a thread beside it, with a value as the result.
//!
//! [`Run`] states where a job runs, and [`start`](Run::start)s it. The [`Running`] job is a future,
//! so that a program on tokio or another executor awaits it without blocking. A plain thread can
//! [wait for it](Running::wait). Several jobs may run in one process at a time.
//!
//! ```
//! use gridspan::embed::Run;
//! use gridspan::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Square(u64);
//!
//! impl Actor for Square {
//!     type Index = Ix1;
//!     type Init = ();
//!     type Message = ();
//!
//!     fn create((): (), cx: &mut Context<Self>) -> Self { Square(cx.index().0 as u64) }
//!
//!     fn handle(&mut self, (): (), cx: &mut Context<Self>) {
//!         cx.contribute(Sum, self.0 * self.0, To::main());
//!     }
//! }
//!
//! let running = Run::on_threads(2).start(Job::new("squares").actor::<Square>(), async |grid| {
//!     let squares = grid.create::<Square>(Ix1::range(100), |_| ()).await?;
//!     squares.broadcast(());
//!     Ok(squares.reduction::<u64>(Sum).await?)
//! });
//! assert_eq!(running.wait(), Ok(328_350));
//! ```
//!
//! # End of a job
//!
//! - Its main returns: the result is the value, or its error.
//! - A panic in a handler or in main: [`JobError::Panicked`] or [`JobError::Failed`]. Only this job
//!   ends. The panic hook of the process prints the panic.
//! - [`Canceller::cancel`], or dropping the [`Running`] job: [`JobError::Cancelled`].
//! - The [time limit](Run::time_limit): [`JobError::TimeLimit`].
//!
//! A job ends between handlers, since a thread cannot be stopped from outside. While a handler does
//! not return, its thread and the job's memory remain, and the result is not available; all other
//! PEs have ended.
//!
//! # Effects on the process
//!
//! This module does not read the environment, install a signal handler, a panic hook or a `tracing`
//! subscriber, or print. Threads, sockets and memory of a job are free when its result is
//! available.

use gridspan_balance::BalanceReport;
use gridspan_runtime::driver::{Canceller as NodeCanceller, embedded};
use gridspan_runtime::{Grid, Job, JobError};
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::{GridSpec, LinkChange};
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

/// Largest number of events that wait to be read; the oldest are dropped.
const EVENTS_MAX: usize = 1024;

/// Where, and for how long, a job runs.
#[derive(Clone, Debug)]
#[must_use = "a job runs once it is started"]
pub struct Run {
    place: Place,
    seed: Option<u64>,
    time_limit: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Place {
    Threads(u32),
    Emulated(Box<GridSpec>),
    Simulated(Box<GridSpec>),
}

impl Run {
    /// Runs jobs on PEs that are threads of this process.
    pub fn on_threads(pes: u32) -> Self {
        Self::at(Place::Threads(pes))
    }

    /// Runs jobs on the nodes of a grid, all in this process, connected by QUIC on loopback. The
    /// links between sites are emulated.
    pub fn emulated(grid: GridSpec) -> Self {
        Self::at(Place::Emulated(Box::new(grid)))
    }

    /// Runs jobs in virtual time, on a simulated grid.
    pub fn simulated(grid: GridSpec) -> Self {
        Self::at(Place::Simulated(Box::new(grid)))
    }

    fn at(place: Place) -> Self {
        Self { place, seed: None, time_limit: None }
    }

    /// Sets the seed of all intended randomness, in place of the job's seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Ends the job with [`JobError::TimeLimit`] after this time, which is virtual in the
    /// simulator. By default there is no limit, or one day in virtual time.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Starts a job on a separate thread, with `main` as its main. It replaces the job's own main,
    /// if there is one.
    ///
    /// A job that cannot start, for example for lack of threads, ends with an error at once.
    pub fn start<T, F>(self, job: Job, main: F) -> Running<T>
    where
        T: Send + 'static,
        F: AsyncFnOnce(Grid) -> Result<T, JobError> + Send + 'static,
    {
        let shared = Arc::new(Shared::default());
        let value = Arc::new(Mutex::new(None));
        let job = {
            let value = value.clone();
            job.main(async move |grid: Grid| {
                let made = main(grid).await?;
                *lock(&value) = Some(made);
                Ok(())
            })
        };
        let job = reporting(job, &shared);
        let running = Running { shared: shared.clone(), value, is_detached: false };
        let name = job.name().to_owned();
        let spawned = thread::Builder::new().name(name).spawn({
            let shared = shared.clone();
            move || {
                let ran = catch_unwind(AssertUnwindSafe(|| self.carry_out(job, &shared)));
                shared.end(ran.unwrap_or_else(|_| {
                    let reason = "the thread of the job panicked; this is a bug in Gridspan";
                    Err(JobError::Failed(reason.to_owned()))
                }));
            }
        });
        if let Err(error) = spawned {
            let reason = format!("cannot start the thread of the job ({error})");
            shared.end(Err(JobError::Failed(reason)));
        }
        running
    }

    fn carry_out(self, job: Job, shared: &Arc<Shared>) -> Result<(), JobError> {
        let job = match self.seed {
            Some(seed) => job.seed(seed),
            None => job,
        };
        let begun = {
            let shared = shared.clone();
            move |node: NodeCanceller| shared.begin(&node)
        };
        match self.place {
            Place::Threads(pes) => embedded::run_with(limited(job, self.time_limit), pes, begun),
            Place::Emulated(grid) => {
                embedded::run_emulated_with(limited(job, self.time_limit), &grid, begun)
            }
            Place::Simulated(grid) => {
                let mut options = SimOptions::with_seed(self.seed.unwrap_or_default());
                options.time_limit = self.time_limit.unwrap_or(options.time_limit);
                let simulation = Simulation::new(job, *grid, options)
                    .map_err(|error| JobError::Failed(error.to_string()))?;
                let shared = shared.clone();
                simulation.cancelled_by(move || shared.is_cancelled()).run().outcome
            }
        }
    }
}

fn limited(job: Job, limit: Option<Duration>) -> Job {
    match limit {
        Some(limit) => job.time_limit(limit),
        None => job,
    }
}

/// Adds the job's events to those that can be read.
fn reporting(job: Job, shared: &Arc<Shared>) -> Job {
    let to = |shared: &Arc<Shared>| {
        let shared = Arc::downgrade(shared);
        move |event| {
            if let Some(shared) = shared.upgrade() {
                shared.report(event);
            }
        }
    };
    let (moved, warned, linked) = (to(shared), to(shared), to(shared));
    job.on_balance(move |report| moved(Event::Balanced(report.clone())))
        .on_warning(move |text| warned(Event::Warning(text.to_owned())))
        .on_links(move |_, changes| {
            if !changes.is_empty() {
                linked(Event::LinksChanged(changes.to_vec()));
            }
        })
}

/// An event of a running job.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A rebalance was judged; see [`Job::on_balance`](gridspan_runtime::Job::on_balance).
    Balanced(BalanceReport),
    /// The estimates of links have changed.
    LinksChanged(Vec<LinkChange>),
    /// The job does not proceed, with the reason.
    Warning(String),
}

/// A job that this program has started and that runs beside it; see the [module](self).
///
/// As a future it resolves to the result of the job, once. Dropping it cancels the job.
#[must_use = "dropping a running job cancels it; wait for it, or detach it"]
pub struct Running<T> {
    shared: Arc<Shared>,
    value: Arc<Mutex<Option<T>>>,
    is_detached: bool,
}

impl<T> Running<T> {
    /// Blocks this thread until the job has ended. Returns the value of its main, or the error that
    /// ended the job.
    pub fn wait(self) -> Result<T, JobError> {
        let mut state = lock(&self.shared.state);
        while state.outcome.is_none() {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let outcome = state.outcome.clone().unwrap_or(Ok(()));
        drop(state);
        self.result(outcome)
    }

    fn result(&self, outcome: Result<(), JobError>) -> Result<T, JobError> {
        outcome?;
        lock(&self.value)
            .take()
            .ok_or_else(|| JobError::Failed("the result of the job was taken before".to_owned()))
    }

    /// Whether the job has ended.
    pub fn is_over(&self) -> bool {
        lock(&self.shared.state).outcome.is_some()
    }

    /// Returns a handle that cancels the job, for other threads and tasks.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.shared.clone())
    }

    /// Returns the events of the job that have not been read yet, and those from now on.
    pub fn events(&self) -> Events {
        Events(self.shared.clone())
    }

    /// Lets the job run on without a reader of its result.
    pub fn detach(mut self) {
        self.is_detached = true;
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T, JobError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.shared.state);
        match state.outcome.clone() {
            Some(outcome) => {
                drop(state);
                Poll::Ready(self.result(outcome))
            }
            None => {
                state.is_watched_by(cx.waker());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if !self.is_detached {
            self.shared.cancel();
        }
    }
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}

/// Cancels a running job.
#[derive(Clone)]
pub struct Canceller(Arc<Shared>);

impl Canceller {
    /// Ends the job with [`JobError::Cancelled`], unless it has ended. Returns at once; the job
    /// ends when the running handlers have returned.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}

/// The events of a running job, up to its end. Each event is read once.
///
/// As an iterator it blocks; [`next_event`](Self::next_event) is for async code.
pub struct Events(Arc<Shared>);

impl Events {
    /// Resolves to the next event, or to `None` once the job has ended.
    pub async fn next_event(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| {
            let mut state = lock(&self.0.state);
            match (state.events.pop_front(), &state.outcome) {
                (Some(event), _) => Poll::Ready(Some(event)),
                (None, Some(_)) => Poll::Ready(None),
                (None, None) => {
                    state.is_watched_by(cx.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let mut state = lock(&self.0.state);
        loop {
            match (state.events.pop_front(), &state.outcome) {
                (Some(event), _) => return Some(event),
                (None, Some(_)) => return None,
                (None, None) => {}
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// State shared by the thread of a job and the tasks and threads that wait for it.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    is_cancelled: AtomicBool,
}

#[derive(Default)]
struct State {
    outcome: Option<Result<(), JobError>>,
    events: VecDeque<Event>,
    /// Tasks to wake at the next change.
    wakers: Vec<Waker>,
    /// Cancels the job, while it runs on threads.
    node: Option<NodeCanceller>,
}

impl State {
    fn is_watched_by(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }
}

impl Shared {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::SeqCst);
        let node = lock(&self.state).node.clone();
        if let Some(node) = node {
            node.cancel();
        }
    }

    /// Notes that the job runs on threads from now on.
    fn begin(&self, node: &NodeCanceller) {
        lock(&self.state).node = Some(node.clone());
        // The job may have been cancelled before it was on threads.
        if self.is_cancelled() {
            node.cancel();
        }
    }

    fn report(&self, event: Event) {
        self.change(|state| {
            if state.events.len() == EVENTS_MAX {
                state.events.pop_front();
            }
            state.events.push_back(event);
        });
    }

    fn end(&self, outcome: Result<(), JobError>) {
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
        wakers.into_iter().for_each(Waker::wake);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
