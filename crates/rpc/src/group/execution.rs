//! The execution of a window: orders to servers, values of the client, and what goes by way of it.

use super::all_of::AllOf;
use super::discovery::Gathered;
use super::dispatch::{Ways, source, ways};
use super::map::{Window, failed};
use super::order::{DataKey, Done, GroupMessage, Held, Order, Parcel, Piece, Route, pieces};
use crate::calls::{Catalogue, RpcError, ServerMessage};
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::performance::History;

impl<C: Catalogue> Window<'_, '_, C> {
    fn number(&self, server: ServerId) -> u32 {
        self.cards[server.index()].number
    }

    fn key(&self, data: DataId) -> DataKey {
        self.group.key(self.names[data.index()])
    }

    /// Routes by the numbers of servers instead of their positions.
    fn numbered(&self, routes: &[Route]) -> Vec<Route> {
        let number = |&place: &u32| self.number(ServerId(place));
        let route = |route: &Route| Route {
            to: number(&route.to),
            then: route.then.iter().map(number).collect(),
        };
        routes.iter().map(route).collect()
    }

    /// All servers that the window concerns.
    fn touch(&self, ways: &[Ways]) {
        let mapped = self.mapping.servers.iter().copied();
        let routes = ways.iter().flat_map(|ways| ways.direct.iter().chain(&ways.bridged));
        let routed = routes.flat_map(|route| route.then.iter().copied().chain([route.to]));
        let concerned = mapped.chain(routed.map(ServerId)).map(|server| self.number(server));
        self.group.draft.borrow_mut().touched.extend(concerned);
    }

    /// Executes the window, to its end.
    pub(super) async fn execute(&self) -> Result<(), RpcError> {
        let ways = ways(&self.graph, &self.platform, &self.mapping);
        self.touch(&ways);
        for (data, ways) in (0..).map(DataId).zip(&ways) {
            if self.graph.datum(data).producer.is_some() {
                continue;
            }
            match source(&self.graph, &self.mapping, data) {
                Some(Endpoint::Server(server)) => {
                    if !ways.direct.is_empty() {
                        let routes = self.numbered(&ways.direct);
                        let parcel = Parcel { key: self.key(data), routes };
                        let message = ServerMessage::Group(GroupMessage::Share(parcel));
                        self.group.mapper.services.tell_server(self.number(server), message);
                    }
                    self.bridge(data, server, &ways.bridged).await;
                }
                _ => self.send_value(data, &ways.direct),
            }
            self.note(data, None, &ways.direct);
        }
        let tasks = (0..self.graph.tasks().len() as u32).map(TaskId);
        let orders = tasks.map(|task| self.order(task, &ways)).collect();
        let outcomes: Vec<Result<(), RpcError>> = AllOf::new(orders).await;
        outcomes.into_iter().collect()
    }

    /// Remembers who has data once the window has ended.
    fn note(&self, data: DataId, at: Option<ServerId>, routes: &[Route]) {
        let mut draft = self.group.draft.borrow_mut();
        let known = draft.known.entry(self.names[data.index()]).or_default();
        known.servers.extend(at.map(|server| self.number(server)));
        for route in self.numbered(routes) {
            known.servers.insert(route.to);
            known.servers.extend(route.then);
        }
    }

    /// Sends a value of the client.
    fn send_value(&self, data: DataId, routes: &[Route]) {
        let value = self.group.draft.borrow().values.get(&self.names[data.index()]).cloned();
        if let Some(bytes) = value {
            self.send(data, &Ok(bytes), routes);
        }
    }

    fn send(&self, data: DataId, held: &Held, routes: &[Route]) {
        let routes = self.numbered(routes);
        for piece in pieces(self.key(data), 0, held) {
            for Route { to, then } in &routes {
                let piece = Piece { then: then.clone(), ..piece.clone() };
                let message = ServerMessage::Group(GroupMessage::Data(piece));
                self.group.mapper.services.tell_server(*to, message);
            }
        }
    }

    /// Brings data from the server that has it to the client, and sends it on from there.
    async fn bridge(&self, data: DataId, from: ServerId, routes: &[Route]) {
        if routes.is_empty() {
            return;
        }
        let held = self.group.fetch_from(self.number(from), self.names[data.index()]).await;
        self.send(data, &held.map_err(|error| error.to_string()), routes);
        self.note(data, None, routes);
    }

    /// Has a task executed, and what it made sent to where it cannot be sent directly.
    async fn order(&self, task: TaskId, ways: &[Ways]) -> Result<(), RpcError> {
        let server = self.mapping.servers[task.index()];
        let of_task = self.graph.task(task);
        let call = &self.calls[task.index()];
        let parcel = |&data: &DataId| Parcel {
            key: self.key(data),
            routes: self.numbered(&ways[data.index()].direct),
        };
        let outputs: Vec<Parcel> = of_task.outputs.iter().map(parcel).collect();
        let inputs: Vec<DataKey> = call.inputs.iter().map(|&input| self.group.key(input)).collect();
        let place = self.mapping.places[task.index()];
        let (group, function) = (self.group.number, call.function.to_owned());
        let question = move |reply| {
            let order = Order { group, place, function, inputs, outputs, reply };
            ServerMessage::Group(GroupMessage::Order(order))
        };
        let done = self.group.mapper.services.ask_server(self.number(server), question);
        let done: Done = done.await?;
        for &data in &of_task.outputs {
            self.note(data, Some(server), &ways[data.index()].direct);
            let name = self.names[data.index()];
            let failure = done.outcome.as_ref().err().cloned().map(failed);
            self.group.draft.borrow_mut().known.entry(name).or_default().failure = failure;
        }
        self.learn(call, &done);
        for &data in &of_task.outputs {
            self.bridge(data, server, &ways[data.index()].bridged).await;
        }
        done.outcome.map(|_| ()).map_err(failed)
    }

    fn learn(&self, call: &Gathered, done: &Done) {
        let Ok(sizes) = &done.outcome else { return };
        let mut draft = self.group.draft.borrow_mut();
        let mut learned = self.group.mapper.learned.borrow_mut();
        let learned = learned.entry(call.function).or_default();
        learned.outputs.resize(sizes.len(), History::default());
        for ((output, &bytes), history) in call.outputs.iter().zip(sizes).zip(&mut learned.outputs)
        {
            draft.known.entry(*output).or_default().bytes = bytes;
            history.observe(done.input_bytes, bytes as f64);
        }
        if let Some(work_s) = done.work_s {
            learned.time.observe(done.input_bytes, work_s);
        }
    }
}
