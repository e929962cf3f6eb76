//! Deviations of actual times from those known to a heuristic.

use crate::id::{ServerId, TaskId};

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

    pub(super) fn factor(&self, task: TaskId, server: ServerId) -> f64 {
        let of = |factors: &[f64], place: usize| factors.get(place).copied().unwrap_or(1.0);
        of(&self.tasks, task.index()) * of(&self.servers, server.index())
    }
}
