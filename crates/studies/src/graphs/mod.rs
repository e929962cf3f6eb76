//! Object graphs to cut and balance, with fixed seeds. The constants of the partitioners and
//! strategies were chosen on graphs with seeds of 1000 and more; benches, studies and tests use
//! other seeds.
//!
//! - `object_graphs.rs`, `snapshots.rs`: graphs that the unit tests of `gridspan-balance` also use,
//!   and a graph as the snapshot of a running job.
//! - `random_graphs.rs`: random, power-law and planted graphs, trees, circuits, weights.

#[path = "../../../balance/src/fixtures/object_graphs.rs"]
mod object_graphs;
mod random_graphs;
#[path = "../../../balance/src/fixtures/snapshots.rs"]
mod snapshots;

pub use object_graphs::{
    ObjectGraph, drifted_leanmd, geometric, grid_2d, grid_3d, leanmd, triangulation,
};
pub use random_graphs::{circuit, path, planted, power_law, random, skewed, tree, weighted};
pub use snapshots::{MESSAGE_BYTES, by_block, by_hash, snapshot_of, with_wide_area};
