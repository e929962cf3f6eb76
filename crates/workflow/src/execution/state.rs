//! How far a group is, as its client knows it: which tasks are ordered of whom, and who sends which
//! data. Losses are dealt with in `recovery`, slow servers in `stragglers`.

use super::attempts::Attempts;
use super::copies::DataCopies;
use super::task_states::{Stuck, TaskState, TaskStates};
use super::{AttemptId, Delivery};
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::mapping::Mapping;
use std::collections::{BTreeMap, BTreeSet};

mod recovery;
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

/// Data, who sends it, and the servers that get it.
pub(super) type Sending = (DataId, Endpoint, Vec<ServerId>);

/// A group on its way.
#[derive(Debug)]
pub(super) struct ExecutionState<'a> {
    graph: &'a TaskGraph,
    delivery: Delivery,
    tasks: TaskStates,
    attempts: Attempts,
    data: DataCopies<'a>,
    /// Data that some server is to have at the end.
    kept: Vec<bool>,
    is_there: Vec<bool>,
    /// How long each server takes for a second of work, with all its cores.
    unit_s: Vec<f64>,
    /// When each server ended its last task, in seconds.
    last_end_s: Vec<f64>,
    /// Data that may be nowhere although it is needed.
    doubtful: BTreeSet<DataId>,
    /// Attempts that nobody waits for any more, and whose servers do not know it.
    withdrawn: Vec<AttemptId>,
    /// How many attempts were looked at to find those that should be done elsewhere.
    #[cfg(test)]
    pub(crate) looked_at: std::cell::Cell<usize>,
}

impl<'a> ExecutionState<'a> {
    /// At its beginning, on servers that take so long each for a second of work, of which each
    /// second of those that are `apart` does not reach the first. `kept` says of which data a
    /// server is to have some at the end.
    pub(super) fn new(
        (graph, delivery): (&'a TaskGraph, Delivery),
        mapping: &Mapping,
        (unit_s, apart): (Vec<f64>, BTreeSet<(ServerId, ServerId)>),
        kept: impl Fn(DataId) -> bool,
    ) -> Self {
        Self {
            graph,
            delivery,
            tasks: TaskStates::new(&mapping.servers, unit_s.len()),
            attempts: Attempts::new(unit_s.len(), mapping.places.clone()),
            data: DataCopies::new(graph, apart),
            kept: (0..graph.data().len() as u32).map(|data| kept(DataId(data))).collect(),
            is_there: vec![true; unit_s.len()],
            last_end_s: vec![0.0; unit_s.len()],
            unit_s,
            doubtful: BTreeSet::new(),
            withdrawn: Vec::new(),
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
        }
    }

    /// Whether a task is done.
    pub(super) fn is_done(&self, task: TaskId) -> bool {
        self.tasks.state(task) == TaskState::Done
    }

    /// Whether a task waits that can be ordered, or for which the client is to bring arguments.
    fn is_ready(&self, task: TaskId) -> bool {
        let is_waiting = self.tasks.state(task) == TaskState::Waiting;
        is_waiting && (self.delivery == Delivery::Sent || self.data.has_inputs(task))
    }

    /// The orders to give now. `inputs_s` says how long arguments take to a server.
    pub(super) fn take_orders(
        &mut self,
        now_s: f64,
        inputs_s: &dyn Fn(&Self, TaskId, ServerId) -> f64,
    ) -> Vec<Given> {
        let mut given = Vec::new();
        for (task, server) in self.take_reached() {
            let is_fetched = self.delivery == Delivery::Fetched;
            let has_inputs = self.data.has_inputs(task);
            let ready_s = has_inputs.then(|| now_s + inputs_s(self, task, server));
            self.tasks.ordered(task);
            let readers = if is_fetched { Vec::new() } else { self.readers(task, server) };
            let attempt = self.attempts.give((task, server), ready_s, readers);
            given.push(Given { attempt, task, server });
        }
        for &Given { task, server, .. } in &given {
            for &data in &self.graph.task(task).inputs {
                self.require(data, server);
            }
        }
        given
    }

    /// Tasks whose arguments their servers can have. What others cannot is wanted of the client.
    fn take_reached(&mut self) -> Vec<(TaskId, ServerId)> {
        let stirred = std::mem::take(&mut self.tasks.stirred).into_iter();
        let first = stirred.filter(|&task| self.is_ready(task));
        let first: Vec<_> = first.map(|task| (task, self.tasks.server(task))).collect();
        let copies = std::mem::take(&mut self.tasks.copies);
        self.data.reconsider();
        let (mut reached, graph) = (Vec::new(), self.graph);
        let all = first.into_iter().map(|order| (order, false));
        for ((task, to), is_copy) in all.chain(copies.into_iter().map(|copy| (copy, true))) {
            let inputs = graph.task(task).inputs.iter().copied();
            let is_far = |data: &DataId| {
                self.delivery == Delivery::Fetched && self.data.source(*data, to).is_none()
            };
            let far: Vec<DataId> = inputs.filter(is_far).collect();
            match far.is_empty() {
                true => reached.push((task, to)),
                false if is_copy => self.tasks.copies.push((task, to)),
                // It is ready as it is, and looked at again.
                false => drop(self.tasks.stirred.insert(task)),
            }
            far.into_iter().for_each(|data| self.data.want(data));
        }
        reached
    }

    /// The servers that wait for what a task makes, and that its server reaches.
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

    /// A server waits for data, unless it has it or fetches it.
    fn require(&mut self, data: DataId, at: ServerId) {
        if self.delivery == Delivery::Sent {
            self.data.require(data, at);
        }
    }

    /// What servers and the client are to send now. What cannot be sent is wanted of the client.
    pub(super) fn take_sends(&mut self) -> Vec<Sending> {
        let mut sends: BTreeMap<(DataId, Endpoint), Vec<ServerId>> = BTreeMap::new();
        for (data, to) in self.data.take_stirred_due() {
            let attempt = self.waiting_for(data, to);
            let is_here = self.data.is_held_by(data, to);
            let Some(attempt) = attempt.filter(|_| !is_here && !self.is_coming(data, to)) else {
                self.data.settle_due(data, to);
                continue;
            };
            match self.sender(data, to, attempt) {
                Some(from) if self.data.settle_due(data, to) => {
                    sends.entry((data, from)).or_default().push(to);
                }
                None if self.data.exists(data) && self.data.is_due(data, to) => {
                    self.data.want_for(data, to);
                }
                // It is looked at again when the data was made.
                Some(_) | None => {}
            }
        }
        for ((data, from), to) in &sends {
            self.data.sending(*data, *from, to);
        }
        sends.into_iter().map(|((data, from), to)| (data, from, to)).collect()
    }

    /// Who sends data to a server that waits for it: a server if there is one, but for a task that
    /// was tried before the client if it can. Who has the data may be slow then, and not answer.
    fn sender(&self, data: DataId, to: ServerId, attempt: AttemptId) -> Option<Endpoint> {
        match self.data.is_at_client(data) && !self.attempts.is_first(attempt) {
            true => Some(Endpoint::Client),
            false => self.data.source(data, to),
        }
    }

    /// The first attempt on a server that reads data.
    fn waiting_for(&self, data: DataId, at: ServerId) -> Option<AttemptId> {
        let readers = self.graph.datum(data).consumers.iter();
        let open = readers.flat_map(|&task| self.attempts.open_at(task));
        open.filter(|&attempt| self.attempts.at(attempt).server == at).min()
    }

    /// Whether somebody was told to send data to a server.
    fn is_coming(&self, data: DataId, to: ServerId) -> bool {
        let is_sent_by = |attempt: AttemptId| {
            let mut readers = self.attempts.at(attempt).readers.iter();
            readers.any(|(of, servers)| *of == data && servers.contains(&to))
        };
        let producer = self.graph.datum(data).producer;
        let is_made = producer.is_some_and(|task| self.attempts.open_at(task).any(is_sent_by));
        is_made || self.data.is_sent_to(data, to)
    }

    /// A server has sent data to others, or does not have it.
    pub(super) fn sent(&mut self, data: DataId, from: ServerId, to: &[ServerId], is_sent: bool) {
        for &to in to {
            let to = self.data.heir_of(to);
            self.data.has_said(data, to);
            match is_sent {
                true if self.is_there(to) => self.data.add(data, to),
                true => {}
                false => self.require(data, to),
            }
        }
        match is_sent {
            true => self.stir(data),
            false => self.missing(data, Endpoint::Server(from)),
        }
    }

    /// Who has data.
    pub(super) fn holders(&self, data: DataId) -> impl Iterator<Item = Endpoint> + '_ {
        self.data.holders(data)
    }

    /// Whether data goes from one to the other without the client between them.
    pub(super) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        self.data.is_direct(from, to)
    }

    /// Where a server has data from; nobody if it must come to the client first.
    pub(super) fn source(&self, data: DataId, to: ServerId) -> Option<Endpoint> {
        self.data.source(data, to)
    }

    /// What an attempt is at, and where.
    pub(super) fn attempt(&self, attempt: AttemptId) -> (TaskId, ServerId) {
        (self.attempts.at(attempt).task, self.attempts.at(attempt).server)
    }

    /// The servers to which the server of an attempt sends each result.
    pub(super) fn readers_of(&self, attempt: AttemptId) -> &[(DataId, Vec<ServerId>)] {
        &self.attempts.at(attempt).readers
    }

    /// Whether the answer to an attempt is of use. One that was taken back may have begun before
    /// its server heard of it.
    pub(super) fn is_of_use(&self, attempt: AttemptId) -> bool {
        let (task, server) = self.attempt(attempt);
        let is_early = self.delivery == Delivery::Sent
            && self.is_there(server)
            && !self.tasks.is_settled(task);
        self.is_open(attempt) || is_early
    }

    /// Whether somebody waits for an attempt.
    pub(super) fn is_open(&self, attempt: AttemptId) -> bool {
        self.attempts.at(attempt).is_open
    }

    /// An attempt computes.
    pub(super) fn begun(&mut self, attempt: AttemptId, now_s: f64) {
        self.attempts.begun(attempt, now_s);
    }

    /// An attempt is done, for which its server has fetched data; the others at the task, which are
    /// not needed any more.
    pub(super) fn done(
        &mut self,
        attempt: AttemptId,
        now_s: f64,
        fetched: impl IntoIterator<Item = DataId>,
    ) -> Vec<AttemptId> {
        let (task, server) = self.attempt(attempt);
        self.last_end_s[server.index()] = now_s;
        self.tasks.set(task, TaskState::Done);
        let made = self.graph.task(task).outputs.iter().copied();
        let there: Vec<DataId> = made.chain(fetched).collect();
        if self.is_there(server) {
            there.iter().for_each(|&data| self.data.add(data, server));
        }
        for (data, servers) in self.attempts.take_readers(attempt) {
            for server in servers.into_iter().filter(|server| self.is_there[server.index()]) {
                self.data.add(data, server);
            }
        }
        self.close(attempt);
        self.tasks.copies.retain(|(of, _)| *of != task);
        let others: Vec<AttemptId> = self.attempts.open_at(task).collect();
        for &other in &others {
            self.close(other);
        }
        for data in there {
            self.stir(data);
            if !self.data.exists(data) {
                self.doubtful.insert(data);
            }
        }
        self.make_up();
        others
    }

    /// Nobody waits for an attempt any more, nor for it to send anything.
    fn close(&mut self, attempt: AttemptId) {
        for (data, servers) in self.attempts.close(attempt) {
            servers.into_iter().for_each(|server| self.require(data, server));
        }
    }

    /// The same, of which its server is to hear.
    fn withdraw(&mut self, attempt: AttemptId) {
        self.close(attempt);
        self.withdrawn.push(attempt);
    }

    /// The attempts whose servers are to hear that nobody waits for them any more.
    pub(super) fn take_withdrawn(&mut self) -> Vec<AttemptId> {
        std::mem::take(&mut self.withdrawn)
    }

    /// A task has failed for good, and with it all that depend on it: those that had not before.
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

    /// Whether all is done that has not failed, and the client has what it wants of that.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.are_settled() && self.data.are_granted()
    }

    /// Data is where it was not: tasks may be ready, servers may get it, and the client may have
    /// what it wants.
    fn stir(&mut self, data: DataId) {
        let graph = self.graph;
        for &reader in &graph.datum(data).consumers {
            if self.tasks.state(reader) == TaskState::Waiting {
                self.tasks.stirred.insert(reader);
            }
        }
        self.data.stir(data);
    }

    /// What the client wants and can have, and from which server.
    pub(super) fn take_wishes(&mut self) -> Vec<(DataId, ServerId)> {
        self.data.take_wishes()
    }

    /// Data that the client wants has come.
    pub(super) fn granted(&mut self, data: DataId) {
        let producer = self.graph.datum(data).producer;
        let is_failed = producer.is_some_and(|task| self.tasks.state(task) == TaskState::Failed);
        self.data.granted(data, is_failed);
    }

    /// What the client is to bring for others, and from which server; `bytes` says how large data
    /// is.
    pub(super) fn take_relays(&mut self, bytes: impl Fn(DataId) -> u64) -> Vec<(DataId, ServerId)> {
        let (graph, attempts) = (self.graph, &self.attempts);
        let is_coming = |&task: &TaskId| is_coming(attempts, task);
        let goes = |data| graph.datum(data).consumers.iter().any(is_coming);
        self.data.take_relays(bytes, goes)
    }

    /// The client has data that it brings for others, of so many bytes.
    pub(super) fn relayed(&mut self, data: DataId, bytes: u64) {
        self.data.relayed(data, bytes);
        self.stir(data);
    }

    /// What the client has brought and nobody needs any more. Who computes has what it reads, and
    /// who was sent it does not ask.
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

    /// The tasks that cannot be executed any more, which are to fail.
    pub(super) fn take_stuck(&mut self) -> BTreeMap<TaskId, Stuck> {
        std::mem::take(&mut self.tasks.stuck)
    }

    /// The tasks that are neither done nor failed.
    pub(super) fn open_tasks(&self) -> Vec<TaskId> {
        self.tasks.all().filter(|&task| !self.tasks.is_settled(task)).collect()
    }
}

/// Whether a server may still ask for what a task reads.
fn is_coming(attempts: &Attempts, task: TaskId) -> bool {
    attempts.open_at(task).any(|attempt| attempts.at(attempt).begun_s.is_none())
}
