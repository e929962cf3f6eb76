//! Plain GridRPC: each call is placed independently, once its arguments are at the client.

use super::Perturbations;
use super::flows::TransferId;
use super::platform::{LAST, PlatformEvent, SimulatedPlatform};
use crate::execution::{Execution, Transfer};
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::platform::{Platform, ServerSpec};
use std::collections::{BTreeMap, BTreeSet};

/// The execution of a group as independent calls.
pub(super) struct CallRun<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    simulated: SimulatedPlatform<'a>,
    places: Vec<u32>,
    /// Number of arguments of each task that are not at the client.
    missing: Vec<usize>,
    /// Number of arguments of each task that are not on its server.
    missing_there: Vec<usize>,
    /// The time until which each core of each server is occupied by placed calls, as estimated when
    /// they were placed, in seconds.
    taken_until_s: Vec<Vec<f64>>,
    /// The task and the server for which each argument is sent.
    sent_for: BTreeMap<TransferId, (TaskId, ServerId)>,
}

impl<'a> CallRun<'a> {
    pub(super) fn new(
        graph: &'a TaskGraph,
        platform: &'a Platform,
        perturbations: &'a Perturbations,
    ) -> Self {
        let mut places = vec![0; graph.tasks().len()];
        for (place, task) in (0..).zip(graph.order()) {
            places[task.index()] = place;
        }
        let inputs: Vec<usize> = graph.tasks().iter().map(|task| task.inputs.len()).collect();
        let cores = |server: &ServerSpec| vec![0.0; server.cores as usize];
        Self {
            graph,
            platform,
            simulated: SimulatedPlatform::new(graph, platform, perturbations, false),
            places,
            missing: inputs.clone(),
            missing_there: inputs,
            taken_until_s: platform.servers().iter().map(cores).collect(),
            sent_for: BTreeMap::new(),
        }
    }

    pub(super) fn run(mut self) -> Execution {
        let graph = self.graph;
        for (data, datum) in (0..).map(DataId).zip(graph.data()) {
            match datum.held_by.first() {
                Some(_) if datum.held_by.contains(&Endpoint::Client) => self.at_client(data),
                Some(&holder) => self.send_home(data, holder),
                None => {}
            }
        }
        let order = graph.order().iter();
        let callable = order.filter(|task| graph.task(**task).inputs.is_empty());
        callable.for_each(|&task| self.call(task));
        while let Some(event) = self.simulated.next() {
            match event {
                PlatformEvent::Ended(_, run) => {
                    let outputs = graph.task(run.task).outputs.iter();
                    outputs.for_each(|&data| self.send_home(data, Endpoint::Server(run.server)));
                }
                PlatformEvent::Arrived(number, Transfer { data, end_s, .. }) => {
                    match self.sent_for.remove(&number) {
                        Some(call) => self.argument(call),
                        None => {
                            if graph.datum(data).is_wanted {
                                self.simulated.makespan_s = end_s;
                            }
                            self.at_client(data);
                        }
                    }
                }
                PlatformEvent::Begun(_) | PlatformEvent::Late => {}
            }
        }
        self.simulated.finish()
    }

    fn send_home(&mut self, data: DataId, from: Endpoint) {
        self.simulated.send(data, (from, Endpoint::Client), LAST);
    }

    /// Handles the arrival of an argument at the client.
    fn at_client(&mut self, data: DataId) {
        for &task in &self.graph.datum(data).consumers {
            self.missing[task.index()] -= 1;
            if self.missing[task.index()] == 0 {
                self.call(task);
            }
        }
    }

    /// Calls a task on the server that would end it first, counting the transfer of its arguments
    /// over an idle link, the wait for a core, and the computation.
    fn call(&mut self, task: TaskId) {
        let (graph, platform) = (self.graph, self.platform);
        let called = graph.task(task);
        let bytes = called.inputs.iter().map(|&data| graph.datum(data).bytes).sum();
        let mut best: Option<(f64, ServerId, usize)> = None;
        for server in platform.server_ids().filter(|&server| called.can_run_on(server)) {
            let sent_s = platform.transfer_s(bytes, Endpoint::Client, Endpoint::Server(server));
            let cores = self.taken_until_s[server.index()].iter().enumerate();
            let Some((core, free_s)) = cores.min_by(|one, other| one.1.total_cmp(other.1)) else {
                continue;
            };
            let begin_s = free_s.max(self.simulated.now_s + sent_s);
            let end_s = begin_s + platform.time_s(called.work_s, server);
            if best.is_none_or(|(best_s, ..)| end_s < best_s) {
                best = Some((end_s, server, core));
            }
        }
        let Some((end_s, server, core)) = best else { return };
        self.taken_until_s[server.index()][core] = end_s;
        for &data in &called.inputs {
            let way = (Endpoint::Client, Endpoint::Server(server));
            let number = self.simulated.send(data, way, self.places[task.index()]);
            self.sent_for.insert(number, (task, server));
        }
        if called.inputs.is_empty() {
            self.order(task, server);
        }
    }

    /// Handles the arrival of an argument at its server.
    fn argument(&mut self, (task, server): (TaskId, ServerId)) {
        self.missing_there[task.index()] -= 1;
        if self.missing_there[task.index()] == 0 {
            self.order(task, server);
        }
    }

    fn order(&mut self, task: TaskId, server: ServerId) {
        self.simulated.order((task, server), self.places[task.index()], BTreeSet::new());
    }
}
