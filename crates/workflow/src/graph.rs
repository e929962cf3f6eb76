//! The graph of a group of calls before it is mapped: tasks, and the data between them.

use crate::id::{DataId, Endpoint, ServerId, TaskId};
use petgraph::Direction::Incoming;
use petgraph::algo::toposort;
use petgraph::graph::DiGraph;
use petgraph::visit::EdgeRef;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use thiserror::Error;

/// One remote call.
///
/// ```
/// use gridspan_workflow::{GraphBuilder, ServerId, TaskSpec};
///
/// let mut calls = GraphBuilder::default();
/// let factor = calls.task("factor", 12.0);
/// calls.restrict(factor, vec![ServerId(2)]);
/// let graph = calls.build()?;
/// let spec: &TaskSpec = graph.task(factor);
/// assert_eq!((spec.name.as_str(), spec.work_s), ("factor", 12.0));
/// assert!(spec.can_run_on(ServerId(2)) && !spec.can_run_on(ServerId(0)));
/// # Ok::<(), gridspan_workflow::TaskGraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskSpec {
    /// Name of the task.
    pub name: String,
    /// Computing time on one core of a server of speed 1, in seconds.
    pub work_s: f64,
    /// The data that it reads, each once.
    pub inputs: Vec<DataId>,
    /// The data that it writes.
    pub outputs: Vec<DataId>,
    /// The servers that can execute it, sorted by identifier; `None` if all can.
    pub eligible: Option<Vec<ServerId>>,
}

impl TaskSpec {
    /// Whether a server can execute the task.
    pub fn can_run_on(&self, server: ServerId) -> bool {
        self.eligible.as_ref().is_none_or(|servers| servers.binary_search(&server).is_ok())
    }
}

/// One version of an argument or a result.
///
/// ```
/// use gridspan_workflow::{Data, Endpoint, GraphBuilder, ServerId};
///
/// let mut calls = GraphBuilder::default();
/// let holders = [Endpoint::Client, Endpoint::Server(ServerId(1))];
/// let matrix = calls.external("matrix", 8_000_000, holders);
/// let factor = calls.task("factor", 12.0);
/// calls.read(factor, matrix);
/// let graph = calls.build()?;
/// let matrix: &Data = graph.datum(matrix);
/// assert_eq!((matrix.producer, &matrix.consumers), (None, &vec![factor]));
/// assert!(matrix.servers().eq([ServerId(1)]));
/// # Ok::<(), gridspan_workflow::TaskGraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Data {
    /// Name of the argument or the result.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// The task that writes it; `None` if it exists before the group begins.
    pub producer: Option<TaskId>,
    /// The tasks that read it, in order.
    pub consumers: Vec<TaskId>,
    /// The endpoints that have it before the group begins.
    pub held_by: Vec<Endpoint>,
    /// Whether the client wants it.
    pub is_wanted: bool,
}

impl Data {
    /// Iterates over the servers that have it before the group begins.
    pub fn servers(&self) -> impl Iterator<Item = ServerId> + '_ {
        self.held_by.iter().filter_map(|holder| match holder {
            Endpoint::Server(server) => Some(*server),
            Endpoint::Client => None,
        })
    }
}

/// An acyclic graph of tasks and the data between them.
///
/// `TryFrom` converts a directed graph of [`petgraph`]: its nodes are tasks, weighted with the
/// seconds that each computes. Its edges are data of one producer and one consumer, weighted with
/// the bytes. `From` converts back to a directed graph, whose node and edge weights are the
/// identifiers of tasks and data. Data with several consumers becomes several edges; data without a
/// producer or without a consumer becomes none.
///
/// ```
/// use gridspan_workflow::{DataId, TaskGraph, TaskId};
/// use petgraph::algo::dijkstra;
/// use petgraph::graph::DiGraph;
///
/// let mut calls = DiGraph::<f64, u64>::new();
/// let [split, left, right, join] = [1.0, 8.0, 9.0, 2.0].map(|work_s| calls.add_node(work_s));
/// calls.extend_with_edges([
///     (split, left, 1_000_000),
///     (split, right, 1_000_000),
///     (left, join, 8),
///     (right, join, 8),
/// ]);
///
/// let graph = TaskGraph::try_from(&calls)?;
/// assert_eq!(graph.work_s(), 20.0);
/// assert_eq!(graph.order(), [TaskId(0), TaskId(1), TaskId(2), TaskId(3)]);
///
/// let again = DiGraph::<TaskId, DataId>::from(&graph);
/// let bytes = dijkstra(&again, split, Some(join), |edge| graph.datum(*edge.weight()).bytes);
/// assert_eq!(bytes[&join], 1_000_008);
/// # Ok::<(), gridspan_workflow::TaskGraphError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskGraph {
    tasks: Vec<TaskSpec>,
    data: Vec<Data>,
    order: Vec<TaskId>,
}

/// The reason that tasks do not form a valid graph. Nothing was built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TaskGraphError {
    /// A task depends on itself.
    #[error("the task `{task}` depends on its own output; remove the cycle")]
    Cycle {
        /// A task of the cycle.
        task: String,
    },
    /// The time of a task is negative or not finite.
    #[error("the task `{task}` computes for {seconds} s; give a time of at least 0")]
    Work {
        /// The task.
        task: String,
        /// The given time.
        seconds: String,
    },
    /// The total of all tasks or of all data exceeds its limit.
    #[error("the total of all {what} exceeds {limit}; check the units of the numbers")]
    TooMuch {
        /// The summed items.
        what: &'static str,
        /// The limit of the sum.
        limit: &'static str,
    },
}

/// Maximum total computing time of all tasks, in seconds.
const WORK_MAX_S: f64 = 1e12;
/// Maximum total number of bytes of all data.
const BYTES_MAX: u64 = 1_000_000_000_000_000_000;

impl TaskGraph {
    /// Returns all tasks, by identifier.
    pub fn tasks(&self) -> &[TaskSpec] {
        &self.tasks
    }

    /// Returns all data, by identifier.
    pub fn data(&self) -> &[Data] {
        &self.data
    }

    /// Returns a task. Panics if the graph has no such task.
    pub fn task(&self, task: TaskId) -> &TaskSpec {
        &self.tasks[task.index()]
    }

    /// Returns one version of an argument or a result. Panics if the graph has none of this
    /// identifier.
    pub fn datum(&self, data: DataId) -> &Data {
        &self.data[data.index()]
    }

    /// Returns all tasks in a sequential order of execution: each after those it reads from,
    /// otherwise by identifier.
    pub fn order(&self) -> &[TaskId] {
        &self.order
    }

    /// Divides the computing time of all tasks by `times`, which must be positive.
    pub fn faster(mut self, times: f64) -> Self {
        self.tasks.iter_mut().for_each(|task| task.work_s /= times);
        self
    }

    /// Restricts each task to the servers that `eligible` returns, which must be sorted.
    pub fn with_eligible(mut self, eligible: impl Fn(&TaskSpec) -> Vec<ServerId>) -> Self {
        for task in &mut self.tasks {
            task.eligible = Some(eligible(task));
        }
        self
    }

    /// Iterates over the tasks that a task reads from, with the data; a task appears once for each
    /// of its outputs that is read.
    pub fn parents(&self, task: TaskId) -> impl Iterator<Item = (TaskId, DataId)> + '_ {
        let inputs = self.task(task).inputs.iter();
        inputs.filter_map(|&data| Some((self.datum(data).producer?, data)))
    }

    /// Returns the total computing time on one core of speed 1, in seconds.
    pub fn work_s(&self) -> f64 {
        self.tasks.iter().map(|task| task.work_s).sum()
    }
}

impl From<&TaskGraph> for DiGraph<TaskId, DataId> {
    fn from(graph: &TaskGraph) -> Self {
        between(graph.tasks.len(), &graph.data)
    }
}

impl TryFrom<&DiGraph<f64, u64>> for TaskGraph {
    type Error = TaskGraphError;

    /// Builds the graph of these tasks and data.
    ///
    /// # Errors
    ///
    /// Those of [`GraphBuilder::build`].
    fn try_from(graph: &DiGraph<f64, u64>) -> Result<Self, TaskGraphError> {
        let mut builder = GraphBuilder::default();
        for task in graph.node_indices() {
            builder.task(format!("t{}", task.index()), graph[task]);
        }
        for edge in graph.edge_references() {
            let [from, to] = [edge.source(), edge.target()].map(|task| TaskId(task.index() as u32));
            let data = builder.write(from, format!("d{}", edge.id().index()), *edge.weight());
            builder.read(to, data);
        }
        builder.build()
    }
}

/// Creates a graph with the tasks as nodes, in order, and an edge for each task that reads the
/// output of another.
fn between(tasks: usize, data: &[Data]) -> DiGraph<TaskId, DataId> {
    let mut graph = DiGraph::with_capacity(tasks, data.len());
    (0..tasks as u32).for_each(|task| {
        graph.add_node(TaskId(task));
    });
    for (id, datum) in (0..).zip(data) {
        let Some(producer) = datum.producer else { continue };
        let readers = datum.consumers.iter();
        graph.extend_with_edges(readers.map(|reader| (producer.0, reader.0, DataId(id))));
    }
    graph
}

/// Builds a [`TaskGraph`] from calls in any order.
///
/// ```
/// use gridspan_workflow::{Endpoint, GraphBuilder};
///
/// let mut calls = GraphBuilder::default();
/// let input = calls.external("matrix", 8_000_000, [Endpoint::Client]);
/// let factor = calls.task("factor", 12.0);
/// calls.read(factor, input);
/// let factors = calls.write(factor, "factors", 8_000_000);
/// let solve = calls.task("solve", 0.5);
/// calls.read(solve, factors);
/// let graph = calls.build()?;
/// assert_eq!(graph.order(), [factor, solve]);
/// # Ok::<(), gridspan_workflow::TaskGraphError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    tasks: Vec<TaskSpec>,
    data: Vec<Data>,
}

impl GraphBuilder {
    /// Adds an argument that the holders have before the group begins.
    pub fn external(
        &mut self,
        name: impl Into<String>,
        bytes: u64,
        held_by: impl Into<Vec<Endpoint>>,
    ) -> DataId {
        self.add(name.into(), bytes, None, held_by.into())
    }

    /// Adds a call that computes for `work_s` seconds on one core of a server of speed 1.
    pub fn task(&mut self, name: impl Into<String>, work_s: f64) -> TaskId {
        let (inputs, outputs) = (Vec::new(), Vec::new());
        self.tasks.push(TaskSpec { name: name.into(), work_s, inputs, outputs, eligible: None });
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// Restricts a task to these servers.
    ///
    /// # Panics
    ///
    /// If the graph has no such task.
    pub fn restrict(&mut self, task: TaskId, mut servers: Vec<ServerId>) {
        servers.sort_unstable();
        servers.dedup();
        self.tasks[task.index()].eligible = Some(servers);
    }

    /// Makes a task read data.
    ///
    /// # Panics
    ///
    /// If the graph has no such task or data.
    pub fn read(&mut self, task: TaskId, data: DataId) {
        let inputs = &mut self.tasks[task.index()].inputs;
        if !inputs.contains(&data) {
            inputs.push(data);
            self.data[data.index()].consumers.push(task);
        }
    }

    /// Adds data that a task writes.
    ///
    /// # Panics
    ///
    /// If the graph has no such task.
    pub fn write(&mut self, task: TaskId, name: impl Into<String>, bytes: u64) -> DataId {
        let data = self.add(name.into(), bytes, Some(task), Vec::new());
        self.tasks[task.index()].outputs.push(data);
        data
    }

    /// Marks data that the client wants.
    ///
    /// # Panics
    ///
    /// If the graph has no such data.
    pub fn want(&mut self, data: DataId) {
        self.data[data.index()].is_wanted = true;
    }

    fn add(
        &mut self,
        name: String,
        bytes: u64,
        producer: Option<TaskId>,
        held_by: Vec<Endpoint>,
    ) -> DataId {
        let consumers = Vec::new();
        self.data.push(Data { name, bytes, producer, consumers, held_by, is_wanted: false });
        DataId(self.data.len() as u32 - 1)
    }

    /// Builds the graph, if it is valid.
    ///
    /// # Errors
    ///
    /// [`TaskGraphError::Work`] if a time is negative or not finite; [`TaskGraphError::TooMuch`] if
    /// the total exceeds 1e12 s or 1e18 bytes; [`TaskGraphError::Cycle`] if a task depends on
    /// itself.
    pub fn build(mut self) -> Result<TaskGraph, TaskGraphError> {
        let is_invalid = |task: &&TaskSpec| !(task.work_s.is_finite() && task.work_s >= 0.0);
        if let Some(task) = self.tasks.iter().find(is_invalid) {
            let (task, seconds) = (task.name.clone(), task.work_s.to_string());
            return Err(TaskGraphError::Work { task, seconds });
        }
        if self.tasks.iter().map(|task| task.work_s).sum::<f64>() > WORK_MAX_S {
            return Err(TaskGraphError::TooMuch { what: "tasks", limit: "1e12 s" });
        }
        if self.data.iter().fold(0, |sum: u64, data| sum.saturating_add(data.bytes)) > BYTES_MAX {
            return Err(TaskGraphError::TooMuch { what: "data", limit: "1e18 bytes" });
        }
        for data in &mut self.data {
            data.consumers.sort_unstable();
        }
        let order = self.order()?;
        Ok(TaskGraph { tasks: self.tasks, data: self.data, order })
    }

    /// Sorts the tasks by Kahn's algorithm. Of the tasks that could be next, it takes the one added
    /// first; `toposort` of petgraph finds cycles, but does not specify this order.
    fn order(&self) -> Result<Vec<TaskId>, TaskGraphError> {
        let graph = between(self.tasks.len(), &self.data);
        if let Err(cycle) = toposort(&graph, None) {
            let task = self.tasks[cycle.node_id().index()].name.clone();
            return Err(TaskGraphError::Cycle { task });
        }
        let parents = |task| graph.edges_directed(task, Incoming).count();
        let mut missing: Vec<usize> = graph.node_indices().map(parents).collect();
        let mut next: BinaryHeap<_> = graph.externals(Incoming).map(Reverse).collect();
        let mut order = Vec::with_capacity(self.tasks.len());
        while let Some(Reverse(task)) = next.pop() {
            order.push(graph[task]);
            for reader in graph.neighbors(task) {
                missing[reader.index()] -= 1;
                if missing[reader.index()] == 0 {
                    next.push(Reverse(reader));
                }
            }
        }
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_ordered_after_those_they_read_from() {
        let mut builder = GraphBuilder::default();
        let (last, first) = (builder.task("last", 1.0), builder.task("first", 1.0));
        let between = builder.write(first, "between", 8);
        builder.read(last, between);
        builder.read(last, between);

        let graph = builder.build().unwrap();

        assert_eq!(graph.order(), [first, last]);
        assert_eq!(graph.parents(last).collect::<Vec<_>>(), [(first, between)]);
    }

    #[test]
    fn a_cycle_is_refused_with_the_name_of_a_task_in_it() {
        let mut builder = GraphBuilder::default();
        // Tasks before and behind the cycle are not part of it.
        let [behind, task, before] =
            ["behind", "snake", "before"].map(|name| builder.task(name, 1.0));
        let tail = builder.write(task, "tail", 1);
        let head = builder.write(before, "head", 1);
        builder.read(task, tail);
        builder.read(task, head);
        builder.read(behind, tail);

        let refused = builder.build().unwrap_err();

        assert_eq!(refused, TaskGraphError::Cycle { task: "snake".to_owned() });
    }

    #[test]
    fn a_graph_of_petgraph_and_back_has_the_same_tasks_and_edges() {
        let edges = [(2, 0, 7), (2, 1, 8), (0, 1, 9), (2, 1, 10)];
        let mut given = DiGraph::<f64, u64>::from_edges(edges);
        given.node_weights_mut().zip([3.0, 4.0, 5.0]).for_each(|(work_s, time)| *work_s = time);

        let graph = TaskGraph::try_from(&given).unwrap();
        let back = DiGraph::<TaskId, DataId>::from(&graph);

        assert_eq!(graph.order(), [TaskId(2), TaskId(0), TaskId(1)]);
        let back = back.map(|_, &task| graph.task(task).work_s, |_, &data| graph.datum(data).bytes);
        assert!(back.node_weights().eq(given.node_weights()));
        let all = |graph: &DiGraph<f64, u64>| {
            let edges = graph.edge_references();
            edges
                .map(|edge| (edge.source().index(), edge.target().index(), *edge.weight()))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&back), all(&given));

        given.extend_with_edges([(1, 2, 1)]);
        assert!(matches!(TaskGraph::try_from(&given), Err(TaskGraphError::Cycle { .. })));
    }

    #[test]
    fn an_invalid_time_is_refused() {
        for work_s in [-1.0, f64::NAN, f64::INFINITY] {
            let mut builder = GraphBuilder::default();
            builder.task("odd", work_s);
            assert!(matches!(builder.build(), Err(TaskGraphError::Work { .. })));
        }
    }

    #[test]
    fn totals_beyond_the_limits_are_refused() {
        let mut builder = GraphBuilder::default();
        builder.task("endless", 1e308);
        assert!(matches!(builder.build(), Err(TaskGraphError::TooMuch { what: "tasks", .. })));

        let mut builder = GraphBuilder::default();
        let task = builder.task("writer", 1.0);
        builder.write(task, "half", u64::MAX / 2 + 1);
        builder.write(task, "other half", u64::MAX / 2 + 1);
        assert!(matches!(builder.build(), Err(TaskGraphError::TooMuch { what: "data", .. })));
    }
}
