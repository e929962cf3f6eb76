//! What cutting and balancing are judged with: object graphs of known kinds, with fixed seeds.
//!
//! - `graphs.rs`: molecular dynamics as in paper 1, grids, triangulations, geometric and skewed graphs.
//!
//! The constants of the methods were chosen on seeds from 1000; benches and tests use others.

mod graphs;

pub use graphs::{ObjectGraph, geometric, grid_2d, grid_3d, leanmd, skewed, triangulation};
