//! The execution of a window: orders to servers, values of the client, and what goes by way of it.
//!
//! Every task is attempted where it was mapped. An attempt whose server is lost, or turns out to be slow, is followed
//! by another elsewhere: its arguments are sent there by whoever has them, or made again, and its results go to all
//! who wait for them. Who has data already drops what comes a second time.

use super::discovery::Gathered;
use super::dispatch::{Ways, source, ways};
use super::map::{Window, failed, nowhere};
use super::order::{DataKey, Done, Fault, GroupMessage, Held, Order, Parcel, Piece, Route, pieces};
use crate::calls::{Catalogue, RpcError, ServerMessage};
use crate::id::{DataId, Endpoint, ServerId, TaskId};
use crate::performance::History;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Something that goes on while a window is executed.
type Going<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

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

    /// All servers that something concerns.
    fn touch(&self, ways: &Ways, server: Option<ServerId>) {
        let routes = ways.direct.iter().chain(&ways.bridged);
        let routed = routes.flat_map(|route| route.then.iter().copied().chain([route.to]));
        let concerned = routed.map(ServerId).chain(server).map(|server| self.number(server));
        self.group.draft.borrow_mut().touched.extend(concerned);
    }

    /// Executes the window, to its end.
    pub(super) async fn execute(&self) -> Result<(), RpcError> {
        let ways = ways(&self.graph, &self.platform, &self.mapping);
        ways.iter().for_each(|ways| self.touch(ways, None));
        let mut going: Vec<Going<'_>> = Vec::new();
        for (data, ways) in (0..).map(DataId).zip(&ways) {
            if self.graph.datum(data).producer.is_none() {
                going.push(Box::pin(self.provide(data, ways)));
            }
        }
        for (task, &server) in (0..).map(TaskId).zip(&self.mapping.servers) {
            let outputs = self.graph.task(task).outputs.iter();
            let ways = outputs.map(|data| ways[data.index()].clone()).collect();
            let number = self.progress.borrow_mut().begin(task, server);
            going.push(Box::pin(self.attempt(task, server, number, Some(ways))));
        }
        if self.watch.is_some() {
            going.push(Box::pin(self.guard()));
        }
        poll_fn(|cx| {
            loop {
                going.retain_mut(|going| going.as_mut().poll(cx).is_pending());
                if let Some(outcome) = self.progress.borrow().outcome() {
                    return Poll::Ready(outcome);
                }
                let wanted = self.progress.borrow_mut().take_wanted();
                if wanted.is_empty() {
                    self.progress.borrow_mut().watch(cx.waker());
                    return Poll::Pending;
                }
                for (task, server, number) in wanted {
                    going.push(Box::pin(self.attempt(task, server, number, None)));
                }
            }
        })
        .await
    }

    /// Has data that is there sent to the servers that need it.
    async fn provide(&self, data: DataId, ways: &Ways) {
        let is_sent = match source(&self.graph, &self.mapping, data) {
            Some(Endpoint::Server(server)) => {
                let is_shared = ways.direct.is_empty()
                    || self.share(data, server, self.numbered(&ways.direct)).await;
                is_shared && self.bridge(data, server, &ways.bridged).await.is_ok()
            }
            _ => self.send_value(data, &ways.direct),
        };
        if is_sent {
            return self.note(data, None, &ways.direct);
        }
        self.ensure_all(data, &ways.direct).await;
        self.ensure_all(data, &ways.bridged).await;
    }

    /// Has data brought to all servers of routes, or word that it will never be.
    async fn ensure_all(&self, data: DataId, routes: &[Route]) {
        for server in routes.iter().flat_map(|route| route.then.iter().copied().chain([route.to])) {
            if let Err(error) = self.ensure(data, ServerId(server)).await {
                let routes = [Route { to: server, then: Vec::new() }];
                self.send(data, &Err(error.to_string()), &routes);
            }
        }
    }

    /// Has a server send data to others; whether it has it.
    async fn share(&self, data: DataId, from: ServerId, routes: Vec<Route>) -> bool {
        let parcel = Parcel { key: self.key(data), routes };
        let question = move |reply| ServerMessage::Group(GroupMessage::Share(parcel, reply));
        let services = &self.group.mapper.services;
        services.ask_server(self.number(from), question).await.unwrap_or(false)
    }

    /// Remembers who has data, or will have it soon.
    fn note(&self, data: DataId, maker: Option<ServerId>, routes: &[Route]) {
        let mut draft = self.group.draft.borrow_mut();
        let known = draft.known.entry(self.names[data.index()]).or_default();
        if let Some(maker) = maker.map(|server| self.number(server)) {
            known.maker = Some(maker);
            known.servers.insert(maker);
        }
        for route in self.numbered(routes) {
            known.servers.insert(route.to);
            known.servers.extend(route.then);
        }
    }

    /// Sends a value of the client, if there is one.
    fn send_value(&self, data: DataId, routes: &[Route]) -> bool {
        let value = self.group.draft.borrow().values.get(&self.names[data.index()]).cloned();
        value.map(|block| self.send(data, &Ok(block), routes)).is_some()
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
    async fn bridge(&self, data: DataId, from: ServerId, routes: &[Route]) -> Result<(), RpcError> {
        if routes.is_empty() {
            return Ok(());
        }
        let held = self.group.fetch_from(self.number(from), self.names[data.index()]).await?;
        self.send(data, &Ok(held), routes);
        self.note(data, None, routes);
        Ok(())
    }

    /// Has data brought to a server: from the client, from who has it, or by making it again.
    async fn ensure(&self, data: DataId, at: ServerId) -> Result<(), RpcError> {
        let producer = self.graph.datum(data).producer;
        let routes = [Route { to: at.0, then: Vec::new() }];
        loop {
            if let Some(task) = producer {
                self.ended(task).await;
                if let Some(failure) = self.progress.borrow().failure(task) {
                    return Err(failure.clone());
                }
            }
            if self.send_value(data, &routes) {
                self.note(data, None, &routes);
                return Ok(());
            }
            for from in self.holders(data) {
                let is_there = match () {
                    () if from == at => true,
                    () if self.platform.is_direct(Endpoint::Server(from), Endpoint::Server(at)) => {
                        self.share(data, from, self.numbered(&routes)).await
                    }
                    () => self.bridge(data, from, &routes).await.is_ok(),
                };
                if is_there {
                    self.note(data, None, &routes);
                    return Ok(());
                }
            }
            let name = self.names[data.index()];
            let Some(task) = producer else { return Err(nowhere(name)) };
            let mut progress = self.progress.borrow_mut();
            if progress.is_done(task) {
                progress.undo(task);
                if !progress.want(task, at) {
                    progress.fail(task, nowhere(name));
                }
            }
        }
    }

    /// The servers that have data, the one that made it in front.
    pub(super) fn holders(&self, data: DataId) -> Vec<ServerId> {
        let draft = self.group.draft.borrow();
        let Some(known) = draft.known.get(&self.names[data.index()]) else { return Vec::new() };
        let numbers = known.maker.into_iter().chain(known.servers.iter().copied());
        let mut holders = Vec::new();
        for number in numbers.filter_map(|number| self.group.mapper.services.standing(number)) {
            let place = self.cards.iter().position(|card| card.number == number);
            let server = place.map(|place| ServerId(place as u32));
            holders.extend(server.filter(|server| !holders.contains(server)));
        }
        holders
    }

    /// Waits until a task is done, or has failed for good.
    async fn ended(&self, task: TaskId) {
        poll_fn(|cx| {
            let mut progress = self.progress.borrow_mut();
            if progress.has_ended(task) {
                return Poll::Ready(());
            }
            progress.watch(cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Has a server try a task. The first attempt has its ways from the mapping.
    async fn attempt(
        &self,
        task: TaskId,
        server: ServerId,
        number: usize,
        ways: Option<Vec<Ways>>,
    ) {
        if ways.is_none() {
            for &data in &self.graph.task(task).inputs {
                if let Err(error) = self.ensure(data, server).await {
                    self.over(number).await;
                    return self.fail_task(task, error);
                }
            }
        }
        let outputs = &self.graph.task(task).outputs;
        let ways = ways
            .unwrap_or_else(|| outputs.iter().map(|&data| self.ways_from(server, data)).collect());
        ways.iter().for_each(|ways| self.touch(ways, Some(server)));
        let done = self.ask(task, server, number, &ways).await;
        self.over(number).await;
        match done.map(|done| (done.outcome.clone(), done)) {
            Ok((Ok(sizes), done)) => {
                if self.progress.borrow_mut().done(task) {
                    self.learn(task, server, &done, &sizes);
                    self.withdraw(task);
                }
                for (&data, ways) in outputs.iter().zip(&ways) {
                    self.note(data, Some(server), &ways.direct);
                    self.group.succeed(self.names[data.index()]);
                    if self.bridge(data, server, &ways.bridged).await.is_err() {
                        // The server was lost meanwhile.
                        self.ensure_all(data, &ways.bridged).await;
                    }
                }
            }
            Ok((Err(Fault::Failed(reason)), _)) => self.fail_task(task, failed(reason)),
            Ok((Err(Fault::Lost(reason)), _)) => self.lose(task, failed(reason)),
            Err(error) => self.lose(task, error),
        }
    }

    async fn over(&self, number: usize) {
        let now_s = self.now_s().await;
        self.progress.borrow_mut().end(number, now_s);
    }

    /// An attempt came to nothing. If there is no other, another server tries.
    fn lose(&self, task: TaskId, error: RpcError) {
        let mut progress = self.progress.borrow_mut();
        if progress.has_ended(task) || progress.servers_of(task).next().is_some() {
            return;
        }
        let services = &self.group.mapper.services;
        let is_there = |server: &ServerId| {
            let number = self.number(*server);
            services.standing(number) == Some(number)
        };
        let able = self.platform.server_ids().filter(|&id| self.graph.task(task).can_run_on(id));
        let end_s = |server: &ServerId| {
            let time_s = self.platform.time_s(self.graph.task(task).work_s, *server);
            (progress.load(*server) + 1) as f64 * time_s
        };
        let best = able.filter(is_there).min_by(|one, other| end_s(one).total_cmp(&end_s(other)));
        let is_wanted = best.is_some_and(|server| progress.want(task, server));
        drop(progress);
        if !is_wanted {
            self.fail_task(task, error);
        }
    }

    /// What depends on a task that failed fails with it.
    fn fail_task(&self, task: TaskId, error: RpcError) {
        for &data in &self.graph.task(task).outputs {
            self.group.fail(&[self.names[data.index()]], &error);
            let reason = match &error {
                RpcError::SessionFailed { reason } => reason.clone(),
                error => error.to_string(),
            };
            self.send(data, &Err(reason), &self.routes_to_readers(data, None));
        }
        self.progress.borrow_mut().fail(task, error);
    }

    /// A way to each server that data is awaited on.
    fn routes_to_readers(&self, data: DataId, but: Option<ServerId>) -> Vec<Route> {
        let progress = self.progress.borrow();
        let open = self.graph.datum(data).consumers.iter().filter(|&&task| !progress.is_done(task));
        let servers: BTreeSet<ServerId> =
            open.flat_map(|&task| progress.servers_of(task).collect::<Vec<_>>()).collect();
        let others = servers.into_iter().filter(|&server| Some(server) != but);
        others.map(|server| Route { to: server.0, then: Vec::new() }).collect()
    }

    /// The ways of data that is made elsewhere than it was mapped.
    fn ways_from(&self, from: ServerId, data: DataId) -> Ways {
        let is_direct = |route: &Route| {
            let [from, to] = [from, ServerId(route.to)].map(Endpoint::Server);
            self.platform.is_direct(from, to)
        };
        let routes = self.routes_to_readers(data, Some(from));
        let (direct, bridged) = routes.into_iter().partition(is_direct);
        Ways { direct, bridged }
    }

    async fn ask(
        &self,
        task: TaskId,
        server: ServerId,
        number: usize,
        ways: &[Ways],
    ) -> Result<Done, RpcError> {
        let call = &self.calls[task.index()];
        let parcel = |(&data, ways): (&DataId, &Ways)| Parcel {
            key: self.key(data),
            routes: self.numbered(&ways.direct),
        };
        let outputs = self.graph.task(task).outputs.iter().zip(ways).map(parcel).collect();
        let inputs = call.inputs.iter().map(|&input| self.group.key(input)).collect();
        let (group, place) = (self.group.number, self.mapping.places[task.index()]);
        let (function, attempt) = (call.function.to_owned(), number as u32 + 1);
        let question = move |reply| {
            let order = Order { group, attempt, place, function, inputs, outputs, reply };
            ServerMessage::Group(GroupMessage::Order(order))
        };
        self.group.mapper.services.ask_server(self.number(server), question).await
    }

    /// A task is done: other attempts at it that have not begun need not begin.
    fn withdraw(&self, task: TaskId) {
        let Some(&data) = self.graph.task(task).outputs.first() else { return };
        let servers: Vec<ServerId> = self.progress.borrow().servers_of(task).collect();
        servers.into_iter().for_each(|server| self.withdraw_from(server, data));
    }

    pub(super) fn withdraw_from(&self, server: ServerId, first_output: DataId) {
        let message = GroupMessage::Withdraw(self.key(first_output));
        let services = &self.group.mapper.services;
        services.tell_server(self.number(server), ServerMessage::Group(message));
    }

    fn learn(&self, task: TaskId, server: ServerId, done: &Done, sizes: &[u64]) {
        let call: &Gathered = &self.calls[task.index()];
        let mut draft = self.group.draft.borrow_mut();
        let mut learned = self.group.mapper.learned.borrow_mut();
        let learned = learned.entry(call.function).or_default();
        learned.outputs.resize(sizes.len(), History::default());
        for ((output, &bytes), history) in call.outputs.iter().zip(sizes).zip(&mut learned.outputs)
        {
            draft.known.entry(*output).or_default().bytes = bytes;
            history.observe(done.input_bytes, bytes as f64);
        }
        let speed = self.cards[server.index()].speed;
        let by_clock = done.took_s.map(|took_s| took_s * speed);
        if let Some(work_s) = done.work_s.or(by_clock) {
            learned.time.observe(done.input_bytes, work_s);
        }
        if let (Some(took_s), Some(work_s)) = (done.took_s, done.work_s) {
            let mut paces = self.group.mapper.paces.borrow_mut();
            paces.entry(self.number(server)).or_default().observe(took_s, work_s / speed);
        }
        self.seen(task, server, done);
    }
}
