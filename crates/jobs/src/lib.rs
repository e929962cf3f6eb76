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
//! - [`ring`], [`drill`]: a token, and failures and migrations on request
//! - [`registry`]: all of them by name
//! - [`bands`], [`pace`]: what several of them need: axes cut into parts, and the times of steps
//! - [`random`]: the NAS random stream that starts several of them
//!
//! Every job verifies what it computed, and fails if it is wrong. Everything here computes: no
//! sockets, no clocks, no dice but seeded ones.

pub mod bands;
pub mod bcast;
pub mod drill;
mod entry;
pub mod fib;
pub mod hydropad;
pub mod knapsack;
pub mod leanmd;
pub mod mandelbrot;
mod nomads;
pub mod pace;
pub mod pic;
pub mod pingpong;
pub mod queens;
pub mod random;
pub mod registry;
pub mod ring;
pub mod stencil;
pub mod tsp;
pub mod uts;
mod waiting;

pub use entry::Entry;
pub use registry::{ENTRIES, find};
