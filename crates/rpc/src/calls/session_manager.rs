//! The actor beside `main` that makes main's calls and keeps their sessions.

use super::catalogue::Catalogue;
use super::config::{Config, FOREVER};
use super::directory::Offer;
use super::error::RpcError;
use super::registry::{Registry, RegistryMessage};
use super::request::{Asked, CallTarget, Caller, SessionMessage, WaitNumber};
use super::server::{Answer, Call, Server, ServerMessage, Ticket};
use super::sessions::{EndedWait, SessionId, Sessions, Until, Waited};
use crate::block::{Arriving, EncodedBlock};
use gridspan_runtime::{Actor, ActorRef, CollectionRef, Context, Ix1, Reply, TaggedAnswer, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A wait for sessions.
type WaitReply = (WaitNumber, Reply<Waited>);

/// Makes the calls of one client.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct SessionManager<C: Catalogue> {
    pub(super) registry: ActorRef<Registry>,
    pub(super) servers: CollectionRef<Server<C>>,
    pub(super) timeout: Duration,
    attempts: u32,
    sessions: Sessions<EncodedBlock, WaitReply>,
    /// The numbers of the waits that returned each session, except waits whose answer the client
    /// has received, as far as the session manager knows.
    returned: BTreeMap<SessionId, Vec<u64>>,
    pub(super) calls: BTreeMap<SessionId, PendingCall>,
    /// Questions without an answer, by number.
    asked: BTreeMap<u64, Asked>,
    next_question: u64,
    /// Callers that wait until no server holds any attempt of a call.
    given_up: BTreeMap<SessionId, Reply<()>>,
    /// Number of calls of this client that each server holds.
    at_servers: BTreeMap<u32, u32>,
    /// Whether the client is gone. The session manager stays until no server holds any of its
    /// calls.
    is_closing: bool,
}

/// Initial values of a session manager.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct SessionManagerInit<C: Catalogue> {
    /// The registry to ask.
    pub registry: ActorRef<Registry>,
    /// The servers to call.
    pub servers: CollectionRef<Server<C>>,
    /// Time that a server has to answer.
    pub timeout: Duration,
    /// Maximum number of servers that are tried for a call.
    pub attempts: u32,
}

impl<C: Catalogue> SessionManagerInit<C> {
    /// Creates initial values with the settings of `config`.
    pub fn new(
        registry: ActorRef<Registry>,
        servers: CollectionRef<Server<C>>,
        config: &Config,
    ) -> Self {
        Self { registry, servers, timeout: config.timeout, attempts: config.attempts }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct PendingCall {
    pub(super) wanted: CallTarget,
    /// The caller, until it has its answer.
    caller: Option<Caller>,
    /// Servers that are not tried again.
    tried: BTreeSet<u32>,
    pub(super) current: Option<Offer>,
    pub(super) attempt: u32,
    pub(super) begun: Time,
    pub(super) was_alone: bool,
    /// The results, while segments are missing.
    pub(super) results: Option<Arriving>,
    /// Why the last attempt failed.
    pub(super) problem: Option<RpcError>,
}

impl<C: Catalogue> Actor for SessionManager<C> {
    type Index = Ix1;
    type Init = SessionManagerInit<C>;
    type Message = SessionMessage;

    fn create(start: SessionManagerInit<C>, cx: &mut Context<'_, Self>) -> Self {
        Self {
            registry: start.registry,
            servers: start.servers,
            timeout: start.timeout,
            attempts: start.attempts,
            sessions: Sessions::new(cx.index().0 as u32),
            returned: BTreeMap::new(),
            calls: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_question: 0,
            given_up: BTreeMap::new(),
            at_servers: BTreeMap::new(),
            is_closing: false,
        }
    }

    fn handle(&mut self, message: SessionMessage, cx: &mut Context<'_, Self>) {
        match message {
            SessionMessage::Begin(wanted, caller) => self.begin(wanted, caller, cx),
            SessionMessage::BeginTraced(context, wanted, caller) => {
                self.begin(CallTarget { trace: Some(context), ..wanted }, caller, cx);
            }
            SessionMessage::Found(number, found) => {
                if let Some(Asked::Servers(id)) = self.asked.remove(&number) {
                    self.found(id, found, cx);
                }
            }
            SessionMessage::Answered(number, answer) => {
                if let Some(Asked::Results(id, attempt)) = self.asked.remove(&number) {
                    self.has_answered(id, attempt, answer, cx);
                }
            }
            SessionMessage::Segment(number, segment) => {
                if let Some(Asked::Segment(id, attempt, index)) = self.asked.remove(&number) {
                    self.take_segment((id, attempt), index, segment, cx);
                }
            }
            SessionMessage::Probe(id, reply) => cx.reply(reply, self.sessions.probe(id)),
            SessionMessage::ProbeOr(ids, reply) => cx.reply(reply, self.sessions.probe_or(&ids)),
            SessionMessage::Wait(wait, ids, until, reply) => {
                self.wait(ids, until, (wait, reply), cx);
            }
            SessionMessage::WaitAll(wait, reply) => {
                let ids = self.sessions.running();
                self.wait(ids, Until::All, (wait, reply), cx);
            }
            SessionMessage::WaitAny(wait, reply) => {
                let ids = self.sessions.unnamed();
                self.wait(ids, Until::One, (wait, reply), cx);
            }
            SessionMessage::Withdraw(number) => self.withdraw(number, cx),
            SessionMessage::Cancel(id, reply) => {
                let known = self.cancel_running(id, cx);
                cx.reply(reply, known);
            }
            SessionMessage::CancelAll(reply) => {
                self.sessions.running().into_iter().for_each(|id| self.cancel(id, cx));
                cx.reply(reply, ());
            }
            SessionMessage::Take(id, reply) => cx.reply(reply, self.take(id)),
            SessionMessage::Function(id, reply) => cx.reply(reply, self.sessions.function(id)),
            SessionMessage::Error(id, reply) => cx.reply(reply, self.sessions.error(id)),
            SessionMessage::Failed(reply) => cx.reply(reply, self.sessions.pop_failed()),
            SessionMessage::GiveUp(id, reply) => self.give_up(id, reply, cx),
            SessionMessage::Released(number) => {
                if let Some(Asked::Release(id, offer)) = self.asked.remove(&number) {
                    self.answer_given_up(id, cx);
                    self.released(offer, cx);
                }
            }
            SessionMessage::Close(reply) => {
                self.cancel_calls(cx);
                reply.into_iter().for_each(|reply| cx.reply(reply, ()));
                self.is_closing = true;
                self.go_if_free(cx);
            }
        }
    }

    fn answered(answer: TaggedAnswer) -> Option<SessionMessage> {
        Some(SessionMessage::of_answer(answer))
    }

    fn heap_bytes(message: &SessionMessage) -> usize {
        match message {
            SessionMessage::Begin(wanted, _) | SessionMessage::BeginTraced(_, wanted, _) => {
                wanted.arguments.len()
            }
            SessionMessage::Answered(_, Some(Answer::Results { first, .. })) => first.len(),
            SessionMessage::Segment(_, Some(segment)) => segment.len(),
            _ => 0,
        }
    }
}

impl<C: Catalogue> SessionManager<C> {
    fn begin(&mut self, wanted: CallTarget, caller: Caller, cx: &mut Context<'_, Self>) {
        let id = self.sessions.reserve();
        let ongoing = PendingCall {
            wanted,
            caller: Some(caller),
            tried: BTreeSet::new(),
            current: None,
            attempt: 0,
            begun: cx.now(),
            was_alone: false,
            results: None,
            problem: None,
        };
        self.calls.insert(id, ongoing);
        self.look_up(id, cx);
    }

    /// Asks the registry for servers. This happens before each attempt, because servers may have
    /// left or joined since the last.
    pub(super) fn look_up(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        if ongoing.attempt >= self.attempts {
            let problem = ongoing.problem.take().unwrap_or(RpcError::CommunicationFailed);
            return self.end(id, Err(problem), cx);
        }
        let (function, only) = (ongoing.wanted.function.clone(), ongoing.wanted.bound);
        let (bytes, work_s) = (ongoing.wanted.arguments.len() as u64, ongoing.wanted.work_s);
        let find = |reply| RegistryMessage::Find { function, bytes, work_s, only, reply };
        let tag = self.question(Asked::Servers(id));
        cx.ask_tagged(&self.registry, self.timeout, tag, find);
    }

    /// Notes a question; returns its tag.
    pub(super) fn question(&mut self, asked: Asked) -> u64 {
        let number = self.next_question;
        self.next_question += 1;
        self.asked.insert(number, asked);
        asked.tag(number)
    }

    fn found(
        &mut self,
        id: SessionId,
        found: Option<Result<Vec<Offer>, RpcError>>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        let offers = match found.unwrap_or(Err(RpcError::CommunicationFailed)) {
            Ok(offers) => offers,
            Err(error) => {
                let problem = ongoing.problem.take().unwrap_or(error);
                return self.end(id, Err(problem), cx);
            }
        };
        if let Some(Caller::Session(reply)) = ongoing.caller {
            ongoing.caller = None;
            self.sessions.open(id, ongoing.wanted.function.clone());
            cx.reply(reply, Ok(id));
        }
        match offers.into_iter().find(|offer| !ongoing.tried.contains(&offer.number)) {
            Some(offer) => self.send(id, offer, cx),
            None => {
                let problem = ongoing.problem.take().unwrap_or(RpcError::CommunicationFailed);
                self.end(id, Err(problem), cx);
            }
        }
    }

    /// Sends a call to a server.
    fn send(&mut self, id: SessionId, offer: Offer, cx: &mut Context<'_, Self>) {
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        ongoing.tried.insert(offer.number);
        ongoing.attempt += 1;
        ongoing.current = Some(offer);
        ongoing.begun = cx.now();
        let (attempt, wanted) = (ongoing.attempt, ongoing.wanted.clone());
        let at_server = self.at_servers.entry(offer.number).or_default();
        ongoing.was_alone = *at_server == 0;
        *at_server += 1;
        cx.send(&self.registry, RegistryMessage::Placed(offer));
        let ticket = self.ticket(id, attempt, cx);
        let server = self.servers.at(Ix1(offer.number as i32));
        let CallTarget { function, arguments, form, signature, trace, .. } = wanted;
        let mut segments = arguments.into_segments();
        let last = segments.pop().unwrap_or_default();
        for segment in segments {
            cx.send(&server, ServerMessage::Argument(ticket, segment));
        }
        let call = |reply| {
            let arguments = EncodedBlock::of(vec![last]);
            Call { ticket, function, arguments, form, signature, reply, trace }.into_message()
        };
        let tag = self.question(Asked::Results(id, attempt));
        cx.ask_tagged(&server, self.timeout, tag, call);
    }

    pub(super) fn ticket(&self, id: SessionId, attempt: u32, cx: &Context<'_, Self>) -> Ticket {
        Ticket { client: u64::from(cx.index().0.unsigned_abs()), session: id.0, attempt }
    }

    /// Records that the current server has answered a call, and so no longer holds it.
    pub(super) fn answered_by(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let offer = self.calls.get_mut(&id).and_then(|ongoing| ongoing.current.take());
        if let Some(offer) = offer {
            self.released(offer, cx);
        }
    }

    fn released(&mut self, offer: Offer, cx: &mut Context<'_, Self>) {
        if let Some(count) = self.at_servers.get_mut(&offer.number) {
            *count -= 1;
            if *count == 0 {
                self.at_servers.remove(&offer.number);
            }
        }
        cx.send(&self.registry, RegistryMessage::Ended(offer));
        self.go_if_free(cx);
    }

    fn go_if_free(&self, cx: &mut Context<'_, Self>) {
        if self.is_closing && self.at_servers.is_empty() {
            cx.destroy();
        }
    }

    /// Cancels a call at the current server, which has not answered it. The server may be executing
    /// the call, so the call counts as its load until it reports that it no longer holds the call.
    pub(super) fn cancel_attempt(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        let attempt = ongoing.attempt;
        if let Some(offer) = ongoing.current.take() {
            let ticket = self.ticket(id, attempt, cx);
            let server = self.servers.at(Ix1(offer.number as i32));
            let cancel = |reply| ServerMessage::Cancel(ticket, reply);
            let tag = self.question(Asked::Release(id, offer));
            cx.ask_tagged(&server, FOREVER, tag, cancel);
        }
    }

    pub(super) fn end(
        &mut self,
        id: SessionId,
        outcome: Result<EncodedBlock, RpcError>,
        cx: &mut Context<'_, Self>,
    ) {
        self.cancel_attempt(id, cx);
        let Some(ongoing) = self.calls.remove(&id) else { return };
        match ongoing.caller {
            // A blocking call, or one that was never sent, has no session.
            Some(Caller::Results(reply)) => cx.reply(reply, outcome),
            Some(Caller::Session(reply)) => cx.reply(reply, outcome.map(|_| id)),
            None => {
                for over in self.sessions.end(id, outcome) {
                    self.end_wait(over, cx);
                }
            }
        }
    }

    fn wait(
        &mut self,
        ids: Vec<SessionId>,
        until: Until,
        waiter: WaitReply,
        cx: &mut Context<'_, Self>,
    ) {
        if let Some(over) = self.sessions.wait(waiter, ids, until) {
            self.end_wait(over, cx);
        }
    }

    fn end_wait(&mut self, over: EndedWait<WaitReply>, cx: &mut Context<'_, Self>) {
        let EndedWait { waiter: (wait, reply), waited, named } = over;
        for id in named {
            let waits = self.returned.entry(id).or_default();
            waits.retain(|&number| number >= wait.ended_below);
            waits.push(wait.number);
        }
        cx.reply(reply, waited);
    }

    /// Undoes a wait that the client has dropped: a later wait for any session may return its
    /// sessions.
    fn withdraw(&mut self, number: u64, cx: &mut Context<'_, Self>) {
        for (_, reply) in self.sessions.forget(|(wait, _)| wait.number == number) {
            // This ends the question, whose answer is not awaited.
            cx.reply(reply, Err(RpcError::NoneCompleted));
        }
        let mut undone = Vec::new();
        for (id, waits) in &mut self.returned {
            // A wait may have named a session several times.
            undone.extend(waits.extract_if(.., |by| *by == number).map(|_| *id));
        }
        self.returned.retain(|_, waits| !waits.is_empty());
        self.sessions.give_back(&undone);
    }

    fn take(&mut self, id: SessionId) -> Result<EncodedBlock, RpcError> {
        self.returned.remove(&id);
        self.sessions.take(id)
    }

    fn give_up(&mut self, id: SessionId, reply: Reply<()>, cx: &mut Context<'_, Self>) {
        self.cancel(id, cx);
        // No caller will ask for its results.
        let _ = self.take(id);
        self.given_up.insert(id, reply);
        self.answer_given_up(id, cx);
    }

    /// Answers the caller that has given up a call, once no server holds any attempt of it. Servers
    /// may still hold earlier attempts, which they did not answer in time.
    fn answer_given_up(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        if !self.given_up.contains_key(&id) {
            return;
        }
        let is_held = |asked: &Asked| matches!(asked, Asked::Release(held, _) if *held == id);
        if !self.asked.values().any(is_held)
            && let Some(reply) = self.given_up.remove(&id)
        {
            cx.reply(reply, ());
        }
    }

    fn cancel(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let reason = "the call was cancelled".to_owned();
        self.end(id, Err(RpcError::SessionFailed { reason }), cx);
    }

    /// Cancels the call of a session if it is under way. Fails if there is no such session.
    fn cancel_running(
        &mut self,
        id: SessionId,
        cx: &mut Context<'_, Self>,
    ) -> Result<(), RpcError> {
        match self.sessions.probe(id) {
            Err(RpcError::NotCompleted) => {
                self.cancel(id, cx);
                Ok(())
            }
            known => known,
        }
    }

    /// Cancels all calls, also those without a session.
    fn cancel_calls(&mut self, cx: &mut Context<'_, Self>) {
        let calls: Vec<SessionId> = self.calls.keys().copied().collect();
        calls.into_iter().for_each(|id| self.cancel(id, cx));
    }
}
