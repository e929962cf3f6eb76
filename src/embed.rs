//! Runs jobs inside another program: on a thread beside it, with a value as the result.
//!
//! [`Runner`] says where a job runs, and [`start`](Runner::start)s it. The [`Running`] job is a
//! future: a program on tokio or another executor awaits it without blocking, and a plain thread
//! [waits](Running::wait) for it. Several jobs may run in one process at a time.
//!
//! ```
//! use gridspan::embed::Runner;
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
//! let running = Runner::on_threads(2).start(Job::new("squares").actor::<Square>(), async |grid| {
//!     let squares = grid.create::<Square>(Ix1::range(100), |_| ()).await?;
//!     squares.broadcast(());
//!     Ok(squares.reduction::<u64>(Sum).await?)
//! });
//! assert_eq!(running.wait(), Ok(328_350));
//! ```
//!
//! # Node processes
//!
//! [`Runner::on_processes`] starts a process for each node of a grid but the first, which is this
//! process. Main runs here, so that its value needs no encoding. The node program may be any
//! program that calls [`node`] first and describes the same job, including this program.
//!
//! ```standalone_crate
//! use gridspan::embed::{self, Runner};
//! use gridspan::prelude::*;
//! use gridspan::topology::GridSpec;
//! use std::collections::BTreeSet;
//! use std::process::{Command, ExitCode, id};
//!
//! # #[derive(Serialize, Deserialize)]
//! struct Process;
//!
//! impl Actor for Process {
//!     type Index = Ix1;
//!     type Init = ();
//!     type Message = ();
//!
//!     fn create((): (), _cx: &mut Context<Self>) -> Self { Process }
//!
//!     fn handle(&mut self, (): (), cx: &mut Context<Self>) {
//!         cx.contribute(Union, BTreeSet::from([id()]), To::main());
//!     }
//! }
//!
//! fn job() -> Job {
//!     Job::new("processes").actor::<Process>()
//! }
//!
//! fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
//!     if let Some(ended) = embed::node(job()) {
//!         return Ok(ended);
//!     }
//!     // Two sites with one node each; each node has two PEs.
//!     let grid = GridSpec::from_emulate("2x1x2")?;
//!     let this = std::env::current_exe()?;
//!     let runner = Runner::on_processes(grid, move |_| Command::new(&this));
//!     let running = runner.start(job(), async |grid| {
//!         let all = grid.create::<Process>(Ix1::range(8), |_| ()).await?;
//!         all.broadcast(());
//!         Ok(all.reduction::<BTreeSet<u32>>(Union).await?)
//!     });
//!     let processes = running.wait()?;
//!     assert!(processes.len() == 2 && processes.contains(&id()));
//!     Ok(ExitCode::SUCCESS)
//! }
//! ```
//!
//! # End of a job
//!
//! - Its main returns: the result is the value, or its error.
//! - A panic in a handler or in main: [`JobError::Panicked`] or [`JobError::MainPanicked`]. Only
//!   this job ends. The panic hook of the process prints the panic.
//! - [`CancelHandle::cancel`], or dropping the [`Running`] job: [`JobError::Cancelled`].
//! - The [time limit](Runner::time_limit): [`JobError::TimeLimit`].
//!
//! A job ends between handlers, since a thread cannot be stopped from outside. As long as a
//! handler, or a main that blocks, does not return, its thread and the job's memory remain, and
//! there is no result; all other PEs have ended. A node process that does not end within 5 s is
//! killed.
//!
//! # Main
//!
//! Main runs on its own thread, which polls it without the context of an executor: a future that
//! needs tokio, such as a timer or a socket, needs the handle of a runtime (`Handle::enter`). In
//! virtual time main may await only the grid.
//!
//! # Effects on the process
//!
//! Nothing here but [`node`] reads the environment, and nothing installs a signal handler, a panic
//! hook or a `tracing` subscriber, or prints. When the result is returned, the threads, sockets and
//! memory of the job are free, and its processes have ended.

#[cfg(feature = "net")]
use crate::processes::{OnPrinted, Printed, Processes};
use crate::settings::Settings;
#[cfg(feature = "net")]
use crate::variables::DRIVER;
use gridspan_balance::BalanceReport;
use gridspan_runtime::driver::{NodeHandle, embedded};
use gridspan_runtime::{CheckpointReport, Grid, Job, JobError, StartError};
#[cfg(feature = "sim")]
use gridspan_sim::{SimOptions, Simulation};
use gridspan_topology::LinkChange;
#[cfg(feature = "net")]
use gridspan_topology::{GridSpec, NodeId};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
#[cfg(feature = "net")]
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Largest number of events that wait to be read.
const EVENTS_MAX: usize = 1024;

/// Where, and for how long, a job runs.
///
/// ```
/// use gridspan::embed::Runner;
/// use gridspan::prelude::*;
///
/// let runner = Runner::on_threads(2).seed(7).time_limit(Duration::from_secs(60));
/// let job = Job::new("count").main(async |grid: Grid| {
///     println!("{} PEs", grid.layout().pe_count());
///     Ok(())
/// });
/// assert_eq!(runner.run(job), Ok(()));
/// ```
#[derive(Clone, Debug)]
#[must_use = "a job runs once it is started"]
pub struct Runner {
    place: Place,
    seed: Option<u64>,
    time_limit: Option<Duration>,
    reports_links: bool,
}

#[derive(Clone, Debug)]
enum Place {
    Threads(u32),
    #[cfg(feature = "net")]
    Emulated(Box<GridSpec>),
    #[cfg(feature = "net")]
    Processes(Processes),
    #[cfg(feature = "sim")]
    Simulated(Box<GridSpec>),
}

impl Runner {
    /// On PEs that are threads of this process.
    pub fn on_threads(pes: u32) -> Self {
        Self::at(Place::Threads(pes))
    }

    /// On the nodes of a grid, all in this process, connected by QUIC on loopback. The links
    /// between sites are emulated.
    #[cfg(feature = "net")]
    pub fn emulated(grid: GridSpec) -> Self {
        Self::at(Place::Emulated(Box::new(grid)))
    }

    /// On the nodes of a grid as processes of this machine. This process is the first node, and
    /// has main; `command` returns the command that starts the process of each other node. See
    /// [the module](self#node-processes).
    ///
    /// The program must call [`node`] with a job of the same actor types, which the start of the
    /// job checks. The runner sets the program's standard input and output, sets `GRIDSPAN_DRIVER`
    /// and `GRIDSPAN_REPORT`, and removes `GRIDSPAN_LAUNCHER`; the command may set the rest. Lines
    /// that the program prints are [events](Event::Output). Links are not emulated.
    ///
    /// The job fails before main starts if a process ends before it listens, or if not all
    /// processes listen within 30 s. If the thread of this job ends, the kernel kills the processes
    /// on Linux; elsewhere they notice the end of their input.
    #[cfg(feature = "net")]
    pub fn on_processes(
        grid: GridSpec,
        command: impl Fn(NodeId) -> Command + Send + Sync + 'static,
    ) -> Self {
        Self::at(Place::Processes(Processes::new(grid, command)))
    }

    /// In virtual time, on a simulated grid.
    #[cfg(feature = "sim")]
    pub fn simulated(grid: GridSpec) -> Self {
        Self::at(Place::Simulated(Box::new(grid)))
    }

    fn at(place: Place) -> Self {
        Self { place, seed: None, time_limit: None, reports_links: false }
    }

    /// Sets the seed of everything that is random by design, on all nodes. Default: the seed of the
    /// job.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Ends the job with [`JobError::TimeLimit`] after this time, which is virtual in the
    /// simulator. The start of node processes does not count. Default: none in real time, one day
    /// in virtual time.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Makes changes of links [events](Running::events). The job then sends packets to measure its
    /// links where it otherwise would not. Default: it does not.
    pub fn report_links(mut self) -> Self {
        self.reports_links = true;
        self
    }

    /// Starts a job, whose main is `main`, on a new thread. The main of the job itself, if it has
    /// one, is replaced.
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
        let job = reporting(job, &shared, self.reports_links);
        let spawned = thread::Builder::new().name("gridspan-main".to_owned()).spawn({
            let shared = shared.clone();
            move || {
                let ran = catch_unwind(AssertUnwindSafe(|| self.carry_out(job, &shared)));
                shared.end(ran.unwrap_or_else(|_| {
                    let (thread, end) = ("the job".to_owned(), "panicked".to_owned());
                    Err(JobError::ThreadLost { thread, end })
                }));
            }
        });
        let thread = match spawned {
            Ok(thread) => Some(thread),
            Err(error) => {
                let (thread, reason) = ("the job".to_owned(), error.to_string());
                shared.end(Err(StartError::Thread { thread, reason }.into()));
                None
            }
        };
        Running { reader: Reader::new(shared), value, thread, is_detached: false }
    }

    /// Runs a job with its own main, and returns its outcome. Blocks this thread. Events, such as
    /// lines that node processes print, are dropped.
    ///
    /// Fails with the error that ended the job, or that prevented its start.
    pub fn run(self, job: Job) -> Result<(), JobError> {
        self.carry_out(job, &Arc::default())
    }

    fn settings(&self) -> Settings {
        Settings { seed: self.seed, time_limit: self.time_limit, ..Settings::default() }
    }

    fn carry_out(self, job: Job, shared: &Arc<Shared>) -> Result<(), JobError> {
        let settings = self.settings();
        let begun = {
            let shared = shared.clone();
            move |node: NodeHandle| shared.begin(&node)
        };
        match self.place {
            Place::Threads(pes) => embedded::run_with(settings.apply(job), pes, begun),
            #[cfg(feature = "net")]
            Place::Emulated(grid) => embedded::run_emulated_with(settings.apply(job), &grid, begun),
            #[cfg(feature = "net")]
            Place::Processes(processes) => {
                let on_printed = reporting_printed(shared, self.reports_links);
                processes.run(job, &settings, &on_printed, || shared.is_cancelled(), begun)
            }
            #[cfg(feature = "sim")]
            Place::Simulated(grid) => {
                let job = settings.apply(job);
                let mut options = SimOptions::with_seed(job.configured_seed());
                options.time_limit = self.time_limit.unwrap_or(options.time_limit);
                let simulation = Simulation::new(job, *grid, options)?;
                let shared = shared.clone();
                simulation.cancelled_by(move || shared.is_cancelled()).run().outcome
            }
        }
    }
}

/// Makes what node processes print events of the job.
#[cfg(feature = "net")]
fn reporting_printed(shared: &Arc<Shared>, reports_links: bool) -> OnPrinted {
    let shared = Arc::downgrade(shared);
    Arc::new(move |node, printed| {
        let Some(shared) = shared.upgrade() else { return };
        shared.report(match printed {
            Printed::Line(line) => Event::Output { node, line },
            Printed::Warning(text) => Event::Warning(text),
            Printed::Balanced(report) => Event::Balanced(report),
            Printed::Checkpoint(report) => Event::Checkpoint(report),
            Printed::LinksChanged(changes) if reports_links && !changes.is_empty() => {
                Event::LinksChanged(changes)
            }
            Printed::LinksChanged(_) => return,
        });
    })
}

/// Adds the job's events to those that can be read.
fn reporting(job: Job, shared: &Arc<Shared>, reports_links: bool) -> Job {
    let to = |shared: &Arc<Shared>| {
        let shared = Arc::downgrade(shared);
        move |event| {
            if let Some(shared) = shared.upgrade() {
                shared.report(event);
            }
        }
    };
    let (moved, warned, linked) = (to(shared), to(shared), to(shared));
    let (kept, progressed) = (to(shared), to(shared));
    let job = job
        .on_balance(move |report| moved(Event::Balanced(report.clone())))
        .on_warning(move |text| warned(Event::Warning(text.to_owned())))
        .on_checkpoint(move |report| kept(Event::Checkpoint(report.clone())))
        .on_progress(move |done, total| progressed(Event::Progress { done, total }));
    match reports_links {
        false => job,
        true => job.on_links(move |_, changes| {
            if !changes.is_empty() {
                linked(Event::LinksChanged(changes.to_vec()));
            }
        }),
    }
}

/// An event in a running job.
///
/// ```
/// use gridspan::embed::Event;
///
/// fn line(event: &Event) -> String {
///     match event {
///         Event::Balanced(report) => format!("rebalanced: {report}"),
///         Event::LinksChanged(changes) => format!("{} links have changed", changes.len()),
///         Event::Warning(text) => format!("warning: {text}"),
///         _ => String::new(),
///     }
/// }
/// # assert_eq!(line(&Event::Warning("slow".to_owned())), "warning: slow");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A rebalance was judged; see [`Job::on_balance`](gridspan_runtime::Job::on_balance).
    Balanced(BalanceReport),
    /// Main has [reported](Grid::report_progress) that a part of its work is done.
    Progress {
        /// Work that is done, in units of the program's choice.
        done: u64,
        /// All work.
        total: u64,
    },
    /// A checkpoint is complete; see [`Job::on_checkpoint`](gridspan_runtime::Job::on_checkpoint).
    Checkpoint(CheckpointReport),
    /// The estimates of links have changed.
    LinksChanged(Vec<LinkChange>),
    /// A problem of the job, which continues. See
    /// [`Job::on_warning`](gridspan_runtime::Job::on_warning).
    Warning(String),
    /// A node process has printed a line on its standard output. Lines over 64 KiB are divided, and
    /// bytes that are not UTF-8 are replaced.
    #[cfg(feature = "net")]
    Output {
        /// The node.
        node: NodeId,
        /// The line, without its end.
        line: String,
    },
}

impl Event {
    fn is_output(&self) -> bool {
        #[cfg(feature = "net")]
        return matches!(self, Self::Output { .. });
        #[cfg(not(feature = "net"))]
        false
    }
}

/// If [`Runner::on_processes`] or `gridctl run` has started this process as a node, runs its part
/// of the job, and returns the exit code. Returns `None` otherwise.
///
/// Call it first in the program's `main`. The job needs no main.
#[cfg(feature = "net")]
pub fn node(job: Job) -> Option<ExitCode> {
    let is_node = std::env::var_os(DRIVER).is_some_and(|driver| driver == "node");
    is_node.then(|| crate::node::run(job))
}

/// A job that runs beside the program that has started it; see the [module](self).
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
        lock(&self.reader.shared.state).outcome.is_some()
    }

    /// Returns a handle that cancels the job, for other threads and tasks.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(self.reader.shared.clone())
    }

    /// Returns the events of the job from now on, and those that nothing has read before.
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
    fn next_event(&mut self) -> Option<Option<Event>> {
        match self.events.pop_front() {
            None if self.outcome.is_none() => None,
            event => Some(event),
        }
    }
}

/// Waits for changes of the state, on a thread or as a task.
struct Reader {
    shared: Arc<Shared>,
    number: u64,
}

impl Reader {
    fn new(shared: Arc<Shared>) -> Self {
        let number = {
            let mut state = lock(&shared.state);
            state.readers += 1;
            state.readers
        };
        Self { shared, number }
    }

    /// Blocks until `find` returns a value.
    fn wait_for<R>(&self, mut find: impl FnMut(&mut State) -> Option<R>) -> R {
        let mut state = lock(&self.shared.state);
        loop {
            if let Some(found) = find(&mut state) {
                return found;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Is ready once `find` returns a value; wakes the task at each change until then.
    fn poll<R>(&self, cx: &Context<'_>, mut find: impl FnMut(&mut State) -> Option<R>) -> Poll<R> {
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

    /// Records that the job runs on threads from now on.
    fn begin(&self, node: &NodeHandle) {
        lock(&self.state).node = Some(node.clone());
        // The job may have been cancelled while its threads were created.
        if self.is_cancelled() {
            node.cancel();
        }
    }

    fn report(&self, event: Event) {
        self.change(|state| {
            if state.events.len() == EVENTS_MAX {
                let oldest = state.events.iter().position(Event::is_output).unwrap_or(0);
                state.events.remove(oldest);
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
        wakers.into_values().for_each(Waker::wake);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
