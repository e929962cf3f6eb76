//! How far a group is, as its client knows it: which tasks can be ordered, where data is, and what
//! is done again, or elsewhere.

use super::Delivery;
use super::relays::Relays;
use crate::graph::{Data, TaskGraph};
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::mapping::Mapping;
use std::collections::{BTreeMap, BTreeSet};

mod stragglers;
#[cfg(test)]
mod tests;

/// A task is ordered so many times at most, for servers that are lost or slow. The first refusal of
/// each server does not count.
const ATTEMPTS_MAX: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Ordered,
    Done,
    Failed,
}

/// Why a task cannot be executed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// It was tried too often.
    Tried,
    /// No server is left that could execute it.
    Alone,
    /// An argument is lost, and cannot be made again.
    MissingInput,
}

/// Where a result is that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultRequest {
    Open,
    Asked(ServerId),
    Granted,
}

/// An order that a server has.
#[derive(Clone, Debug)]
struct Attempt {
    task: TaskId,
    server: ServerId,
    /// When its arguments are there, about, once they exist; and since when it computes.
    ready_s: Option<f64>,
    begun_s: Option<f64>,
    is_open: bool,
    /// The servers to which its server sends each result.
    readers: Vec<(DataId, Vec<ServerId>)>,
}

/// An order to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) attempt: usize,
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
    /// Where each task goes next.
    servers: Vec<ServerId>,
    states: Vec<State>,
    /// How many tasks are neither done nor failed.
    unsettled: usize,
    /// Tasks that may be ready, for something has happened to them or to what they read since they
    /// were looked at.
    stirred: BTreeSet<TaskId>,
    counts: Vec<u32>,
    attempts: Vec<Attempt>,
    /// The attempts that somebody waits for.
    open: BTreeSet<usize>,
    /// The attempts at each task.
    of_task: Vec<Vec<usize>>,
    /// Tasks that are begun again elsewhere while they are late.
    copies: Vec<(TaskId, ServerId)>,
    /// The servers that have each data, or that it was sent to.
    holders: Vec<BTreeSet<ServerId>>,
    relays: Relays,
    /// Data that a server waits for and nobody was told to send there; and of that what may be sent
    /// now.
    due: BTreeSet<(DataId, ServerId)>,
    stirred_due: BTreeSet<(DataId, ServerId)>,
    /// Data that a server was told to send to another, which has not said whether it has it.
    sending: BTreeSet<(DataId, ServerId)>,
    /// For data that the client wants and does not have from the beginning.
    wishes: Vec<Option<ResultRequest>>,
    /// How many of them are not granted, of data that may still be.
    ungranted: usize,
    /// Data whose wish may be asked for.
    wished: BTreeSet<DataId>,
    /// Data that some server is to have at the end.
    kept: Vec<bool>,
    is_there: Vec<bool>,
    /// Who has taken over from each server.
    heirs: BTreeMap<ServerId, ServerId>,
    /// How long each server takes for a second of work, with all its cores.
    unit_s: Vec<f64>,
    /// Of those that could begin, the one with the lowest place does.
    places: Vec<u32>,
    /// When each server ended its last task, in seconds.
    last_end_s: Vec<f64>,
    /// How many tasks go to each server that are neither done nor failed.
    loads: Vec<usize>,
    /// How often each server refused a task.
    refusals: BTreeMap<TaskId, BTreeMap<ServerId, u32>>,
    /// Data that may be nowhere although it is needed.
    doubtful: BTreeSet<DataId>,
    /// Tasks that cannot be executed any more.
    stuck: BTreeMap<TaskId, Stuck>,
    /// Attempts that nobody waits for any more, and whose servers do not know it.
    withdrawn: Vec<usize>,
}

fn is_settled(state: State) -> bool {
    matches!(state, State::Done | State::Failed)
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
        let wish = |data: &Data| {
            (data.is_wanted && data.producer.is_some()).then_some(ResultRequest::Open)
        };
        let holders = graph.data().iter().map(|data| {
            let of_servers = data.held_by.iter().filter_map(|holder| match holder {
                Endpoint::Server(server) => Some(*server),
                Endpoint::Client => None,
            });
            of_servers.collect()
        });
        let tasks = graph.tasks().len();
        let wishes: Vec<Option<ResultRequest>> = graph.data().iter().map(wish).collect();
        let mut loads = vec![0; unit_s.len()];
        mapping.servers.iter().for_each(|server| loads[server.index()] += 1);
        Self {
            graph,
            delivery,
            servers: mapping.servers.clone(),
            states: vec![State::Waiting; tasks],
            unsettled: tasks,
            stirred: (0..tasks as u32).map(TaskId).collect(),
            counts: vec![0; tasks],
            attempts: Vec::new(),
            open: BTreeSet::new(),
            of_task: vec![Vec::new(); tasks],
            copies: Vec::new(),
            holders: holders.collect(),
            relays: Relays::new(apart),
            due: BTreeSet::new(),
            stirred_due: BTreeSet::new(),
            sending: BTreeSet::new(),
            ungranted: wishes.iter().flatten().count(),
            wishes,
            wished: BTreeSet::new(),
            kept: (0..graph.data().len() as u32).map(|data| kept(DataId(data))).collect(),
            is_there: vec![true; unit_s.len()],
            heirs: BTreeMap::new(),
            places: mapping.places.clone(),
            last_end_s: vec![0.0; unit_s.len()],
            unit_s,
            loads,
            refusals: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            stuck: BTreeMap::new(),
            withdrawn: Vec::new(),
        }
    }

    fn tasks(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.states.len() as u32).map(TaskId)
    }

    fn is_at_client(&self, data: DataId) -> bool {
        self.graph.datum(data).held_by.contains(&Endpoint::Client) || self.relays.has(data)
    }

    /// Whether data was made, or was there before.
    fn exists(&self, data: DataId) -> bool {
        self.is_at_client(data) || !self.holders[data.index()].is_empty()
    }

    fn is_settled(&self, task: TaskId) -> bool {
        is_settled(self.states[task.index()])
    }

    /// Whether a task is done.
    pub(super) fn is_done(&self, task: TaskId) -> bool {
        self.states[task.index()] == State::Done
    }

    fn set(&mut self, task: TaskId, state: State) {
        let was_settled = self.is_settled(task);
        self.states[task.index()] = state;
        let load = &mut self.loads[self.servers[task.index()].index()];
        let (before, after) = (usize::from(was_settled), usize::from(is_settled(state)));
        (*load, self.unsettled) = (*load + before - after, self.unsettled + before - after);
        if state == State::Waiting {
            self.stirred.insert(task);
        }
    }

    /// A task that is neither done nor failed goes to another server.
    fn send(&mut self, task: TaskId, to: ServerId) {
        let from = std::mem::replace(&mut self.servers[task.index()], to);
        self.loads[from.index()] -= 1;
        self.loads[to.index()] += 1;
    }

    /// Whether a task waits that can be ordered, or for which the client is to bring arguments.
    fn is_ready(&self, task: TaskId) -> bool {
        let is_waiting = self.states[task.index()] == State::Waiting;
        is_waiting && (self.delivery == Delivery::Sent || self.has_inputs(task))
    }

    /// Whether all arguments of a task exist.
    fn has_inputs(&self, task: TaskId) -> bool {
        self.graph.task(task).inputs.iter().all(|&data| self.exists(data))
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
            let ready_s = self.has_inputs(task).then(|| now_s + inputs_s(self, task, server));
            self.set(task, State::Ordered);
            self.counts[task.index()] += 1;
            let attempt = self.attempts.len();
            let readers = if is_fetched { Vec::new() } else { self.readers(task, server) };
            self.of_task[task.index()].push(attempt);
            self.open.insert(attempt);
            let (begun_s, is_open) = (None, true);
            self.attempts.push(Attempt { task, server, ready_s, begun_s, is_open, readers });
            given.push(Given { attempt, task, server });
        }
        if self.delivery == Delivery::Sent {
            for &Given { task, server, .. } in &given {
                for &data in &self.graph.task(task).inputs {
                    self.require(data, server);
                }
            }
        }
        given
    }

    /// Tasks whose arguments their servers can have. What others cannot is wanted of the client.
    fn take_reached(&mut self) -> Vec<(TaskId, ServerId)> {
        let stirred = std::mem::take(&mut self.stirred).into_iter();
        let first = stirred.filter(|&task| self.is_ready(task));
        let first: Vec<_> = first.map(|task| (task, self.servers[task.index()])).collect();
        let copies = std::mem::take(&mut self.copies);
        self.relays.reconsider();
        let (mut reached, graph) = (Vec::new(), self.graph);
        let all = first.into_iter().map(|order| (order, false));
        for ((task, to), is_copy) in all.chain(copies.into_iter().map(|copy| (copy, true))) {
            let inputs = graph.task(task).inputs.iter().copied();
            let is_far = |data: &DataId| {
                self.delivery == Delivery::Fetched && self.source(*data, to).is_none()
            };
            let far: Vec<DataId> = inputs.filter(is_far).collect();
            match far.is_empty() {
                true => reached.push((task, to)),
                false if is_copy => self.copies.push((task, to)),
                // It is ready as it is, and looked at again.
                false => drop(self.stirred.insert(task)),
            }
            far.into_iter().for_each(|data| self.relays.want(data));
        }
        reached
    }

    /// The servers that wait for what a task makes, and that its server reaches.
    fn readers(&self, task: TaskId, maker: ServerId) -> Vec<(DataId, Vec<ServerId>)> {
        let of = |&data: &DataId| {
            let mut readers = BTreeSet::new();
            for &reader in &self.graph.datum(data).consumers {
                match self.states[reader.index()] {
                    State::Done | State::Failed => {}
                    State::Waiting => drop(readers.insert(self.servers[reader.index()])),
                    State::Ordered => {
                        readers.extend(self.open_at(reader).map(|at| self.attempts[at].server));
                    }
                }
            }
            readers.remove(&maker);
            readers.retain(|to| !self.holders[data.index()].contains(to));
            readers.retain(|to| self.is_direct(Endpoint::Server(maker), *to));
            (data, readers.into_iter().collect())
        };
        self.graph.task(task).outputs.iter().map(of).collect()
    }

    /// A server waits for data, unless it has it.
    fn require(&mut self, data: DataId, at: ServerId) {
        if self.delivery == Delivery::Sent && !self.holders[data.index()].contains(&at) {
            self.due.insert((data, at));
            self.stirred_due.insert((data, at));
        }
    }

    /// What servers and the client are to send now. What cannot be sent is wanted of the client.
    pub(super) fn take_sends(&mut self) -> Vec<Sending> {
        let mut sends: BTreeMap<(DataId, Endpoint), Vec<ServerId>> = BTreeMap::new();
        for (data, to) in std::mem::take(&mut self.stirred_due) {
            let attempt = self.waiting_for(data, to);
            let is_here = self.holders[data.index()].contains(&to);
            let Some(attempt) = attempt.filter(|_| !is_here && !self.is_coming(data, to)) else {
                self.due.remove(&(data, to));
                continue;
            };
            match self.sender(data, to, attempt) {
                Some(from) if self.due.remove(&(data, to)) => {
                    sends.entry((data, from)).or_default().push(to);
                }
                None if self.exists(data) && self.due.contains(&(data, to)) => {
                    self.relays.want(data);
                    self.stirred_due.insert((data, to));
                }
                // It is looked at again when the data was made.
                Some(_) | None => {}
            }
        }
        for ((data, from), to) in &sends {
            match from {
                Endpoint::Client => self.holders[data.index()].extend(to),
                Endpoint::Server(_) => self.sending.extend(to.iter().map(|&to| (*data, to))),
            }
        }
        sends.into_iter().map(|((data, from), to)| (data, from, to)).collect()
    }

    /// Who sends data to a server that waits for it: a server if there is one, but for a task that
    /// was tried before the client if it can. Who has the data may be slow then, and not answer.
    fn sender(&self, data: DataId, to: ServerId, attempt: usize) -> Option<Endpoint> {
        let task = self.attempts[attempt].task;
        let is_first = self.of_task[task.index()].first() == Some(&attempt);
        match self.is_at_client(data) && !is_first {
            true => Some(Endpoint::Client),
            false => self.source(data, to),
        }
    }

    /// The first attempt on a server that reads data.
    fn waiting_for(&self, data: DataId, at: ServerId) -> Option<usize> {
        let readers = self.graph.datum(data).consumers.iter();
        let open = readers.flat_map(|&task| self.open_at(task));
        open.filter(|&attempt| self.attempts[attempt].server == at).min()
    }

    /// Whether somebody was told to send data to a server.
    fn is_coming(&self, data: DataId, to: ServerId) -> bool {
        let is_sent_by = |attempt: usize| {
            let mut readers = self.attempts[attempt].readers.iter();
            readers.any(|(of, servers)| *of == data && servers.contains(&to))
        };
        let producer = self.graph.datum(data).producer;
        let is_made = producer.is_some_and(|task| self.open_at(task).any(is_sent_by));
        is_made || self.sending.contains(&(data, to))
    }

    /// A server has sent data to others, or does not have it.
    pub(super) fn sent(&mut self, data: DataId, from: ServerId, to: &[ServerId], is_sent: bool) {
        for &to in to {
            let to = self.heir_of(to);
            self.sending.remove(&(data, to));
            match is_sent {
                true if self.is_there(to) => drop(self.holders[data.index()].insert(to)),
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
        let client = self.is_at_client(data).then_some(Endpoint::Client);
        self.holders[data.index()].iter().copied().map(Endpoint::Server).chain(client)
    }

    /// What an attempt is at, and where.
    pub(super) fn attempt(&self, attempt: usize) -> (TaskId, ServerId) {
        (self.attempts[attempt].task, self.attempts[attempt].server)
    }

    /// The servers to which the server of an attempt sends each result.
    pub(super) fn readers_of(&self, attempt: usize) -> &[(DataId, Vec<ServerId>)] {
        &self.attempts[attempt].readers
    }

    /// Whether the answer to an attempt is of use. One that was taken back may have begun before
    /// its server heard of it.
    pub(super) fn is_of_use(&self, attempt: usize) -> bool {
        let Attempt { task, server, is_open, .. } = self.attempts[attempt];
        let is_early = self.delivery == Delivery::Sent
            && self.is_there[server.index()]
            && !self.is_settled(task);
        is_open || is_early
    }

    /// Whether somebody waits for an attempt.
    pub(super) fn is_open(&self, attempt: usize) -> bool {
        self.attempts[attempt].is_open
    }

    /// An attempt computes.
    pub(super) fn begun(&mut self, attempt: usize, now_s: f64) {
        self.attempts[attempt].begun_s = Some(now_s);
    }

    /// An attempt is done, for which its server has fetched data; the others at the task, which are
    /// not needed any more.
    pub(super) fn done(
        &mut self,
        attempt: usize,
        now_s: f64,
        fetched: impl IntoIterator<Item = DataId>,
    ) -> Vec<usize> {
        let (task, server) = self.attempt(attempt);
        self.last_end_s[server.index()] = now_s;
        self.set(task, State::Done);
        let is_there = self.is_there[server.index()];
        let made = self.graph.task(task).outputs.iter().copied();
        let there: Vec<DataId> = made.chain(fetched).collect();
        for &data in there.iter().filter(|_| is_there) {
            self.holders[data.index()].insert(server);
        }
        for (data, servers) in std::mem::take(&mut self.attempts[attempt].readers) {
            let there = servers.into_iter().filter(|server| self.is_there[server.index()]);
            self.holders[data.index()].extend(there);
        }
        self.close(attempt);
        self.copies.retain(|(of, _)| *of != task);
        let others: Vec<usize> = self.open_at(task).collect();
        for &other in &others {
            self.close(other);
        }
        for data in there {
            self.stir(data);
            if !self.exists(data) {
                self.doubtful.insert(data);
            }
        }
        self.make_up();
        others
    }

    /// Nobody waits for an attempt any more, nor for it to send anything.
    fn close(&mut self, attempt: usize) {
        self.attempts[attempt].is_open = false;
        self.open.remove(&attempt);
        for (data, servers) in std::mem::take(&mut self.attempts[attempt].readers) {
            servers.into_iter().for_each(|server| self.require(data, server));
        }
    }

    /// The same, of which its server is to hear.
    fn withdraw(&mut self, attempt: usize) {
        self.close(attempt);
        self.withdrawn.push(attempt);
    }

    /// The attempts whose servers are to hear that nobody waits for them any more.
    pub(super) fn take_withdrawn(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.withdrawn)
    }

    fn open_at(&self, task: TaskId) -> impl Iterator<Item = usize> + '_ {
        self.of_task[task.index()].iter().copied().filter(|&at| self.attempts[at].is_open)
    }

    /// A task has failed for good, and with it all that depend on it: those that had not before.
    pub(super) fn fail(&mut self, task: TaskId) -> Vec<TaskId> {
        let (mut failing, mut failed) = (vec![task], Vec::new());
        while let Some(task) = failing.pop() {
            if self.is_settled(task) {
                continue;
            }
            self.set(task, State::Failed);
            failed.push(task);
            let open: Vec<usize> = self.open_at(task).collect();
            open.into_iter().for_each(|attempt| self.withdraw(attempt));
            for &data in &self.graph.task(task).outputs {
                let wish = self.wishes[data.index()];
                self.ungranted -=
                    usize::from(wish.is_some_and(|wish| wish != ResultRequest::Granted));
                failing.extend(&self.graph.datum(data).consumers);
            }
        }
        self.copies.retain(|(of, _)| self.states[of.index()] != State::Failed);
        failed
    }

    /// Whether all is done that has not failed, and the client has what it wants of that.
    pub(super) fn is_over(&self) -> bool {
        self.unsettled == 0 && self.ungranted == 0
    }

    /// Data is where it was not: tasks may be ready, servers may get it, and the client may have
    /// what it wants.
    fn stir(&mut self, data: DataId) {
        let graph = self.graph;
        let readers = graph.datum(data).consumers.iter();
        let waiting = readers.filter(|reader| self.states[reader.index()] == State::Waiting);
        self.stirred.extend(waiting);
        let all = (data, ServerId(0))..=(data, ServerId(u32::MAX));
        self.stirred_due.extend(self.due.range(all));
        if self.wishes[data.index()] == Some(ResultRequest::Open) {
            self.wished.insert(data);
        }
    }

    /// What the client wants and can have, and from which server.
    pub(super) fn take_wishes(&mut self) -> Vec<(DataId, ServerId)> {
        let mut taken = Vec::new();
        for data in std::mem::take(&mut self.wished) {
            let wish = &mut self.wishes[data.index()];
            // What nobody has any more is made again.
            if let (Some(ResultRequest::Open), Some(&server)) =
                (*wish, self.holders[data.index()].first())
            {
                *wish = Some(ResultRequest::Asked(server));
                taken.push((data, server));
            }
        }
        taken
    }

    /// Data that the client wants has come.
    pub(super) fn granted(&mut self, data: DataId) {
        let before = self.wishes[data.index()].replace(ResultRequest::Granted);
        let producer = self.graph.datum(data).producer;
        let is_failed = producer.is_some_and(|task| self.states[task.index()] == State::Failed);
        if before.is_some_and(|wish| wish != ResultRequest::Granted) && !is_failed {
            self.ungranted -= 1;
        }
    }

    /// An attempt came to nothing because its server does not reach others, which have this data.
    /// It does not count: each time two servers more are known to be apart, so that there is an end
    /// of it.
    pub(super) fn unreached(&mut self, attempt: usize, data: &[(DataId, ServerId)]) {
        let (task, server) = self.attempt(attempt);
        let count = &mut self.counts[task.index()];
        *count = count.saturating_sub(1);
        data.iter().for_each(|&(data, from)| self.relays.part(data, from, server));
        self.again(attempt);
    }

    /// Whether data goes from one to the other without the client between them.
    pub(super) fn is_direct(&self, from: Endpoint, to: ServerId) -> bool {
        match from {
            Endpoint::Server(from) => from == to || !self.relays.are_apart(from, to),
            Endpoint::Client => true,
        }
    }

    /// Where a server has data from: itself, another server, or the client; nobody if it must come
    /// to the client first. Where one server with the data was not reached, no other is tried:
    /// those may be behind the same router, and each takes some seconds.
    pub(super) fn source(&self, data: DataId, to: ServerId) -> Option<Endpoint> {
        let holders = &self.holders[data.index()];
        if holders.contains(&to) {
            return Some(Endpoint::Server(to));
        }
        if self.relays.is_unreached(data, to) {
            return self.is_at_client(data).then_some(Endpoint::Client);
        }
        let mut all = self.holders(data);
        all.find(|&from| self.is_direct(from, to))
    }

    /// What the client is to bring for others, and from which server; `bytes` says how large data
    /// is.
    pub(super) fn take_relays(&mut self, bytes: impl Fn(DataId) -> u64) -> Vec<(DataId, ServerId)> {
        if self.relays.is_idle() {
            return Vec::new();
        }
        let (graph, holders, coming) = (self.graph, &self.holders, self.coming());
        let holder = |data: DataId| holders[data.index()].first().copied();
        let goes = |data| graph.datum(data).consumers.iter().any(|task| coming.contains(task));
        self.relays.take(holder, bytes, goes)
    }

    /// Tasks that are ordered of servers that may still ask for what these read.
    fn coming(&self) -> BTreeSet<TaskId> {
        let open = self.open.iter().map(|&attempt| &self.attempts[attempt]);
        open.filter(|attempt| attempt.begun_s.is_none()).map(|attempt| attempt.task).collect()
    }

    /// The client has data that it brings for others, of so many bytes.
    pub(super) fn relayed(&mut self, data: DataId, bytes: u64) {
        self.relays.came(data, bytes);
        self.stir(data);
    }

    /// What the client has brought and nobody needs any more. Who computes has what it reads, and
    /// who was sent it does not ask.
    pub(super) fn take_spent(&mut self) -> Vec<DataId> {
        if self.relays.is_idle() {
            return Vec::new();
        }
        if self.delivery == Delivery::Sent {
            let of = |data| (data, ServerId(0))..=(data, ServerId(u32::MAX));
            let due = &self.due;
            return self.relays.take_spent(|data| due.range(of(data)).next().is_none());
        }
        let (graph, states, coming) = (self.graph, &self.states, self.coming());
        let copies: BTreeSet<TaskId> = self.copies.iter().map(|(task, _)| *task).collect();
        let needs = |task: &TaskId| match states[task.index()] {
            State::Waiting => true,
            State::Ordered => coming.contains(task) || copies.contains(task),
            State::Done | State::Failed => false,
        };
        self.relays.take_spent(|data| !graph.datum(data).consumers.iter().any(needs))
    }

    /// Data is not where it was said to be.
    pub(super) fn missing(&mut self, data: DataId, from: Endpoint) {
        if let Endpoint::Server(server) = from {
            let server = self.heir_of(server);
            self.holders[data.index()].remove(&server);
            self.relays.missing(data, server);
        }
        if let Some(wish @ ResultRequest::Asked(_)) = &mut self.wishes[data.index()] {
            *wish = ResultRequest::Open;
            self.wished.insert(data);
        }
        self.doubtful.insert(data);
        self.make_up();
    }

    /// An attempt came to nothing; if there is no other, the task is ordered again.
    pub(super) fn again(&mut self, attempt: usize) {
        self.ends_in_vain(attempt);
        self.make_up();
    }

    /// What an attempt that has not begun may be waiting for is elsewhere than it was told: it is
    /// ordered anew, which does not count.
    pub(super) fn renew(&mut self, attempt: usize) {
        let Attempt { task, begun_s, is_open, .. } = self.attempts[attempt];
        if is_open && begun_s.is_none() {
            let count = &mut self.counts[task.index()];
            *count = count.saturating_sub(1);
            self.withdrawn.push(attempt);
            self.again(attempt);
        }
    }

    /// A server does not execute an attempt; another may, which has refused it less often.
    pub(super) fn refused(&mut self, attempt: usize) {
        let (task, server) = self.attempt(attempt);
        let refusals = self.refusals.entry(task).or_default().entry(server).or_default();
        *refusals += 1;
        if *refusals == 1 {
            let count = &mut self.counts[task.index()];
            *count = count.saturating_sub(1);
        }
        self.ends_in_vain(attempt);
        if self.states[task.index()] == State::Waiting {
            self.send_elsewhere(task);
        }
        self.make_up();
    }

    /// Whether a server is not lost.
    pub(super) fn is_there(&self, server: ServerId) -> bool {
        self.is_there[server.index()]
    }

    /// A server is lost, with all it had and had to do.
    pub(super) fn lost(&mut self, server: ServerId) {
        self.gone(server, None);
        self.copies.retain(|(_, to)| *to != server);
        let given: Vec<usize> = self.open_on(server);
        given.into_iter().for_each(|attempt| self.ends_in_vain(attempt));
        let is_homeless = |task: &TaskId| {
            self.states[task.index()] == State::Waiting && self.servers[task.index()] == server
        };
        let homeless: Vec<TaskId> = self.tasks().filter(is_homeless).collect();
        homeless.into_iter().for_each(|task| self.send_elsewhere(task));
        self.make_up();
    }

    /// Another server has taken over all that a server had and had to do; one that the group does
    /// not know, if none is named.
    pub(super) fn handed_over(&mut self, server: ServerId, heir: Option<ServerId>) {
        self.gone(server, heir);
        let Some(heir) = heir else { return self.make_up() };
        self.heirs.insert(server, heir);
        for attempt in self.open_on(server) {
            self.attempts[attempt].server = heir;
        }
        let follow = |to: &mut ServerId| *to = if *to == server { heir } else { *to };
        for attempt in &mut self.attempts {
            attempt.readers.iter_mut().flat_map(|(_, servers)| servers).for_each(follow);
        }
        self.copies.iter_mut().for_each(|(_, to)| follow(to));
        for set in [&mut self.due, &mut self.stirred_due, &mut self.sending] {
            let all = std::mem::take(set).into_iter();
            set.extend(all.map(|(data, to)| (data, if to == server { heir } else { to })));
        }
        let moved: Vec<TaskId> = self
            .tasks()
            .filter(|task| !self.is_settled(*task) && self.servers[task.index()] == server)
            .collect();
        moved.into_iter().for_each(|task| self.send(task, heir));
        self.make_up();
    }

    /// Who has what a server had: itself, or who took over from it.
    fn heir_of(&self, mut server: ServerId) -> ServerId {
        while let Some(&heir) = self.heirs.get(&server) {
            server = heir;
        }
        server
    }

    /// A server is not there any more; what it had is with its heir, if it has one.
    fn gone(&mut self, server: ServerId, heir: Option<ServerId>) {
        self.is_there[server.index()] = false;
        for (data, holders) in (0..).map(DataId).zip(&mut self.holders) {
            if holders.remove(&server) {
                holders.extend(heir);
                self.doubtful.insert(data);
            }
        }
        for (data, wish) in (0..).map(DataId).zip(&mut self.wishes) {
            if *wish == Some(ResultRequest::Asked(server)) {
                *wish = Some(ResultRequest::Open);
                self.wished.insert(data);
            }
        }
        self.relays.lost(server);
    }

    fn open_on(&self, server: ServerId) -> Vec<usize> {
        let all = self.open.iter().copied();
        all.filter(|&attempt| self.attempts[attempt].server == server).collect()
    }

    /// The tasks that cannot be executed any more, which are to fail.
    pub(super) fn take_stuck(&mut self) -> BTreeMap<TaskId, Stuck> {
        std::mem::take(&mut self.stuck)
    }

    /// The tasks that are neither done nor failed.
    pub(super) fn open_tasks(&self) -> Vec<TaskId> {
        self.tasks().filter(|&task| !self.is_settled(task)).collect()
    }

    fn ends_in_vain(&mut self, attempt: usize) {
        self.close(attempt);
        let task = self.attempts[attempt].task;
        if self.states[task.index()] == State::Ordered && self.open_at(task).next().is_none() {
            self.wait(task);
        }
    }

    /// A task is to be ordered again, on a server that is there.
    fn wait(&mut self, task: TaskId) {
        self.set(task, State::Waiting);
        self.doubtful.extend(&self.graph.task(task).inputs);
        if self.counts[task.index()] >= ATTEMPTS_MAX {
            self.stuck.insert(task, Stuck::Tried);
        }
        if !self.is_there[self.servers[task.index()].index()] {
            self.send_elsewhere(task);
        }
    }

    fn send_elsewhere(&mut self, task: TaskId) {
        match self.next_for(task) {
            Some(server) => self.send(task, server),
            None => drop(self.stuck.insert(task, Stuck::Alone)),
        }
    }

    /// The server that has refused a task least often, and would end it first by what it has to do,
    /// of those that could execute it.
    fn next_for(&self, task: TaskId) -> Option<ServerId> {
        let able = (0..self.is_there.len() as u32).map(ServerId).filter(|&server| {
            self.is_there[server.index()] && self.graph.task(task).can_run_on(server)
        });
        let refusals = self.refusals.get(&task);
        let refused =
            |server: &ServerId| refusals.and_then(|of| of.get(server)).copied().unwrap_or(0);
        let end_s = |server: &ServerId| {
            (self.loads[server.index()] + 1) as f64 * self.unit_s[server.index()]
        };
        able.min_by(|one, other| {
            refused(one).cmp(&refused(other)).then(end_s(one).total_cmp(&end_s(other)))
        })
    }

    /// Has tasks done again whose results are needed and lost. Costs what has changed, and not what
    /// the group has.
    fn make_up(&mut self) {
        let graph = self.graph;
        while let Some(data) = self.doubtful.pop_first() {
            let all = (data, ServerId(0))..=(data, ServerId(u32::MAX));
            // Who was told to send it says whether it has it.
            if !self.holders[data.index()].is_empty() || self.sending.range(all).next().is_some() {
                continue;
            }
            let datum = graph.datum(data);
            let producer = datum.producer.map(|task| (task, self.states[task.index()]));
            match producer {
                // What it needs itself is in doubt then.
                Some((task, State::Done)) if self.is_needed(data) => self.wait(task),
                Some((_, State::Waiting | State::Ordered | State::Done)) => {}
                None | Some((_, State::Failed)) if self.is_at_client(data) => {}
                None | Some((_, State::Failed)) => {
                    let is_waiting = |task: &&TaskId| match self.states[task.index()] {
                        State::Waiting => true,
                        State::Ordered => self.delivery == Delivery::Sent,
                        State::Done | State::Failed => false,
                    };
                    let waiting = datum.consumers.iter().filter(is_waiting);
                    let stuck = waiting.map(|&task| (task, Stuck::MissingInput));
                    self.stuck.extend(stuck);
                }
            }
        }
    }

    /// Whether somebody needs data that no server has.
    fn is_needed(&self, data: DataId) -> bool {
        let mut readers = self.graph.datum(data).consumers.iter();
        let is_read = readers.any(|reader| !is_settled(self.states[reader.index()]));
        let is_wished =
            self.wishes[data.index()].is_some_and(|wish| wish != ResultRequest::Granted);
        (is_read && !self.relays.has(data)) || is_wished || self.kept[data.index()]
    }
}
