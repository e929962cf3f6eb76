//! What a mapping is worth: a group of calls executed over shared links, in simulated time.
//!
//! - What is ordered of whom, who sends which data, and what is done about slow servers, says the
//!   client's [`Dispatcher`](crate::execution::Dispatcher), as it does to drivers of real servers.
//! - A task begins when its inputs are on its server, a core is free, and no task of a lower place
//!   could begin there.
//! - A server takes a few transfers at a time, those for tasks of lower places first. Transfers that
//!   meet share capacities fairly. What a server has received or made it keeps.
//! - With relays, one server of a site is sent data from outside, and passes it on to the others.
//! - What goes to or from a server that speaks with the client only goes by way of the client.
//! - Orders and answers take no time, and an attempt that is withdrawn ends at once.
//!
//! | part | holds |
//! | --- | --- |
//! | `mapped` | the driver of a dispatcher: does what that says on a simulated platform |
//! | `calls` | plain GridRPC: each call is placed by itself when its arguments are at the client |
//! | `platform` | cores, orders that wait in a [queue](crate::execution::TaskQueue) of each server, and transfers that wait and flow |
//! | `flows` | transfers that share links |

mod calls;
mod flows;
mod mapped;
mod platform;
#[cfg(test)]
mod tests;
mod time;

use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::mapping::Mapping;
use crate::platform::Platform;
pub use crate::stragglers::StragglerPolicy;
use calls::CallRun;
use mapped::MappedRun;

/// What differs from what the heuristic was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Perturbations {
    /// What the time of each task is multiplied by; 1 where nothing is said.
    pub tasks: Vec<f64>,
    /// What the time of every task on each server is multiplied by; 1 where nothing is said.
    pub servers: Vec<f64>,
}

impl Perturbations {
    fn factor(&self, task: TaskId, server: ServerId) -> f64 {
        let of = |factors: &[f64], place: usize| factors.get(place).copied().unwrap_or(1.0);
        of(&self.tasks, task.index()) * of(&self.servers, server.index())
    }
}

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

/// Executes a group as mapped. The mapping names servers that can execute the tasks.
pub fn execute(
    graph: &TaskGraph,
    platform: &Platform,
    mapping: &Mapping,
    perturbations: &Perturbations,
    policy: StragglerPolicy,
) -> Execution {
    MappedRun::new(graph, platform, mapping, perturbations, policy).run()
}

/// Executes a group as plain GridRPC does: each task is called when the client has all its inputs,
/// goes to the server that would end it first, is sent everything, and sends everything back.
pub fn execute_calls(
    graph: &TaskGraph,
    platform: &Platform,
    perturbations: &Perturbations,
) -> Execution {
    CallRun::new(graph, platform, perturbations).run()
}
