//! Jacobi iteration on a grid in two or three dimensions, as ranks that exchange the faces of their
//! subdomains.
//!
//! - `tiles`: which rank has which subdomain, so that a PE has a tile of the grid
//! - `solver`: the steps of a rank, with both ways to exchange faces
//! - `rank`: a rank, which may move between steps
//! - [`job`]: options and main
//!
//! The equation, and the sweep over the points of a rank, are in [`gridspan_kernels::jacobi`].

pub mod job;
mod rank;
mod solver;
#[cfg(test)]
mod tests;
mod tiles;
