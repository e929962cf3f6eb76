//! The execution of a window: attempts at its tasks, and others where those come to nothing.
//!
//! Every task is attempted where it was mapped. An attempt whose server is lost, or turns out to be
//! slow, is followed by another elsewhere: its arguments are sent there by whoever has them, or
//! made again, and its results go to all who wait for them. Who has data already drops what comes a
//! second time.

use super::dispatch::{Ways, ways};
use super::map::{failed, nowhere};
use super::order::{DataPacket, Done, Fault, GroupMessage, Route, TaskOrder};
use super::progress::Progress;
use super::window_run::WindowRun;
use super::windows::{CallWindow, Execute};
use crate::calls::{Catalogue, RpcError, ServerMessage, Services};
use futures_util::stream::{FuturesUnordered, StreamExt};
use gridspan_workflow::{DataId, Endpoint, ServerId, TaskId};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// So many servers are named in one error.
const NAMED_MAX: usize = 8;

/// Something that goes on while a window is executed.
type Going<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

impl<C: Catalogue> Execute for Services<C> {
    async fn execute(window: &CallWindow<'_, '_, Self>) -> Result<(), RpcError> {
        WindowRun::new(window).carry_out().await
    }
}

impl<C: Catalogue> WindowRun<'_, '_, '_, C> {
    /// All servers that something concerns.
    fn concern(&self, ways: &Ways, server: Option<ServerId>) {
        let routes = ways.direct.iter().chain(&ways.bridged);
        let routed = routes.flat_map(Route::servers);
        let concerned = routed.map(ServerId).chain(server).map(|server| self.number(server));
        self.group.draft.borrow_mut().touched.extend(concerned);
    }

    /// Executes the window, to its end.
    async fn carry_out(&self) -> Result<(), RpcError> {
        let ways = ways(&self.graph, &self.platform, &self.mapping);
        ways.iter().for_each(|ways| self.concern(ways, None));
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
        let mut going: FuturesUnordered<Going<'_>> = going.into_iter().collect();
        poll_fn(|cx| {
            loop {
                // Those only that something has happened to: of a large window most wait.
                while let Poll::Ready(Some(())) = going.poll_next_unpin(cx) {}
                let outcome = self.progress.borrow().outcome();
                if let Some(outcome) = outcome
                    && (outcome.is_err() || !self.makes_up())
                {
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

    /// Has results made again that were lost after they were made, and that somebody may ask for;
    /// whether there are any.
    fn makes_up(&self) -> bool {
        let services = &self.group.mapper.services;
        if self.cards.iter().all(|card| services.heir_of(card.number).is_some()) {
            return false;
        }
        let mut is_missing = false;
        for (data, datum) in (0..).map(DataId).zip(self.graph.data()) {
            let Some(task) = datum.producer else { continue };
            let is_wanted = self.group.is_named(self.names[data.index()]);
            if is_wanted && self.progress.borrow().is_done(task) && self.holders(data).is_empty() {
                self.progress.borrow_mut().undo(task);
                self.lose(task, nowhere(self.names[data.index()]));
                is_missing = true;
            }
        }
        is_missing
    }

    /// Waits until a task is done, or has failed for good.
    pub(super) async fn ended(&self, task: TaskId) {
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
        // Before anything is sent there: should the group end meanwhile, the server is told.
        self.concern(&Ways::default(), Some(server));
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
        ways.iter().for_each(|ways| self.concern(ways, Some(server)));
        let done = self.ask(task, server, number, &ways).await;
        self.over(number).await;
        match done.map(|done| (done.outcome.clone(), done)) {
            Ok((Ok(sizes), done)) => {
                if self.progress.borrow_mut().done(task) {
                    self.learn(task, server, &done, &sizes);
                    self.seen(task, server, &done);
                    self.withdraw(task);
                }
                for (&data, ways) in outputs.iter().zip(&ways) {
                    self.note(data, Some(server), &ways.direct);
                    self.group.succeed(self.names[data.index()]);
                }
                for (&data, ways) in outputs.iter().zip(&ways) {
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
        let is_wanted =
            self.best_for(task, &progress).is_some_and(|server| progress.want(task, server));
        let tried = progress.tried_on(task);
        drop(progress);
        if !is_wanted {
            self.fail_task(task, self.not_executed(task, &tried, error));
        }
    }

    /// The error of a task that came to nothing on all these servers.
    fn not_executed(&self, task: TaskId, tried: &[ServerId], error: RpcError) -> RpcError {
        let names = tried.iter().take(NAMED_MAX).map(|server| &self.cards[server.index()].name);
        let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        if tried.len() > NAMED_MAX {
            names.push(format!("{} more", tried.len() - NAMED_MAX));
        }
        let (function, names) = (self.function(task), names.join(", "));
        let because = |reason| format!("`{function}` was not executed by {names}: {reason}");
        match error {
            RpcError::RpcRefused { reason } => RpcError::RpcRefused { reason: because(reason) },
            RpcError::SessionFailed { reason } => failed(because(reason)),
            error => failed(because(error.to_string())),
        }
    }

    /// The server that offers a task's function and would end it first, by what each has to do.
    fn best_for(&self, task: TaskId, progress: &Progress) -> Option<ServerId> {
        let end_s = |server: &ServerId| {
            let time_s = self.platform.time_s(self.graph.task(task).work_s, *server);
            (progress.load(*server) + 1) as f64 * time_s
        };
        let able = self.platform.server_ids().filter(|&server| self.may_run(task, server));
        able.min_by(|one, other| end_s(one).total_cmp(&end_s(other)))
    }

    /// Whether a server is there, and offers the function of a task.
    fn may_run(&self, task: TaskId, server: ServerId) -> bool {
        let number = self.number(server);
        let is_there = self.group.mapper.services.heir_of(number) == Some(number);
        is_there && self.graph.task(task).can_run_on(server)
    }

    /// What a task made is lost: it is done again, where it is needed if that server can; otherwise
    /// where it ends first.
    pub(super) fn make_again(&self, task: TaskId, needed_at: ServerId, error: RpcError) {
        let mut progress = self.progress.borrow_mut();
        progress.undo(task);
        let at = match self.may_run(task, needed_at) {
            true => Some(needed_at),
            false => self.best_for(task, &progress),
        };
        if !at.is_some_and(|at| progress.want(task, at)) {
            progress.fail(task, error);
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
        others.map(|server| Route::to(server.0)).collect()
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
        let packet = |(&data, ways): (&DataId, &Ways)| DataPacket {
            key: self.key(data),
            routes: self.numbered(&ways.direct),
        };
        let outputs = self.graph.task(task).outputs.iter().zip(ways).map(packet).collect();
        let inputs = call.inputs.iter().map(|&input| self.group.key(input)).collect();
        let (group, place) = (self.group.number, self.mapping.places[task.index()]);
        let (function, attempt) = (call.function.to_owned(), number as u32 + 1);
        let signature = Some(call.signature.clone());
        let question = move |reply| {
            let order =
                TaskOrder { group, attempt, place, function, signature, inputs, outputs, reply };
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
}
