//! The actor that knows the servers.

use super::directory::{Offer, ServerCard, ServerDirectory};
use super::error::RpcError;
use gridspan_runtime::{Actor, Context, Ix1, Reply, Timer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time that a restarted registry waits for servers. A server registers between two calls. Most
/// calls take less than this, and a server in a longer call must not hold up all clients.
const PATIENCE: Duration = Duration::from_secs(10);

/// Knows servers, the functions that they offer, and their load. A job has one registry, beside the
/// client.
///
/// A restarted registry has lost its data. Servers register with it again, and questions wait until
/// all have, for at most ten seconds: clients notice only a delay. A server that has not registered
/// by then is unavailable until it does. The times of functions are learned again, and calls in
/// progress do not count as load.
#[derive(Serialize, Deserialize)]
pub struct Registry {
    directory: ServerDirectory,
    /// Number of restarts.
    epoch: u64,
    /// Servers that have not registered again and for which questions wait, by number with their
    /// names.
    awaited: BTreeMap<u32, String>,
    /// Timer that ends the wait.
    deadline: Option<Timer>,
    /// Servers that did not register in time. They may still do so.
    overdue: BTreeMap<u32, String>,
    /// Questions that wait.
    held: Vec<RegistryMessage>,
}

/// Messages to the registry.
#[derive(Clone, Serialize, Deserialize)]
pub enum RegistryMessage {
    /// A server takes calls from now on.
    Join(ServerCard, Reply<()>),
    /// Restart: drop all data, and wait until these servers have registered again (number and
    /// name).
    Restart(BTreeMap<u32, String>, Reply<()>),
    /// The time to register after the restart of this number is over.
    Overdue(u64),
    /// The description of the server of this number, after a restart; `None` if it takes no calls.
    Register(u32, Option<ServerCard>),
    /// A server takes no more calls. Asks for the server that takes over its data for groups.
    Leave {
        /// The server.
        number: u32,
        /// Whether it hands over its data; if not, the answer is `None`.
        hands_over: bool,
        /// Where the answer goes; an error if the server is not listed.
        reply: Reply<Result<Option<u32>, RpcError>>,
    },
    /// A server has left for good; a registration that it sent before is ignored.
    Left(u32),
    /// Asks for the servers.
    List(Reply<Vec<ServerCard>>),
    /// Asks for the servers that offer a function, best first.
    Find {
        /// The function.
        function: String,
        /// Size of the arguments in bytes.
        bytes: u64,
        /// Work of the call on a server of speed 1, in seconds, if a formula gives it.
        work_s: Option<f64>,
        /// The only server that may execute it; `None` if any may.
        only: Option<u32>,
        /// Where the answer goes.
        reply: Reply<Result<Vec<Offer>, RpcError>>,
    },
    /// Asks for the number of the server of this name, if it offers the function.
    Bound {
        /// The function.
        function: String,
        /// The server.
        server: String,
        /// Where the answer goes.
        reply: Reply<Result<u32, RpcError>>,
    },
    /// A call was sent to a server.
    Placed(Offer),
    /// A server did not answer a call in time.
    Late(u32),
    /// A server no longer holds a call.
    Ended(Offer),
    /// Asks for the estimated time of all calls that servers still have to do, in seconds.
    Load(Reply<f64>),
    /// The time from the sending of a call to its answer. Its client had no other call at the
    /// server.
    Took {
        /// The function.
        function: String,
        /// The server.
        number: u32,
        /// Size of the arguments in bytes.
        bytes: u64,
        /// The time in seconds.
        took_s: f64,
    },
    /// A server is at another site now: the job has gone on from a checkpoint.
    Moved {
        /// The server.
        number: u32,
        /// Its present site.
        site: u32,
    },
}

impl Actor for Registry {
    type Index = Ix1;
    type Init = ();
    type Message = RegistryMessage;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self {
            directory: ServerDirectory::default(),
            epoch: 0,
            awaited: BTreeMap::new(),
            deadline: None,
            overdue: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    fn handle(&mut self, message: RegistryMessage, cx: &mut Context<'_, Self>) {
        if !self.awaited.is_empty() && message.asks_for_servers() {
            return self.held.push(message);
        }
        match message {
            RegistryMessage::Restart(awaited, reply) => {
                self.reset(awaited, cx);
                cx.reply(reply, ());
                self.go_on(cx);
            }
            RegistryMessage::Overdue(epoch) => {
                if epoch == self.epoch {
                    self.overdue.append(&mut self.awaited);
                    self.go_on(cx);
                }
            }
            RegistryMessage::Register(number, card) => {
                // Ignore a server that has left since it sent this, or has registered already.
                if self.stop_awaiting(number) {
                    card.into_iter().for_each(|card| self.directory.join(card));
                    self.go_on(cx);
                }
            }
            RegistryMessage::Join(card, reply) => {
                self.directory.join(card);
                cx.reply(reply, ());
            }
            RegistryMessage::Leave { number, hands_over, reply } => {
                cx.reply(reply, self.remove_server(number, hands_over));
                self.go_on(cx);
            }
            RegistryMessage::Left(number) => {
                self.directory.leave(number);
                self.stop_awaiting(number);
                self.go_on(cx);
            }
            RegistryMessage::List(reply) => cx.reply(reply, self.directory.cards()),
            RegistryMessage::Find { function, bytes, work_s, only, reply } => {
                cx.reply(reply, self.find(&function, bytes, work_s, only));
            }
            RegistryMessage::Bound { function, server, reply } => {
                cx.reply(reply, self.directory.bound(&function, &server));
            }
            RegistryMessage::Placed(offer) => self.directory.placed(offer),
            RegistryMessage::Late(number) => self.directory.late(number),
            RegistryMessage::Load(reply) => cx.reply(reply, self.directory.load_s()),
            RegistryMessage::Ended(offer) => self.directory.ended(offer),
            RegistryMessage::Took { function, number, bytes, took_s } => {
                self.directory.observe(&function, number, bytes, took_s);
            }
            RegistryMessage::Moved { number, site } => self.directory.moved(number, site),
        }
    }
}

/// The error for a server that has not registered in time.
fn overdue(name: &str) -> RpcError {
    let reason = format!(
        "`{name}` has not registered again since the registry restarted; wait until its call has ended, or lose it with `Services::lose`"
    );
    RpcError::Other { reason }
}

impl Registry {
    /// Drops all data, and waits for servers.
    fn reset(&mut self, awaited: BTreeMap<u32, String>, cx: &mut Context<'_, Self>) {
        (self.directory, self.awaited) = (ServerDirectory::default(), awaited);
        self.overdue.clear();
        self.epoch += 1;
        self.deadline.take().into_iter().for_each(|deadline| cx.cancel(deadline));
        if !self.awaited.is_empty() {
            let me = cx.me();
            let overdue = RegistryMessage::Overdue(self.epoch);
            self.deadline = Some(cx.send_after(PATIENCE, &me, overdue));
        }
    }

    /// Stops waiting for a server to register; returns whether it was awaited or overdue.
    fn stop_awaiting(&mut self, number: u32) -> bool {
        let expected = self.awaited.remove(&number).or_else(|| self.overdue.remove(&number));
        expected.is_some()
    }

    /// Removes a server that leaves; returns its successor.
    fn remove_server(&mut self, number: u32, hands_over: bool) -> Result<Option<u32>, RpcError> {
        match (self.directory.leave(number), self.overdue.get(&number)) {
            (Some(card), _) => Ok(self.directory.successor(&card).filter(|_| hands_over)),
            // The functions that a successor must offer are unknown.
            (None, Some(name)) if hands_over => Err(overdue(name)),
            // The server hands over already; or an earlier caller of `leave` gave up before the
            // answer arrived, and so the server was never notified.
            (None, None) if hands_over => {
                let reason = "the server is already leaving; wait until it has left, or lose it with `Services::lose`";
                Err(RpcError::Other { reason: reason.to_owned() })
            }
            (None, _) => {
                self.stop_awaiting(number);
                Ok(None)
            }
        }
    }

    fn find(
        &self,
        function: &str,
        bytes: u64,
        work_s: Option<f64>,
        only: Option<u32>,
    ) -> Result<Vec<Offer>, RpcError> {
        match only.and_then(|number| self.overdue.get(&number)) {
            Some(name) => Err(overdue(name)),
            None => self.directory.find(function, bytes, work_s, only),
        }
    }

    /// Answers the held questions once no server is awaited.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        if self.awaited.is_empty() {
            // A pending timer would keep the job waiting.
            self.deadline.take().into_iter().for_each(|deadline| cx.cancel(deadline));
            for message in std::mem::take(&mut self.held) {
                self.handle(message, cx);
            }
        }
    }
}

impl RegistryMessage {
    /// Whether the answer depends on which servers there are.
    fn asks_for_servers(&self) -> bool {
        matches!(
            self,
            // Without a hand-over, the answer names no successor.
            Self::Leave { hands_over: true, .. }
                | Self::List(_)
                | Self::Find { .. }
                | Self::Bound { .. }
                | Self::Load(_)
        )
    }
}
