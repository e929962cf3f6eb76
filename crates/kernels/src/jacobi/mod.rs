//! Jacobi iteration on a grid in two or three dimensions.
//!
//! - [`problem`]: the equation, and the exact values after any number of steps
//! - [`subdomain`]: a part of the points with their ghosts, and the sweep over a region of them

pub mod problem;
pub mod subdomain;
#[cfg(test)]
mod tests;
