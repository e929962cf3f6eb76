//! Jacobi sweeps over a square whose solution is known after every single sweep.
//!
//! - [`block`]: a rectangle of the square with ghost edges, its sweep, and the exchange with its
//!   neighbours
//! - [`eigenmode`]: the initial state that each sweep only scales, the factor, and the error
//! - [`job`]: the actors and main

pub mod block;
pub mod eigenmode;
pub mod job;
