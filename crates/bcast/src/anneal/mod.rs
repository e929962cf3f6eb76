//! Searches, by the cost model, for a tree over which data is sent whole: builds a start tree at
//! once, then anneals with moves that update two paths to the root instead of the whole tree.
//!
//! - `start.rs`: the start tree, by earliest completing edges between clusters, then inside them.
//! - `state.rs`: a tree that is changed by moves and keeps the cost below each node.
//! - `search.rs`: the choice of moves, and which of them are kept.

mod search;
mod start;
mod state;

pub use search::{Annealed, anneal};
pub use start::start_tree;
