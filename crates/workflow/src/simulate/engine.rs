//! The execution of a group, event by event.

use super::agent::Agent;
use super::attempt::{Attempt, ServerState, Stage};
use super::copies::{AttemptId, DataCopies, PullId, Waiter, Wish};
use super::flows::Flows;
use super::time::SimTime;
use super::{Execution, Perturbations, StragglerPolicy, TaskRun, Transfer};
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::mapping::Mapping;
use crate::platform::Platform;
use crate::stragglers::Watch;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// A place behind all tasks: what the client alone wants is pulled last.
const LAST: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// The first byte of a pull arrives.
    Arrives(PullId),
    /// An attempt ends.
    Ends(AttemptId),
    /// An attempt should have ended long ago.
    Late(AttemptId),
}

pub(super) struct Engine<'a> {
    pub(super) graph: &'a TaskGraph,
    pub(super) platform: &'a Platform,
    perturbations: &'a Perturbations,
    pub(super) places: Vec<u32>,
    pub(super) copies: DataCopies<'a>,
    flows: Flows<'a>,
    pub(super) attempts: Vec<Attempt>,
    /// The attempts at each task that are not over.
    pub(super) current: Vec<Vec<AttemptId>>,
    /// Those of them whose inputs exist, and those that run: few at a time, however many there are.
    pub(super) possible: BTreeSet<AttemptId>,
    pub(super) running: BTreeSet<AttemptId>,
    pub(super) servers_state: Vec<ServerState>,
    /// Servers on which something may begin.
    stirred: BTreeSet<ServerId>,
    is_done: Vec<bool>,
    /// Inputs of each task that do not exist.
    pub(super) unmade: Vec<usize>,
    pub(super) watch: Option<Watch>,
    pub(super) calls: Option<Agent>,
    /// How many attempts were looked at to find those that should be moved.
    #[cfg(test)]
    pub(super) looked_at: std::cell::Cell<usize>,
    events: BinaryHeap<Reverse<(SimTime, u64, What)>>,
    count: u64,
    pub(super) now_s: f64,
    pub(super) execution: Execution,
}

impl<'a> Engine<'a> {
    pub(super) fn mapped(
        graph: &'a TaskGraph,
        platform: &'a Platform,
        mapping: &Mapping,
        perturbations: &'a Perturbations,
        policy: StragglerPolicy,
    ) -> Self {
        let mut engine = Self::new(graph, platform, perturbations, mapping.relays);
        engine.places.clone_from(&mapping.places);
        let is_copying = policy == StragglerPolicy::StealAndCopy;
        engine.watch =
            (policy != StragglerPolicy::None).then(|| Watch::new(graph, platform, is_copying));
        for (task, &server) in (0..).map(TaskId).zip(&mapping.servers) {
            engine.attempt(task, server);
        }
        engine
    }

    pub(super) fn called(
        graph: &'a TaskGraph,
        platform: &'a Platform,
        perturbations: &'a Perturbations,
    ) -> Self {
        let mut engine = Self::new(graph, platform, perturbations, false);
        for (place, task) in (0..).zip(graph.order()) {
            engine.places[task.index()] = place;
        }
        engine.calls = Some(Agent::new(graph, platform));
        engine
    }

    fn new(
        graph: &'a TaskGraph,
        platform: &'a Platform,
        perturbations: &'a Perturbations,
        relays: bool,
    ) -> Self {
        let tasks = graph.tasks().len();
        let server_state = |server: &crate::platform::ServerSpec| ServerState {
            free: server.cores,
            ..ServerState::default()
        };
        Self {
            graph,
            platform,
            perturbations,
            places: vec![0; tasks],
            copies: DataCopies::new(graph, platform, relays),
            flows: Flows::new(platform),
            attempts: Vec::with_capacity(tasks),
            current: vec![Vec::new(); tasks],
            possible: BTreeSet::new(),
            running: BTreeSet::new(),
            servers_state: platform.servers().iter().map(server_state).collect(),
            stirred: BTreeSet::new(),
            is_done: vec![false; tasks],
            unmade: graph.tasks().iter().map(|task| task.inputs.len()).collect(),
            watch: None,
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
            calls: None,
            events: BinaryHeap::new(),
            count: 0,
            now_s: 0.0,
            execution: Execution::default(),
        }
    }

    pub(super) fn run(mut self) -> Execution {
        self.run_to_end();
        self.execution
    }

    pub(super) fn run_to_end(&mut self) {
        let graph = self.graph;
        for (data, datum) in (0..).map(DataId).zip(graph.data()) {
            for &holder in &datum.held_by {
                self.copies.add(data, holder);
            }
            if datum.producer.is_none() {
                self.made(data);
            }
        }
        if self.calls.is_some() {
            let order = graph.order().iter();
            let callable = order.filter(|task| graph.task(**task).inputs.is_empty());
            callable.for_each(|task| self.call(*task));
        }
        self.begin();
        while self.step() {}
        let last = self.execution.runs.last().map_or(0.0, |run| run.end_s);
        self.execution.makespan_s = self.execution.makespan_s.max(last);
    }

    fn step(&mut self) -> bool {
        let event_s = self.events.peek().map_or(f64::INFINITY, |Reverse((at, ..))| at.0);
        let flow_s = self.flows.next_s();
        if event_s.is_infinite() && flow_s.is_infinite() {
            return false;
        }
        if flow_s < event_s {
            self.now_s = flow_s.max(self.now_s);
            if let Some(pull) = self.flows.end(self.now_s) {
                self.arrived(pull);
            }
        } else if let Some(Reverse((at, _, what))) = self.events.pop() {
            self.now_s = at.0;
            match what {
                What::Arrives(pull) => self.arrives(pull),
                What::Ends(attempt) => self.ends(attempt),
                What::Late(attempt) => self.late(attempt),
            }
        }
        self.begin();
        true
    }

    pub(super) fn at(&mut self, at_s: f64, what: What) {
        self.events.push(Reverse((SimTime(at_s), self.count, what)));
        self.count += 1;
    }

    /// Begins all tasks and pulls that may. Only when all that happens at once has been seen, so
    /// that the lowest place goes first.
    fn begin(&mut self) {
        while let Some(server) = self.stirred.pop_first() {
            self.fill(server);
        }
        while let Some(pull) = self.copies.begin(self.now_s) {
            let pulled = self.copies.pull(pull);
            let latency_s = self.platform.latency_s(pulled.from, pulled.to);
            self.at(self.now_s + latency_s, What::Arrives(pull));
        }
    }

    fn arrives(&mut self, pull: PullId) {
        let pulled = self.copies.pull(pull);
        let (way, bytes) = ((pulled.from, pulled.to), self.graph.datum(pulled.data).bytes);
        match bytes {
            0 => self.arrived(pull),
            _ => self.flows.begin(self.now_s, way, bytes, pull),
        }
    }

    fn arrived(&mut self, pull: PullId) {
        let pulled = self.copies.pull(pull);
        let (data, from, to) = (pulled.data, pulled.from, pulled.to);
        let (start_s, end_s) = (pulled.start_s, self.now_s);
        self.execution.transfers.push(Transfer { data, from, to, start_s, end_s });
        for waiter in self.copies.end(pull) {
            self.granted(data, waiter);
        }
    }

    fn granted(&mut self, data: DataId, waiter: Waiter) {
        match waiter {
            Waiter::Attempt(attempt) => self.input(data, attempt),
            Waiter::Program => self.home(data),
            // The stock goes on with it.
            Waiter::Pull(_) => {}
        }
    }

    /// The client has data that it wanted.
    fn home(&mut self, data: DataId) {
        if self.graph.datum(data).is_wanted {
            self.execution.makespan_s = self.now_s;
        }
        if self.calls.is_some() {
            self.argument(data);
        }
    }

    pub(super) fn wish(&mut self, data: DataId, to: Endpoint, waiter: Waiter, place: u32) {
        if let Wish::Granted = self.copies.wish(data, to, waiter, place) {
            self.granted(data, waiter);
        }
    }

    /// Data exists now: whoever needs it pulls it.
    fn made(&mut self, data: DataId) {
        let graph = self.graph;
        let datum = graph.datum(data);
        for &task in &datum.consumers {
            self.unmade[task.index()] -= 1;
            if self.unmade[task.index()] == 0 {
                for at in 0..self.current[task.index()].len() {
                    self.becomes_possible(self.current[task.index()][at]);
                }
            }
            for at in 0..self.current[task.index()].len() {
                self.pull_input(self.current[task.index()][at], data);
            }
        }
        if datum.is_wanted || self.calls.is_some() {
            let place = datum.consumers.iter().map(|task| self.places[task.index()]).min();
            self.wish(data, Endpoint::Client, Waiter::Program, place.unwrap_or(LAST));
        }
    }

    fn pull_input(&mut self, attempt: AttemptId, data: DataId) {
        let Attempt { task, server, .. } = self.attempts[attempt as usize];
        let place = self.places[task.index()];
        self.wish(data, Endpoint::Server(server), Waiter::Attempt(attempt), place);
    }

    /// Begins an attempt: its inputs are pulled as they come to be.
    pub(super) fn attempt(&mut self, task: TaskId, server: ServerId) {
        let graph = self.graph;
        let inputs = &graph.task(task).inputs;
        let attempt = self.attempts.len() as AttemptId;
        let missing = inputs.iter().map(|&data| (data, attempt)).collect();
        let place = self.places[task.index()];
        let number = self.servers_state[server.index()].queue.add(attempt, place, missing);
        self.stirred.insert(server);
        self.attempts.push(Attempt { task, server, stage: Stage::Queued(number) });
        self.current[task.index()].push(attempt);
        if self.unmade[task.index()] == 0 {
            self.becomes_possible(attempt);
        }
        for &data in inputs {
            if self.copies.exists(data) {
                self.pull_input(attempt, data);
            }
        }
    }

    fn input(&mut self, data: DataId, attempt: AttemptId) {
        let server = self.attempts[attempt as usize].server;
        self.servers_state[server.index()].queue.arrived((data, attempt));
        self.stirred.insert(server);
    }

    /// Begins what can begin on a server.
    fn fill(&mut self, server: ServerId) {
        while self.servers_state[server.index()].free > 0 {
            let Some(attempt) = self.servers_state[server.index()].queue.begin() else { return };
            self.servers_state[server.index()].free -= 1;
            let begun = &mut self.attempts[attempt as usize];
            begun.stage = Stage::Running { since_s: self.now_s };
            self.servers_state[server.index()].waiting -= 1;
            self.running.insert(attempt);
            let task = begun.task;
            let expected_s = self.platform.time_s(self.graph.task(task).work_s, server);
            let time_s = expected_s * self.perturbations.factor(task, server);
            self.at(self.now_s + time_s, What::Ends(attempt));
            if self.watch.is_some() {
                self.at(self.now_s + Watch::patience_s(expected_s), What::Late(attempt));
            }
        }
    }

    fn ends(&mut self, attempt: AttemptId) {
        let Attempt { task, server, stage } = self.attempts[attempt as usize];
        let Stage::Running { since_s } = stage else { return };
        let run = TaskRun { task, server, start_s: since_s, end_s: self.now_s };
        self.execution.runs.push(run);
        self.is_done[task.index()] = true;
        self.observe(&run, true);
        self.over(attempt);
        self.servers_state[server.index()].free += 1;
        for other in std::mem::take(&mut self.current[task.index()]) {
            if other != attempt {
                self.give_up(other);
            }
        }
        let graph = self.graph;
        for &data in &graph.task(task).outputs {
            self.copies.add(data, Endpoint::Server(server));
            if !self.platform.server(server).is_direct && self.calls.is_none() {
                self.wish(data, Endpoint::Client, Waiter::Program, self.places[task.index()]);
            }
            self.made(data);
        }
        self.stirred.insert(server);
        self.reassign();
    }

    /// All inputs of an attempt exist.
    fn becomes_possible(&mut self, attempt: AttemptId) {
        let Attempt { server, stage, .. } = self.attempts[attempt as usize];
        let is_waiting = matches!(stage, Stage::Queued(_));
        if self.possible.insert(attempt) && is_waiting {
            self.servers_state[server.index()].waiting += 1;
        }
    }

    fn over(&mut self, attempt: AttemptId) {
        let Attempt { server, stage, .. } = &mut self.attempts[attempt as usize];
        let before = std::mem::replace(stage, Stage::Over);
        let is_waiting = matches!(before, Stage::Queued(_));
        if self.possible.remove(&attempt) && is_waiting {
            self.servers_state[server.index()].waiting -= 1;
        }
        self.running.remove(&attempt);
    }

    /// Ends an attempt without a result.
    pub(super) fn give_up(&mut self, attempt: AttemptId) {
        let Attempt { task, server, stage } = self.attempts[attempt as usize];
        self.over(attempt);
        self.current[task.index()].retain(|&other| other != attempt);
        match stage {
            Stage::Queued(number) => {
                self.servers_state[server.index()].queue.remove(number);
                let inputs = &self.graph.task(task).inputs;
                self.copies.forget(attempt, inputs, Endpoint::Server(server));
            }
            Stage::Running { since_s } => {
                let run = TaskRun { task, server, start_s: since_s, end_s: self.now_s };
                self.observe(&run, false);
                self.execution.wasted.push(run);
                self.servers_state[server.index()].free += 1;
                self.stirred.insert(server);
            }
            Stage::Over => {}
        }
    }
}
