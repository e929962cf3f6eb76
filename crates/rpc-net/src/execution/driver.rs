//! Executes a group on servers of a registry: carries out the commands of the [`Dispatcher`] over
//! connections, and passes it the answers.

use crate::client::task_client::order;
use crate::execution::events::{Contact, GroupEvents, GroupOutcome, Plan};
use crate::execution::order_spans::{note_answer, order_span};
use crate::execution::validation::check;
use crate::wire::messages::{Input, Order, Source, TaskError, Times};
use crate::wire::token::RemoteError;
use crate::wire::transfer::fetch;
use gridspan_rpc::trace::context_of;
use gridspan_workflow::execution::{
    AttemptId, Delivery, DispatchCommand, DispatchEvent, Dispatcher,
};
use gridspan_workflow::execution::{Execution, TaskRun, Transfer};
use gridspan_workflow::stragglers::{StragglerPolicy, polling_interval};
use gridspan_workflow::{DataId, Endpoint, ServerId, TaskId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Smallest interval between checks for slow servers.
const POLLING_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// An answer that has arrived over a connection.
enum Answer {
    /// The answer to an order.
    Task(AttemptId, Result<Result<Times, TaskError>, RemoteError>),
    /// Data that the client requested at `start_s`; `bytes` is `None` if the request failed.
    Data { data: DataId, from: ServerId, is_relay: bool, start_s: f64, bytes: Option<Vec<u8>> },
}

struct Driver<'a, E> {
    plan: Plan<'a>,
    contacts: &'a [Contact],
    events: &'a mut E,
    dispatcher: Dispatcher<'a>,
    given: BTreeMap<AttemptId, Ordered>,
    running: JoinSet<Answer>,
    /// Sends the attempts that have started, and their start times.
    tell: mpsc::UnboundedSender<(AttemptId, Instant)>,
    begin: Instant,
    execution: Execution,
}

/// An order that a server has: the time at which it was sent, and the sources of the task's
/// arguments.
struct Ordered {
    at_s: f64,
    sources: BTreeMap<DataId, Endpoint>,
    going: AbortHandle,
}

/// Executes a group on servers, which are identified by their positions.
pub(crate) async fn execute_group<E: GroupEvents>(
    plan: Plan<'_>,
    contacts: &[Contact],
    events: &mut E,
) -> GroupOutcome {
    let Plan { graph, platform, mapping, straggler_policy, is_single, .. } = plan;
    let is_kept = |data| events.is_kept(data);
    let of = (graph, Delivery::Fetched);
    let dispatcher = Dispatcher::new(of, platform, mapping, straggler_policy, is_kept);
    let dispatcher = if is_single { dispatcher.with_refusals_once() } else { dispatcher };
    let (tell, begun) = mpsc::unbounded_channel();
    let mut driver = Driver {
        plan,
        contacts,
        events,
        dispatcher,
        given: BTreeMap::new(),
        running: JoinSet::new(),
        tell,
        begin: Instant::now(),
        execution: Execution::default(),
    };
    driver.run(begun).await;
    let mut execution = driver.execution;
    execution.makespan_s = driver.begin.elapsed().as_secs_f64();
    execution.moved = driver.dispatcher.moved();
    execution.runs.sort_by(|one, other| one.end_s.total_cmp(&other.end_s));
    execution.transfers.sort_by(|one, other| one.end_s.total_cmp(&other.end_s));
    (execution, driver.dispatcher.failure().cloned())
}

impl<E: GroupEvents> Driver<'_, E> {
    async fn run(&mut self, mut begun: mpsc::UnboundedReceiver<(AttemptId, Instant)>) {
        let mut polls =
            tokio::time::interval(polling_interval(self.plan.graph, POLLING_INTERVAL_MIN));
        let is_looking = self.plan.straggler_policy != StragglerPolicy::None;
        let mut closings = self.closings();
        self.dispatcher.begin(0.0);
        loop {
            while let Some(command) = self.dispatcher.poll_command() {
                self.carry_out(command);
            }
            if self.dispatcher.is_over() {
                return;
            }
            tokio::select! {
                Some((attempt, at)) = begun.recv() => {
                    let at: Instant = at;
                    let at_s = at.duration_since(self.begin).as_secs_f64();
                    self.dispatcher.handle(at_s, DispatchEvent::Begun(attempt));
                }
                // A lost server matters even if it has no order: another server may need its data.
                Some(Ok((server, error))) = closings.join_next(), if !closings.is_empty() => {
                    self.happens(DispatchEvent::Lost(server, error.to_string()));
                }
                answer = self.running.join_next() => match answer {
                    Some(Ok(Answer::Task(attempt, response))) => self.answered(attempt, response),
                    Some(Ok(Answer::Data { data, from, is_relay, start_s, bytes })) => {
                        self.brought((data, from, is_relay), start_s, bytes);
                    }
                    // A withdrawn order.
                    Some(Err(error)) if error.is_cancelled() => {}
                    Some(Err(_)) | None => self.happens(DispatchEvent::GivenUp),
                },
                _ = polls.tick(), if is_looking => self.happens(DispatchEvent::Look),
            }
        }
    }

    fn now_s(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    fn happens(&mut self, event: DispatchEvent) {
        self.dispatcher.handle(self.now_s(), event);
    }

    fn carry_out(&mut self, command: DispatchCommand) {
        match command {
            DispatchCommand::Order { attempt, task, server, inputs, .. } => {
                self.order(attempt, (task, server), inputs.into_iter().collect());
            }
            DispatchCommand::Withdraw(attempt) => self.take_back(attempt),
            // Servers of a registry fetch data; the client does not send it.
            DispatchCommand::Send { .. } => {}
            DispatchCommand::Fetch { data, from, is_relay } => self.fetch(data, from, is_relay),
            DispatchCommand::Drop(data) => self.events.spent(data),
            // The maker's answer has reported the data and its size.
            DispatchCommand::Has { is_maker: true, .. } => {}
            DispatchCommand::Has { data, server, .. } => self.events.has(data, server),
            DispatchCommand::HasNot(data, server) => self.events.has_not(data, server),
            DispatchCommand::Apart(from, to) => {
                tracing::info!(%from, %to, "the server `to` does not reach the server `from`");
                self.events.part(from, to);
            }
            DispatchCommand::Failed { task, first, failure } => {
                self.events.failed(task, first, &failure)
            }
        }
    }

    fn fetch(&mut self, data: DataId, from: ServerId, is_relay: bool) {
        let (version, bytes) = (self.events.version(data), self.events.bytes(data));
        let connection = self.contacts[from.index()].connection.clone();
        let (group, start_s) = (self.plan.group, self.now_s());
        self.running.spawn(async move {
            let brought = fetch(&connection, group, version, bytes).await;
            let bytes = brought.ok().map(|(bytes, _)| bytes);
            Answer::Data { data, from, is_relay, start_s, bytes }
        });
    }

    /// Handles the arrival of data at the client, or the failure of the transfer.
    fn brought(
        &mut self,
        (data, from, is_relay): (DataId, ServerId, bool),
        start_s: f64,
        brought: Option<Vec<u8>>,
    ) {
        let bytes = brought.as_ref().map(|brought| brought.len() as u64);
        if let Some(brought) = brought {
            let (end_s, sender, to) = (self.now_s(), Endpoint::Server(from), Endpoint::Client);
            let transfer = Transfer::new(data, sender, to, start_s, end_s);
            self.execution.transfers.push(transfer);
            if is_relay {
                self.events.relayed(data, brought);
            }
        }
        self.happens(DispatchEvent::Fetched { data, from, is_relay, bytes });
    }

    fn order(
        &mut self,
        attempt: AttemptId,
        (task, server): (TaskId, ServerId),
        sources: BTreeMap<DataId, Endpoint>,
    ) {
        let mut inputs = Vec::new();
        for data in self.events.inputs(task) {
            let from = match sources.get(&data).and_then(|source| source.server()) {
                Some(server) => self.contacts[server.index()].source,
                None => Source::Client,
            };
            let bytes = self.events.bytes(data);
            inputs.push(Input { data: self.events.version(data), bytes, from });
        }
        let outputs = self.plan.graph.task(task).outputs.iter();
        let Contact { connection, orders, .. } = self.contacts[server.index()].clone();
        let work = self.events.work(task);
        let span = order_span(&work, connection.remote_address());
        let order_of_task = Order {
            group: self.plan.group,
            place: self.plan.mapping.places[task.index()],
            work,
            inputs,
            outputs: outputs.map(|&data| self.events.version(data)).collect(),
            traceparent: context_of(&span),
        };
        self.events.ordered(server);
        let tell = self.tell.clone();
        let going = self.running.spawn(async move {
            let _unanswered = orders.begin().await;
            let begun = || {
                // The driver may be gone.
                let _ = tell.send((attempt, Instant::now()));
            };
            let answer = order(&connection, order_of_task, begun).await;
            note_answer(&span, &answer);
            Answer::Task(attempt, answer)
        });
        self.given.insert(attempt, Ordered { at_s: self.now_s(), sources, going });
    }

    /// Withdraws an attempt that is no longer needed. The server notices the end of the request.
    fn take_back(&mut self, attempt: AttemptId) {
        let Some(Ordered { at_s: start_s, going, .. }) = self.given.remove(&attempt) else {
            return;
        };
        going.abort();
        let (task, server) = self.dispatcher.attempt(attempt);
        if self.dispatcher.is_done(task) {
            let end_s = self.now_s();
            self.execution.wasted.push(TaskRun::new(task, server, start_s, end_s));
        }
    }

    /// Handles a server's answer to an order, or the loss of the server.
    fn answered(
        &mut self,
        attempt: AttemptId,
        response: Result<Result<Times, TaskError>, RemoteError>,
    ) {
        let Some(ordered) = self.given.remove(&attempt) else { return };
        if !self.dispatcher.is_of_use(attempt) {
            return;
        }
        let (task, server) = self.dispatcher.attempt(attempt);
        let of = |versions: &[u32]| {
            let all = ordered.sources.keys().copied();
            all.filter(|&data| versions.contains(&self.events.version(data))).collect()
        };
        let event = match response {
            Ok(Ok(times)) => match self.checked(task, ordered.at_s, &times) {
                Ok(()) => {
                    let fetched = times.fetched.iter().map(|fetched| fetched.data);
                    let fetched = of(&fetched.collect::<Vec<_>>());
                    self.note((task, server), &ordered, &times);
                    let (took_s, sizes) = (Some(times.end_s - times.start_s), times.sizes);
                    DispatchEvent::Done { attempt, took_s, sizes, fetched }
                }
                // Another server may report correctly.
                Err(reason) => DispatchEvent::Refused(attempt, reason),
            },
            Ok(Err(TaskError::Missing(missing))) => {
                DispatchEvent::Lacks { attempt, unreached: Vec::new(), missing: of(&missing) }
            }
            Ok(Err(TaskError::Unreached { unreached, missing })) => {
                DispatchEvent::Lacks { attempt, unreached: of(&unreached), missing: of(&missing) }
            }
            Ok(Err(TaskError::Failed(reason))) => DispatchEvent::Failed(attempt, reason),
            Ok(Err(TaskError::Refused(reason))) => DispatchEvent::Refused(attempt, reason),
            // Whatever the error is, the server is connected, so its data is available.
            Err(error) if self.is_connected(server) => {
                DispatchEvent::Refused(attempt, error.to_string())
            }
            Err(error) => {
                tracing::info!(%server, %error, "lost");
                DispatchEvent::Lost(server, error.to_string())
            }
        };
        self.happens(event);
    }

    /// Checks whether a server's report on a task is plausible. Returns the reason if it is not.
    fn checked(&self, task: TaskId, at_s: f64, times: &Times) -> Result<(), String> {
        let outputs = self.plan.graph.task(task).outputs.len();
        check(times, outputs, self.now_s() - at_s)
    }

    fn is_connected(&self, server: ServerId) -> bool {
        self.contacts[server.index()].connection.close_reason().is_none()
    }

    /// Records the execution of a task, and the transfers for it.
    fn note(&mut self, (task, server): (TaskId, ServerId), ordered: &Ordered, times: &Times) {
        let Ordered { at_s, sources, .. } = ordered;
        let (start_s, end_s) = (at_s + times.start_s, at_s + times.end_s);
        self.execution.runs.push(TaskRun::new(task, server, start_s, end_s));
        for fetched in &times.fetched {
            let is_it = |(data, _): &(&DataId, _)| self.events.version(**data) == fetched.data;
            let Some((&data, &from)) = sources.iter().find(is_it) else { continue };
            let (start_s, end_s) = (at_s + fetched.start_s, at_s + fetched.end_s);
            let to = Endpoint::Server(server);
            self.execution.transfers.push(Transfer::new(data, from, to, start_s, end_s));
        }
        self.events.made(task, server, times);
    }

    /// Starts to wait for the ends of all connections; each wait returns the server and the reason.
    fn closings(&self) -> JoinSet<(ServerId, RemoteError)> {
        let mut closings = JoinSet::new();
        for (server, contact) in (0..).map(ServerId).zip(self.contacts) {
            let connection = contact.connection.clone();
            closings.spawn(async move {
                let reason = connection.closed().await;
                (server, RemoteError::away(connection.remote_address(), &reason))
            });
        }
        closings
    }
}
