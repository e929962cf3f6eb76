//! The record of an execution, simulated or real: the runs of tasks and the transfers of data.

use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::platform::Platform;

/// A run of a task on a server.
///
/// ```
/// # use gridspan_topology::GridSpec;
/// # use gridspan_workflow::heuristics::{Heft, Heuristic};
/// # use gridspan_workflow::{described, stragglers::StragglerPolicy, wfcommons::layered};
/// # use gridspan_workflow::simulate::{Perturbations, execute};
/// use gridspan_workflow::execution::TaskRun;
///
/// # let platform = described(&GridSpec::from_emulate("2x2,wan=20ms").unwrap(), None);
/// # let graph = layered(20, 1).unwrap();
/// # let mapping = Heft.map(&graph, &platform).unwrap();
/// # let expected = Perturbations::default();
/// let execution = execute(&graph, &platform, &mapping, &expected, StragglerPolicy::None);
/// let run: TaskRun = execution.runs[0]; // the one that ended first
/// let work_s = graph.task(run.task).work_s;
/// assert_eq!(run.server, mapping.servers[run.task.index()]);
/// assert!((run.end_s - run.start_s - platform.time_s(work_s, run.server)).abs() < 1e-6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
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

impl TaskRun {
    /// Creates the run of a task between these times, in seconds.
    pub fn new(task: TaskId, server: ServerId, start_s: f64, end_s: f64) -> Self {
        Self { task, server, start_s, end_s }
    }
}

/// A transfer of data.
///
/// ```
/// # use gridspan_topology::GridSpec;
/// # use gridspan_workflow::heuristics::{Heft, Heuristic};
/// # use gridspan_workflow::{described, stragglers::StragglerPolicy, wfcommons::layered};
/// # use gridspan_workflow::simulate::{Perturbations, execute};
/// use gridspan_workflow::execution::Transfer;
///
/// # let platform = described(&GridSpec::from_emulate("2x2,wan=20ms").unwrap(), None);
/// # let graph = layered(20, 1).unwrap();
/// # let mapping = Heft.map(&graph, &platform).unwrap();
/// # let expected = Perturbations::default();
/// let execution = execute(&graph, &platform, &mapping, &expected, StragglerPolicy::None);
/// let is_far = |transfer: &&Transfer| !platform.is_near(transfer.from, transfer.to);
/// let far = execution.transfers.iter().filter(is_far);
/// let bytes: u64 = far.map(|transfer| graph.datum(transfer.data).bytes).sum();
/// assert_eq!(bytes, execution.bytes_between_sites(&graph, &platform));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
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

impl Transfer {
    /// Creates a transfer between these times, in seconds.
    pub fn new(data: DataId, from: Endpoint, to: Endpoint, start_s: f64, end_s: f64) -> Self {
        Self { data, from, to, start_s, end_s }
    }
}

/// The record of the execution of a group.
///
/// ```
/// # use gridspan_topology::GridSpec;
/// # use gridspan_workflow::heuristics::{Heft, Heuristic};
/// # use gridspan_workflow::{described, stragglers::StragglerPolicy, wfcommons::layered};
/// # use gridspan_workflow::simulate::{Perturbations, execute};
/// let platform = described(&GridSpec::from_emulate("2x2,wan=20ms").unwrap(), None);
/// let graph = layered(20, 1).unwrap();
/// let mapping = Heft.map(&graph, &platform).unwrap();
/// let expected = Perturbations::default();
/// let execution = execute(&graph, &platform, &mapping, &expected, StragglerPolicy::None);
/// let busy_s: f64 = platform.server_ids().map(|server| execution.busy_s(server)).sum();
/// assert!((busy_s - graph.work_s()).abs() < 1e-6); // all servers have speed 1
/// assert!(execution.makespan_s >= busy_s / f64::from(platform.cores()));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Execution {
    /// Time at which all tasks had ended and the client had all wanted data, in seconds.
    pub makespan_s: f64,
    /// One run for each task, in the order in which they ended.
    pub runs: Vec<TaskRun>,
    /// Redundant attempts. The end of each is the time at which it was withdrawn.
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
        // All data of a graph has at most 1e18 bytes, but it may go to many servers.
        let sizes = counted.map(|transfer| graph.datum(transfer.data).bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the total computing time of the cores of a server, in seconds.
    pub fn busy_s(&self, server: ServerId) -> f64 {
        let runs = self.runs.iter().chain(&self.wasted).filter(|run| run.server == server);
        // Folded from zero, because an empty sum is -0.0.
        runs.fold(0.0, |busy_s, run| busy_s + run.end_s - run.start_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphBuilder;

    #[test]
    fn large_data_for_many_servers_has_the_largest_number_of_bytes() {
        let mut builder = GraphBuilder::default();
        let data = builder.external("data", 1_000_000_000_000_000_000, [Endpoint::Client]);
        let graph = builder.build().unwrap();
        let to = |server| Endpoint::Server(ServerId(server));
        let transfer = |server| Transfer::new(data, Endpoint::Client, to(server), 0.0, 1.0);
        let transfers = (0..20).map(transfer).collect();

        let execution = Execution { transfers, ..Execution::default() };

        assert_eq!(execution.bytes_of_client(&graph), u64::MAX);
    }
}
