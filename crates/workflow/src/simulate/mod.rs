//! What a mapping is worth: a group of calls executed over shared links, in simulated time.
//!
//! - The client's [`Dispatcher`](crate::execution::Dispatcher) decides who executes which task, who
//!   sends which data, and what happens to tasks of slow servers, as it does for real servers.
//!   Servers send results on, as those of a job do
//!   ([`Delivery::Sent`](crate::execution::Delivery::Sent)); those behind a registry fetch them, so
//!   that a mapping for these is judged by the other delivery.
//! - A task begins when its inputs are on its server, a core is free, and no task of a lower place
//!   could begin there.
//! - A server takes a few transfers at a time, those for tasks of lower places first. Transfers
//!   that meet share capacities fairly. What a server has received or made it keeps.
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

use crate::execution::Execution;
use crate::graph::TaskGraph;
use crate::id::{ServerId, TaskId};
use crate::mapping::Mapping;
use crate::platform::Platform;
use crate::stragglers::StragglerPolicy;
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
