//! HEFT with a model of shared links: `heft-c`.
//!
//! It differs from HEFT in four points. A transfer reserves the remaining bandwidth of the links on
//! its path, so that estimates include the delay of many transfers over one link. Data that has
//! come to a site is forwarded inside it instead of crossing the wide area again. Transfers of
//! wanted results to the client are reserved when the results are made. And a task moves away from
//! the tasks with which it shares readers only if it gains more than the transfer of its results
//! back to them costs: see `reader_affinity.rs`.

use super::Heuristic;
use super::cores::{Cores, Slot};
use super::rank::by_upward_rank;
use super::reader_affinity::ReaderAffinity;
use super::reservations::Reservations;
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::mapping::{MapError, Mapping, check};
use crate::platform::Platform;

/// HEFT with reserved links and relays inside sites. The default.
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
/// use gridspan_workflow::heuristics::{HeftC, Heuristic};
///
/// let mapping = HeftC::default().map(&graph, &platform)?;
/// assert_eq!(mapping.servers, [ServerId(0); 2]); // both calls go to the fast server
/// # Ok::<(), gridspan_workflow::MapError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeftC {
    site: Option<usize>,
}

impl HeftC {
    /// Creates a variant that uses only the servers of one site for the tasks that these can
    /// execute.
    pub fn in_site(site: usize) -> Self {
        Self { site: Some(site) }
    }
}

impl Heuristic for HeftC {
    fn name(&self) -> &'static str {
        "heft-c"
    }

    fn map(&self, graph: &TaskGraph, platform: &Platform) -> Result<Mapping, MapError> {
        check(graph, platform)?;
        Ok(Mapper::new(graph, platform).run(self.site))
    }
}

/// A candidate server for a task.
#[derive(Clone, Copy)]
struct CandidateServer {
    end_s: f64,
    /// Approximate time at which the task's results have reached their readers, in seconds.
    delivered_s: f64,
    server: ServerId,
    slot: Slot,
}

struct Mapper<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    cores: Cores,
    links: Reservations,
    /// The holders of each data, and the time at which each gets it.
    copies: Vec<Vec<(Endpoint, f64)>>,
    reader_affinity: ReaderAffinity<'a>,
}

impl<'a> Mapper<'a> {
    fn new(graph: &'a TaskGraph, platform: &'a Platform) -> Self {
        let speed: f64 =
            platform.servers().iter().map(|server| server.speed * f64::from(server.cores)).sum();
        let bytes: f64 = graph.data().iter().map(|data| data.bytes as f64).sum();
        let widest = platform.capacities().iter().copied().fold(1.0, f64::max);
        let guess_s = 2.0 * graph.work_s() / speed + bytes / widest;
        let held = |data: &crate::graph::Data| data.held_by.iter().map(|&at| (at, 0.0)).collect();
        Self {
            graph,
            platform,
            cores: Cores::new(platform),
            links: Reservations::new(platform, guess_s),
            copies: graph.data().iter().map(held).collect(),
            reader_affinity: ReaderAffinity::new(graph, platform),
        }
    }

    fn run(mut self, site: Option<usize>) -> Mapping {
        let tasks = self.graph.tasks().len();
        let mut servers = vec![ServerId(0); tasks];
        let mut starts_s = vec![0.0; tasks];
        let mut last_s: f64 = 0.0;
        let mut order = by_upward_rank(self.graph, self.platform);
        for &task in &order {
            let Some(best) = self.best(task, site) else { continue };
            let there = self.inputs(task, best.server);
            self.links.keep();
            self.cores.take(best.server, best.slot, best.end_s - best.slot.start_s);
            let home_s = self.place(task, best, &there);
            servers[task.index()] = best.server;
            starts_s[task.index()] = best.slot.start_s;
            last_s = last_s.max(home_s);
        }
        // Tasks placed into gaps go before tasks placed earlier.
        order.sort_by(|one, other| starts_s[one.index()].total_cmp(&starts_s[other.index()]));
        Mapping::in_order(servers, &order, true, last_s)
    }

    /// Returns the server from which the task's results reach their readers first.
    fn best(&mut self, task: TaskId, site: Option<usize>) -> Option<CandidateServer> {
        let called = self.graph.task(task);
        let able = || self.platform.server_ids().filter(|&server| called.can_run_on(server));
        let is_at =
            |server: &ServerId| site.is_none_or(|site| self.platform.server(*server).site == site);
        let mut servers: Vec<ServerId> = able().filter(is_at).collect();
        if servers.is_empty() {
            servers = able().collect();
        }
        let mut best: Option<CandidateServer> = None;
        let away_s = self.reader_affinity.away_s(task);
        let exist_s = self.exist_s(task);
        for server in servers {
            let time_s = self.platform.time_s(called.work_s, server);
            let away_s = away_s[self.platform.server(server).site];
            // The end of the task if its inputs were on this server as soon as they exist. A server
            // that cannot beat the best one even then is skipped.
            let least_s = self.cores.earliest(server, exist_s, time_s).start_s + time_s;
            if best.is_some_and(|best| least_s + away_s >= best.delivered_s) {
                continue;
            }
            let there = self.inputs(task, server);
            self.links.give_back();
            let inputs_s = there.iter().map(|&(_, at_s)| at_s).fold(0.0, f64::max);
            let slot = self.cores.earliest(server, inputs_s, time_s);
            let end_s = slot.start_s + time_s;
            let delivered_s = end_s + away_s;
            if best.is_none_or(|best| delivered_s < best.delivered_s) {
                best = Some(CandidateServer { end_s, delivered_s, server, slot });
            }
        }
        best
    }

    /// Returns the time at which all inputs of a task exist somewhere.
    fn exist_s(&self, task: TaskId) -> f64 {
        let of_data = |data: &DataId| {
            let copies = self.copies[data.index()].iter();
            copies.map(|&(_, at_s)| at_s).fold(f64::INFINITY, f64::min)
        };
        self.graph.task(task).inputs.iter().map(of_data).fold(0.0, f64::max)
    }

    /// Reserves the transfers of all inputs to a server; returns the arrival time of each.
    fn inputs(&mut self, task: TaskId, server: ServerId) -> Vec<(DataId, f64)> {
        let inputs = &self.graph.task(task).inputs;
        inputs.iter().map(|&data| (data, self.fetch(data, Endpoint::Server(server)))).collect()
    }

    /// Reserves the transfer of data to an endpoint; returns its arrival time.
    fn fetch(&mut self, data: DataId, to: Endpoint) -> f64 {
        let copies = &self.copies[data.index()];
        let keeps = match to {
            Endpoint::Server(server) => self.platform.server(server).is_direct,
            Endpoint::Client => true,
        };
        if let Some(&(_, at_s)) = copies.iter().find(|copy| copy.0 == to && keeps) {
            return at_s;
        }
        let bytes = self.graph.datum(data).bytes;
        let direct =
            copies.iter().filter(|&&(from, _)| self.platform.is_direct(from, to) && (from != to));
        // From the same site if possible, otherwise from the source with the earliest arrival over
        // idle links.
        let best = direct.min_by(|one, other| {
            let far = |from| !self.platform.is_near(from, to);
            let idle_s =
                |copy: &(Endpoint, f64)| copy.1 + self.platform.transfer_s(bytes, copy.0, to);
            far(one.0).cmp(&far(other.0)).then(idle_s(one).total_cmp(&idle_s(other)))
        });
        match best.copied() {
            Some((from, at_s)) => self.send(bytes, from, to, at_s),
            None => match copies.first().copied() {
                Some((from, at_s)) => {
                    let client_s = self.send(bytes, from, Endpoint::Client, at_s);
                    self.send(bytes, Endpoint::Client, to, client_s)
                }
                None => f64::INFINITY,
            },
        }
    }

    fn send(&mut self, bytes: u64, from: Endpoint, to: Endpoint, at_s: f64) -> f64 {
        let path: Vec<usize> = self.platform.path(from, to).collect();
        self.links.reserve(&path, at_s + self.platform.latency_s(from, to), bytes)
    }

    /// Places a task on a server: its inputs have arrived there, and its outputs are made there.
    /// Returns the time at which the client has the outputs that are sent to it, or the end of the
    /// task if none are.
    fn place(&mut self, task: TaskId, candidate: CandidateServer, there: &[(DataId, f64)]) -> f64 {
        let at = Endpoint::Server(candidate.server);
        self.reader_affinity.place(task, self.platform.server(candidate.server).site);
        for &(data, at_s) in there {
            let copies = &mut self.copies[data.index()];
            if !copies.iter().any(|copy| copy.0 == at) {
                copies.push((at, at_s));
            }
        }
        let mut home_s = candidate.end_s;
        for &data in &self.graph.task(task).outputs {
            self.copies[data.index()].push((at, candidate.end_s));
            let is_plain = !self.platform.server(candidate.server).is_direct;
            if self.graph.datum(data).is_wanted || is_plain {
                let client_s = self.fetch(data, Endpoint::Client);
                self.links.keep();
                self.copies[data.index()].push((Endpoint::Client, client_s));
                home_s = home_s.max(client_s);
            }
        }
        home_s
    }
}
