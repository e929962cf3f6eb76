//! The actor that executes calls, one after the other.

use super::catalogue::{CallForm, Catalogue, Functions};
use super::directory::ServerCard;
use super::function::Work;
use super::membership;
use super::registry::{Registry, RegistryMessage};
use super::signature::Signature;
use crate::block::EncodedBlock;
use crate::group::Room;
use crate::group::order::{Done, GroupMessage, Piece};
use crate::group::store::Store;
use crate::trace::{self, TraceContext};
use gridspan_runtime::{Actor, ActorRef, Context, Ix1, Numbers, Reply, TaggedAnswer, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;

/// Number of calls that may wait at a server. Further ones are refused and tried elsewhere.
const WAITING_MAX: usize = 10_000;
/// The name of the error of a function that has failed, in its span.
pub(super) const FAILED: &str = "GRPC_SESSION_FAILED";

/// Executes the functions of a catalogue. Every PE has a server, which is closed until it is
/// opened.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Server<C> {
    /// The server's description, while it is open.
    card: Option<ServerCard>,
    waiting: VecDeque<Call>,
    /// Segments of arguments whose calls have not arrived yet.
    arriving: BTreeMap<Ticket, Vec<Numbers<u8>>>,
    /// Segments of results that the client has not taken yet.
    results: BTreeMap<(Ticket, u32), Numbers<u8>>,
    pub(super) store: Store,
    /// The handover of data for groups to the successor.
    pub(super) handover: Option<Handover>,
    /// The order that was executed, until its outcome is reported.
    pub(super) pending: Option<Pending>,
    /// Whether a `Next` or `Report` message is under way.
    is_going: bool,
    /// The registry that lists the server, once it has been opened.
    registry: Option<ActorRef<Registry>>,
    /// Number of checkpoints from which the job has gone on since the server was created.
    restorations: u32,
    #[serde(skip)]
    functions: Option<Functions>,
    #[serde(skip)]
    catalogue: PhantomData<fn() -> C>,
}

/// An order that was executed.
#[derive(Serialize, Deserialize)]
pub(super) struct Pending {
    pub(super) reply: Reply<Done>,
    pub(super) done: Done,
    pub(super) begun: Time,
}

/// A handover to another server.
#[derive(Serialize, Deserialize)]
pub(super) struct Handover {
    pub(super) successor: u32,
    /// Where the server reports that the successor has all data, until it has done so.
    pub(super) replies: Vec<Reply<()>>,
}

/// Settings of a server that opens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// Name of the server.
    pub name: String,
    /// Speed of the server.
    pub speed: f64,
    /// Whether the server sends data to other servers.
    pub is_direct: bool,
    /// The functions that it offers; an empty list means all of the catalogue.
    pub offers: Vec<String>,
    /// Space for the data of groups.
    pub room: Room,
    /// The registry that will list the server.
    pub registry: ActorRef<Registry>,
}

/// One attempt at one call of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ticket {
    /// The client.
    pub client: u64,
    /// The session.
    pub session: u64,
    /// Number of the attempt.
    pub attempt: u32,
}

/// A call in a server's queue.
#[derive(Clone, Serialize, Deserialize)]
pub struct Call {
    /// The identity of the attempt.
    pub ticket: Ticket,
    /// The function.
    pub function: String,
    /// The last segment of the arguments; all of them once the call is queued.
    pub arguments: EncodedBlock,
    /// Encoding of the arguments and the results.
    pub form: CallForm,
    /// The caller's signature of the function; `None` if the arguments describe themselves.
    pub signature: Option<Signature>,
    /// Where the answer goes.
    pub reply: Reply<Answer>,
    /// The context of the client's span. Messages carry it beside the call, if there is one.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

impl Call {
    /// The message that brings the call.
    pub(super) fn into_message(self) -> ServerMessage {
        match self.trace {
            None => ServerMessage::Call(self),
            Some(context) => ServerMessage::TracedCall(context, self),
        }
    }
}

/// A server's answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The results, encoded.
    Results {
        /// The first segment.
        first: Numbers<u8>,
        /// Number of segments. The client asks for the others.
        count: u32,
    },
    /// The function failed; it would fail on another server too.
    Failed(String),
    /// The server takes no more calls now; another may.
    Refused(String),
    /// The server is closed.
    Gone,
}

/// Messages to a server.
#[derive(Clone, Serialize, Deserialize)]
pub enum ServerMessage {
    /// Take calls from now on; answered with the server's description.
    Open(Opening, Reply<ServerCard>),
    /// The registry has restarted: register with it if open.
    Register(ActorRef<Registry>),
    /// A segment of the arguments of a call. The last segment comes with the call, which follows.
    Argument(Ticket, Numbers<u8>),
    /// Queue a call.
    Call(Call),
    /// Take a segment of the results, counted from 0; `None` if it was taken already.
    Take(Ticket, u32, Reply<Option<Numbers<u8>>>),
    /// Execute the next call.
    Next,
    /// Report the outcome of the last order.
    Report,
    /// Cancel a call; answered once the server no longer works on it.
    Cancel(Ticket, Reply<()>),
    /// Take no more calls, return the queued ones, and hand the data for groups to the successor,
    /// if any.
    Leave(Option<u32>, Reply<()>),
    /// The successor has the last window of data.
    HandOn,
    /// A message of a group.
    Group(GroupMessage),
    /// Queue a call of a client whose span has this context.
    TracedCall(TraceContext, Call),
}

impl<C: Catalogue> Actor for Server<C> {
    type Index = Ix1;
    type Init = ();
    type Message = ServerMessage;

    fn create((): (), _cx: &mut Context<'_, Self>) -> Self {
        Self {
            card: None,
            waiting: VecDeque::new(),
            arriving: BTreeMap::new(),
            results: BTreeMap::new(),
            store: Store::default(),
            handover: None,
            pending: None,
            is_going: false,
            registry: None,
            restorations: 0,
            functions: None,
            catalogue: PhantomData,
        }
    }

    fn handle(&mut self, message: ServerMessage, cx: &mut Context<'_, Self>) {
        match message {
            ServerMessage::Open(opening, reply) => self.open(opening, reply, cx),
            ServerMessage::Register(registry) => {
                self.registry = Some(registry);
                let number = cx.index().0.unsigned_abs();
                cx.send(&registry, RegistryMessage::Register(number, self.card.clone()));
            }
            ServerMessage::Argument(ticket, segment) => {
                if self.is_open() {
                    self.arriving.entry(ticket).or_default().push(segment);
                }
            }
            ServerMessage::Call(call) => self.accept(call, cx),
            ServerMessage::TracedCall(context, call) => {
                self.accept(Call { trace: Some(context), ..call }, cx);
            }
            ServerMessage::Take(ticket, index, reply) => {
                cx.reply(reply, self.results.remove(&(ticket, index)));
            }
            ServerMessage::Next => self.next(cx),
            ServerMessage::Report => {
                self.report(cx);
                self.is_going = false;
                self.go_on(cx);
            }
            ServerMessage::Cancel(ticket, reply) => {
                self.waiting.retain(|call| call.ticket != ticket);
                self.arriving.remove(&ticket);
                self.results.retain(|(of, _), _| *of != ticket);
                cx.reply(reply, ());
            }
            ServerMessage::Leave(successor, reply) => {
                self.leave(successor, reply, cx);
            }
            ServerMessage::HandOn => self.hand_on(cx),
            ServerMessage::Group(message) => {
                self.group(message, cx);
                self.go_on(cx);
            }
        }
    }

    fn answered(_: TaggedAnswer) -> Option<ServerMessage> {
        // The one question of servers: whether the successor has the last window of data.
        Some(ServerMessage::HandOn)
    }

    /// The runtime calls this only when the job has gone on from a checkpoint, because members of
    /// groups of actors never move otherwise. No client waits for the orders of call groups any
    /// more; main repeats those that it needs.
    fn arrived(&mut self, cx: &mut Context<'_, Self>) {
        self.restorations = self.restorations.wrapping_add(1);
        drop(self.store.take_orders());
        let (number, site) = (cx.index().0.unsigned_abs(), cx.site().0);
        if let (Some(card), Some(registry)) = (&mut self.card, &self.registry)
            && card.site != site
        {
            card.site = site;
            cx.send(registry, RegistryMessage::Moved { number, site });
        }
    }

    fn heap_bytes(message: &ServerMessage) -> usize {
        match message {
            ServerMessage::Call(call) | ServerMessage::TracedCall(_, call) => {
                call.arguments.len() + call.function.len()
            }
            ServerMessage::Argument(_, segment) => segment.len(),
            ServerMessage::Group(GroupMessage::Data(Piece { bytes: Ok(bytes), .. })) => bytes.len(),
            _ => 0,
        }
    }
}

impl<C: Catalogue> Server<C> {
    fn open(&mut self, opening: Opening, reply: Reply<ServerCard>, cx: &mut Context<'_, Self>) {
        let Opening { name, speed, is_direct, offers, room, registry } = opening;
        self.store.set_room(room);
        self.registry = Some(registry);
        let is_offered = |name: &String, _: &mut _| offers.is_empty() || offers.contains(name);
        let of_program = C::functions();
        let mut functions = of_program.signatures();
        functions.retain(is_offered);
        let card = ServerCard {
            number: cx.index().0.unsigned_abs(),
            name,
            site: cx.site().0,
            speed,
            is_direct,
            functions,
        };
        self.card = Some(card.clone());
        self.functions = Some(of_program);
        cx.reply(reply, card);
    }

    fn accept(&mut self, mut call: Call, cx: &mut Context<'_, Self>) {
        if let Some(mut segments) = self.arriving.remove(&call.ticket) {
            segments.extend(call.arguments.into_segments());
            call.arguments = EncodedBlock::of(segments);
        }
        if !self.is_open() {
            cx.reply(call.reply, Answer::Gone);
        } else if self.waiting.len() >= WAITING_MAX {
            let reason = format!("{WAITING_MAX} calls are queued at the server already");
            cx.reply(call.reply, Answer::Refused(reason));
        } else {
            self.waiting.push_back(call);
            self.go_on(cx);
        }
    }

    /// Executes the next call in a later turn, so that messages that have arrived are handled
    /// first.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        if !self.is_going && (!self.waiting.is_empty() || self.store.has_ready()) {
            self.is_going = true;
            let me = cx.me();
            cx.send(&me, ServerMessage::Next);
        }
    }

    /// Executes a call, or an order of a group if no call waits.
    fn next(&mut self, cx: &mut Context<'_, Self>) {
        self.is_going = false;
        let Some(speed) = self.card.as_ref().map(|card| card.speed) else { return };
        match self.waiting.pop_front() {
            Some(call) => self.execute(&call, speed, cx),
            None => self.execute_order(speed, cx),
        }
        // After an order, its report comes first.
        self.is_going = self.pending.is_some();
        self.go_on(cx);
    }

    fn execute(&mut self, call: &Call, speed: f64, cx: &mut Context<'_, Self>) {
        let mut work = Work::new(speed);
        let arguments = call.arguments.contiguous();
        let span = trace::server_span(&call.function, self.name(), call.trace.as_ref());
        let outcome = span.in_scope(|| {
            self.check(&call.function, call.signature.as_ref())?;
            let outcome = self.functions().run(&call.function, call.form, &arguments, &mut work);
            match call.form {
                // The error names the function, because a group calls many.
                CallForm::Parts(_) => {
                    outcome.map_err(|reason| self.failure(&call.function, &reason))
                }
                CallForm::Encoded | CallForm::Text => outcome,
            }
        });
        if let Err(reason) = &outcome {
            trace::note_failure(&span, FAILED, reason);
        }
        cx.charge(work.emulated());
        cx.reply(
            call.reply,
            match outcome {
                Ok(results) => self.answer(call.ticket, results),
                Err(reason) => Answer::Failed(reason),
            },
        );
    }

    /// Answers with the first segment, and keeps the others until the client takes them.
    fn answer(&mut self, ticket: Ticket, results: EncodedBlock) -> Answer {
        let count = results.segments().len() as u32;
        let mut segments = results.into_segments().into_iter();
        let first = segments.next().unwrap_or_default();
        self.results.extend((1..).map(|index| (ticket, index)).zip(segments));
        Answer::Results { first, count }
    }

    pub(super) fn functions(&mut self) -> &Functions {
        self.functions.get_or_insert_with(C::functions)
    }

    /// Checks that the function has the caller's signature here; the error gives the reason.
    pub(super) fn check(
        &mut self,
        function: &str,
        called: Option<&Signature>,
    ) -> Result<(), String> {
        let Some(called) = called else { return Ok(()) };
        let name = self.name().to_owned();
        self.functions().check(function, called, &name)
    }

    pub(super) fn name(&self) -> &str {
        self.card.as_ref().map_or("", |card| &card.name)
    }

    /// The error text for a failed call of a group.
    pub(super) fn failure(&self, function: &str, reason: &str) -> String {
        format!("`{function}` on `{}`: {reason}", self.name())
    }

    /// Bytes of group data, of the arguments of calls that arrive or wait, and of results that were
    /// not taken.
    pub(super) fn kept_bytes(&self) -> u64 {
        let arriving = self.arriving.values().flatten().map(|segment| segment.len());
        let waiting = self.waiting.iter().map(|call| call.arguments.len());
        let results = self.results.values().map(|segment| segment.len());
        arriving.chain(waiting).chain(results).sum::<usize>() as u64 + self.store.bytes()
    }

    /// Whether an attempt of an order is from before the last restoration.
    pub(super) fn is_outdated(&self, attempt: u32) -> bool {
        membership::is_outdated(attempt, self.restorations)
    }

    pub(super) fn is_open(&self) -> bool {
        self.card.is_some()
    }

    fn leave(&mut self, successor: Option<u32>, reply: Reply<()>, cx: &mut Context<'_, Self>) {
        self.card = None;
        self.arriving.clear();
        for call in self.waiting.drain(..) {
            cx.reply(call.reply, Answer::Gone);
        }
        match successor {
            Some(successor) => self.hand_over(successor, reply, cx),
            None => {
                self.give_up_orders(cx);
                cx.reply(reply, ());
            }
        }
    }
}
