//! Mappings of tasks to servers: the result of a heuristic, and the input of an execution.

use crate::graph::{TaskGraph, TaskSpec};
use crate::id::{ServerId, TaskId};
use crate::platform::Platform;
use thiserror::Error;

/// A server for each task, and the order in which servers and links prefer tasks.
///
/// ```
/// use gridspan_workflow::{Mapping, ServerId, TaskId};
///
/// // Three tasks on two servers; the last task goes first.
/// let servers = vec![ServerId(0), ServerId(1), ServerId(0)];
/// let order = [TaskId(2), TaskId(0), TaskId(1)];
/// let mapping = Mapping::in_order(servers, &order, true, 12.5);
/// assert_eq!(mapping.places, [1, 2, 0]);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Mapping {
    /// The server of each task.
    pub servers: Vec<ServerId>,
    /// The place of each task: of the tasks that could begin on a server, or whose data could be
    /// sent, the one with the lowest place goes first.
    pub places: Vec<u32>,
    /// Whether data crosses to another site once and is forwarded inside it. Otherwise the server
    /// that made the data sends it to each server that needs it.
    pub relays: bool,
    /// The makespan in seconds that the heuristic predicts.
    pub predicted_s: f64,
}

impl Mapping {
    /// Creates a mapping with the [server](Self::servers) and the [place](Self::places) of each
    /// task. Nothing is forwarded inside a site, and no makespan is predicted.
    pub fn new(servers: Vec<ServerId>, places: Vec<u32>) -> Self {
        Self { servers, places, relays: false, predicted_s: 0.0 }
    }

    /// Creates a mapping with the tasks in this order.
    ///
    /// # Panics
    ///
    /// If `order` has a task for which `servers` has no entry.
    pub fn in_order(
        servers: Vec<ServerId>,
        order: &[TaskId],
        relays: bool,
        predicted_s: f64,
    ) -> Self {
        let mut places = vec![0; servers.len()];
        for (place, task) in (0..).zip(order) {
            places[task.index()] = place;
        }
        Self { servers, places, relays, predicted_s }
    }
}

/// The reason that a group cannot be mapped. Nothing was mapped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// There is no server.
    #[error("there are no servers to map to; start some")]
    NoServers,
    /// No server can execute a task.
    #[error("no server can execute `{task}`; register its function on one")]
    NoServer {
        /// The task.
        task: String,
    },
    /// The heuristic tries all mappings, and there are too many.
    #[error("`exhaustive` tries up to {limit} mappings, and this group has more; use `heft-c`")]
    TooMany {
        /// The maximum number of mappings.
        limit: usize,
    },
    /// The mapping of a heuristic does not fit the tasks and servers.
    #[error(
        "the mapping of `{heuristic}` does not fit the tasks and their servers; correct the heuristic"
    )]
    Invalid {
        /// The name of the heuristic.
        heuristic: &'static str,
    },
}

/// Checks that every task has a server that can execute it.
///
/// # Errors
///
/// [`MapError::NoServers`] if the platform has no server; [`MapError::NoServer`] if none can
/// execute a task.
pub fn check(graph: &TaskGraph, platform: &Platform) -> Result<(), MapError> {
    if platform.servers().is_empty() {
        return Err(MapError::NoServers);
    }
    let lacks_server = |task: &&TaskSpec| !platform.server_ids().any(|id| task.can_run_on(id));
    match graph.tasks().iter().find(lacks_server) {
        Some(task) => Err(MapError::NoServer { task: task.name.clone() }),
        None => Ok(()),
    }
}
