//! Jacobi sweeps over a square whose solution is known after every single sweep.
//!
//! - [`block`]: a rectangle of the square with ghost edges, its sweep, and what it exchanges with
//!   its neighbours
//! - [`eigenmode`]: the start that each sweep only scales, the factor, and the error against it
//! - [`job`]: the actors and main

pub mod block;
pub mod eigenmode;
pub mod job;
