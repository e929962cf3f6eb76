//! How an execution went, simulated or real: who ran what when, and what travelled.

use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::platform::Platform;

/// Where and when a task ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskRun {
    /// The task.
    pub task: TaskId,
    /// The server.
    pub server: ServerId,
    /// When it began, in seconds.
    pub start_s: f64,
    /// When it ended, in seconds.
    pub end_s: f64,
}

/// What travelled, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// The data.
    pub data: DataId,
    /// Who sent it.
    pub from: Endpoint,
    /// Who received it.
    pub to: Endpoint,
    /// When it was asked for, in seconds.
    pub start_s: f64,
    /// When all of it was there, in seconds.
    pub end_s: f64,
}

/// How the execution of a group went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Execution {
    /// When all tasks had ended and the client had all it wanted, in seconds.
    pub makespan_s: f64,
    /// One run for each task, in the order in which they ended.
    pub runs: Vec<TaskRun>,
    /// Attempts that were not needed, until they were given up.
    pub wasted: Vec<TaskRun>,
    /// All transfers, in the order in which they ended.
    pub transfers: Vec<Transfer>,
    /// How many tasks ran on another server than that they were mapped to.
    pub moved: usize,
}

impl Execution {
    /// Bytes that crossed from one site to another, or between the client outside of all sites and
    /// one.
    pub fn bytes_between_sites(&self, graph: &TaskGraph, platform: &Platform) -> u64 {
        self.bytes(graph, |transfer| !platform.is_near(transfer.from, transfer.to))
    }

    /// Bytes that the client sent or received.
    pub fn bytes_of_client(&self, graph: &TaskGraph) -> u64 {
        self.bytes(graph, |transfer| [transfer.from, transfer.to].contains(&Endpoint::Client))
    }

    fn bytes(&self, graph: &TaskGraph, counts: impl Fn(&Transfer) -> bool) -> u64 {
        let counted = self.transfers.iter().filter(|transfer| counts(transfer));
        counted.map(|transfer| graph.datum(transfer.data).bytes).sum()
    }

    /// How long the cores of a server computed, together, in seconds.
    pub fn busy_s(&self, server: ServerId) -> f64 {
        let runs = self.runs.iter().chain(&self.wasted).filter(|run| run.server == server);
        // Folded from zero, because an empty sum is a negative one.
        runs.fold(0.0, |busy_s, run| busy_s + run.end_s - run.start_s)
    }
}
