//! Where a job runs, and its start.

use super::event::Event;
use super::running::Running;
use super::shared::{Shared, lock};
#[cfg(feature = "net")]
use crate::processes::{OnPrinted, Printed, Processes};
use crate::settings::Settings;
use gridspan_runtime::driver::{NodeHandle, embedded};
use gridspan_runtime::{Grid, Job, JobError, StartError};
#[cfg(feature = "sim")]
use gridspan_sim::{SimOptions, Simulation};
#[cfg(feature = "net")]
use gridspan_topology::{GridSpec, NodeId};
use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(feature = "net")]
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The place where a job runs, with its seed and time limit.
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
    /// Runs a job on PEs that are threads of this process.
    pub fn on_threads(pes: u32) -> Self {
        Self::at(Place::Threads(pes))
    }

    /// Runs a job on the nodes of a grid, all in this process, connected by QUIC on loopback. The
    /// links between sites are emulated.
    #[cfg(feature = "net")]
    pub fn emulated(grid: GridSpec) -> Self {
        Self::at(Place::Emulated(Box::new(grid)))
    }

    /// Runs a job on the nodes of a grid, which are processes of this machine. This process is the
    /// first node, and runs main; `command` returns the command that starts the process of each
    /// other node. See [the module](super#node-processes).
    ///
    /// The program must call [`node`](super::node) with a job of the same actor types, which the
    /// start of the job checks. The runner sets the program's standard input and output, sets
    /// `GRIDSPAN_DRIVER` and `GRIDSPAN_REPORT`, and removes `GRIDSPAN_LAUNCHER` and
    /// `GRIDSPAN_DETACHED`; `command` may set all else. Lines that the program prints are
    /// [events](Event::Output). Links are not emulated.
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

    /// Runs a job in virtual time, on a simulated grid.
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

    /// Reports changes of links as [events](Running::events). The job then sends packets to measure
    /// links that it would not measure otherwise. Default: changes are not reported.
    pub fn report_links(mut self) -> Self {
        self.reports_links = true;
        self
    }

    /// Starts a job on a new thread. `main` replaces the main of the job, if it has one.
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
        Running::new(shared, value, thread)
    }

    /// Runs a job with its own main, and returns its outcome. Blocks this thread, and drops events,
    /// such as lines that node processes print.
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

/// Returns the function that reports what node processes print as events of the job.
#[cfg(feature = "net")]
fn reporting_printed(shared: &Arc<Shared>, reports_links: bool) -> OnPrinted {
    let shared = Arc::downgrade(shared);
    Arc::new(move |node, printed| {
        let Some(shared) = shared.upgrade() else { return };
        shared.report(match printed {
            Printed::Line(line) => Event::Output { node, line },
            Printed::Warning(warning) => Event::Warning(warning),
            Printed::Balanced(report) => Event::Balanced(report),
            Printed::Checkpoint(report) => Event::Checkpoint(report),
            Printed::LinksChanged(changes) if reports_links && !changes.is_empty() => {
                Event::LinksChanged(changes)
            }
            Printed::LinksChanged(_) => return,
        });
    })
}

/// Makes the job report its events to `shared`.
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
        .on_warning(move |warning| warned(Event::Warning(warning.clone())))
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
