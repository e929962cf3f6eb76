//! Studies by developers of Gridspan. Users do not build this crate. Its commands are examples,
//! `cargo run --release -p gridspan-studies --example NAME`.
//!
//! - [`broadcast`]: the experiment of Gupta and Vadhiyar (2006); examples `paper_experiment`, and
//!   `broadcast_sweep`, which compares broadcasts of the runtime with the best known plan.
//! - [`charts`]: charts of curves.
//! - [`figures`]: the records of benches, and the page of figures, which the example `figures`
//!   writes.
//! - [`graphs`]: object graphs; examples `cutter`, which compares the cutter with METIS and the
//!   optimum, and `leaders`.
//! - [`mpi`]: the implementations of MPI that studies compare with.
//! - [`networks`]: networks with a known hierarchy, for `cargo bench --bench topology`.
//! - [`stealing`]: the experiment of Zhang et al. (2007), for `cargo bench --bench stealing`.
//! - [`structure`]: code lines, circular calls, fields and names, read from the source code;
//!   examples `structure`, and `call_paths`, which records the functions that run from a call to
//!   its handler.
//!
//! The other examples, by subject:
//!
//! - Simulator: `speed`. Launcher: `start_costs`, compared with those of MPI and Slurm.
//!   Predictions: `plan_accuracy`, compared with measured times.
//! - Losses: `false_alarms`, which counts the nodes that are declared lost although they run.
//! - Observation of a job: `recording_cost`, the cost of recordings and counters. Lab:
//!   `lab_agreement`, which compares the lab with `gridctl run --emulate`.
//! - Checkpoints: `checkpoint_cost`; `recoveries`, which kills processes; `resizing`, in which
//!   nodes leave and join; and `lossy_days`, which compares the time that losses of nodes cost in
//!   virtual time with the model of Daly (2006).
//! - Balancing: `grid_latency` (Koenig and Kalé, 2007), `dynamite` (Iskra et al., 2000),
//!   `hydropad` (Brady et al., 2010), `pic_strategies`.
//! - Ranks: `jacobi_latency` (Koenig and Kalé, 2005); `mpi_messages`, compared with Open MPI and
//!   MPICH; `nas_ranks`, the efficiency of kernels on two PEs; `rank_collectives`, over four sites;
//!   `dynamite_ranks` (Iskra et al., 2000), programs that move away from the load of other
//!   programs; `many_ranks`, the memory of each rank.
//! - Tasks: `stealing` and `stealing_sweep`, `uts_sites`, `branch_and_bound`, `guests`, `hogs`,
//!   `long_stream`. Broadcasts: `broadcast_load`.
//! - Calls: `workflows`, `growth`, and `faults`, which runs groups of calls with faults.

#[cfg(doctest)]
mod book;
pub mod broadcast;
mod cargo;
pub mod charts;
pub mod figures;
pub mod graphs;
pub mod mpi;
pub mod networks;
mod processes;
pub mod stealing;
pub mod structure;

pub use cargo::{cargo, gridctl, reported_step};
pub use processes::{ProcessTimes, children, children_seconds, node_processes, process_seconds};
