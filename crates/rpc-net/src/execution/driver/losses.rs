//! What is done about servers that are lost, refuse tasks or lack data, and about tasks that nobody
//! executes.

use super::{Driver, Given, Ordered};
use crate::execution::events::GroupEvents;
use crate::execution::reasons::Failure;
use crate::wire::token::RemoteError;
use gridspan_workflow::{DataId, Endpoint, ServerId, TaskId};
use tokio::task::JoinSet;

impl<E: GroupEvents> Driver<'_, E> {
    /// Tasks that cannot be executed any more fail, with what depends on them, and no others.
    pub(super) fn give_up_stuck(&mut self) {
        for (task, stuck) in self.state.take_stuck() {
            let platform = self.plan.platform;
            let can = |server| self.plan.graph.task(task).can_run_on(server);
            let name = |server| platform.server(server).name.clone();
            let failure = self.reasons.why(task, stuck, can, name);
            self.fail(task, &failure);
        }
    }

    /// Nothing will happen any more, although the group is not over: what is left of it fails.
    pub(super) fn give_up_all(&mut self) {
        let reason = "the client has ended its work for the group early".to_owned();
        let failure = Failure::NotExecuted { reason, is_refused: false };
        for task in self.state.open_tasks() {
            self.fail(task, &failure);
        }
    }

    /// A server could not have arguments: it does not reach who has them, or they are not there.
    pub(super) fn lacks(&mut self, ordered: &Ordered, unreached: &[u32], missing: &[u32]) {
        let Ordered { order: Given { attempt, server: to, task }, sources, .. } = ordered;
        let (mut far, mut gone) = (Vec::new(), Vec::new());
        for (&data, &from) in sources {
            let version = self.events.version(data);
            match from {
                // If it is lost this fails as well, and what is needed of it is made again.
                Endpoint::Server(from) if from != *to && unreached.contains(&version) => {
                    tracing::info!(%from, %to, "do not reach each other");
                    let reason = "a server does not reach another that has its data".to_owned();
                    self.reasons.tried(*task, *to, reason, false);
                    self.events.part(from, *to);
                    far.push((data, from));
                }
                // What a server looked for elsewhere it does not have itself.
                _ if unreached.contains(&version) && from == Endpoint::Server(*to) => {
                    gone.push((data, from));
                }
                _ if missing.contains(&version) => {
                    gone.push((data, from));
                    if from == Endpoint::Client {
                        let reason = "a server did not get data from the client, which passes on values of up to 1 GiB";
                        self.reasons.tried(*task, *to, reason.to_owned(), false);
                    }
                }
                _ => {}
            }
        }
        match far.is_empty() {
            true => self.state.again(*attempt),
            false => self.state.unreached(*attempt, &far),
        }
        for (data, from) in gone {
            if let Endpoint::Server(from) = from {
                self.events.has_not(data, from);
            }
            self.state.missing(data, from);
        }
    }

    /// The servers whose connections end, one by one.
    pub(super) fn closings(&self) -> JoinSet<(ServerId, RemoteError)> {
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

    /// The connection to a server has ended.
    pub(super) fn closed(&mut self, server: ServerId, error: &RemoteError) {
        if self.state.is_there(server) {
            self.lost(server, error);
            self.give_up_stuck();
        }
    }

    /// A server does not execute an order; another may.
    pub(super) fn refused(&mut self, attempt: usize, reason: String) {
        let (task, server) = (self.state.task_of(attempt), self.state.server_of(attempt));
        self.reasons.tried(task, server, reason, true);
        self.execution.moved += 1;
        self.state.refused(attempt);
    }

    pub(super) fn lost(&mut self, server: ServerId, error: &RemoteError) {
        tracing::info!(%server, %error, "lost");
        self.reasons.lost(server, error.to_string());
        self.execution.moved += 1;
        for data in (0..self.plan.graph.data().len() as u32).map(DataId) {
            self.events.has_not(data, server);
        }
        self.state.lost(server);
        self.doubt(server);
    }

    /// Servers that have not begun a task may be waiting for data of one that is lost, and look for
    /// it for longer than the client does. They get their orders anew as soon as that is elsewhere.
    fn doubt(&mut self, lost: ServerId) {
        let mut data_of = Vec::new();
        for (&attempt, ordered) in &self.given {
            let of_lost =
                ordered.sources.iter().filter(|(_, from)| **from == Endpoint::Server(lost));
            data_of.extend(of_lost.map(|(&data, _)| (attempt, data)));
        }
        for (attempt, data) in data_of {
            let is_elsewhere = self.state.holders(data).next().is_some();
            match is_elsewhere {
                true => self.renew(attempt),
                false => self.doubtful.entry(data).or_default().push(attempt),
            }
        }
    }

    /// Data that was lost is there again.
    pub(super) fn is_back(&mut self, data: DataId) {
        for attempt in self.doubtful.remove(&data).into_iter().flatten() {
            self.renew(attempt);
        }
    }

    fn renew(&mut self, attempt: usize) {
        if self.state.renew(attempt) {
            self.take_back(attempt);
        }
    }

    pub(super) fn fail(&mut self, task: TaskId, failure: &Failure) {
        let failed = self.state.fail(task);
        // It may have failed with another that it depends on.
        if !failed.is_empty() {
            failed.into_iter().for_each(|failed| self.events.failed(failed, task, failure));
            self.failure.get_or_insert_with(|| (task, failure.clone()));
        }
    }
}
