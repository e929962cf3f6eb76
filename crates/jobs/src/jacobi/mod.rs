//! Jacobi iteration on a grid in two or three dimensions, as ranks that exchange the faces of their
//! subdomains.
//!
//! - `problem`: the equation, and the exact values after any number of steps
//! - `subdomain`: the points of a rank with their ghosts, and the sweep over a region of them
//! - `tiles`: which rank has which subdomain, so that a PE has a tile of the grid
//! - `solver`: the steps of a rank, with both ways to exchange faces
//! - `rank`: a rank, which may move between steps
//! - [`job`]: options and main

pub mod job;
mod problem;
mod rank;
mod solver;
mod subdomain;
#[cfg(test)]
mod tests;
mod tiles;
