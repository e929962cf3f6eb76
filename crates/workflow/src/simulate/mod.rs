//! Evaluates a mapping: executes a group of calls over shared links, in simulated time.
//!
//! - The client's [`Dispatcher`](crate::execution::Dispatcher) decides which server executes which
//!   task, which endpoint sends which data, and how tasks of slow servers are treated, as it does
//!   for real servers. Servers send results on, as those of a job do
//!   ([`Delivery::Sent`](crate::execution::Delivery::Sent)). Servers behind a registry fetch them
//!   instead, so a mapping for these is evaluated with a delivery that they do not use.
//! - A task begins when its inputs are on its server, a core is free, and no task of a lower place
//!   could begin there.
//! - A server receives a few transfers at a time, those for tasks of lower places first.
//!   Concurrent transfers share capacities fairly. A server keeps the data that it has received or
//!   made.
//! - With relays, one server of a site receives data from outside, and forwards it to the others.
//! - Data to or from a server that is not direct passes through the client.
//! - Orders and answers take no time, and an attempt that is withdrawn ends at once.
//!
//! | part | holds |
//! | --- | --- |
//! | `mapped` | the driver of a dispatcher, which executes its commands on a simulated platform |
//! | `calls` | plain GridRPC: each call is placed alone when its arguments are at the client |
//! | `platform` | cores, the [queue](crate::execution::TaskQueue) of each server, transfers |
//! | `flows` | transfers that share links |

mod calls;
mod flows;
mod mapped;
mod platform;
#[cfg(test)]
mod tests;
mod time;

use crate::execution::Execution;
use crate::graph::TaskGraph;
use crate::id::{ServerId, TaskId};
use crate::mapping::Mapping;
use crate::platform::Platform;
use crate::stragglers::StragglerPolicy;
use calls::CallRun;
use mapped::MappedRun;

/// The deviations of actual times from those known to the heuristic.
///
/// ```
/// use gridspan_workflow::simulate::{Perturbations, execute_calls};
/// # use gridspan_topology::GridSpec;
/// # use gridspan_workflow::{GraphBuilder, described};
///
/// # let platform = described(&GridSpec::from_emulate("1x1").unwrap(), None);
/// # let mut calls = GraphBuilder::default();
/// # calls.task("factor", 12.0);
/// # let graph = calls.build().unwrap();
/// // The only server takes twice as long as its speed says.
/// let slow = Perturbations::default().with_servers(vec![2.0]);
/// assert_eq!(execute_calls(&graph, &platform, &slow).makespan_s, 2.0 * graph.work_s());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Perturbations {
    /// Factor of the time of each task; the default is 1.
    pub tasks: Vec<f64>,
    /// Factor of the time of every task on each server; the default is 1.
    pub servers: Vec<f64>,
}

impl Perturbations {
    /// Sets the factor of the time of each task.
    #[must_use]
    pub fn with_tasks(mut self, tasks: Vec<f64>) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets the factor of the time of every task on each server.
    #[must_use]
    pub fn with_servers(mut self, servers: Vec<f64>) -> Self {
        self.servers = servers;
        self
    }

    fn factor(&self, task: TaskId, server: ServerId) -> f64 {
        let of = |factors: &[f64], place: usize| factors.get(place).copied().unwrap_or(1.0);
        of(&self.tasks, task.index()) * of(&self.servers, server.index())
    }
}

/// Executes a group as mapped. Every task must be mapped to a server that can execute it.
pub fn execute(
    graph: &TaskGraph,
    platform: &Platform,
    mapping: &Mapping,
    perturbations: &Perturbations,
    policy: StragglerPolicy,
) -> Execution {
    MappedRun::new(graph, platform, mapping, perturbations, policy).run()
}

/// Executes a group as plain GridRPC does: the client calls a task once it has all inputs, on the
/// server that would end the task first. It sends all inputs to the server, which returns all
/// outputs.
pub fn execute_calls(
    graph: &TaskGraph,
    platform: &Platform,
    perturbations: &Perturbations,
) -> Execution {
    CallRun::new(graph, platform, perturbations).run()
}
