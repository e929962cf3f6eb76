//! What cutting and balancing are judged with: object graphs of known kinds, with fixed seeds.
//!
//! - `graphs.rs`: molecular dynamics as in paper 1, grids, triangulations, geometric and skewed
//!   graphs.
//! - `random_graphs.rs`: random, power-law and planted graphs, trees, circuits, weights.
//! - `snapshots.rs`: such a graph as the snapshot of a job that runs somewhere.
//! - [`stealing`]: paper 3's experiment.
//!
//! The constants of the methods were chosen on seeds from 1000; benches and tests use others.

mod graphs;
mod random_graphs;
mod snapshots;
pub mod stealing;

pub use graphs::{
    ObjectGraph, drifted_leanmd, geometric, grid_2d, grid_3d, leanmd, skewed, triangulation,
};
pub use random_graphs::{circuit, path, planted, power_law, random, tree, weighted};
pub use snapshots::{MESSAGE_BYTES, by_block, by_hash, snapshot_of, with_wide_area};
