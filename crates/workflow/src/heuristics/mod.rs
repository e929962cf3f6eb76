//! Heuristics that map a group of tasks to servers.
//!
//! | name | what it does | sees links shared |
//! | --- | --- | --- |
//! | `greedy` | in the order of the calls, each to the server that ends it first (minimum completion time) | no |
//! | `min-min`, `max-min`, `sufferage` | of the tasks that could go next, the one that ends first, last, or would suffer most elsewhere | no |
//! | `heft` | by upward rank, into gaps (Topcuoglu, Hariri and Wu 2002) | no |
//! | `heft-c` | the same, with links reserved, and one copy to each site | yes |
//! | `portfolio` | several, and the best of them in a simulated execution | yes |
//! | `exhaustive` | all mappings of a small group, in a simulated execution | yes |
//! | `random` | dice | no |
//!
//! All are pure functions of graph and platform, and of a seed where they throw dice.

mod arrivals;
mod contention;
mod cores;
mod exhaustive;
mod greedy;
mod heft;
mod portfolio;
mod random;
mod rank;
mod reader_affinity;
mod ready;
mod registry;
mod reservations;

pub use contention::HeftC;
pub use exhaustive::Exhaustive;
pub use greedy::MinCompletionTime;
pub use heft::Heft;
pub use portfolio::Portfolio;
pub use random::RandomMapping;
pub use ready::{ReadyList, Rule};
pub use registry::{NAMES, UnknownHeuristic, by_name};

use crate::graph::TaskGraph;
use crate::mapping::{MapError, Mapping};
use crate::platform::Platform;

/// Maps a group of tasks as a whole.
///
/// The same graph, platform and seed give the same mapping.
pub trait Heuristic: Send + Sync {
    /// The name by which users ask for it.
    fn name(&self) -> &'static str;

    /// A server for each task, and their order.
    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError>;
}

#[cfg(test)]
mod tests;
