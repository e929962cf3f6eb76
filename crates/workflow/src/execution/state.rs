//! The client's view of the progress of a group: which tasks are ordered from which servers, and
//! which endpoint sends which data. `outcomes` handles reports, `stragglers` slow servers, and
//! `inputs` the transfer times between servers.

use super::attempts::Attempts;
use super::copies::DataCopies;
use super::input_waits::InputWaits;
use super::task_states::{Stuck, TaskState, TaskStates};
use super::{AttemptId, Delivery};
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::mapping::Mapping;
use std::collections::{BTreeMap, BTreeSet};

mod inputs;
mod outcomes;
mod stragglers;
#[cfg(test)]
mod tests;

/// An order to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) attempt: AttemptId,
    pub(super) task: TaskId,
    pub(super) server: ServerId,
}

/// The state of a group in execution.
#[derive(Debug)]
pub(super) struct ExecutionState<'a> {
    graph: &'a TaskGraph,
    delivery: Delivery,
    tasks: TaskStates,
    attempts: Attempts,
    pub(super) data: DataCopies<'a>,
    /// Whether a server must have each data at the end.
    kept: Vec<bool>,
    /// Whether a server that has refused a task never gets the task again.
    is_refused_once: bool,
    is_there: Vec<bool>,
    /// Time that each server with all its cores takes for a second of work, in seconds.
    unit_s: Vec<f64>,
    /// Time at which each server ended its last task, in seconds.
    last_end_s: Vec<f64>,
    waits: InputWaits,
    /// Data that may have no copy although it is needed.
    doubtful: BTreeSet<DataId>,
    /// Attempts that are no longer needed, and whose servers are not notified yet.
    withdrawn: Vec<AttemptId>,
    /// Number of attempts examined to find those to be moved or copied.
    #[cfg(test)]
    pub(crate) looked_at: std::cell::Cell<usize>,
}

impl<'a> ExecutionState<'a> {
    /// Creates the initial state, with the time that each server takes for a second of work, the
    /// site of each server, and the pairs of servers of which the second does not reach the first.
    /// `kept` returns whether a server must have data at the end.
    pub(super) fn new(
        (graph, delivery): (&'a TaskGraph, Delivery),
        mapping: &Mapping,
        (unit_s, sites, apart): (Vec<f64>, Vec<usize>, BTreeSet<(ServerId, ServerId)>),
        kept: impl Fn(DataId) -> bool,
    ) -> Self {
        Self {
            graph,
            delivery,
            tasks: TaskStates::new(&mapping.servers, unit_s.len()),
            attempts: Attempts::new(unit_s.len(), mapping.places.clone()),
            data: DataCopies::new(graph, sites, apart),
            kept: (0..graph.data().len() as u32).map(|data| kept(DataId(data))).collect(),
            is_refused_once: false,
            is_there: vec![true; unit_s.len()],
            last_end_s: vec![0.0; unit_s.len()],
            waits: InputWaits::default(),
            unit_s,
            doubtful: BTreeSet::new(),
            withdrawn: Vec::new(),
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
        }
    }

    /// A server that refuses a task never gets the task again.
    pub(super) fn refuse_once(&mut self) {
        self.is_refused_once = true;
    }

    pub(super) fn is_done(&self, task: TaskId) -> bool {
        self.tasks.state(task) == TaskState::Done
    }

    /// Whether a waiting task can be ordered, or needs arguments relayed by the client.
    fn is_ready(&self, task: TaskId) -> bool {
        let is_waiting = self.tasks.state(task) == TaskState::Waiting;
        is_waiting && (self.delivery == Delivery::Sent || self.data.has_inputs(task))
    }

    /// Takes the orders to give now.
    pub(super) fn take_orders(&mut self, now_s: f64) -> Vec<Given> {
        for task in self.data.take_complete() {
            let open: Vec<AttemptId> = self.attempts.open_at(task).collect();
            self.attempts.complete.extend(open.into_iter().map(|attempt| (attempt, now_s)));
        }
        let mut given = Vec::new();
        for (task, server) in self.take_reached() {
            self.tasks.ordered(task);
            let is_fetched = self.delivery == Delivery::Fetched;
            let readers = if is_fetched { Vec::new() } else { self.readers(task, server) };
            let attempt = self.attempts.give((task, server), readers);
            if self.data.has_inputs(task) {
                self.attempts.complete.push((attempt, now_s));
            }
            given.push(Given { attempt, task, server });
        }
        for &Given { task, server, .. } in &given {
            for &data in &self.graph.task(task).inputs {
                self.require(data, server);
            }
        }
        given
    }

    /// Takes the tasks whose servers can obtain all arguments. Unreachable arguments are queued for
    /// a relay through the client.
    fn take_reached(&mut self) -> Vec<(TaskId, ServerId)> {
        let changed = std::mem::take(&mut self.tasks.changed).into_iter();
        let first = changed.filter(|&task| self.is_ready(task));
        let first: Vec<_> = first.map(|task| (task, self.tasks.server(task))).collect();
        let copies = std::mem::take(&mut self.tasks.copies);
        self.data.relays.reconsider();
        let (mut reached, graph) = (Vec::new(), self.graph);
        let all = first.into_iter().map(|order| (order, false));
        for ((task, to), is_copy) in all.chain(copies.into_iter().map(|copy| (copy, true))) {
            let inputs = graph.task(task).inputs.iter().copied();
            let is_far = |data: &DataId| {
                self.delivery == Delivery::Fetched
                    && self.data.source(*data, to, |_| false).is_none()
            };
            let far: Vec<DataId> = inputs.filter(is_far).collect();
            match far.is_empty() {
                true => reached.push((task, to)),
                false if is_copy => self.tasks.copies.push((task, to)),
                // The task stays ready, and is examined again.
                false => drop(self.tasks.changed.insert(task)),
            }
            far.into_iter().for_each(|data| self.data.relays.want(data));
        }
        reached
    }

    /// Returns the servers that wait for each output of a task and that its server reaches.
    fn readers(&self, task: TaskId, maker: ServerId) -> Vec<(DataId, Vec<ServerId>)> {
        let of = |&data: &DataId| {
            let mut readers = BTreeSet::new();
            for &reader in &self.graph.datum(data).consumers {
                match self.tasks.state(reader) {
                    TaskState::Done | TaskState::Failed => {}
                    TaskState::Waiting => drop(readers.insert(self.tasks.server(reader))),
                    TaskState::Ordered => {
                        let open = self.attempts.open_at(reader);
                        readers.extend(open.map(|attempt| self.attempts.at(attempt).server));
                    }
                }
            }
            readers.remove(&maker);
            readers.retain(|&to| !self.data.is_held_by(data, to));
            readers.retain(|&to| self.data.is_direct(Endpoint::Server(maker), to));
            (data, readers.into_iter().collect())
        };
        self.graph.task(task).outputs.iter().map(of).collect()
    }

    /// Notes that a server waits for data, unless it has the data or fetches it.
    fn require(&mut self, data: DataId, at: ServerId) {
        if self.delivery == Delivery::Sent {
            self.data.require(data, at);
        }
    }

    /// Takes the data that servers and the client are to send now. Data that cannot be sent is
    /// queued for a relay through the client.
    pub(super) fn take_sends(&mut self) -> BTreeMap<(DataId, Endpoint), Vec<ServerId>> {
        let (graph, attempts) = (self.graph, &self.attempts);
        self.data.take_sends(|data, to| tried_for((graph, attempts), data, to))
    }

    /// Iterates over the endpoints that are known to have data, or else over the servers that make
    /// it.
    pub(super) fn sources(&self, data: DataId) -> impl Iterator<Item = Endpoint> + '_ {
        let producer = self.graph.datum(data).producer.filter(|_| !self.data.exists(data));
        let makers = producer.into_iter().flat_map(|task| self.attempts.open_at(task));
        let makers = makers.map(|attempt| Endpoint::Server(self.attempts.at(attempt).server));
        self.data.sure_holders(data).chain(makers)
    }

    /// Returns the source from which a server takes data; `None` if it must first come to the
    /// client.
    pub(super) fn source(&self, data: DataId, to: ServerId) -> Option<Endpoint> {
        self.data.source(data, to, |_| false)
    }

    pub(super) fn attempt(&self, attempt: AttemptId) -> (TaskId, ServerId) {
        (self.attempts.at(attempt).task, self.attempts.at(attempt).server)
    }

    /// Returns the servers to which the server of an attempt sends each result.
    pub(super) fn readers_of(&self, attempt: AttemptId) -> &[(DataId, Vec<ServerId>)] {
        &self.attempts.at(attempt).readers
    }

    /// Whether the report of an attempt is useful. A withdrawn attempt may have begun before its
    /// server received the withdrawal.
    pub(super) fn is_of_use(&self, attempt: AttemptId) -> bool {
        let (task, server) = self.attempt(attempt);
        let is_early = self.delivery == Delivery::Sent
            && self.is_there(server)
            && !self.tasks.is_settled(task);
        self.is_open(attempt) || is_early
    }

    /// Whether an attempt is still needed.
    pub(super) fn is_open(&self, attempt: AttemptId) -> bool {
        self.attempts.at(attempt).is_open
    }

    /// Notes that a server has the arguments of an attempt, because it has begun the attempt.
    fn note_inputs_of(&mut self, attempt: AttemptId) {
        let (task, server) = self.attempt(attempt);
        for &data in &self.graph.task(task).inputs {
            if self.data.is_held_by(data, server) {
                self.data.add(data, server, true);
            }
        }
    }

    /// Closes an attempt that is no longer needed, and whose server no longer sends its results.
    fn close(&mut self, attempt: AttemptId) {
        for (data, servers) in self.attempts.close(attempt) {
            servers.into_iter().for_each(|server| self.require(data, server));
        }
    }

    /// Closes an attempt, and notes that its server is to be notified.
    fn withdraw(&mut self, attempt: AttemptId) {
        self.close(attempt);
        self.withdrawn.push(attempt);
    }

    /// Takes the attempts whose servers are to be notified that they are no longer needed.
    pub(super) fn take_withdrawn(&mut self) -> Vec<AttemptId> {
        std::mem::take(&mut self.withdrawn)
    }

    /// Fails a task and all tasks that depend on it. Returns those that had not failed before.
    pub(super) fn fail(&mut self, task: TaskId) -> Vec<TaskId> {
        let (mut failing, mut failed) = (vec![task], Vec::new());
        while let Some(task) = failing.pop() {
            if self.tasks.is_settled(task) {
                continue;
            }
            self.tasks.set(task, TaskState::Failed);
            failed.push(task);
            let open: Vec<AttemptId> = self.attempts.open_at(task).collect();
            open.into_iter().for_each(|attempt| self.withdraw(attempt));
            for &data in &self.graph.task(task).outputs {
                self.data.failed(data);
                failing.extend(&self.graph.datum(data).consumers);
            }
        }
        let mut copies = std::mem::take(&mut self.tasks.copies);
        copies.retain(|(of, _)| self.tasks.state(*of) != TaskState::Failed);
        self.tasks.copies = copies;
        failed
    }

    /// Whether all tasks are done or have failed, and the client has all wanted data that can be
    /// produced.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.are_settled() && self.data.are_granted()
    }

    /// Notes that data has a new location: tasks may be ready, servers may receive it, and the
    /// client may request it.
    fn note_new_location(&mut self, data: DataId) {
        let graph = self.graph;
        for &reader in &graph.datum(data).consumers {
            if self.tasks.state(reader) == TaskState::Waiting {
                self.tasks.changed.insert(reader);
            }
        }
        self.data.note_new_location(data);
    }

    /// Notes that data that the client wants has arrived.
    pub(super) fn granted(&mut self, data: DataId) {
        let producer = self.graph.datum(data).producer;
        let is_failed = producer.is_some_and(|task| self.tasks.state(task) == TaskState::Failed);
        self.data.granted(data, is_failed);
    }

    /// Takes the data that the client is to fetch for servers, with the server to fetch it from;
    /// `bytes` returns the size of data.
    pub(super) fn take_relays(&mut self, bytes: impl Fn(DataId) -> u64) -> Vec<(DataId, ServerId)> {
        let (graph, attempts) = (self.graph, &self.attempts);
        let is_coming = |&task: &TaskId| is_coming(attempts, task);
        let goes = |data| graph.datum(data).consumers.iter().any(is_coming);
        let waits = |data, to| tried_for((graph, attempts), data, to).is_some();
        self.data.take_relays(bytes, goes, waits)
    }

    /// Notes that the client has received data of `bytes` bytes that it relays.
    pub(super) fn relayed(&mut self, data: DataId, bytes: u64) {
        self.data.relayed(data, bytes);
        self.note_new_location(data);
    }

    /// Takes the relayed data that is no longer needed. A server that computes has its arguments,
    /// and a server to which data was sent does not request it.
    pub(super) fn take_spent(&mut self) -> Vec<DataId> {
        let (graph, tasks, attempts) = (self.graph, &self.tasks, &self.attempts);
        let needs = |&task: &TaskId| match tasks.state(task) {
            TaskState::Waiting => true,
            TaskState::Ordered => {
                is_coming(attempts, task) || tasks.copies.iter().any(|(of, _)| *of == task)
            }
            TaskState::Done | TaskState::Failed => false,
        };
        let is_fetched = self.delivery == Delivery::Fetched;
        self.data.take_spent(|data| is_fetched && graph.datum(data).consumers.iter().any(needs))
    }

    /// Whether a server is not lost.
    pub(super) fn is_there(&self, server: ServerId) -> bool {
        self.is_there[server.index()]
    }

    /// Takes the tasks that can no longer be executed, which are to fail.
    pub(super) fn take_stuck(&mut self) -> BTreeMap<TaskId, Stuck> {
        std::mem::take(&mut self.tasks.stuck)
    }

    /// The tasks that are neither done nor failed.
    pub(super) fn open_tasks(&self) -> Vec<TaskId> {
        self.tasks.all().filter(|&task| !self.tasks.is_settled(task)).collect()
    }
}

/// Whether a server may still request the arguments of a task.
fn is_coming(attempts: &Attempts, task: TaskId) -> bool {
    attempts.open_at(task).any(|attempt| attempts.at(attempt).begun_s.is_none())
}

/// Returns the servers that were tried before for the first task on server `to` that waits for
/// data; `None` if there is no such task, or if a maker of the data has the order to send it there.
fn tried_for(
    (graph, attempts): (&TaskGraph, &Attempts),
    data: DataId,
    to: ServerId,
) -> Option<Vec<ServerId>> {
    let readers = graph.datum(data).consumers.iter().flat_map(|&task| attempts.open_at(task));
    let first = readers.filter(|&attempt| attempts.at(attempt).server == to).min()?;
    let producer = graph.datum(data).producer.into_iter();
    let mut makers = producer.flat_map(|task| attempts.open_at(task));
    // The entries are in the order of the task's outputs, whose ids ascend.
    let is_sent_by = |attempt: AttemptId| {
        let readers = &attempts.at(attempt).readers;
        let found = readers.binary_search_by_key(&data, |(of, _)| *of);
        found.is_ok_and(|place| readers[place].1.contains(&to))
    };
    (!makers.any(is_sent_by)).then(|| attempts.tried_before(first))
}
