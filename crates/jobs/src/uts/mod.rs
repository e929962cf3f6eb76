//! Unbalanced Tree Search: trees whose shape only their generator knows.
//!
//! Source: Olivier and others, "UTS: An Unbalanced Tree Search Benchmark", LCPC 2006. The trees are
//! those of the published samples, by SHA-1.
//!
//! - [`tree`]: the generator and the sample trees. `job`: the search.

pub mod job;
pub mod tree;

pub use job::Visit;
pub use tree::{Node, SAMPLES, Sample, TreeCounts, UtsTree};
