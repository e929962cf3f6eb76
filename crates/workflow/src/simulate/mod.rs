//! Evaluates a mapping: executes a group of calls over shared links, in simulated time.
//!
//! - The client's [`Dispatcher`](crate::execution::Dispatcher) decides which server executes which
//!   task, which endpoint sends which data, and how tasks of slow servers are treated, as it does
//!   for real servers. Simulated servers send results to those that need them, as the servers
//!   inside a job do ([`Delivery::Sent`](crate::execution::Delivery::Sent)). Servers behind a
//!   registry fetch data instead, but the simulation evaluates mappings for them in the same way.
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
mod perturbations;
mod platform;
#[cfg(test)]
mod tests;
mod time;

use crate::execution::Execution;
use crate::graph::TaskGraph;
use crate::mapping::Mapping;
use crate::platform::Platform;
use crate::stragglers::StragglerPolicy;
use calls::CallRun;
use mapped::MappedRun;
pub use perturbations::Perturbations;

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
