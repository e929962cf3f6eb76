//! The actor beside `main` that makes its calls and keeps its sessions.

use super::catalogue::Catalogue;
use super::config::Config;
use super::directory::Offer;
use super::error::RpcError;
use super::registry::{Registry, RegistryMessage};
use super::server::{Answer, Call, Server, ServerMessage, Ticket};
use super::services::FOREVER;
use super::sessions::{SessionId, Sessions, Until, Waited};
use gridspan_runtime::{Actor, ActorRef, CollectionRef, Context, Ix1, Numbers, Reply, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Makes the calls of one client.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Desk<C: Catalogue> {
    registry: ActorRef<Registry>,
    servers: CollectionRef<Server<C>>,
    timeout: Duration,
    attempts: u32,
    sessions: Sessions<Numbers<u8>, Reply<Waited>>,
    calls: BTreeMap<SessionId, Ongoing>,
    /// How many calls each server has from here.
    at_servers: BTreeMap<u32, u32>,
    /// The client is gone; the desk stays until no server has anything of it.
    is_closing: bool,
}

/// What a desk begins with.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub struct DeskStart<C: Catalogue> {
    /// The registry to ask.
    pub registry: ActorRef<Registry>,
    /// The servers to call.
    pub servers: CollectionRef<Server<C>>,
    /// How long a server has to answer.
    pub timeout: Duration,
    /// How many servers are tried.
    pub attempts: u32,
}

impl<C: Catalogue> DeskStart<C> {
    /// A desk with these settings.
    pub fn new(
        registry: ActorRef<Registry>,
        servers: CollectionRef<Server<C>>,
        config: &Config,
    ) -> Self {
        Self { registry, servers, timeout: config.timeout, attempts: config.attempts }
    }
}

/// What is to be called.
#[derive(Clone, Serialize, Deserialize)]
pub struct Wanted {
    /// The function.
    pub function: String,
    /// Its arguments, encoded.
    pub arguments: Numbers<u8>,
    /// What the call needs on a server of speed 1, in seconds, if a formula says so.
    pub work_s: Option<f64>,
    /// The one server that may execute it; `None` if any may.
    pub bound: Option<u32>,
}

/// Who hears of a call.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub enum Caller {
    /// Somebody who waits for the results.
    Results(Reply<Result<Numbers<u8>, RpcError>>),
    /// Somebody who wants to know the session once the call is on its way.
    Session(Reply<Result<SessionId, RpcError>>),
}

#[derive(Serialize, Deserialize)]
struct Ongoing {
    wanted: Wanted,
    /// Who has not heard of it yet.
    caller: Option<Caller>,
    /// The servers that are not tried again.
    tried: BTreeSet<u32>,
    current: Option<Offer>,
    attempt: u32,
    begun: Time,
    was_alone: bool,
    /// Why the last attempt came to nothing.
    problem: Option<RpcError>,
}

/// What a desk is told and asked.
#[derive(Clone, Serialize, Deserialize)]
pub enum DeskMessage {
    /// Make a call.
    Begin(Wanted, Caller),
    /// The registry has answered; `None` if it did not.
    Found(SessionId, Option<Result<Vec<Offer>, RpcError>>),
    /// A server has answered an attempt; `None` if it did not.
    Answered(SessionId, u32, Option<Answer>),
    /// Has a session ended?
    Probe(SessionId, Reply<Result<(), RpcError>>),
    /// Which of these has ended?
    ProbeOr(Vec<SessionId>, Reply<Result<SessionId, RpcError>>),
    /// Answer when these have ended.
    Wait(Vec<SessionId>, Until, Reply<Waited>),
    /// Answer when all, or any, that were begun have ended.
    WaitOpen(Until, Reply<Waited>),
    /// A session is not wanted any more.
    Cancel(SessionId, Reply<Result<(), RpcError>>),
    /// None is wanted any more.
    CancelAll(Reply<()>),
    /// What is the result?
    Take(SessionId, Reply<Result<Numbers<u8>, RpcError>>),
    /// What was called?
    Function(SessionId, Reply<Result<String, RpcError>>),
    /// Why did it fail?
    Error(SessionId, Reply<Result<Option<RpcError>, RpcError>>),
    /// Which failed?
    Failed(Reply<Option<SessionId>>),
    /// A server has nothing to do any more with a call that it did not answer.
    Released(Offer),
    /// The client is finalised, or was dropped.
    Close(Option<Reply<()>>),
}

impl<C: Catalogue> Actor for Desk<C> {
    type Index = Ix1;
    type Init = DeskStart<C>;
    type Message = DeskMessage;

    fn create(start: DeskStart<C>, cx: &mut Context<'_, Self>) -> Self {
        Self {
            registry: start.registry,
            servers: start.servers,
            timeout: start.timeout,
            attempts: start.attempts,
            sessions: Sessions::new(cx.index().0 as u32),
            calls: BTreeMap::new(),
            at_servers: BTreeMap::new(),
            is_closing: false,
        }
    }

    fn handle(&mut self, message: DeskMessage, cx: &mut Context<'_, Self>) {
        match message {
            DeskMessage::Begin(wanted, caller) => self.begin(wanted, caller, cx),
            DeskMessage::Found(id, found) => self.found(id, found, cx),
            DeskMessage::Answered(id, attempt, answer) => self.answered(id, attempt, answer, cx),
            DeskMessage::Probe(id, reply) => cx.reply(reply, self.sessions.probe(id)),
            DeskMessage::ProbeOr(ids, reply) => cx.reply(reply, self.sessions.probe_or(&ids)),
            DeskMessage::Wait(ids, until, reply) => self.wait(ids, until, reply, cx),
            DeskMessage::WaitOpen(until, reply) => {
                let ids = match until {
                    Until::All => self.sessions.running(),
                    Until::One => self.sessions.untold(),
                };
                self.wait(ids, until, reply, cx);
            }
            DeskMessage::Cancel(id, reply) => {
                let known = match self.sessions.probe(id) {
                    Err(RpcError::NotCompleted) => {
                        self.cancel(id, cx);
                        Ok(())
                    }
                    known => known,
                };
                cx.reply(reply, known);
            }
            DeskMessage::CancelAll(reply) => {
                self.sessions.running().into_iter().for_each(|id| self.cancel(id, cx));
                cx.reply(reply, ());
            }
            DeskMessage::Take(id, reply) => cx.reply(reply, self.sessions.take(id)),
            DeskMessage::Function(id, reply) => cx.reply(reply, self.sessions.function(id)),
            DeskMessage::Error(id, reply) => cx.reply(reply, self.sessions.error(id)),
            DeskMessage::Failed(reply) => cx.reply(reply, self.sessions.pop_failed()),
            DeskMessage::Released(offer) => self.released(offer, cx),
            DeskMessage::Close(reply) => {
                let calls: Vec<SessionId> = self.calls.keys().copied().collect();
                calls.into_iter().for_each(|id| self.cancel(id, cx));
                if let Some(reply) = reply {
                    cx.reply(reply, ());
                }
                self.is_closing = true;
                self.go_if_free(cx);
            }
        }
    }

    fn heap_bytes(message: &DeskMessage) -> usize {
        match message {
            DeskMessage::Begin(wanted, _) => wanted.arguments.len(),
            DeskMessage::Answered(_, _, Some(Answer::Results(results))) => results.len(),
            _ => 0,
        }
    }
}

impl<C: Catalogue> Desk<C> {
    fn begin(&mut self, wanted: Wanted, caller: Caller, cx: &mut Context<'_, Self>) {
        let id = self.sessions.reserve();
        let ongoing = Ongoing {
            wanted,
            caller: Some(caller),
            tried: BTreeSet::new(),
            current: None,
            attempt: 0,
            begun: cx.now(),
            was_alone: false,
            problem: None,
        };
        self.calls.insert(id, ongoing);
        self.look_up(id, cx);
    }

    /// Asks for servers before each attempt: those that were there before the last may have left, and others may
    /// have come.
    fn look_up(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        if ongoing.attempt >= self.attempts {
            let problem = ongoing.problem.take().unwrap_or(RpcError::CommunicationFailed);
            return self.end(id, Err(problem), cx);
        }
        let (function, only) = (ongoing.wanted.function.clone(), ongoing.wanted.bound);
        let (bytes, work_s) = (ongoing.wanted.arguments.len() as u64, ongoing.wanted.work_s);
        let find = |reply| RegistryMessage::Find { function, bytes, work_s, only, reply };
        let found = move |answer: Result<_, _>| DeskMessage::Found(id, answer.ok());
        cx.ask(&self.registry, self.timeout, find, found);
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
        let call = |reply| {
            let Wanted { function, arguments, .. } = wanted;
            ServerMessage::Call(Call { ticket, function, arguments, reply })
        };
        let answered =
            move |answer: Result<Answer, _>| DeskMessage::Answered(id, attempt, answer.ok());
        let server = self.servers.at(Ix1(offer.number as i32));
        cx.ask(&server, self.timeout, call, answered);
    }

    fn ticket(&self, id: SessionId, attempt: u32, cx: &Context<'_, Self>) -> Ticket {
        Ticket { client: u64::from(cx.index().0.unsigned_abs()), session: id.0, attempt }
    }

    fn answered(
        &mut self,
        id: SessionId,
        attempt: u32,
        answer: Option<Answer>,
        cx: &mut Context<'_, Self>,
    ) {
        let Some(ongoing) = self.calls.get_mut(&id).filter(|call| call.attempt == attempt) else {
            return;
        };
        let took_s = cx.now().since(ongoing.begun).as_secs_f64();
        if let (Some(Answer::Results(_)), Some(offer), true) =
            (&answer, ongoing.current, ongoing.was_alone)
        {
            let (function, bytes) =
                (ongoing.wanted.function.clone(), ongoing.wanted.arguments.len());
            let (number, bytes) = (offer.number, bytes as u64);
            cx.send(&self.registry, RegistryMessage::Took { function, number, bytes, took_s });
        }
        let is_late = answer.is_none();
        let problem = match answer {
            Some(Answer::Results(results)) => {
                self.answered_by(id, cx);
                return self.end(id, Ok(results), cx);
            }
            Some(Answer::Failed(reason)) => {
                self.answered_by(id, cx);
                return self.end(id, Err(RpcError::SessionFailed { reason }), cx);
            }
            Some(Answer::Refused(reason)) => RpcError::RpcRefused { reason },
            Some(Answer::Gone) => RpcError::ServerNotFound { server: "that has left".to_owned() },
            None => RpcError::CommunicationFailed,
        };
        ongoing.problem = Some(problem);
        if is_late {
            if let Some(offer) = &mut ongoing.current {
                offer.is_late = true;
                cx.send(&self.registry, RegistryMessage::Late(offer.number));
            }
            self.call_back(id, cx);
        } else {
            self.answered_by(id, cx);
        }
        self.look_up(id, cx);
    }

    /// The current server has answered a call, and so has nothing to do with it any more.
    fn answered_by(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
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

    /// Takes a call back that the current server has not answered. The call counts as the server's load until
    /// it says that it has nothing to do with it any more: it may be executing it.
    fn call_back(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let Some(ongoing) = self.calls.get_mut(&id) else { return };
        let attempt = ongoing.attempt;
        if let Some(offer) = ongoing.current.take() {
            let ticket = self.ticket(id, attempt, cx);
            let server = self.servers.at(Ix1(offer.number as i32));
            let cancel = |reply| ServerMessage::Cancel(ticket, reply);
            let released = move |_: Result<(), _>| DeskMessage::Released(offer);
            cx.ask(&server, FOREVER, cancel, released);
        }
    }

    fn end(
        &mut self,
        id: SessionId,
        outcome: Result<Numbers<u8>, RpcError>,
        cx: &mut Context<'_, Self>,
    ) {
        self.call_back(id, cx);
        let Some(ongoing) = self.calls.remove(&id) else { return };
        match ongoing.caller {
            // A call that blocks, or that never got on its way, is no session.
            Some(Caller::Results(reply)) => cx.reply(reply, outcome),
            Some(Caller::Session(reply)) => cx.reply(reply, outcome.map(|_| id)),
            None => {
                for (reply, waited) in self.sessions.end(id, outcome) {
                    cx.reply(reply, waited);
                }
            }
        }
    }

    fn wait(
        &mut self,
        ids: Vec<SessionId>,
        until: Until,
        reply: Reply<Waited>,
        cx: &mut Context<'_, Self>,
    ) {
        if let Some(waited) = self.sessions.wait(reply, ids, until) {
            cx.reply(reply, waited);
        }
    }

    fn cancel(&mut self, id: SessionId, cx: &mut Context<'_, Self>) {
        let reason = "it was cancelled".to_owned();
        self.end(id, Err(RpcError::SessionFailed { reason }), cx);
    }
}
