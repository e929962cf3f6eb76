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
//! Only [`node`] reads the environment. This module installs no signal handler, panic hook or
//! `tracing` subscriber, and prints nothing. When the result is returned, the threads, sockets and
//! memory of the job are free, and its processes have ended.
//!
//! [`JobError::Panicked`]: crate::JobError::Panicked
//! [`JobError::MainPanicked`]: crate::JobError::MainPanicked
//! [`JobError::Cancelled`]: crate::JobError::Cancelled
//! [`JobError::TimeLimit`]: crate::JobError::TimeLimit

mod event;
mod runner;
mod running;
mod shared;

pub use event::Event;
pub use runner::Runner;
pub use running::{CancelHandle, Events, Running};

#[cfg(feature = "net")]
use crate::variables::DRIVER;
#[cfg(feature = "net")]
use gridspan_runtime::Job;
#[cfg(feature = "net")]
use std::process::ExitCode;

/// If [`Runner::on_processes`] or `gridctl run` has started this process as a node, runs its part
/// of the job, and returns the exit code. Returns `None` otherwise.
///
/// Call it first in the program's `main`. The job needs no main.
#[cfg(feature = "net")]
pub fn node(job: Job) -> Option<ExitCode> {
    let is_node = std::env::var_os(DRIVER).is_some_and(|driver| driver == "node");
    is_node.then(|| crate::node::run(job))
}
