//! The Mandelbrot set by tasks: rows whose work differs by a factor of a thousand.
//!
//! - `rows`: the tasks. `picture`: writes what they found. `job`: the job by name.

pub mod job;
mod picture;
mod rows;

pub use rows::Rows;
