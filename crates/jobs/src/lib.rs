//! The reference workloads: programs with known answers that tests, benches, the simulator and
//! `gridctl` all run.
//!
//! - [`leanmd`]: molecular dynamics, the application of the paper on topology-aware load balancing
//!   (section 4.2)
//! - [`pic`]: particles moving through a grid of charges, an exact and moving load imbalance
//! - [`stencil`]: Jacobi sweeps over a square with an analytic solution
//! - [`hydropad`]: dark matter and gas by remote calls, the application of the paper on collective
//!   mapping
//! - [`pingpong`]: the Java Grande ladder of message sizes
//! - [`uts`], [`queens`], [`mandelbrot`], [`fib`]: tasks that idle PEs steal
//! - [`knapsack`], [`tsp`]: branch and bound by tasks that share a bound
//! - [`bcast`]: broadcasts by the runtime and by a tree that actors build of messages
//! - [`ring`], [`fault_drill`]: a token, and failures and migrations on request
//! - [`registry`]: all of them by name
//! - [`block_partition`], [`step_timer`]: what several of them need: axes cut into parts, and the times of steps
//! - [`random`]: the NAS random stream that starts several of them
//!
//! Every job verifies what it computed, and fails if it is wrong. Everything here computes: no
//! sockets, no clocks, no dice but seeded ones.

pub mod bcast;
pub mod block_partition;
mod emulated_work;
mod entry;
pub mod fault_drill;
pub mod fib;
pub mod hydropad;
pub mod knapsack;
pub mod leanmd;
pub mod mandelbrot;
mod migration_stress;
pub mod pic;
pub mod pingpong;
pub mod queens;
pub mod random;
pub mod registry;
pub mod ring;
pub mod stencil;
pub mod step_timer;
pub mod tsp;
pub mod uts;

pub use entry::Entry;
pub use registry::{ENTRIES, find};
