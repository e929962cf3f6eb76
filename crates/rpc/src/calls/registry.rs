//! The actor that knows the servers.

use super::directory::{Offer, ServerCard, ServerDirectory};
use super::error::RpcError;
use gridspan_runtime::{Actor, Context, Ix1, Reply, Timer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// So long a registry that began anew waits for servers. They answer between two calls, and one
/// that is at a long call must not hold all clients; most calls are shorter.
const PATIENCE: Duration = Duration::from_secs(10);

/// Knows servers, the functions that they offer, and their load. There is one, beside the client.
///
/// One that begins anew knows nothing. Servers register with it again, and until all have, what is
/// asked waits, though not for longer than ten seconds: whoever asks sees no difference but time. A
/// server that is late then is not there for whoever asks, until it registers after all. How long
/// functions take is learned again, and calls that go on count as no load.
#[derive(Serialize, Deserialize)]
pub struct Registry {
    directory: ServerDirectory,
    /// How often it began anew.
    epoch: u64,
    /// The servers that have not registered again, by number with their names, and for which what
    /// is asked waits.
    awaited: BTreeMap<u32, String>,
    /// When that is over.
    deadline: Option<Timer>,
    /// The servers that have not registered in time. They still may.
    overdue: BTreeMap<u32, String>,
    /// What was asked meanwhile.
    held: Vec<RegistryMessage>,
}

/// What the registry is told and asked.
#[derive(Clone, Serialize, Deserialize)]
pub enum RegistryMessage {
    /// A server is there.
    Join(ServerCard, Reply<()>),
    /// What was known is lost. These servers may be there, by number with their names.
    Restart(BTreeMap<u32, String>, Reply<()>),
    /// Servers had time enough to register after the registry began anew: the time of this number.
    Overdue(u64),
    /// What a server of this number offers, after the registry was lost; nothing if it takes no
    /// calls.
    Register(u32, Option<ServerCard>),
    /// A server takes no more calls. Who takes over what it keeps for groups, if anybody is to and
    /// can?
    Leave {
        /// The server.
        number: u32,
        /// Whether it hands over at all.
        hands_over: bool,
        /// Where the answer goes; an error if the server is not there.
        reply: Reply<Result<Option<u32>, RpcError>>,
    },
    /// A server has left for good, whatever it said when the registry began anew.
    Left(u32),
    /// Which servers are there?
    List(Reply<Vec<ServerCard>>),
    /// Which servers offer a function, best first?
    Find {
        /// The function.
        function: String,
        /// How large the arguments are.
        bytes: u64,
        /// What the call needs on a server of speed 1, in seconds, if a formula says so.
        work_s: Option<f64>,
        /// The one server that may execute it, if not any may.
        only: Option<u32>,
        /// Where the answer goes.
        reply: Reply<Result<Vec<Offer>, RpcError>>,
    },
    /// Which number has the server of this name, if it offers the function?
    Bound {
        /// The function.
        function: String,
        /// The server.
        server: String,
        /// Where the answer goes.
        reply: Reply<Result<u32, RpcError>>,
    },
    /// A call goes to a server.
    Placed(Offer),
    /// A server has let the time to answer a call pass.
    Late(u32),
    /// A server has nothing to do with a call any more.
    Ended(Offer),
    /// How long do all calls that servers have to do compute, in seconds?
    Load(Reply<f64>),
    /// A call that did not have to wait took so long, from the client and back.
    Took {
        /// The function.
        function: String,
        /// The server.
        number: u32,
        /// How large the arguments were.
        bytes: u64,
        /// How long, in seconds.
        took_s: f64,
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
                self.begin_anew(awaited, cx);
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
                // One that has left since it said so, or said it already, is not awaited.
                if self.expect_no_more(number) {
                    card.into_iter().for_each(|card| self.directory.join(card));
                    self.go_on(cx);
                }
            }
            RegistryMessage::Join(card, reply) => {
                self.directory.join(card);
                cx.reply(reply, ());
            }
            RegistryMessage::Leave { number, hands_over, reply } => {
                cx.reply(reply, self.let_go(number, hands_over));
                self.go_on(cx);
            }
            RegistryMessage::Left(number) => {
                self.directory.leave(number);
                self.expect_no_more(number);
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
        }
    }
}

/// Why nothing is done with a server that has not registered in time.
fn overdue(name: &str) -> RpcError {
    let reason = format!(
        "`{name}` has not registered again since the registry began anew; wait until its call has ended, or lose it with `Services::lose`"
    );
    RpcError::Other { reason }
}

impl Registry {
    /// Knows nothing any more, and waits for servers.
    fn begin_anew(&mut self, awaited: BTreeMap<u32, String>, cx: &mut Context<'_, Self>) {
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

    /// A server is not expected to register any more; whether it was.
    fn expect_no_more(&mut self, number: u32) -> bool {
        let expected = self.awaited.remove(&number).or_else(|| self.overdue.remove(&number));
        expected.is_some()
    }

    /// Lets a server go, which has not left as far as who asks knows; who takes over what it keeps.
    fn let_go(&mut self, number: u32, hands_over: bool) -> Result<Option<u32>, RpcError> {
        match (self.directory.leave(number), self.overdue.get(&number)) {
            (Some(card), _) => Ok(self.directory.heir(&card).filter(|_| hands_over)),
            // Nobody knows what another must offer to take over from it.
            (None, Some(name)) if hands_over => Err(overdue(name)),
            // It hands over already. Or who had it leave gave that up before the answer, and it
            // never heard of it.
            (None, None) if hands_over => {
                let reason = "the server has begun to leave before; wait until it has left, or lose it with `Services::lose`";
                Err(RpcError::Other { reason: reason.to_owned() })
            }
            (None, _) => {
                self.expect_no_more(number);
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

    /// Answers what was held, once nobody is waited for any more.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        if self.awaited.is_empty() {
            // So that the job does not wait for it.
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
            // Who is lost hands over to nobody.
            Self::Leave { hands_over: true, .. }
                | Self::List(_)
                | Self::Find { .. }
                | Self::Bound { .. }
                | Self::Load(_)
        )
    }
}
