//! Who sends to whom: trees over nodes, and those that follow from the places of nodes alone.

mod mode;
mod shapes;
mod tree;

pub use mode::{MODES, Mode, UnknownMode};
pub use shapes::{binomial, binomial_over, hierarchical, hierarchical_over, star, star_over};
pub use tree::{Tree, TreeError};
