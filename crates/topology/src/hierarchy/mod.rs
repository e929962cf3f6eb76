//! The tree of groups of a grid: which nodes are close to each other, and how close.
//!
//! [`Hierarchy`] describes distances for balancing, broadcasting, stealing and reductions. Level 0
//! is the whole; every node is in exactly one group of each level; the groups of the last level are
//! the closest. A level is one scale of distance: the round trips of level `l` are those between
//! nodes that share a group of level `l` but none of the next.
//!
//! - `tree.rs`: the type and its queries; `group.rs`: groups and levels.
//! - `draft.rs` builds a tree from partitions and measurements; `given.rs` from a description.
//! - `distances.rs`: distances between pairs of clusters that a tree cannot represent.
//! - `edit.rs`: adds and removes nodes; `stored.rs`: reads a stored hierarchy that may be damaged;
//!   `show.rs`: writes one as text.

mod distances;
mod draft;
mod edit;
mod given;
mod group;
mod show;
mod stored;
mod tree;

pub use distances::Distances;
pub(crate) use draft::{Draft, Partition, Sample};
pub use group::{BandwidthRange, Group, Level, RttRange};
pub(crate) use show::show_rtt;
pub use stored::HierarchyError;
pub use tree::Hierarchy;

#[cfg(test)]
mod tests;
