//! Where each task runs and what goes first: what a heuristic gives, and what is executed.

use crate::graph::TaskGraph;
use crate::id::{ServerId, TaskId};
use crate::platform::Platform;
use thiserror::Error;

/// A server for each task, and the order in which servers and links prefer them.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// The server of each task.
    pub servers: Vec<ServerId>,
    /// The place of each task: of those that could begin on a server, or whose data could be sent,
    /// that with the lowest goes first.
    pub places: Vec<u32>,
    /// Whether data crosses to another site once and is passed on inside it, rather than sent by
    /// whoever made it to each server that needs it.
    pub relays: bool,
    /// When the last task ends, as the heuristic believes, in seconds.
    pub predicted_s: f64,
}

impl Mapping {
    /// A mapping whose tasks go in this order.
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

/// Why a group cannot be mapped. Nothing was mapped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// There is no server at all.
    #[error("there are no servers to map to; start some")]
    NoServers,
    /// No server can execute a task.
    #[error("no server can execute `{task}`; register its function on one")]
    NoServer {
        /// The task.
        task: String,
    },
    /// The heuristic tries all mappings, and there are too many.
    #[error("`exhaustive` tries up to {limit} mappings, and this group has more; take `heft-c`")]
    TooMany {
        /// The most it tries.
        limit: usize,
    },
}

/// Whether every task has a server that can execute it.
pub fn check(graph: &TaskGraph, platform: &Platform) -> Result<(), MapError> {
    if platform.servers().is_empty() {
        return Err(MapError::NoServers);
    }
    let runs =
        |task: &&crate::graph::TaskSpec| !platform.server_ids().any(|id| task.can_run_on(id));
    match graph.tasks().iter().find(runs) {
        Some(task) => Err(MapError::NoServer { task: task.name.clone() }),
        None => Ok(()),
    }
}
