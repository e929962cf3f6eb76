//! Has servers carry out a group: orders its tasks as their arguments are made, where they were
//! mapped, and elsewhere where servers are lost or slow.

mod losses;

use crate::client::task_client::order;
use crate::execution::events::{Contact, GroupEvents, GroupOutcome, Plan};
use crate::execution::reasons::{Failure, Reasons};
use crate::execution::state::{ExecutionState, Given};
use crate::execution::validation::check;
use crate::wire::messages::{Input, Order, Source, TaskError, Times};
use crate::wire::token::RemoteError;
use crate::wire::transfer::{FetchError, fetch};
use gridspan_workflow::simulate::{Execution, StragglerPolicy, TaskRun, Transfer};
use gridspan_workflow::stragglers::{Watch, polling_interval};
use gridspan_workflow::{DataId, Endpoint, ServerId, TaskId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// How often servers are looked at, at most.
const GLANCE_MIN: Duration = Duration::from_millis(10);

/// Something that has happened.
enum Event {
    /// A server has answered an order.
    Answered(usize, Result<Result<Times, TaskError>, RemoteError>),
    /// The client has asked for data, since that time, and got it or not.
    Brought(DataId, ServerId, f64, bool),
    /// The same for data that other servers are to have from the client.
    Relayed(DataId, ServerId, f64, Result<Vec<u8>, FetchError>),
}

struct Driver<'a, E> {
    plan: Plan<'a>,
    contacts: &'a [Contact],
    events: &'a mut E,
    state: ExecutionState<'a>,
    watch: Option<Watch>,
    /// Orders by attempt: when they were given, and where tasks were told to fetch their arguments.
    given: BTreeMap<usize, Ordered>,
    running: JoinSet<Event>,
    begin: Instant,
    execution: Execution,
    failure: Option<(TaskId, Failure)>,
    reasons: Reasons,
    /// Orders whose servers may be waiting for data that was lost.
    doubtful: BTreeMap<DataId, Vec<usize>>,
}

struct Ordered {
    order: Given,
    at_s: f64,
    sources: BTreeMap<DataId, Endpoint>,
    going: AbortHandle,
}

/// Carries a group out on servers, by their positions.
pub(crate) async fn execute_group<E: GroupEvents>(
    plan: Plan<'_>,
    contacts: &[Contact],
    events: &mut E,
) -> GroupOutcome {
    let Plan { graph, platform, mapping, rescue, .. } = plan;
    let servers = (contacts.len(), platform.apart());
    let state = ExecutionState::new(graph, mapping, servers, |data| events.is_kept(data));
    let is_copying = rescue == StragglerPolicy::StealAndCopy;
    let watch = (rescue != StragglerPolicy::None).then(|| Watch::new(graph, platform, is_copying));
    let mut driver = Driver {
        plan,
        contacts,
        events,
        state,
        watch,
        given: BTreeMap::new(),
        running: JoinSet::new(),
        begin: Instant::now(),
        execution: Execution::default(),
        failure: None,
        reasons: Reasons::default(),
        doubtful: BTreeMap::new(),
    };
    driver.run().await;
    let mut execution = driver.execution;
    execution.makespan_s = driver.begin.elapsed().as_secs_f64();
    execution.runs.sort_by(|one, other| one.end_s.total_cmp(&other.end_s));
    execution.transfers.sort_by(|one, other| one.end_s.total_cmp(&other.end_s));
    (execution, driver.failure)
}

impl<E: GroupEvents> Driver<'_, E> {
    async fn run(&mut self) {
        let mut glances = tokio::time::interval(polling_interval(self.plan.graph, GLANCE_MIN));
        let (tell, mut begun) = mpsc::unbounded_channel();
        let mut closings = self.closings();
        loop {
            self.go_on(&tell);
            if self.state.is_over() {
                return;
            }
            tokio::select! {
                Some((attempt, at)) = begun.recv() => {
                    let at: Instant = at;
                    self.state.begun(attempt, at.duration_since(self.begin).as_secs_f64());
                }
                // Without an order that would fail, somebody may still need what it has.
                Some(Ok((server, error))) = closings.join_next(), if !closings.is_empty() => {
                    self.closed(server, &error);
                }
                event = self.running.join_next() => match event {
                    Some(Ok(event)) => self.happens(event),
                    // An order that was taken back.
                    Some(Err(error)) if error.is_cancelled() => {}
                    Some(Err(_)) | None => return self.give_up_all(),
                },
                _ = glances.tick(), if self.watch.is_some() => self.look_after(&tell),
            }
        }
    }

    fn now_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// Orders what can be, and asks for what is wanted.
    fn go_on(&mut self, tell: &mpsc::UnboundedSender<(usize, Instant)>) {
        let now_s = self.now_s();
        let (plan, events) = (self.plan, &*self.events);
        let inputs_s =
            |state: &ExecutionState<'_>, task, to| inputs_s(plan, events, state, task, to);
        for given in self.state.take_orders(now_s, &inputs_s) {
            let (order_of_task, sources) = self.order(given.task, given.server);
            let connection = self.contacts[given.server.index()].connection.clone();
            self.events.ordered(given.server);
            let tell = tell.clone();
            let going = self.running.spawn(async move {
                let begun = || {
                    // He may not be there any more.
                    let _ = tell.send((given.attempt, Instant::now()));
                };
                Event::Answered(given.attempt, order(&connection, order_of_task, begun).await)
            });
            let ordered = Ordered { order: given, at_s: now_s, sources, going };
            self.given.insert(given.attempt, ordered);
        }
        let wishes = self.state.take_wishes();
        // Before more is asked for, which needs the room.
        for data in self.state.take_spent() {
            self.events.spent(data);
        }
        let relays = self.state.take_relays(|data| self.events.bytes(data));
        let wishes = wishes.into_iter().map(|wish| (wish, false));
        for ((data, server), is_relay) in
            wishes.chain(relays.into_iter().map(|relay| (relay, true)))
        {
            let (version, bytes) = (self.events.version(data), self.events.bytes(data));
            let connection = self.contacts[server.index()].connection.clone();
            let group = self.plan.group;
            self.running.spawn(async move {
                let brought = fetch(&connection, group, version, bytes).await;
                match is_relay {
                    true => Event::Relayed(data, server, now_s, brought.map(|(bytes, _)| bytes)),
                    false => Event::Brought(data, server, now_s, brought.is_ok()),
                }
            });
        }
    }

    fn order(&self, task: TaskId, to: ServerId) -> (Order, BTreeMap<DataId, Endpoint>) {
        let mut sources = BTreeMap::new();
        let mut inputs = Vec::new();
        for data in self.events.inputs(task) {
            // Who can have it from nobody gets no order.
            let source = self.state.source(data, to).unwrap_or(Endpoint::Client);
            sources.insert(data, source);
            let from = match source {
                Endpoint::Client => Source::Client,
                Endpoint::Server(server) => self.contacts[server.index()].source,
            };
            let bytes = self.events.bytes(data);
            inputs.push(Input { data: self.events.version(data), bytes, from });
        }
        let outputs = self.plan.graph.task(task).outputs.iter();
        let order = Order {
            group: self.plan.group,
            place: self.plan.mapping.places[task.index()],
            work: self.events.work(task),
            inputs,
            outputs: outputs.map(|&data| self.events.version(data)).collect(),
        };
        (order, sources)
    }

    /// Has tasks of slow servers done elsewhere.
    fn look_after(&mut self, tell: &mpsc::UnboundedSender<(usize, Instant)>) {
        loop {
            let (now_s, plan, events) = (self.now_s(), self.plan, &*self.events);
            let inputs_s =
                |state: &ExecutionState<'_>, task, to| inputs_s(plan, events, state, task, to);
            let Some(watch) = &self.watch else { return };
            let moved = self.state.rescue(now_s, plan.platform, watch, &inputs_s);
            let Some(taken_back) = moved else { return };
            if let Some(attempt) = taken_back {
                self.execution.moved += 1;
                self.take_back(attempt);
            }
            // Who gets it is not idle any more.
            self.go_on(tell);
        }
    }

    /// Nobody waits for an attempt any more, which its server sees.
    fn take_back(&mut self, attempt: usize) {
        if let Some(ordered) = self.given.remove(&attempt) {
            ordered.going.abort();
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Answered(attempt, response) => self.answered(attempt, response),
            Event::Brought(data, server, start_s, is_there) => {
                if is_there {
                    self.came(data, server, start_s);
                    self.state.granted(data);
                } else {
                    self.state.missing(data, Endpoint::Server(server));
                }
            }
            Event::Relayed(data, server, start_s, Ok(bytes)) => {
                self.came(data, server, start_s);
                self.state.relayed(data, bytes.len() as u64);
                self.events.relayed(data, bytes);
                self.is_back(data);
            }
            Event::Relayed(data, server, _, Err(_)) => {
                self.events.has_not(data, server);
                self.state.missing(data, Endpoint::Server(server));
            }
        }
        self.give_up_stuck();
    }

    /// A server has answered an order, or is lost.
    fn answered(
        &mut self,
        attempt: usize,
        response: Result<Result<Times, TaskError>, RemoteError>,
    ) {
        let Some(ordered) = self.given.remove(&attempt) else { return };
        if !self.state.is_open(attempt) {
            return;
        }
        let Given { task, server, .. } = ordered.order;
        match response.map(|done| done.and_then(|times| self.checked(&ordered, times))) {
            Ok(Ok(times)) => self.done(&ordered, &times),
            Ok(Err(TaskError::Missing(missing))) => self.lacks(&ordered, &[], &missing),
            Ok(Err(TaskError::Unreached { unreached, missing })) => {
                self.lacks(&ordered, &unreached, &missing);
            }
            Ok(Err(TaskError::Failed(reason))) => self.fail(task, &Failure::Failed(reason)),
            Ok(Err(TaskError::Refused(reason))) => self.refused(attempt, reason),
            // Whatever it said: it is there, and what it has is too.
            Err(error) if self.is_connected(server) => self.refused(attempt, error.to_string()),
            Err(error) => self.lost(server, &error),
        }
    }

    /// Data has come to the client.
    fn came(&mut self, data: DataId, from: ServerId, start_s: f64) {
        let (from, end_s) = (Endpoint::Server(from), self.now_s());
        let transfer = Transfer { data, from, to: Endpoint::Client, start_s, end_s };
        self.execution.transfers.push(transfer);
    }

    /// What a server says of a task, if it can be. Otherwise another may do better.
    fn checked(&self, ordered: &Ordered, times: Times) -> Result<Times, TaskError> {
        let outputs = self.plan.graph.task(ordered.order.task).outputs.len();
        let checked = check(&times, outputs, self.now_s() - ordered.at_s);
        checked.map(|()| times).map_err(TaskError::Refused)
    }

    fn is_connected(&self, server: ServerId) -> bool {
        self.contacts[server.index()].connection.close_reason().is_none()
    }

    fn done(&mut self, ordered: &Ordered, times: &Times) {
        let Ordered { order: Given { attempt, task, server }, at_s, sources, .. } = ordered;
        let (start_s, end_s) = (at_s + times.start_s, at_s + times.end_s);
        self.execution.runs.push(TaskRun { task: *task, server: *server, start_s, end_s });
        let mut has = Vec::new();
        for fetched in &times.fetched {
            let is_it = |data: &&DataId| self.events.version(**data) == fetched.data;
            let Some(&data) = sources.keys().find(is_it) else { continue };
            let (from, to) = (sources[&data], Endpoint::Server(*server));
            let (start_s, end_s) = (at_s + fetched.start_s, at_s + fetched.end_s);
            self.execution.transfers.push(Transfer { data, from, to, start_s, end_s });
            has.push(data);
            self.events.has(data, *server);
        }
        if let Some(watch) = &mut self.watch {
            let work_s = self.plan.graph.task(*task).work_s;
            let should_s = self.plan.platform.time_s(work_s, *server);
            watch.observe(*server, times.end_s - times.start_s, should_s, true);
        }
        self.events.made(*task, *server, times);
        let outputs = self.plan.graph.task(*task).outputs.iter().copied();
        let there: Vec<DataId> = outputs.chain(has.iter().copied()).collect();
        for other in self.state.done(*attempt, self.begin.elapsed().as_secs_f64(), has) {
            let end_s = self.now_s();
            if let Some(Ordered { order, at_s, .. }) = self.given.get(&other) {
                let (task, server, start_s) = (order.task, order.server, *at_s);
                self.execution.wasted.push(TaskRun { task, server, start_s, end_s });
            }
            self.take_back(other);
        }
        there.into_iter().for_each(|data| self.is_back(data));
    }
}

/// How long the inputs of a task take to a server, over idle links, in seconds.
fn inputs_s<E: GroupEvents>(
    plan: Plan<'_>,
    events: &E,
    state: &ExecutionState<'_>,
    task: TaskId,
    to: ServerId,
) -> f64 {
    let nearest_s = |&data: &DataId| {
        let bytes = events.bytes(data);
        let way_s = |from, to| plan.platform.transfer_s(bytes, from, to);
        let time_s = |from| match state.is_direct(from, to) {
            true => way_s(from, Endpoint::Server(to)),
            false => way_s(from, Endpoint::Client) + way_s(Endpoint::Client, Endpoint::Server(to)),
        };
        state.holders(data).map(time_s).fold(f64::INFINITY, f64::min)
    };
    plan.graph.task(task).inputs.iter().map(nearest_s).fold(0.0, f64::max)
}
