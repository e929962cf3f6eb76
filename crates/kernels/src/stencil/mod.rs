//! Jacobi sweeps over a square whose solution is known after every single sweep.
//!
//! - [`block`]: a rectangle of the square with ghost edges, and its sweep
//! - [`eigenmode`]: the initial state that each sweep only scales, the factor, and the error

pub mod block;
pub mod eigenmode;
