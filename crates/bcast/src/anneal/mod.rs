//! Simulated annealing, by the cost model, for a tree over which data is sent whole, not in
//! segments. It begins with a tree that is built without a search. Each move updates two paths to
//! the root instead of the whole tree.
//!
//! - `start.rs`: the start tree. It always adds the edge that completes first, between clusters and
//!   then inside them.
//! - `state.rs`: a tree that is changed by moves and keeps the cost below each node.
//! - `search.rs`: the choice of moves, and which of them are kept.

mod search;
mod start;
mod state;

pub use search::{Annealed, anneal};
pub use start::start_tree;
