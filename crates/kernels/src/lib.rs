//! The computations of the reference jobs, without their communication.
//!
//! - [`leanmd`]: molecular dynamics
//! - [`pic`]: particles moving through a grid of charges
//! - [`stencil`], [`jacobi`]: Jacobi sweeps
//! - [`hydropad`]: dark matter and gas
//! - [`fem`]: finite elements
//! - [`nas`]: the NAS Parallel Benchmarks
//! - [`uts`], [`queens`], [`mandelbrot`]: unbalanced trees, the n-queens puzzle, the Mandelbrot set
//! - [`knapsack`], [`tsp`]: branch and bound
//! - [`payload`]: payloads of broadcasts, and their digests
//! - [`linear`]: operations on vectors
//! - [`block_partition`]: an axis cut into blocks
//! - [`random`]: the NAS random stream, from which several jobs draw their input
//!
//! The crate `gridspan-jobs` divides this work among actors, ranks, tasks and remote calls. All
//! code that needs optimisation is here, so that builds for tests optimise this crate and no other
//! code of the jobs. A generic function would be compiled in the crate that calls it. Therefore
//! functions that loop over many elements are not generic over types of the caller, and take a
//! whole block, row or list of elements.
//!
//! Functions are pure: they depend only on their arguments, and give the same bits everywhere.

pub mod block_partition;
pub mod fem;
pub mod hydropad;
pub mod jacobi;
pub mod knapsack;
pub mod leanmd;
pub mod linear;
pub mod mandelbrot;
pub mod nas;
pub mod payload;
pub mod pic;
pub mod queens;
pub mod random;
pub mod stencil;
pub mod tsp;
pub mod uts;
