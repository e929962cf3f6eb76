//! Heuristics that choose among the ready tasks, which are those whose parents are placed: min-min,
//! max-min and sufferage (Maheswaran and others, "Dynamic mapping of a class of independent tasks
//! onto heterogeneous computing systems", 1999).

use super::Heuristic;
use super::arrivals::Arrivals;
use super::cores::Cores;
use crate::graph::TaskGraph;
use crate::id::{ServerId, TaskId};
use crate::mapping::{MapError, Mapping, check};
use crate::platform::Platform;

/// The rule that selects one of the ready tasks.
///
/// ```
/// use gridspan_workflow::heuristics::{Heuristic, ReadyList, Rule};
///
/// let names = [Rule::MinMin, Rule::MaxMin, Rule::Sufferage].map(|rule| ReadyList(rule).name());
/// assert_eq!(names, ["min-min", "max-min", "sufferage"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// The task that would end first.
    MinMin,
    /// The task that would end last.
    MaxMin,
    /// The task that would lose most time if it did not get its best server.
    Sufferage,
}

/// Maps the tasks one by one: the task that the rule selects goes to the server on which it ends
/// first.
///
/// ```
/// # use gridspan_topology::Link;
/// # use gridspan_workflow::{ClientSpec, GraphBuilder, Platform, ServerId, ServerSpec, Site};
/// # let site = Site::new("delft", Link::lan(), Link::wan());
/// # let servers = [("fast", 2.0), ("slow", 1.0)].map(|(name, speed)| {
/// #     ServerSpec::new(name, 0, speed)
/// # });
/// # let client = ClientSpec::at_site(0, Link::lan());
/// # let platform = Platform::new(servers.to_vec(), vec![site], client);
/// # let mut calls = GraphBuilder::default();
/// # let (make, take) = (calls.task("make", 1.0), calls.task("take", 2.0));
/// # let part = calls.write(make, "part", 8_000_000);
/// # calls.read(take, part);
/// # let graph = calls.build().unwrap();
/// use gridspan_workflow::heuristics::{ReadyList, Rule, Heuristic};
///
/// let mapping = ReadyList(Rule::MinMin).map(&graph, &platform)?;
/// assert_eq!(mapping.servers, [ServerId(0); 2]); // both calls go to the fast server
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReadyList(pub Rule);

impl Heuristic for ReadyList {
    fn name(&self) -> &'static str {
        match self.0 {
            Rule::MinMin => "min-min",
            Rule::MaxMin => "max-min",
            Rule::Sufferage => "sufferage",
        }
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        check(graph, platform)?;
        Ok(Mapper::new(graph, platform).run(self.0))
    }
}

/// A ready task, and the time at which it would end on each server.
struct Candidate {
    task: TaskId,
    inputs_s: Vec<f64>,
    ends_s: Vec<f64>,
    best: usize,
    /// Difference between the second-best and the best end time, in seconds.
    suffers_s: f64,
}

impl Candidate {
    fn rate(&mut self) {
        let (mut first, mut second) = ((f64::INFINITY, 0), f64::INFINITY);
        for (server, &end_s) in self.ends_s.iter().enumerate() {
            if end_s < first.0 {
                (second, first) = (first.0, (end_s, server));
            } else {
                second = second.min(end_s);
            }
        }
        self.best = first.1;
        self.suffers_s = second - first.0;
    }

    fn end_s(&self) -> f64 {
        self.ends_s[self.best]
    }
}

struct Mapper<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    arrivals: Arrivals<'a>,
    cores: Cores,
    candidates: Vec<Candidate>,
    missing: Vec<usize>,
}

impl<'a> Mapper<'a> {
    fn new(graph: &'a TaskGraph, platform: &'a Platform) -> Self {
        let tasks = (0..graph.tasks().len() as u32).map(TaskId);
        let mut mapper = Self {
            graph,
            platform,
            arrivals: Arrivals::new(graph, platform),
            cores: Cores::new(platform),
            candidates: Vec::new(),
            missing: tasks.clone().map(|task| graph.parents(task).count()).collect(),
        };
        for task in tasks.filter(|task| graph.parents(*task).next().is_none()) {
            mapper.add(task);
        }
        mapper
    }

    fn add(&mut self, task: TaskId) {
        let servers = self.platform.server_ids();
        let inputs_s: Vec<f64> =
            servers.map(|server| self.arrivals.inputs_s(task, server)).collect();
        let ends_s = vec![f64::INFINITY; inputs_s.len()];
        let mut candidate = Candidate { task, inputs_s, ends_s, best: 0, suffers_s: 0.0 };
        for server in self.platform.server_ids() {
            candidate.ends_s[server.index()] = self.end_s(&candidate, server);
        }
        candidate.rate();
        self.candidates.push(candidate);
    }

    fn end_s(&self, candidate: &Candidate, server: ServerId) -> f64 {
        let task = self.graph.task(candidate.task);
        if !task.can_run_on(server) {
            return f64::INFINITY;
        }
        let slot = self.cores.behind(server, candidate.inputs_s[server.index()]);
        slot.start_s + self.platform.time_s(task.work_s, server)
    }

    fn run(mut self, rule: Rule) -> Mapping {
        let tasks = self.graph.tasks().len();
        let (mut servers, mut order) = (vec![ServerId(0); tasks], Vec::with_capacity(tasks));
        let mut last_s: f64 = 0.0;
        while let Some(chosen) = self.choose(rule) {
            let Candidate { task, best, .. } = self.candidates.swap_remove(chosen);
            let server = ServerId(best as u32);
            let slot = self.cores.behind(server, self.arrivals.inputs_s(task, server));
            let time_s = self.platform.time_s(self.graph.task(task).work_s, server);
            self.cores.take(server, slot, time_s);
            self.arrivals.place(task, server, slot.start_s + time_s);
            last_s = last_s.max(slot.start_s + time_s);
            servers[task.index()] = server;
            order.push(task);
            self.update(task, server);
        }
        Mapping::in_order(servers, &order, false, last_s)
    }

    /// Returns the candidate that goes next; of equal ones, the task that was called first.
    fn choose(&self, rule: Rule) -> Option<usize> {
        let key = |candidate: &Candidate| match rule {
            Rule::MinMin => candidate.end_s(),
            Rule::MaxMin => -candidate.end_s(),
            Rule::Sufferage => -candidate.suffers_s,
        };
        let candidates = self.candidates.iter().enumerate();
        let first = candidates.min_by(|(_, one), (_, other)| {
            key(one).total_cmp(&key(other)).then(one.task.cmp(&other.task))
        });
        first.map(|(place, _)| place)
    }

    /// Updates the candidates after a task was placed: its server is busier, and has more data.
    fn update(&mut self, placed: TaskId, server: ServerId) {
        let mut candidates = std::mem::take(&mut self.candidates);
        for candidate in &mut candidates {
            candidate.inputs_s[server.index()] = self.arrivals.inputs_s(candidate.task, server);
            candidate.ends_s[server.index()] = self.end_s(candidate, server);
            candidate.rate();
        }
        self.candidates = candidates;
        for &data in &self.graph.task(placed).outputs {
            for &reader in &self.graph.datum(data).consumers {
                self.missing[reader.index()] -= 1;
                if self.missing[reader.index()] == 0 {
                    self.add(reader);
                }
            }
        }
    }
}
