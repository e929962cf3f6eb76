//! The record of an execution, simulated or real: the runs of tasks and the transfers of data.

use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::platform::Platform;

/// A run of a task on a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskRun {
    /// The task.
    pub task: TaskId,
    /// The server.
    pub server: ServerId,
    /// Start in seconds.
    pub start_s: f64,
    /// End in seconds.
    pub end_s: f64,
}

/// A transfer of data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// The data.
    pub data: DataId,
    /// The sender.
    pub from: Endpoint,
    /// The receiver.
    pub to: Endpoint,
    /// Time at which it was requested, in seconds.
    pub start_s: f64,
    /// Time at which it was complete, in seconds.
    pub end_s: f64,
}

/// The record of the execution of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// Time at which all tasks had ended and the client had all wanted data, in seconds.
    pub makespan_s: f64,
    /// One run for each task, in the order in which they ended.
    pub runs: Vec<TaskRun>,
    /// Redundant attempts, until they were withdrawn.
    pub wasted: Vec<TaskRun>,
    /// All transfers, in the order in which they ended.
    pub transfers: Vec<Transfer>,
    /// Number of refused orders, lost servers, and tasks that were moved from slow servers.
    pub moved: usize,
}

impl Execution {
    /// Returns the bytes transferred between sites, or between a site and a client outside all
    /// sites.
    pub fn bytes_between_sites(&self, graph: &TaskGraph, platform: &Platform) -> u64 {
        self.bytes(graph, |transfer| !platform.is_near(transfer.from, transfer.to))
    }

    /// Returns the bytes that the client sent or received.
    pub fn bytes_of_client(&self, graph: &TaskGraph) -> u64 {
        self.bytes(graph, |transfer| [transfer.from, transfer.to].contains(&Endpoint::Client))
    }

    fn bytes(&self, graph: &TaskGraph, counts: impl Fn(&Transfer) -> bool) -> u64 {
        let counted = self.transfers.iter().filter(|transfer| counts(transfer));
        counted.map(|transfer| graph.datum(transfer.data).bytes).sum()
    }

    /// Returns the total computing time of the cores of a server, in seconds.
    pub fn busy_s(&self, server: ServerId) -> f64 {
        let runs = self.runs.iter().chain(&self.wasted).filter(|run| run.server == server);
        // Folded from zero, because an empty sum is -0.0.
        runs.fold(0.0, |busy_s, run| busy_s + run.end_s - run.start_s)
    }
}
