//! Servers and links in simulated time: queued and running orders, and queued and flowing
//! transfers.
//!
//! When a core is free, a server begins the order with the lowest place among those whose data has
//! arrived. It receives a few transfers at a time, those of the lowest places first; the client
//! receives all at once. Orders and answers take no time.

use super::Perturbations;
use super::flows::{Flows, TransferId};
use super::time::SimTime;
use crate::execution::{AttemptId, TaskQueue};
use crate::execution::{Execution, TaskRun, Transfer};
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::platform::{Platform, ServerSpec};
use crate::stragglers::Watch;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

/// Maximum number of transfers that a server receives at a time: enough to fill its link from
/// several sources, and few enough that the data needed first arrives first.
const TRANSFERS_MAX: u32 = 4;
/// A place higher than those of all tasks.
pub(super) const LAST: u32 = u32::MAX;

/// An event of the simulated platform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PlatformEvent {
    /// A server has begun to compute an attempt.
    Begun(AttemptId),
    /// An attempt has ended.
    Ended(AttemptId, TaskRun),
    /// A running attempt is late, as [`Watch`] defines it.
    Late,
    /// A transfer has ended.
    Arrived(TransferId, Transfer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The first byte of a transfer arrives.
    Arrives(TransferId),
    Ends(AttemptId),
    Late(AttemptId),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The number of the order in the queue of its server.
    Queued(u64),
    Running {
        since_s: f64,
    },
    Over,
}

/// An order to a server.
struct SimulatedOrder {
    task: TaskId,
    server: ServerId,
    stage: Stage,
}

struct SimulatedServer {
    free: u32,
    queue: TaskQueue<DataId, AttemptId>,
}

/// A transfer with its times, once they are known, and the place of the first task that needs it.
struct SimulatedTransfer {
    transfer: Transfer,
    place: u32,
    is_queued: bool,
}

/// All servers and links.
pub(super) struct SimulatedPlatform<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    perturbations: &'a Perturbations,
    /// Whether late attempts are reported.
    is_watched: bool,
    servers: Vec<SimulatedServer>,
    orders: Vec<SimulatedOrder>,
    transfers: Vec<SimulatedTransfer>,
    flows: Flows<'a>,
    /// The transfers queued for each endpoint, by place.
    queues: Vec<BTreeSet<(u32, TransferId)>>,
    /// Number of transfers to each endpoint that have begun and not ended.
    incoming: Vec<u32>,
    /// Servers on which an order may begin.
    servers_to_try: BTreeSet<ServerId>,
    /// Endpoints to which a transfer may begin.
    endpoints_to_try: BTreeSet<Endpoint>,
    begun: VecDeque<AttemptId>,
    timers: BinaryHeap<Reverse<(SimTime, u64, Timer)>>,
    count: u64,
    pub(super) now_s: f64,
    /// Time at which the client had all wanted data, in seconds.
    pub(super) makespan_s: f64,
    pub(super) execution: Execution,
}

impl<'a> SimulatedPlatform<'a> {
    pub(super) fn new(
        graph: &'a TaskGraph,
        platform: &'a Platform,
        perturbations: &'a Perturbations,
        is_watched: bool,
    ) -> Self {
        let server =
            |spec: &ServerSpec| SimulatedServer { free: spec.cores, queue: TaskQueue::default() };
        Self {
            graph,
            platform,
            perturbations,
            is_watched,
            servers: platform.servers().iter().map(server).collect(),
            orders: Vec::with_capacity(graph.tasks().len()),
            transfers: Vec::new(),
            flows: Flows::new(platform),
            queues: vec![BTreeSet::new(); platform.endpoints()],
            incoming: vec![0; platform.endpoints()],
            servers_to_try: BTreeSet::new(),
            endpoints_to_try: BTreeSet::new(),
            begun: VecDeque::new(),
            timers: BinaryHeap::new(),
            count: 0,
            now_s: 0.0,
            makespan_s: 0.0,
            execution: Execution::default(),
        }
    }

    /// Adds an order to a server that lacks the data in `missing`. Returns its number, counted from
    /// 0.
    pub(super) fn order(
        &mut self,
        (task, server): (TaskId, ServerId),
        place: u32,
        missing: BTreeSet<DataId>,
    ) -> AttemptId {
        let attempt = self.orders.len();
        let number = self.servers[server.index()].queue.add(attempt, place, missing);
        self.orders.push(SimulatedOrder { task, server, stage: Stage::Queued(number) });
        self.servers_to_try.insert(server);
        attempt
    }

    /// Returns the lowest place of a server's orders that lack this data; [`LAST`] if none do.
    pub(super) fn place(&self, data: DataId, server: ServerId) -> u32 {
        self.servers[server.index()].queue.place_for(data).unwrap_or(LAST)
    }

    /// Notes that data is on a server.
    pub(super) fn has(&mut self, data: DataId, server: ServerId) {
        self.servers[server.index()].queue.arrived(data);
        self.servers_to_try.insert(server);
    }

    /// Ends an attempt without a result.
    pub(super) fn withdraw(&mut self, attempt: AttemptId) {
        let SimulatedOrder { task, server, stage } = &mut self.orders[attempt];
        let (task, server) = (*task, *server);
        let end_s = self.now_s;
        match std::mem::replace(stage, Stage::Over) {
            Stage::Queued(number) => drop(self.servers[server.index()].queue.remove(number)),
            Stage::Running { since_s: start_s } => {
                self.execution.wasted.push(TaskRun { task, server, start_s, end_s });
                self.servers[server.index()].free += 1;
                self.servers_to_try.insert(server);
            }
            Stage::Over => {}
        }
    }

    /// Queues a transfer, which begins before those of higher places once its receiver can take it.
    /// Transfers are numbered from 0.
    pub(super) fn send(
        &mut self,
        data: DataId,
        (from, to): (Endpoint, Endpoint),
        place: u32,
    ) -> TransferId {
        let number = self.transfers.len() as TransferId;
        let transfer = Transfer { data, from, to, start_s: 0.0, end_s: 0.0 };
        self.transfers.push(SimulatedTransfer { transfer, place, is_queued: true });
        self.queues[self.platform.position(to)].insert((place, number));
        self.endpoints_to_try.insert(to);
        number
    }

    /// Notes that a task of this place also needs a transfer.
    pub(super) fn prefer(&mut self, number: TransferId, place: u32) {
        let SimulatedTransfer { transfer, place: before, is_queued } =
            &mut self.transfers[number as usize];
        if *is_queued && place < *before {
            let queue = &mut self.queues[self.platform.position(transfer.to)];
            queue.remove(&(*before, number));
            queue.insert((place, number));
            *before = place;
        }
    }

    /// Returns the next event; `None` if nothing is in progress.
    pub(super) fn next(&mut self) -> Option<PlatformEvent> {
        self.begin();
        if let Some(attempt) = self.begun.pop_front() {
            return Some(PlatformEvent::Begun(attempt));
        }
        loop {
            let timer_s = self.timers.peek().map_or(f64::INFINITY, |Reverse((at, ..))| at.0);
            let flow_s = self.flows.next_s();
            if flow_s < timer_s {
                self.now_s = flow_s.max(self.now_s);
                let number = self.flows.end(self.now_s)?;
                return Some(self.arrived(number));
            }
            let Reverse((at, _, timer)) = self.timers.pop()?;
            self.now_s = at.0;
            let event = match timer {
                Timer::Arrives(number) => self.arrives(number),
                Timer::Ends(attempt) => self.ends(attempt),
                Timer::Late(attempt) => self.late(attempt),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Returns the record of the execution, once nothing is in progress.
    pub(super) fn finish(self) -> Execution {
        let last_s = self.execution.runs.last().map_or(0.0, |run| run.end_s);
        Execution { makespan_s: self.makespan_s.max(last_s), ..self.execution }
    }

    fn at(&mut self, at_s: f64, timer: Timer) {
        self.timers.push(Reverse((SimTime(at_s), self.count, timer)));
        self.count += 1;
    }

    /// Begins all orders and transfers that may begin. This happens only after all simultaneous
    /// events, so that the lowest place goes first.
    fn begin(&mut self) {
        while let Some(server) = self.servers_to_try.pop_first() {
            while self.servers[server.index()].free > 0 {
                let Some(attempt) = self.servers[server.index()].queue.begin() else { break };
                self.servers[server.index()].free -= 1;
                self.compute(attempt);
            }
        }
        while let Some(to) = self.endpoints_to_try.pop_first() {
            let end = self.platform.position(to);
            while to == Endpoint::Client || self.incoming[end] < TRANSFERS_MAX {
                let Some((_, number)) = self.queues[end].pop_first() else { break };
                self.incoming[end] += 1;
                let begun = &mut self.transfers[number as usize];
                (begun.is_queued, begun.transfer.start_s) = (false, self.now_s);
                let latency_s = self.platform.latency_s(begun.transfer.from, to);
                self.at(self.now_s + latency_s, Timer::Arrives(number));
            }
        }
    }

    fn compute(&mut self, attempt: AttemptId) {
        let SimulatedOrder { task, server, stage } = &mut self.orders[attempt];
        let (task, server) = (*task, *server);
        *stage = Stage::Running { since_s: self.now_s };
        let expected_s = self.platform.time_s(self.graph.task(task).work_s, server);
        let time_s = expected_s * self.perturbations.factor(task, server);
        self.at(self.now_s + time_s, Timer::Ends(attempt));
        if self.is_watched {
            self.at(self.now_s + Watch::patience_s(expected_s), Timer::Late(attempt));
        }
        self.begun.push_back(attempt);
    }

    fn arrives(&mut self, number: TransferId) -> Option<PlatformEvent> {
        let Transfer { data, from, to, .. } = self.transfers[number as usize].transfer;
        match self.graph.datum(data).bytes {
            0 => return Some(self.arrived(number)),
            bytes => self.flows.begin(self.now_s, (from, to), bytes, number),
        }
        None
    }

    fn arrived(&mut self, number: TransferId) -> PlatformEvent {
        let transfer = &mut self.transfers[number as usize].transfer;
        transfer.end_s = self.now_s;
        let transfer = *transfer;
        self.execution.transfers.push(transfer);
        self.incoming[self.platform.position(transfer.to)] -= 1;
        self.endpoints_to_try.insert(transfer.to);
        PlatformEvent::Arrived(number, transfer)
    }

    fn ends(&mut self, attempt: AttemptId) -> Option<PlatformEvent> {
        let SimulatedOrder { task, server, stage } = &mut self.orders[attempt];
        let (task, server, end_s) = (*task, *server, self.now_s);
        let Stage::Running { since_s: start_s } = *stage else { return None };
        *stage = Stage::Over;
        self.servers[server.index()].free += 1;
        self.servers_to_try.insert(server);
        let run = TaskRun { task, server, start_s, end_s };
        self.execution.runs.push(run);
        Some(PlatformEvent::Ended(attempt, run))
    }

    fn late(&mut self, attempt: AttemptId) -> Option<PlatformEvent> {
        let Stage::Running { since_s } = self.orders[attempt].stage else { return None };
        let again_s = Watch::look_again_s(self.now_s - since_s);
        self.at(self.now_s + again_s, Timer::Late(attempt));
        Some(PlatformEvent::Late)
    }
}
