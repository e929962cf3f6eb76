//! How far a group is on servers that may be lost: which tasks can be ordered, where their
//! arguments are, and what is done again, or elsewhere. Pure: it is told what happens.

use crate::execution::relays::Relays;
use gridspan_workflow::{DataId, Endpoint, Mapping, ServerId, TaskGraph, TaskId};
use std::collections::{BTreeMap, BTreeSet};

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
pub(crate) enum Stuck {
    /// It was tried too often.
    Tried,
    /// No server is left that could execute it.
    Alone,
    /// An argument is lost, and cannot be made again.
    MissingInput(DataId),
}

/// Where a result is that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResultRequest {
    Open,
    Asked(ServerId),
    Granted,
}

/// An order that a server has.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    task: TaskId,
    server: ServerId,
    /// When its arguments are there, about; and since when it computes.
    ready_s: f64,
    begun_s: Option<f64>,
    is_open: bool,
}

/// An order to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) attempt: usize,
    pub(crate) task: TaskId,
    pub(crate) server: ServerId,
}

/// A group on its way.
#[derive(Debug)]
pub(crate) struct ExecutionState<'a> {
    graph: &'a TaskGraph,
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
    /// The attempts at each task.
    of_task: Vec<Vec<usize>>,
    /// Tasks that are begun again elsewhere while they are late.
    copies: Vec<(TaskId, ServerId)>,
    /// The servers that have each data.
    holders: Vec<BTreeSet<ServerId>>,
    relays: Relays,
    /// For data that the client wants and does not have from the beginning.
    wishes: Vec<Option<ResultRequest>>,
    /// How many of them are not granted, of data that may still be.
    ungranted: usize,
    /// Data whose wish may be asked for.
    wished: BTreeSet<DataId>,
    /// Data that some server is to have at the end.
    kept: Vec<bool>,
    is_there: Vec<bool>,
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
}

fn is_settled(state: State) -> bool {
    matches!(state, State::Done | State::Failed)
}

impl<'a> ExecutionState<'a> {
    /// At its beginning, on so many servers, of which each second of those that are `apart` does
    /// not reach the first. `kept` says of which data a server is to have some at the end.
    pub(crate) fn new(
        graph: &'a TaskGraph,
        mapping: &Mapping,
        (servers, apart): (usize, &BTreeSet<(ServerId, ServerId)>),
        kept: impl Fn(DataId) -> bool,
    ) -> Self {
        let wish = |data: &gridspan_workflow::Data| {
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
        let mut loads = vec![0; servers];
        mapping.servers.iter().for_each(|server| loads[server.index()] += 1);
        Self {
            graph,
            servers: mapping.servers.clone(),
            states: vec![State::Waiting; tasks],
            unsettled: tasks,
            stirred: (0..tasks as u32).map(TaskId).collect(),
            counts: vec![0; tasks],
            attempts: Vec::new(),
            of_task: vec![Vec::new(); tasks],
            copies: Vec::new(),
            holders: holders.collect(),
            relays: Relays::new(apart),
            ungranted: wishes.iter().flatten().count(),
            wishes,
            wished: BTreeSet::new(),
            kept: (0..graph.data().len() as u32).map(|data| kept(DataId(data))).collect(),
            is_there: vec![true; servers],
            places: mapping.places.clone(),
            last_end_s: vec![0.0; servers],
            loads,
            refusals: BTreeMap::new(),
            doubtful: BTreeSet::new(),
            stuck: BTreeMap::new(),
        }
    }

    fn tasks(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.states.len() as u32).map(TaskId)
    }

    fn is_at_client(&self, data: DataId) -> bool {
        self.graph.datum(data).held_by.contains(&Endpoint::Client) || self.relays.has(data)
    }

    fn is_settled(&self, task: TaskId) -> bool {
        is_settled(self.states[task.index()])
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

    /// Whether a task waits whose arguments are there, for its order or for the client to bring
    /// them nearer.
    fn is_ready(&self, task: TaskId) -> bool {
        let is_there =
            |data: &DataId| self.is_at_client(*data) || !self.holders[data.index()].is_empty();
        let is_waiting = self.states[task.index()] == State::Waiting;
        is_waiting && self.graph.task(task).inputs.iter().all(is_there)
    }

    /// The orders to give now: of tasks whose arguments are there, and reached from where the task
    /// goes. `inputs_s` says how long those take to a server.
    pub(crate) fn take_orders(
        &mut self,
        now_s: f64,
        inputs_s: &dyn Fn(&Self, TaskId, ServerId) -> f64,
    ) -> Vec<Given> {
        let mut given = Vec::new();
        for (task, server) in self.take_reached() {
            let ready_s = now_s + inputs_s(self, task, server);
            self.set(task, State::Ordered);
            self.counts[task.index()] += 1;
            let attempt = self.attempts.len();
            self.of_task[task.index()].push(attempt);
            self.attempts.push(Attempt { task, server, ready_s, begun_s: None, is_open: true });
            given.push(Given { attempt, task, server });
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
            let far: Vec<DataId> = inputs.filter(|&data| self.source(data, to).is_none()).collect();
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

    /// Who has data.
    pub(crate) fn holders(&self, data: DataId) -> impl Iterator<Item = Endpoint> + '_ {
        let client = self.is_at_client(data).then_some(Endpoint::Client);
        self.holders[data.index()].iter().copied().map(Endpoint::Server).chain(client)
    }

    /// Whether somebody still waits for an attempt.
    pub(crate) fn is_open(&self, attempt: usize) -> bool {
        self.attempts[attempt].is_open
    }

    /// What an attempt is at.
    pub(crate) fn task_of(&self, attempt: usize) -> TaskId {
        self.attempts[attempt].task
    }

    /// Where an attempt is.
    pub(crate) fn server_of(&self, attempt: usize) -> ServerId {
        self.attempts[attempt].server
    }

    /// An attempt computes.
    pub(crate) fn begun(&mut self, attempt: usize, now_s: f64) {
        self.attempts[attempt].begun_s = Some(now_s);
    }

    /// An attempt is done, for which its server has fetched data; the others at the task, which are
    /// not needed any more.
    pub(crate) fn done(
        &mut self,
        attempt: usize,
        now_s: f64,
        fetched: impl IntoIterator<Item = DataId>,
    ) -> Vec<usize> {
        let Attempt { task, server, .. } = self.attempts[attempt];
        self.attempts[attempt].is_open = false;
        self.last_end_s[server.index()] = now_s;
        self.set(task, State::Done);
        for data in self.graph.task(task).outputs.iter().copied().chain(fetched) {
            self.holders[data.index()].insert(server);
            self.stir(data);
        }
        self.copies.retain(|(of, _)| *of != task);
        let others: Vec<usize> = self.open_at(task).collect();
        others.iter().for_each(|&other| self.attempts[other].is_open = false);
        others
    }

    fn open_at(&self, task: TaskId) -> impl Iterator<Item = usize> + '_ {
        self.of_task[task.index()].iter().copied().filter(|&at| self.attempts[at].is_open)
    }

    /// A task has failed for good, and with it all that depend on it: those that had not before.
    pub(crate) fn fail(&mut self, task: TaskId) -> Vec<TaskId> {
        let (mut failing, mut failed) = (vec![task], Vec::new());
        while let Some(task) = failing.pop() {
            if self.is_settled(task) {
                continue;
            }
            self.set(task, State::Failed);
            failed.push(task);
            for &attempt in &self.of_task[task.index()] {
                self.attempts[attempt].is_open = false;
            }
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
    pub(crate) fn is_over(&self) -> bool {
        self.unsettled == 0 && self.ungranted == 0
    }
}

mod losses;
mod slow;
mod ways;
mod wishes;

#[cfg(test)]
mod tests;
