//! Executes a window on the servers of a job: carries out the commands of the [`Dispatcher`] by
//! messages to actors, and passes their answers to the dispatcher as events.

use super::order::{DataPacket, Done, Fault, GroupMessage, Held, Piece, Route, TaskOrder, pieces};
use super::routes::Routes;
use super::windows::{CallWindow, Execute, error_of};
use crate::calls::{Catalogue, RpcError, ServerMessage, Services, error_string};
use crate::trace::{client_span, context_of, note_failure};
use futures_util::stream::{FuturesUnordered, StreamExt};
use gridspan_runtime::Reply;
use gridspan_workflow::execution::{
    AttemptId, Delivery, DispatchCommand, DispatchEvent, Dispatcher,
};
use gridspan_workflow::stragglers::{StragglerPolicy, polling_interval};
use gridspan_workflow::{DataId, Endpoint, ServerId, TaskId};
use std::pin::Pin;
use std::time::Duration;
use tracing::Span;

/// Minimum interval at which the dispatcher looks for slow servers.
const POLLING_INTERVAL_MIN: Duration = Duration::from_millis(1);
/// The error for servers that have left and whose data no other server has taken over.
const LEFT: &str = "its server has left";

/// The outcome of a future that the driver awaits.
enum Answer {
    Task(AttemptId, Result<Done, RpcError>),
    Other(DispatchEvent),
}

/// A future that the driver awaits.
type Going<'a> = Pin<Box<dyn Future<Output = Answer> + 'a>>;

/// A window in execution.
struct Driver<'w, 'a, 'b, C: Catalogue> {
    window: &'w CallWindow<'a, 'b, Services<C>>,
    services: &'w Services<C>,
    dispatcher: Dispatcher<'w>,
    routes: Routes,
    /// Data that servers pass on, with its routes. Servers are named by their positions.
    passed_on: Vec<(DataId, Vec<Route>)>,
    going: FuturesUnordered<Going<'w>>,
    /// Number of servers that had left at the last check.
    departures: usize,
    /// The server that had the data of each server at the last check; `None` if it was lost.
    successors: Vec<Option<u32>>,
}

impl<C: Catalogue> Execute for Services<C> {
    async fn execute(window: &CallWindow<'_, '_, Self>) -> Result<(), RpcError> {
        let numbers = window.cards.iter().map(|card| Some(card.number)).collect();
        let (graph, policy) = (&window.graph, window.straggler_policy());
        let is_kept = |data| window.is_named(data);
        let of = (graph, Delivery::Sent);
        let driver = Driver {
            window,
            services: window.server_pool(),
            dispatcher: Dispatcher::new(of, &window.platform, &window.mapping, policy, is_kept),
            routes: Routes::default(),
            passed_on: Vec::new(),
            going: FuturesUnordered::new(),
            departures: 0,
            successors: numbers,
        };
        driver.run().await
    }
}

impl<C: Catalogue> Driver<'_, '_, '_, C> {
    async fn run(mut self) -> Result<(), RpcError> {
        let now_s = self.now_s().await;
        self.dispatcher.begin(now_s);
        if self.is_looking() {
            self.going.push(self.look());
        }
        loop {
            self.carry_out_all();
            if self.dispatcher.is_over() {
                break;
            }
            let answer = self.going.next().await;
            let now_s = self.now_s().await;
            self.see_departures(now_s);
            let event = match answer {
                Some(Answer::Task(attempt, done)) => self.answered(attempt, done),
                Some(Answer::Other(event)) => event,
                None => DispatchEvent::GivenUp,
            };
            if event == DispatchEvent::Look {
                self.going.push(self.look());
            }
            self.dispatcher.handle(now_s, event);
        }
        let failure = self.dispatcher.failure();
        failure
            .map_or(Ok(()), |(first, failure)| Err(error_of(self.window.function(*first), failure)))
    }

    fn is_looking(&self) -> bool {
        self.window.straggler_policy() != StragglerPolicy::None
    }

    /// The job's time in seconds if the policy needs it, otherwise 0.
    async fn now_s(&self) -> f64 {
        if self.is_looking() { self.services.now_s().await } else { 0.0 }
    }

    fn look(&self) -> Going<'static>
    where
        C: 'static,
    {
        let services = self.services.clone();
        let pause = polling_interval(&self.window.graph, POLLING_INTERVAL_MIN);
        Box::pin(async move {
            services.sleep(pause).await;
            Answer::Other(DispatchEvent::Look)
        })
    }

    /// Finds the servers that have left, and reports their successors to the dispatcher.
    fn see_departures(&mut self, now_s: f64) {
        let departures = self.services.departures();
        if std::mem::replace(&mut self.departures, departures) == departures {
            return;
        }
        let mut lost = Vec::new();
        for (server, card) in (0..).map(ServerId).zip(&self.window.cards) {
            let successor = self.services.successor_of(card.number);
            let before = std::mem::replace(&mut self.successors[server.index()], successor);
            if before.is_some() && successor.is_none() {
                lost.push(server);
            }
            // A server that had left before gets a new successor when its old one leaves. The
            // departure of the old successor is reported instead.
            if before != Some(card.number) || successor == before {
                continue;
            }
            let event = match successor {
                None => DispatchEvent::Lost(server, LEFT.to_owned()),
                Some(successor) => {
                    let place = self.window.cards.iter().position(|card| card.number == successor);
                    DispatchEvent::HandedOver(server, place.map(|place| ServerId(place as u32)))
                }
            };
            self.dispatcher.handle(now_s, event);
        }
        if !lost.is_empty() {
            // Commands that were issued between two losses may route data through the second lost
            // server.
            self.carry_out_all();
        }
        lost.into_iter().for_each(|server| self.strand(now_s, server));
    }

    /// Tells the dispatcher which data a lost server had to pass on. The server may be stuck, and
    /// never pass it on.
    fn strand(&mut self, now_s: f64, lost: ServerId) {
        for (data, routes) in &self.passed_on {
            let beyond = routes.iter().flat_map(|route| route.beyond(lost.0));
            let to: Vec<ServerId> = beyond.map(|hop| ServerId(hop.to)).collect();
            if !to.is_empty() {
                self.dispatcher.handle(now_s, DispatchEvent::Stranded { data: *data, to });
            }
        }
    }

    /// The event for the outcome of an order.
    fn answered(&self, attempt: AttemptId, done: Result<Done, RpcError>) -> DispatchEvent {
        let (task, server) = self.dispatcher.attempt(attempt);
        match done.map(|done| (done.outcome.clone(), done)) {
            Ok((Ok(sizes), done)) => {
                if self.dispatcher.is_of_use(attempt) {
                    self.window.made(task, server, &done, &sizes);
                }
                DispatchEvent::Done { attempt, took_s: done.took_s, sizes, fetched: Vec::new() }
            }
            Ok((Err(Fault::Failed(reason)), _)) => DispatchEvent::Failed(attempt, reason),
            Ok((Err(Fault::Lost(reason)), _)) => DispatchEvent::Refused(attempt, reason),
            Err(error) => DispatchEvent::Refused(attempt, error.to_string()),
        }
    }

    fn carry_out_all(&mut self) {
        while let Some(command) = self.dispatcher.poll_command() {
            self.carry_out(command);
        }
    }

    fn carry_out(&mut self, command: DispatchCommand) {
        match command {
            DispatchCommand::Order { attempt, task, server, readers, .. } => {
                self.order(attempt, (task, server), readers);
            }
            DispatchCommand::Withdraw(attempt) => self.withdraw(attempt),
            DispatchCommand::Send { data, from, to } => match from.server() {
                Some(from) => self.share(data, from, to),
                None => self.send_value(data, &to),
            },
            DispatchCommand::Fetch { data, from, is_relay } => self.fetch(data, from, is_relay),
            DispatchCommand::Drop(data) => self.window.spent(data),
            DispatchCommand::Has { data, server, is_maker } => {
                self.window.has(data, server, is_maker)
            }
            DispatchCommand::HasNot(data, server) => self.window.has_not(data, server),
            // The servers' cards state in advance which servers do not reach others.
            DispatchCommand::Apart(..) => {}
            DispatchCommand::Failed { task, first, failure } => {
                self.window.failed(task, &error_of(self.window.function(first), &failure));
            }
        }
    }

    /// The routes of data to servers, by their numbers. Records the servers as touched before
    /// anything is sent, so that all of them are notified if the group ends meanwhile.
    fn routes(&mut self, data: DataId, from: Endpoint, to: &[ServerId]) -> Vec<Route> {
        let window = self.window;
        to.iter().for_each(|&server| window.touch(server));
        let bytes = window.graph.datum(data).bytes;
        let routes = self.routes.plan(&window.platform, window.mapping.relays, (from, bytes), to);
        let number = |place| window.number(ServerId(place));
        let renamed = routes.iter().map(|route| route.renamed(&number)).collect();
        if routes.iter().any(|route| !route.then.is_empty()) {
            self.passed_on.push((data, routes));
        }
        renamed
    }

    /// Asks a server a question, and queues its answer for the driver, or an error as soon as the
    /// server is lost: a lost server may be stuck and never answer.
    fn ask<T: serde::de::DeserializeOwned + Send + 'static>(
        &self,
        server: ServerId,
        question: impl FnOnce(Reply<T>) -> GroupMessage + Send + 'static,
        answer: impl FnOnce(Result<T, RpcError>) -> Answer + 'static,
    ) where
        C: 'static,
    {
        let (services, number) = (self.services.clone(), self.window.number(server));
        let question = move |reply| ServerMessage::Group(question(reply));
        self.going.push(Box::pin(async move {
            let answered = services.ask_standing(number, question).await;
            let lost = || RpcError::Other { reason: LEFT.to_owned() };
            answer(answered.and_then(|answered| answered.ok_or_else(lost)))
        }));
    }

    fn order(
        &mut self,
        attempt: AttemptId,
        (task, server): (TaskId, ServerId),
        readers: Vec<(DataId, Vec<ServerId>)>,
    ) {
        let window = self.window;
        window.touch(server);
        let mut outputs = Vec::new();
        for (data, to) in readers {
            let routes = self.routes(data, Endpoint::Server(server), &to);
            outputs.push(DataPacket { key: window.key(data), routes });
        }
        let call = &window.calls[task.index()];
        let inputs = call.inputs.iter().map(|&input| window.group.key(input)).collect();
        let (group, place) = (window.group(), window.mapping.places[task.index()]);
        let function = call.function.to_owned();
        let number = self.services.first_attempt() + attempt as u32 + 1;
        let signature = Some(call.signature.clone());
        let span = client_span(call.function, None);
        let trace = context_of(&span);
        let question = move |reply| {
            let attempt = number;
            let order = TaskOrder {
                group,
                attempt,
                place,
                function,
                signature,
                inputs,
                outputs,
                reply,
                trace,
            };
            GroupMessage::Order(order).into_sent()
        };
        self.ask(server, question, move |done| {
            note_outcome(&span, &done);
            Answer::Task(attempt, done)
        });
    }

    /// Withdraws the order of an attempt, if it has not begun.
    fn withdraw(&self, attempt: AttemptId) {
        let (task, server) = self.dispatcher.attempt(attempt);
        if let Some(&data) = self.window.graph.task(task).outputs.first() {
            let message = GroupMessage::Withdraw(self.window.key(data));
            let number = self.window.number(server);
            self.services.tell_server(number, ServerMessage::Group(message));
        }
    }

    /// Makes a server send its data to others.
    fn share(&mut self, data: DataId, from: ServerId, to: Vec<ServerId>) {
        let routes = self.routes(data, Endpoint::Server(from), &to);
        let packet = DataPacket { key: self.window.key(data), routes };
        let question = move |reply| GroupMessage::Share(packet, reply);
        self.ask(from, question, move |is_sent: Result<bool, _>| {
            Answer::Other(DispatchEvent::Sent { data, from, to, is_sent: is_sent.unwrap_or(false) })
        });
    }

    /// Sends a value of the client to servers.
    fn send_value(&mut self, data: DataId, to: &[ServerId]) {
        let nowhere = || "the client no longer has it".to_owned();
        let held: Held = self.window.block(data).ok_or_else(nowhere);
        let routes = self.routes(data, Endpoint::Client, to);
        // Late pieces from before a restoration may have another encoding of the value.
        let attempt = self.services.first_attempt();
        for piece in pieces(self.window.key(data), attempt, &held) {
            for Route { to, then } in &routes {
                let piece = Piece { then: then.clone(), ..piece.clone() };
                let message = ServerMessage::Group(GroupMessage::Data(piece));
                self.services.tell_server(*to, message);
            }
        }
    }

    fn fetch(&self, data: DataId, from: ServerId, is_relay: bool) {
        let window = self.window;
        self.going.push(Box::pin(async move {
            let version = window.version(data);
            let fetched = window.group.fetch_from(window.number(from), version).await;
            let bytes = fetched.ok().map(|block| block.len() as u64);
            Answer::Other(DispatchEvent::Fetched { data, from, is_relay, bytes })
        }));
    }
}

/// Notes in the span of an order why the order was not carried out.
fn note_outcome(span: &Span, done: &Result<Done, RpcError>) {
    match done {
        Ok(Done { outcome: Err(Fault::Failed(reason)), .. }) => {
            note_failure(span, "GRPC_SESSION_FAILED", reason);
        }
        Ok(Done { outcome: Err(Fault::Lost(reason)), .. }) => {
            note_failure(span, "GRPC_RPC_REFUSED", reason);
        }
        Ok(_) => {}
        Err(error) => note_failure(span, error_string(error.code()), error),
    }
}
