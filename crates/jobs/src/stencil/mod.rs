//! Jacobi sweeps over a square whose solution is known after every single sweep.
//!
//! The sweep of a block and the solution are in [`gridspan_kernels::stencil`]; [`job`] has the
//! actors and main.

pub mod job;
