//! The client's part in an execution: events in, commands out.

use super::reasons::{Reasons, TaskFailure};
use super::state::{ExecutionState, Given};
use super::{AttemptId, Delivery, DispatchCommand, DispatchEvent};
use crate::graph::TaskGraph;
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::mapping::Mapping;
use crate::platform::Platform;
use crate::stragglers::{StragglerPolicy, Watch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The client's state machine for the execution of a group: it orders tasks from the servers to
/// which they are mapped, and from other servers if those are lost or slow. It issues
/// [commands](Self::poll_command) after it has [begun](Self::begin), and after each
/// [event](Self::handle).
#[derive(Debug)]
pub struct Dispatcher<'a> {
    graph: &'a TaskGraph,
    platform: &'a Platform,
    delivery: Delivery,
    state: ExecutionState<'a>,
    watch: Option<Watch>,
    /// Sizes of data in bytes, as known so far.
    sizes: Vec<u64>,
    /// The sources from which servers fetch the arguments of unanswered attempts.
    sources: BTreeMap<AttemptId, Vec<(DataId, Endpoint)>>,
    /// Attempts whose servers may be waiting for lost data.
    doubtful: BTreeMap<DataId, Vec<AttemptId>>,
    reasons: Reasons,
    failure: Option<(TaskId, TaskFailure)>,
    moved: usize,
    commands: VecDeque<DispatchCommand>,
}

/// Returns the pairs of servers of which the second cannot fetch data from the first.
fn apart(platform: &Platform) -> BTreeSet<(ServerId, ServerId)> {
    let mut apart = platform.apart().clone();
    for plain in platform.server_ids().filter(|&server| !platform.server(server).is_direct) {
        for other in platform.server_ids().filter(|&other| other != plain) {
            apart.extend([(plain, other), (other, plain)]);
        }
    }
    apart
}

impl<'a> Dispatcher<'a> {
    /// Creates the dispatcher of a group that has not begun. `kept` returns whether a server must
    /// have data at the end.
    pub fn new(
        (graph, delivery): (&'a TaskGraph, Delivery),
        platform: &'a Platform,
        mapping: &Mapping,
        policy: StragglerPolicy,
        kept: impl Fn(DataId) -> bool,
    ) -> Self {
        let unit_s =
            |server| platform.time_s(1.0, server) / f64::from(platform.server(server).cores);
        let sites = platform.servers().iter().map(|server| server.site).collect();
        let servers = (platform.server_ids().map(unit_s).collect(), sites, apart(platform));
        let is_copying = policy == StragglerPolicy::StealAndCopy;
        Self {
            graph,
            platform,
            delivery,
            state: ExecutionState::new((graph, delivery), mapping, servers, kept),
            watch: (policy != StragglerPolicy::None)
                .then(|| Watch::new(graph, platform, is_copying)),
            sizes: graph.data().iter().map(|datum| datum.bytes).collect(),
            sources: BTreeMap::new(),
            doubtful: BTreeMap::new(),
            reasons: Reasons::default(),
            failure: None,
            moved: 0,
            commands: VecDeque::new(),
        }
    }

    /// Does not order a task again from a server that has refused it, or whose answer was not
    /// valid: the server may have executed it. The task fails if no other server can execute it.
    #[must_use]
    pub fn with_refusals_once(mut self) -> Self {
        self.state.refuse_once();
        self
    }

    /// Returns the next command.
    pub fn poll_command(&mut self) -> Option<DispatchCommand> {
        self.commands.pop_front()
    }

    /// Whether all tasks are done or have failed, and the client has all wanted data.
    pub fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// The first task that failed, and the reason.
    pub fn failure(&self) -> Option<&(TaskId, TaskFailure)> {
        self.failure.as_ref()
    }

    /// Number of refused orders, lost servers, and tasks that were moved from slow servers.
    pub fn moved(&self) -> usize {
        self.moved
    }

    /// Whether a report on an attempt is useful. A withdrawn attempt may have begun before its
    /// server received the withdrawal.
    pub fn is_of_use(&self, attempt: AttemptId) -> bool {
        self.state.is_of_use(attempt)
    }

    /// Whether a task is done.
    pub fn is_done(&self, task: TaskId) -> bool {
        self.state.is_done(task)
    }

    /// Returns the task and the server of an attempt.
    pub fn attempt(&self, attempt: AttemptId) -> (TaskId, ServerId) {
        self.state.attempt(attempt)
    }

    /// Number of attempts examined to find those to be moved or copied.
    #[cfg(test)]
    pub(crate) fn looked_at(&self) -> usize {
        self.state.looked_at.get()
    }

    /// Issues the first orders.
    pub fn begin(&mut self, now_s: f64) {
        self.advance(now_s);
    }

    /// Handles an event.
    pub fn handle(&mut self, now_s: f64, event: DispatchEvent) {
        // A server that has completed a task may be idle.
        let is_look = matches!(event, DispatchEvent::Look | DispatchEvent::Done { .. });
        match event {
            DispatchEvent::Begun(attempt) => self.state.begun(attempt, now_s),
            DispatchEvent::Done { attempt, took_s, sizes, fetched } => {
                self.done(now_s, attempt, (took_s, &sizes), fetched);
            }
            DispatchEvent::Failed(attempt, reason) => {
                self.sources.remove(&attempt);
                if self.state.is_of_use(attempt) {
                    self.fail(self.state.attempt(attempt).0, &TaskFailure::Failed(reason));
                }
            }
            DispatchEvent::Refused(attempt, reason) => self.refused(attempt, reason),
            DispatchEvent::Lacks { attempt, unreached, missing } => {
                self.lacks(attempt, &unreached, &missing);
            }
            DispatchEvent::Sent { data, from, to, is_sent } => {
                let has =
                    |&server: &ServerId| DispatchCommand::Has { data, server, is_maker: false };
                match is_sent {
                    true => self.commands.extend(to.iter().map(has)),
                    false => self.commands.push_back(DispatchCommand::HasNot(data, from)),
                }
                self.state.sent(data, from, &to, is_sent);
            }
            DispatchEvent::Fetched { data, is_relay: true, bytes: Some(bytes), .. } => {
                self.state.relayed(data, bytes);
                self.renew_orders(data);
            }
            DispatchEvent::Fetched { data, bytes: Some(_), .. } => self.state.granted(data),
            DispatchEvent::Fetched { data, from, bytes: None, .. } => {
                self.note_missing(data, Endpoint::Server(from))
            }
            DispatchEvent::Lost(server, reason) => self.lost(server, reason),
            DispatchEvent::Stranded { data, to } => self.stranded(data, &to),
            DispatchEvent::HandedOver(server, successor) => {
                self.state.handed_over(server, successor)
            }
            DispatchEvent::Look => {}
            DispatchEvent::GivenUp => {
                let reason = "the client has ended its work for the group early".to_owned();
                let failure = TaskFailure::NotExecuted { reason, is_refused: false };
                self.state.open_tasks().into_iter().for_each(|task| self.fail(task, &failure));
            }
        }
        self.advance(now_s);
        if is_look {
            self.look(now_s);
        }
    }

    /// Fails tasks that can no longer be executed, orders those that can, and requests wanted data.
    fn advance(&mut self, now_s: f64) {
        self.give_up_stuck();
        self.withdraw();
        let given = self.give_orders(now_s);
        for ((data, from), to) in self.state.take_sends() {
            if from == Endpoint::Client {
                let has =
                    |&server: &ServerId| DispatchCommand::Has { data, server, is_maker: false };
                self.commands.extend(to.iter().map(has));
            }
            self.commands.push_back(DispatchCommand::Send { data, from, to });
        }
        self.commands.extend(given);
        let fetch = |is_relay| move |(data, from)| DispatchCommand::Fetch { data, from, is_relay };
        self.commands.extend(self.state.data.take_requests().into_iter().map(fetch(false)));
        // Drops come before relays, because the data to relay needs the space.
        self.commands.extend(self.state.take_spent().into_iter().map(DispatchCommand::Drop));
        let sizes = &self.sizes;
        let relays = self.state.take_relays(|data| sizes[data.index()]);
        self.commands.extend(relays.into_iter().map(fetch(true)));
    }

    fn give_orders(&mut self, now_s: f64) -> Vec<DispatchCommand> {
        let mut orders = Vec::new();
        for Given { attempt, task, server } in self.state.take_orders(now_s) {
            let inputs = match self.delivery {
                Delivery::Sent => Vec::new(),
                Delivery::Fetched => {
                    // Every argument has a source here; the client is only a fallback.
                    let source = |&data: &DataId| {
                        (data, self.state.source(data, server).unwrap_or(Endpoint::Client))
                    };
                    let inputs: Vec<_> = self.graph.task(task).inputs.iter().map(source).collect();
                    self.sources.insert(attempt, inputs.clone());
                    inputs
                }
            };
            let readers = self.state.readers_of(attempt).to_vec();
            orders.push(DispatchCommand::Order { attempt, task, server, inputs, readers });
        }
        orders
    }

    /// Withdraws attempts that are no longer needed.
    fn withdraw(&mut self) {
        for attempt in self.state.take_withdrawn() {
            self.sources.remove(&attempt);
            self.commands.push_back(DispatchCommand::Withdraw(attempt));
        }
    }

    fn done(
        &mut self,
        now_s: f64,
        attempt: AttemptId,
        (took_s, sizes): (Option<f64>, &[u64]),
        fetched: Vec<DataId>,
    ) {
        self.sources.remove(&attempt);
        if !self.state.is_of_use(attempt) {
            return;
        }
        let (task, server) = self.state.attempt(attempt);
        let outputs = &self.graph.task(task).outputs;
        for (data, &bytes) in outputs.iter().zip(sizes) {
            self.sizes[data.index()] = bytes;
        }
        if let (Some(watch), Some(took_s)) = (&mut self.watch, took_s) {
            let expected_s = self.platform.time_s(self.graph.task(task).work_s, server);
            watch.observe(server, took_s, expected_s, true);
        }
        let has = |is_maker| move |&data: &DataId| DispatchCommand::Has { data, server, is_maker };
        self.commands.extend(fetched.iter().map(has(false)));
        self.commands.extend(outputs.iter().map(has(true)));
        for (data, readers) in self.state.readers_of(attempt) {
            let has =
                |&server: &ServerId| DispatchCommand::Has { data: *data, server, is_maker: false };
            self.commands.extend(readers.iter().map(has));
        }
        let there: Vec<DataId> = outputs.iter().chain(&fetched).copied().collect();
        for other in self.state.done(attempt, now_s, fetched) {
            self.sources.remove(&other);
            self.commands.push_back(DispatchCommand::Withdraw(other));
        }
        there.into_iter().for_each(|data| self.renew_orders(data));
    }

    /// Handles the refusal of an order, which another server may execute.
    fn refused(&mut self, attempt: AttemptId, reason: String) {
        self.sources.remove(&attempt);
        if self.state.is_open(attempt) {
            let (task, server) = self.state.attempt(attempt);
            self.reasons.tried(task, server, reason, true);
            self.moved += 1;
            self.state.refused(attempt);
        }
    }

    /// Handles missing arguments: the server does not reach their holders, or these do not have
    /// them.
    fn lacks(&mut self, attempt: AttemptId, unreached: &[DataId], missing: &[DataId]) {
        let sources = self.sources.remove(&attempt).unwrap_or_default();
        if !self.state.is_open(attempt) {
            return;
        }
        let (task, to) = self.state.attempt(attempt);
        let (mut far, mut gone) = (Vec::new(), Vec::new());
        for (data, from) in sources {
            match from {
                // If the holder is lost, the relay through the client fails, too. Then data that is
                // still needed is produced again.
                Endpoint::Server(from) if from != to && unreached.contains(&data) => {
                    let reason = "a server does not reach another that has its data".to_owned();
                    self.reasons.tried(task, to, reason, false);
                    self.commands.push_back(DispatchCommand::Apart(from, to));
                    far.push((data, from));
                }
                // The order named the server itself as the source. It looked elsewhere, so it does
                // not have the data.
                _ if unreached.contains(&data) && from == Endpoint::Server(to) => {
                    gone.push((data, from));
                }
                _ if missing.contains(&data) => {
                    gone.push((data, from));
                    if from == Endpoint::Client {
                        let reason = "a server did not receive data from the client, which relays values of up to 1 GiB";
                        self.reasons.tried(task, to, reason.to_owned(), false);
                    }
                }
                _ => {}
            }
        }
        match far.is_empty() {
            true => self.state.again(attempt),
            false => self.state.unreached(attempt, &far),
        }
        gone.into_iter().for_each(|(data, from)| self.note_missing(data, from));
    }

    fn note_missing(&mut self, data: DataId, from: Endpoint) {
        if let Endpoint::Server(from) = from {
            self.commands.push_back(DispatchCommand::HasNot(data, from));
        }
        self.state.missing(data, from);
    }

    fn lost(&mut self, server: ServerId, reason: String) {
        if self.state.is_there(server) {
            self.reasons.lost(server, reason);
            self.moved += 1;
            let all = (0..self.graph.data().len() as u32).map(DataId);
            let held = all.filter(|&data| self.state.data.is_held_by(data, server));
            self.commands.extend(held.map(|data| DispatchCommand::HasNot(data, server)));
        }
        // A server that was lost before may have received orders since.
        self.state.lost(server);
        self.doubt(server);
    }

    /// Handles data that may not reach servers, and asks those that alone may have it.
    fn stranded(&mut self, data: DataId, to: &[ServerId]) {
        let (lacking, unsure) = self.state.stranded(data, to);
        let has_not = |server| DispatchCommand::HasNot(data, server);
        self.commands.extend(lacking.into_iter().map(has_not));
        let ask = |server| {
            let (from, to) = (Endpoint::Server(server), Vec::new());
            DispatchCommand::Send { data, from, to }
        };
        self.commands.extend(unsure.into_iter().map(ask));
    }

    /// Servers that have not begun a task may be waiting for data of a lost server, and retry for
    /// longer than the client does. They receive their orders again as soon as the data is
    /// elsewhere.
    fn doubt(&mut self, lost: ServerId) {
        let mut data_of = Vec::new();
        for (&attempt, sources) in &self.sources {
            let of_lost = sources.iter().filter(|(_, from)| *from == Endpoint::Server(lost));
            data_of.extend(of_lost.map(|&(data, _)| (attempt, data)));
        }
        for (attempt, data) in data_of {
            let is_elsewhere = self.state.data.holders(data).next().is_some();
            match is_elsewhere {
                true => self.state.renew(attempt),
                false => self.doubtful.entry(data).or_default().push(attempt),
            }
        }
    }

    /// Repeats the orders of attempts that waited for this lost data, now that it exists again.
    fn renew_orders(&mut self, data: DataId) {
        let waiting = self.doubtful.remove(&data).into_iter().flatten();
        waiting.for_each(|attempt| self.state.renew(attempt));
    }

    /// Moves or copies tasks of slow servers to others.
    fn look(&mut self, now_s: f64) {
        loop {
            let (platform, sizes) = (self.platform, &self.sizes);
            let transfer_s =
                |data: DataId, from, to| platform.transfer_s(sizes[data.index()], from, to);
            let Some(watch) = &self.watch else { return };
            let reassigned = self.state.reassign_straggler(now_s, platform, watch, &transfer_s);
            let Some(reassignment) = reassigned else { return };
            self.moved += usize::from(!reassignment.is_copy);
            // The server that receives the task is no longer idle.
            self.advance(now_s);
        }
    }

    /// Fails the tasks that can no longer be executed, and those that depend on them.
    fn give_up_stuck(&mut self) {
        for (task, stuck) in self.state.take_stuck() {
            let can = |server| self.graph.task(task).can_run_on(server);
            let name = |server| self.platform.server(server).name.clone();
            let failure = self.reasons.why(task, stuck, can, name);
            self.fail(task, &failure);
        }
    }

    fn fail(&mut self, task: TaskId, failure: &TaskFailure) {
        let failed = self.state.fail(task);
        // The task may already have failed with one on which it depends.
        if failed.is_empty() {
            return;
        }
        let failed = failed.into_iter();
        let failure = failure.clone();
        self.commands.extend(failed.map(|failed| DispatchCommand::Failed {
            task: failed,
            first: task,
            failure: failure.clone(),
        }));
        self.failure.get_or_insert((task, failure));
    }
}
