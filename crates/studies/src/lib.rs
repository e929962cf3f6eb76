//! What developers of Gridspan measure. Nothing here is part of what users build. Commands are
//! examples of this crate, `cargo run --release -p gridspan-studies --example NAME`.
//!
//! - [`broadcast`]: paper 2's experiment; examples `paper_experiment`, and `broadcast_sweep`, which
//!   compares broadcasts of the runtime with the best plan there is.
//! - [`charts`]: pictures of curves.
//! - [`graphs`]: object graphs; examples `cutter`, beside METIS and the optimum, and `leaders`.
//! - [`networks`]: networks whose hierarchy is known, for `cargo bench --bench topology`.
//! - [`stealing`]: paper 3's experiment, for `cargo bench --bench stealing`.
//! - Of the simulator: `campaign`, which runs jobs with faults, and `speed`.
//! - Of balancing: `grid_latency` (paper 1), `dynamite` (paper 4), `hydropad`, `pic_strategies`.
//! - Of tasks: `stealing` and `stealing_sweep`, `uts_sites`, `branch_and_bound`, `guests`, `hogs`,
//!   `long_stream`. Of broadcasts: `broadcast_load`.
//! - Of calls: `workflows`, `growth`, and `faults`, which runs groups of calls with faults.
//! - [`structure`]: code lines, calls in circles, fields and names, read from the source code;
//!   examples `structure`, and `call_paths`, which records what runs from a call to its handler.

pub mod broadcast;
pub mod charts;
pub mod graphs;
pub mod networks;
pub mod stealing;
pub mod structure;
