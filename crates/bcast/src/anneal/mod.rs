//! Our search for a tree that is sent whole, by the cost model: a start tree in no time, then
//! annealing in which a move costs two paths to the root instead of the whole tree.
//!
//! - `start.rs`: the earliest completing edges, between clusters and then inside.
//! - `state.rs`: a tree that knows what is below each node and changes by moves.
//! - `search.rs`: which moves, and which to keep.

mod search;
mod start;
mod state;

pub use search::{Annealed, anneal};
pub use start::start_tree;
