//! Executes a mapped group: carries out the commands of the client's [`Dispatcher`] on a simulated
//! platform, as drivers of real servers do.

use super::Perturbations;
use super::flows::TransferId;
use super::platform::{LAST, PlatformEvent, SimulatedPlatform};
use crate::execution::{
    AttemptId, Delivery, DispatchCommand, DispatchEvent, Dispatcher, site_routes,
};
use crate::execution::{Execution, TaskRun, Transfer};
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId};
use crate::mapping::Mapping;
use crate::platform::Platform;
use crate::stragglers::StragglerPolicy;
use std::collections::{BTreeMap, VecDeque};

/// The purpose of a transfer.
enum Purpose {
    /// The server keeps the data, and forwards it to these servers.
    Server(Vec<ServerId>),
    /// The client receives the data, for other servers or for its program.
    Client { is_relay: bool },
}

/// A group in execution.
pub(super) struct MappedRun<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    mapping: &'a Mapping,
    pub(super) dispatcher: Dispatcher<'a>,
    pub(super) simulated: SimulatedPlatform<'a>,
    /// The servers that have each data.
    held: Vec<Vec<ServerId>>,
    /// The servers to which each attempt's server sends results.
    readers: Vec<Vec<(DataId, Vec<ServerId>)>>,
    purposes: Vec<Purpose>,
    /// The transfers that bring data to a server, directly or through one that forwards it.
    bringing: BTreeMap<(DataId, ServerId), TransferId>,
    /// Immediate answers of servers.
    answers: VecDeque<DispatchEvent>,
}

impl<'a> MappedRun<'a> {
    pub(super) fn new(
        graph: &'a TaskGraph,
        platform: &'a Platform,
        mapping: &'a Mapping,
        perturbations: &'a Perturbations,
        policy: StragglerPolicy,
    ) -> Self {
        let is_watched = policy != StragglerPolicy::None;
        let of = (graph, Delivery::Sent);
        Self {
            graph,
            platform,
            mapping,
            dispatcher: Dispatcher::new(of, platform, mapping, policy, |_| false),
            simulated: SimulatedPlatform::new(graph, platform, perturbations, is_watched),
            held: graph.data().iter().map(|data| data.servers().collect()).collect(),
            readers: Vec::with_capacity(graph.tasks().len()),
            purposes: Vec::new(),
            bringing: BTreeMap::new(),
            answers: VecDeque::new(),
        }
    }

    pub(super) fn run(mut self) -> Execution {
        self.run_to_end();
        Execution { moved: self.dispatcher.moved(), ..self.simulated.finish() }
    }

    /// Runs until no event is left, also after the end of the group.
    pub(super) fn run_to_end(&mut self) {
        self.dispatcher.begin(0.0);
        loop {
            while let Some(command) = self.dispatcher.poll_command() {
                self.carry_out(command);
            }
            let answer = self.answers.pop_front();
            let Some(event) = answer.or_else(|| self.next()) else { break };
            self.dispatcher.handle(self.simulated.now_s, event);
        }
    }

    /// Returns the next event for the dispatcher.
    fn next(&mut self) -> Option<DispatchEvent> {
        loop {
            match self.simulated.next()? {
                PlatformEvent::Begun(attempt) => return Some(DispatchEvent::Begun(attempt)),
                PlatformEvent::Ended(attempt, run) => return Some(self.ended(attempt, &run)),
                PlatformEvent::Late => return Some(DispatchEvent::Look),
                PlatformEvent::Arrived(number, transfer) => {
                    if let Some(event) = self.arrived(number, &transfer) {
                        return Some(event);
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, command: DispatchCommand) {
        match command {
            DispatchCommand::Order { task, server, readers, .. } => {
                let (held, inputs) = (&self.held, &self.graph.task(task).inputs);
                let is_missing = |data: &DataId| !held[data.index()].contains(&server);
                let missing = inputs.iter().copied().filter(is_missing).collect();
                let place = self.mapping.places[task.index()];
                for &data in &missing {
                    if let Some(&number) = self.bringing.get(&(data, server)) {
                        self.simulated.prefer(number, place);
                    }
                }
                self.simulated.order((task, server), place, missing);
                self.readers.push(readers);
            }
            DispatchCommand::Withdraw(attempt) => self.simulated.withdraw(attempt),
            DispatchCommand::Send { data, from: Endpoint::Client, to } => {
                self.send(data, Endpoint::Client, &to);
            }
            DispatchCommand::Send { data, from: Endpoint::Server(from), to } => {
                let is_sent = self.held[data.index()].contains(&from);
                if is_sent {
                    self.send(data, Endpoint::Server(from), &to);
                }
                self.answers.push_back(DispatchEvent::Sent { data, from, to, is_sent });
            }
            DispatchCommand::Fetch { data, from, is_relay } => {
                if self.held[data.index()].contains(&from) {
                    let way = (Endpoint::Server(from), Endpoint::Client);
                    self.simulated.send(data, way, LAST);
                    self.purposes.push(Purpose::Client { is_relay });
                } else {
                    let bytes = None;
                    self.answers.push_back(DispatchEvent::Fetched { data, from, is_relay, bytes });
                }
            }
            // `held` records where data is, and a failed task leaves no record of a run.
            DispatchCommand::Drop(_)
            | DispatchCommand::Has { .. }
            | DispatchCommand::HasNot(..)
            | DispatchCommand::Apart(..)
            | DispatchCommand::Failed { .. } => {}
        }
    }

    fn send(&mut self, data: DataId, from: Endpoint, to: &[ServerId]) {
        for (head, then) in site_routes(self.platform, self.mapping.relays, from, to) {
            let all = then.iter().chain([&head]);
            let place = all.map(|&server| self.simulated.place(data, server)).min();
            let way = (from, Endpoint::Server(head));
            let number = self.simulated.send(data, way, place.unwrap_or(LAST));
            let all = then.iter().chain([&head]);
            self.bringing.extend(all.map(|&server| ((data, server), number)));
            self.purposes.push(Purpose::Server(then));
        }
    }

    fn arrived(&mut self, number: TransferId, transfer: &Transfer) -> Option<DispatchEvent> {
        let Transfer { data, from, to, end_s, .. } = *transfer;
        let nowhere = Purpose::Server(Vec::new());
        match (std::mem::replace(&mut self.purposes[number as usize], nowhere), from, to) {
            (Purpose::Server(then), _, Endpoint::Server(server)) => {
                self.bringing.remove(&(data, server));
                self.has(data, server);
                then.iter().for_each(|&next| self.send(data, to, &[next]));
                None
            }
            (Purpose::Client { is_relay }, Endpoint::Server(from), _) => {
                if !is_relay {
                    self.simulated.makespan_s = end_s;
                }
                let bytes = Some(self.graph.datum(data).bytes);
                Some(DispatchEvent::Fetched { data, from, is_relay, bytes })
            }
            _ => None,
        }
    }

    fn has(&mut self, data: DataId, server: ServerId) {
        let held = &mut self.held[data.index()];
        if !held.contains(&server) {
            held.push(server);
            self.simulated.has(data, server);
        }
    }

    /// Handles the end of an attempt: its server keeps the results, and sends them to the servers
    /// that wait for them.
    fn ended(&mut self, attempt: AttemptId, run: &TaskRun) -> DispatchEvent {
        let outputs = &self.graph.task(run.task).outputs;
        outputs.iter().for_each(|&data| self.has(data, run.server));
        for (data, to) in std::mem::take(&mut self.readers[attempt]) {
            self.send(data, Endpoint::Server(run.server), &to);
        }
        let sizes = outputs.iter().map(|&data| self.graph.datum(data).bytes).collect();
        let (took_s, fetched) = (Some(run.end_s - run.start_s), Vec::new());
        DispatchEvent::Done { attempt, took_s, sizes, fetched }
    }
}
