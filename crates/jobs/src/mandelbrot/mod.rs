//! The Mandelbrot set by tasks: rows whose work differs by a factor of a thousand.
//!
//! - `rows`: the tasks
//! - `picture`: writes the picture
//! - `job`: the job

pub mod job;
mod picture;
mod rows;

pub use rows::Rows;
