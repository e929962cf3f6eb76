//! What a group of calls is, before anything is placed: tasks, and the data that goes from one to
//! the next.

use crate::id::{DataId, Endpoint, ServerId, TaskId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use thiserror::Error;

/// One remote call.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSpec {
    /// What it is called.
    pub name: String,
    /// How long it computes on one core of a server of speed 1, in seconds.
    pub work_s: f64,
    /// What it reads, each once.
    pub inputs: Vec<DataId>,
    /// What it writes.
    pub outputs: Vec<DataId>,
    /// The servers that can execute it, in order; `None` if all can.
    pub eligible: Option<Vec<ServerId>>,
}

impl TaskSpec {
    /// Whether a server can execute it.
    pub fn can_run_on(&self, server: ServerId) -> bool {
        self.eligible.as_ref().is_none_or(|servers| servers.binary_search(&server).is_ok())
    }
}

/// One version of one argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// What it is called.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The task that writes it; `None` if it is there before the group begins.
    pub producer: Option<TaskId>,
    /// The tasks that read it, in order.
    pub consumers: Vec<TaskId>,
    /// Who has it before the group begins.
    pub held_by: Vec<Endpoint>,
    /// Whether the client wants it.
    pub is_wanted: bool,
}

/// Tasks and the data between them, without circles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskGraph {
    tasks: Vec<TaskSpec>,
    data: Vec<Data>,
    order: Vec<TaskId>,
}

/// Why tasks are no graph that can be mapped. Nothing was made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TaskGraphError {
    /// A task would have to run before itself.
    #[error("the task `{task}` waits for what it makes itself; remove the circle")]
    Circle {
        /// A task of the circle.
        task: String,
    },
    /// The time of a task is no time.
    #[error("the task `{task}` computes for {seconds} s; give a time from zero on")]
    Work {
        /// The task.
        task: String,
        /// The time given.
        seconds: String,
    },
    /// So much that sums of it would not be exact.
    #[error("all {what} together are more than {limit}; look at the units of the numbers")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// What there may be.
        limit: &'static str,
    },
}

/// All tasks compute no longer than this, in seconds.
const WORK_MAX_S: f64 = 1e12;
/// All data has no more bytes than this.
const BYTES_MAX: u64 = 1_000_000_000_000_000_000;

impl TaskGraph {
    /// All tasks, by their identifiers.
    pub fn tasks(&self) -> &[TaskSpec] {
        &self.tasks
    }

    /// All data, by their identifiers.
    pub fn data(&self) -> &[Data] {
        &self.data
    }

    /// One task. Panics if the graph has no such task.
    pub fn task(&self, task: TaskId) -> &TaskSpec {
        &self.tasks[task.index()]
    }

    /// One version of an argument. Panics if the graph has none of this identifier.
    pub fn datum(&self, data: DataId) -> &Data {
        &self.data[data.index()]
    }

    /// All tasks in an order in which they could be called one after the other: each after those it
    /// reads from, otherwise by their identifiers.
    pub fn order(&self) -> &[TaskId] {
        &self.order
    }

    /// The same graph, whose tasks compute so many times as fast, which is positive.
    pub fn faster(mut self, times: f64) -> Self {
        self.tasks.iter_mut().for_each(|task| task.work_s /= times);
        self
    }

    /// The same graph, whose tasks can be executed by these servers alone, in order.
    pub fn with_eligible(mut self, eligible: impl Fn(&TaskSpec) -> Vec<ServerId>) -> Self {
        for task in &mut self.tasks {
            task.eligible = Some(eligible(task));
        }
        self
    }

    /// The tasks that a task reads from, with what it reads; a task comes once for each version.
    pub fn parents(&self, task: TaskId) -> impl Iterator<Item = (TaskId, DataId)> + '_ {
        let inputs = self.task(task).inputs.iter();
        inputs.filter_map(|&data| Some((self.datum(data).producer?, data)))
    }

    /// The time on one core of speed 1, in seconds.
    pub fn work_s(&self) -> f64 {
        self.tasks.iter().map(|task| task.work_s).sum()
    }
}

/// Makes a [`TaskGraph`], in any order.
#[derive(Clone, Debug, Default)]
pub struct GraphBuilder {
    tasks: Vec<TaskSpec>,
    data: Vec<Data>,
}

impl GraphBuilder {
    /// An argument that the holders have before the group begins.
    pub fn external(
        &mut self,
        name: impl Into<String>,
        bytes: u64,
        held_by: impl Into<Vec<Endpoint>>,
    ) -> DataId {
        self.add(name.into(), bytes, None, held_by.into())
    }

    /// A call that computes for `work_s` seconds on one core of a server of speed 1.
    pub fn task(&mut self, name: impl Into<String>, work_s: f64) -> TaskId {
        let (inputs, outputs) = (Vec::new(), Vec::new());
        self.tasks.push(TaskSpec { name: name.into(), work_s, inputs, outputs, eligible: None });
        TaskId(self.tasks.len() as u32 - 1)
    }

    /// The task can be executed by these servers only.
    pub fn restrict(&mut self, task: TaskId, mut servers: Vec<ServerId>) {
        servers.sort_unstable();
        servers.dedup();
        self.tasks[task.index()].eligible = Some(servers);
    }

    /// The task reads the data.
    pub fn read(&mut self, task: TaskId, data: DataId) {
        let inputs = &mut self.tasks[task.index()].inputs;
        if !inputs.contains(&data) {
            inputs.push(data);
            self.data[data.index()].consumers.push(task);
        }
    }

    /// What the task writes.
    pub fn write(&mut self, task: TaskId, name: impl Into<String>, bytes: u64) -> DataId {
        let data = self.add(name.into(), bytes, Some(task), Vec::new());
        self.tasks[task.index()].outputs.push(data);
        data
    }

    /// The client wants the data.
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

    /// The graph, if it is one.
    pub fn build(mut self) -> Result<TaskGraph, TaskGraphError> {
        let is_time = |task: &&TaskSpec| !(task.work_s.is_finite() && task.work_s >= 0.0);
        if let Some(task) = self.tasks.iter().find(is_time) {
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

    /// Kahn's algorithm, of the tasks that could be next the one that was added first.
    fn order(&self) -> Result<Vec<TaskId>, TaskGraphError> {
        let parents = |task: &TaskSpec| {
            let made = |data: &&DataId| self.data[data.index()].producer.is_some();
            task.inputs.iter().filter(made).count()
        };
        let mut missing: Vec<usize> = self.tasks.iter().map(parents).collect();
        let first = (0u32..).zip(&missing).filter(|(_, missing)| **missing == 0);
        let mut next: BinaryHeap<_> = first.map(|(task, _)| Reverse(TaskId(task))).collect();
        let mut order = Vec::with_capacity(self.tasks.len());
        while let Some(Reverse(task)) = next.pop() {
            order.push(task);
            let outputs = self.tasks[task.index()].outputs.iter();
            for &reader in outputs.flat_map(|data| &self.data[data.index()].consumers) {
                missing[reader.index()] -= 1;
                if missing[reader.index()] == 0 {
                    next.push(Reverse(reader));
                }
            }
        }
        match missing.iter().position(|&missing| missing > 0) {
            Some(task) => Err(TaskGraphError::Circle { task: self.tasks[task].name.clone() }),
            None => Ok(order),
        }
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
    fn a_circle_is_refused_with_the_name_of_a_task_in_it() {
        let mut builder = GraphBuilder::default();
        let task = builder.task("snake", 1.0);
        let tail = builder.write(task, "tail", 1);
        builder.read(task, tail);

        let refused = builder.build().unwrap_err();

        assert_eq!(refused, TaskGraphError::Circle { task: "snake".to_owned() });
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        for work_s in [-1.0, f64::NAN, f64::INFINITY] {
            let mut builder = GraphBuilder::default();
            builder.task("odd", work_s);
            assert!(matches!(builder.build(), Err(TaskGraphError::Work { .. })));
        }
    }

    #[test]
    fn more_than_can_be_added_up_is_refused() {
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
