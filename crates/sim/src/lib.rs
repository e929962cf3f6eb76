//! The virtual-time driver: a whole grid of PEs on one thread.
//!
//! It runs the same machines as the embedded and the cluster drivers, over modelled links and in
//! virtual time. So the same job, grid and options, with their seed, give the same run, event by
//! event.
//!
//! - [`Simulation`] runs a [`Job`](gridspan_runtime::Job) on a
//!   [`GridSpec`](gridspan_topology::GridSpec); [`SimOptions`] sets the costs of operations, and
//!   [`SimReport`] gives the results.
//! - [`FaultPlan`]: delays, reordering, lost connections and paused nodes. With [`QuicFaults`],
//!   nodes communicate over QUIC through the production transport, also in virtual time.
//! - [`GuestPlan`]: nodes that join while the job runs, leave, die, or are declared lost.
//!   [`LostNode`]: other nodes that are lost.
//! - [`campaign`]: random jobs under random faults, against a reference model.

pub mod campaign;
mod connection;
mod faults;
mod former_run;
mod guests;
mod idleness;
mod log;
mod main_task;
mod node;
mod options;
mod probing;
mod processors;
mod queue;
mod quic;
mod report;
mod simulation;
mod station;

pub use faults::{
    FaultCounts, FaultPlan, LostNode, PauseFaults, QuicCounts, QuicFaults, SessionFaults,
};
pub use guests::{Departure, GuestPlan};
pub use log::LogEntry;
pub use options::SimOptions;
pub use report::{Ending, SimError, SimReport};
pub use simulation::{Halted, Simulation};
