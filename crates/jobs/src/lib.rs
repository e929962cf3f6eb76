//! The reference workloads: programs with known results, run by tests, benches, the simulator and
//! `gridctl`.
//!
//! - [`leanmd`]: molecular dynamics, the application of Koenig and Kalé (2007), section 4.2
//! - [`pic`]: particles moving through a grid of charges, an exact and moving load imbalance
//! - [`stencil`]: Jacobi sweeps over a square with an analytic solution
//! - [`hydropad`]: dark matter and gas by remote calls, the application of Brady et al. (2010),
//!   section 5
//! - [`pingpong`]: the Java Grande ladder of message sizes
//! - [`uts`], [`queens`], [`mandelbrot`], [`fib`]: tasks that idle PEs steal
//! - [`knapsack`], [`tsp`]: branch and bound by tasks that share a bound
//! - [`jacobi`]: Jacobi iteration in two or three dimensions, as ranks of a Cartesian grid
//! - [`fem`]: finite elements on an unstructured mesh, as ranks of a graph
//! - [`nas`]: kernels of the NAS Parallel Benchmarks, as ranks that exchange messages
//! - [`bcast`]: broadcasts by the runtime and by a tree of messages between actors
//! - [`ring`]: a token that runs around a ring of actors
//! - [`fault_drill`]: failures and migrations on request
//! - [`registry`]: all jobs by name
//! - [`step_timer`]: times of steps
//! - [`paired`]: ratios of two programs that are measured in turns, with a bootstrap interval
//!
//! The computation itself is in the crate [`gridspan_kernels`]; here are the actors, ranks, tasks
//! and remote calls that divide it.
//!
//! Every job verifies its result, and fails if it is wrong. The jobs open no sockets, and seed all
//! their random numbers. They take the time from the runtime; only emulated work reads a clock.

pub mod bcast;
mod emulated_work;
mod entry;
pub mod fault_drill;
pub mod fem;
pub mod fib;
pub mod hydropad;
pub mod jacobi;
pub mod knapsack;
pub mod leanmd;
pub mod mandelbrot;
mod migration_stress;
pub mod nas;
pub mod paired;
pub mod pic;
pub mod pingpong;
pub mod queens;
mod rank_bench;
mod rank_clock;
mod rank_limits;
pub mod registry;
pub mod ring;
pub mod stencil;
pub mod step_timer;
pub mod tsp;
pub mod uts;

pub use entry::Entry;
pub use registry::{ENTRIES, find};
