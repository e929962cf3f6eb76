//! Heuristics that map a group of tasks to servers.
//!
//! | name | mapping | models shared links |
//! | --- | --- | --- |
//! | `greedy` | in the order of the calls, each to the server on which it ends first | no |
//! | `min-min`, `max-min`, `sufferage` | by a [`Rule`] that selects one of the ready tasks | no |
//! | `heft` | by upward rank, into gaps (Topcuoglu, Hariri and Wu 2002) | no |
//! | `heft-c` | HEFT with reserved links, and one copy to each site | yes |
//! | `portfolio` | the best of several mappings in a simulated execution | yes |
//! | `exhaustive` | the best of all mappings of a small group in a simulated execution | yes |
//! | `random` | random servers | no |
//!
//! All are pure functions of the graph, the platform and, if they are random, a seed.

mod arrivals;
mod checked;
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

pub use checked::map;
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
///
/// ```
/// # use gridspan_topology::Link;
/// # use gridspan_workflow::{ClientSpec, GraphBuilder, Platform, ServerId, ServerSpec, Site};
/// # let site = Site::new("delft", Link::lan(), Link::wan());
/// # let servers = [("fast", 2.0), ("slow", 1.0)].map(|(name, speed)| {
/// #     ServerSpec::new(name, 0, speed)
/// # });
/// # let client = ClientSpec::at_site(0, Link::lan());
/// # let platform = Platform::new(servers.to_vec(), vec![site], client);
/// # let mut calls = GraphBuilder::default();
/// # let (make, take) = (calls.task("make", 1.0), calls.task("take", 2.0));
/// # let part = calls.write(make, "part", 8_000_000);
/// # calls.read(take, part);
/// # let graph = calls.build().unwrap();
/// use gridspan_workflow::heuristics::Heuristic;
/// use gridspan_workflow::{MapError, Mapping, TaskGraph, check};
///
/// /// Executes everything on the first server.
/// struct FirstServer;
///
/// impl Heuristic for FirstServer {
///     fn name(&self) -> &'static str { "first-server" }
///
///     fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
///         check(graph, platform)?;
///         let servers = vec![ServerId(0); graph.tasks().len()];
///         Ok(Mapping::in_order(servers, graph.order(), false, graph.work_s()))
///     }
/// }
/// assert_eq!(FirstServer.map(&graph, &platform)?.servers, [ServerId(0); 2]);
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a heuristic",
    label = "a heuristic is a value, not a name",
    note = "write a reference to one, such as `&HeftC::default()`; `heuristics::by_name` creates one from a name that a user gives"
)]
pub trait Heuristic: Send + Sync {
    /// The name by which users select it.
    fn name(&self) -> &'static str;

    /// Returns a server for each task, and the order of the tasks.
    ///
    /// # Errors
    ///
    /// [`MapError::NoServers`] and [`MapError::NoServer`] as from [`check`](crate::check);
    /// [`MapError::TooMany`] from [`Exhaustive`] for a group with more than 100 000 mappings.
    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError>;
}

#[cfg(test)]
mod tests;
