//! Trees over nodes, and those that follow from the places of nodes alone.

mod mode;
mod shapes;
mod tree;

pub use mode::{MODES, Mode, UnknownMode};
pub use tree::{Tree, TreeError};

pub(crate) use mode::hierarchical_over;
pub(crate) use shapes::{binomial, hierarchical, star};
