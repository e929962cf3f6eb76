//! The verbs of GridRPC for a client outside of a job: individual typed calls to the servers of a
//! registry.

use crate::client::groups::Remote;
use crate::client::single_call::{Candidate, Wanted, execute};
use gridspan_rpc::calls::{
    CallSession, Config, EndedWait, Function, Handle, RpcError, ServerCard, SessionId, Sessions,
    Until, Waited, not_offered,
};
use gridspan_rpc::group::{Encoded, Parts, ServerPool};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Instrument;

/// Age from which a list of servers is too old, so that a call requests a new one.
const FRESH: Duration = Duration::from_secs(1);

/// Number of the next client; each client of this process has a different one.
static CLIENTS: AtomicU32 = AtomicU32::new(0);

/// A client of the servers of a registry, created by [`Remote::rpc`]. It has the verbs that
/// [`GridRpc`](gridspan_rpc::calls::GridRpc) has inside of a job, with the same handles and
/// sessions. Requires a tokio runtime. Dropping it cancels running calls. The client keeps the
/// outcome of a session until the program takes it or drops the client.
///
/// A call goes to the server on which it would end first if all calls took the same time and
/// servers had only the calls of this client. Of equal servers, it goes to the nearest. If that
/// server is lost, refuses or does not answer in time, the call goes to the next.
pub struct RemoteRpc {
    inner: Arc<Inner>,
}

struct Inner {
    remote: Remote,
    config: Config,
    owner: u32,
    state: Mutex<State>,
    /// The servers, as last requested.
    servers: tokio::sync::Mutex<Option<Asked>>,
}

/// An answer to a request for the servers.
struct Asked {
    /// Time of its arrival.
    at: Instant,
    cards: Result<Vec<ServerCard>, RpcError>,
}

struct State {
    sessions: Sessions<Vec<u8>, u64>,
    running: BTreeMap<SessionId, AbortHandle>,
    /// The servers in the registry's last answer.
    last: Vec<ServerCard>,
    /// Number of this client's calls at each server.
    loads: BTreeMap<u32, u32>,
    waiting: BTreeMap<u64, oneshot::Sender<(Waited, Vec<SessionId>)>>,
    /// Number of waits so far.
    waits: u64,
}

/// A server that may execute a call, and the round trip to it.
struct Able {
    round_trip: Duration,
    /// Number of calls that it executes at the same time.
    cores: u32,
    candidate: Candidate,
}

/// Returns the time in seconds in which a server executes `calls` calls of one second each, if its
/// cores have this speed and execute one call at a time.
fn end_s(calls: u32, cores: u32, speed: f64) -> f64 {
    f64::from(calls.div_ceil(cores.max(1))) / speed
}

/// Counts a call at a server until it is dropped.
struct Load<'a> {
    inner: &'a Inner,
    server: u32,
}

impl Load<'_> {
    /// Moves the call to another server.
    fn move_to(&mut self, server: u32) {
        let mut state = self.inner.state();
        state.unload(self.server);
        state.load(server);
        self.server = server;
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.inner.state().unload(self.server);
    }
}

/// A wait for sessions. If it is dropped before its result was returned, other waits may return the
/// same sessions.
struct Waiter<'a> {
    inner: &'a Inner,
    number: u64,
    over: oneshot::Receiver<(Waited, Vec<SessionId>)>,
}

impl Waiter<'_> {
    async fn over(mut self) -> Waited {
        match (&mut self.over).await {
            Ok((waited, _)) => waited,
            Err(_) => Err(RpcError::NotInitialized),
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state();
        state.waiting.remove(&self.number);
        state.sessions.forget(|waiter| *waiter == self.number);
        if let Ok((_, named)) = self.over.try_recv() {
            state.sessions.give_back(&named);
        }
    }
}

/// Ends a session when it is dropped, even if the runtime ends before the call has started.
struct Ending {
    inner: Arc<Inner>,
    id: SessionId,
    outcome: Option<Result<Vec<u8>, RpcError>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let given_up = || {
            let reason = "this process abandoned the call".to_owned();
            Err(RpcError::SessionFailed { reason })
        };
        let outcome = self.outcome.take().unwrap_or_else(given_up);
        self.inner.state().end(self.id, outcome);
    }
}

impl State {
    /// Ends a session, if it runs.
    fn end(&mut self, id: SessionId, outcome: Result<Vec<u8>, RpcError>) {
        self.running.remove(&id);
        for EndedWait { waiter, waited, named } in self.sessions.end(id, outcome) {
            if let Some(sender) = self.waiting.remove(&waiter)
                && let Err((_, named)) = sender.send((waited, named))
            {
                self.sessions.give_back(&named);
            }
        }
    }

    fn load(&mut self, server: u32) {
        *self.loads.entry(server).or_default() += 1;
    }

    fn unload(&mut self, server: u32) {
        if let Some(load) = self.loads.get_mut(&server) {
            *load -= 1;
            if *load == 0 {
                self.loads.remove(&server);
            }
        }
    }

    fn cancel(&mut self, id: SessionId) {
        if let Some(running) = self.running.remove(&id) {
            running.abort();
        }
        let reason = "the call was cancelled".to_owned();
        self.end(id, Err(RpcError::SessionFailed { reason }));
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the servers that accept calls, as of at most [`FRESH`] ago. One call at a time
    /// requests them, and concurrent calls share the answer: while the registry is away, they fail
    /// together.
    async fn cards(&self) -> Result<Vec<ServerCard>, RpcError> {
        let began = Instant::now();
        let mut servers = self.servers.lock().await;
        let is_fresh = |asked: &&Asked| {
            let is_known = asked.cards.as_ref().is_ok_and(|cards| !cards.is_empty());
            asked.at >= began || is_known && asked.at.elapsed() < FRESH
        };
        if let Some(asked) = servers.as_ref().filter(is_fresh) {
            return asked.cards.clone();
        }
        let cards = self.remote.cards().await;
        if let Ok(cards) = &cards {
            self.state().last.clone_from(cards);
        }
        *servers = Some(Asked { at: Instant::now(), cards: cards.clone() });
        cards
    }

    /// Returns the servers within half of the timeout of a call; those of the last answer if there
    /// is no new one by then.
    async fn cards_in_time(&self) -> Result<Vec<ServerCard>, RpcError> {
        if let Ok(cards) = tokio::time::timeout(self.config.timeout / 2, self.cards()).await {
            return cards;
        }
        let last = self.state().last.clone();
        if last.is_empty() { Err(RpcError::CommunicationFailed) } else { Ok(last) }
    }

    /// Returns the servers that a call may go to.
    async fn able(&self, wanted: &Wanted, bound: Option<u32>) -> Result<Vec<Able>, RpcError> {
        let cards = self.cards_in_time().await?;
        if bound.is_some_and(|bound| !cards.iter().any(|card| card.number == bound)) {
            return Err(RpcError::ServerLeft);
        }
        if let Some(error) = not_offered(wanted.function, &wanted.signature, &cards) {
            return Err(error);
        }
        let mut able = Vec::new();
        for card in cards {
            let is_able = card.functions.get(wanted.function) == Some(&wanted.signature);
            let is_wanted = bound.is_none_or(|bound| bound == card.number);
            let is_there = self.remote.standing(card.number).is_some();
            if let Some((contact, round_trip, cores)) = self.remote.contact(card.number)
                && is_able
                && is_wanted
                && is_there
            {
                able.push(Able { round_trip, cores, candidate: Candidate { card, contact } });
            }
        }
        Ok(able)
    }

    /// Sorts servers, the best first, and counts another call at the first; `None` if there is no
    /// server. Both happen under one lock, so that concurrent calls take each other into account.
    fn choose(&self, able: &mut [Able]) -> Option<Load<'_>> {
        let mut state = self.state();
        let after = |able: &Able| {
            let card = &able.candidate.card;
            let load = state.loads.get(&card.number).copied().unwrap_or(0) + 1;
            // The speed in the card is that of one core.
            end_s(load, able.cores, card.speed)
        };
        able.sort_by(|one, other| {
            let by_load = after(one).total_cmp(&after(other));
            let by_way = by_load.then(one.round_trip.cmp(&other.round_trip));
            by_way.then(one.candidate.card.number.cmp(&other.candidate.card.number))
        });
        let server = able.first()?.candidate.card.number;
        state.load(server);
        Some(Load { inner: self, server })
    }

    /// Makes servers execute a call, and returns the tuple of its results. If a server is lost,
    /// refuses or exceeds the timeout, the call goes to the next, which has the same timeout. The
    /// setting `attempts` limits the number of servers that get the call, and no server executes it
    /// twice.
    async fn perform(&self, wanted: &Wanted, bound: Option<u32>) -> Result<Vec<u8>, RpcError> {
        let mut able = self.able(wanted, bound).await?;
        let mut left = self.config.attempts as usize;
        while let Some(load) = self.choose(&mut able).filter(|_| left > 0) {
            let candidates: Vec<Candidate> =
                able.iter().take(left).map(|able| able.candidate.clone()).collect();
            let mut tried = Tried { load, servers: Vec::new(), timeout: self.config.timeout };
            match tried.execute(wanted, &candidates).await {
                Some(Err(RpcError::CommunicationFailed)) | None => {}
                Some(executed) => return executed,
            }
            let servers = tried.into_servers();
            left = left.saturating_sub(servers.len());
            able.retain(|able| !servers.contains(&able.candidate.card.number));
        }
        Err(RpcError::CommunicationFailed)
    }
}

/// The servers to which one call was sent.
struct Tried<'a> {
    /// Load of the last server.
    load: Load<'a>,
    /// Servers before the last, which are lost or have refused.
    servers: Vec<u32>,
    /// Timeout of each server.
    timeout: Duration,
}

impl Tried<'_> {
    /// Tries the servers one after the other. Returns their answer, or `None` if the last one is
    /// late.
    async fn execute(
        &mut self,
        wanted: &Wanted,
        candidates: &[Candidate],
    ) -> Option<Result<Vec<u8>, RpcError>> {
        let (timeout, remote) = (self.timeout, &self.load.inner.remote);
        let due = Mutex::new(tokio::time::Instant::now() + timeout);
        let read = || *due.lock().unwrap_or_else(PoisonError::into_inner);
        let (load, servers) = (&mut self.load, &mut self.servers);
        let moved = |server| {
            if server != load.server {
                servers.push(load.server);
                load.move_to(server);
                *due.lock().unwrap_or_else(PoisonError::into_inner) =
                    tokio::time::Instant::now() + timeout;
            }
        };
        let mut executed = std::pin::pin!(execute(remote, wanted, candidates, moved));
        loop {
            let limit = read();
            match tokio::time::timeout_at(limit, &mut executed).await {
                Ok(executed) => return Some(executed),
                // Another server has the call now, and its timeout has begun.
                Err(_) if read() > limit => {}
                Err(_) => return None,
            }
        }
    }

    fn into_servers(self) -> Vec<u32> {
        let Self { load, mut servers, .. } = self;
        servers.push(load.server);
        servers
    }
}

impl Remote {
    /// Returns the verbs of GridRPC on these servers, for individual calls.
    ///
    /// # Errors
    ///
    /// [`RpcError::ConfigFileError`] if a setting is out of its bounds.
    pub fn rpc(&self, config: &Config) -> Result<RemoteRpc, RpcError> {
        RemoteRpc::new(self.clone(), config)
    }
}

impl RemoteRpc {
    pub(crate) fn new(remote: Remote, config: &Config) -> Result<Self, RpcError> {
        config.check()?;
        let owner = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let state = State {
            sessions: Sessions::new(owner),
            running: BTreeMap::new(),
            last: Vec::new(),
            loads: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waits: 0,
        };
        let (config, state) = (config.clone(), Mutex::new(state));
        let inner = Inner { remote, config, owner, state, servers: tokio::sync::Mutex::default() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns a handle of a function that any server may execute (`grpc_function_handle_default`).
    ///
    /// # Errors
    ///
    /// [`RpcError::NoServers`] if there is no server; [`RpcError::FunctionNotFound`] if none offers
    /// a function of this name; [`RpcError::FunctionDiffers`] if all that do have another
    /// signature. [`RpcError::CommunicationFailed`] or [`RpcError::Other`] if no server is
    /// connected and the registry does not answer, or does not accept the token.
    pub async fn handle<I: Parts, O: Parts>(
        &self,
        function: &Function<I, O>,
    ) -> Result<Handle<I, O>, RpcError> {
        let cards = self.inner.cards().await?;
        match not_offered(function.name(), &function.signature(), &cards) {
            Some(error) => Err(error),
            None => Ok(Handle::new(self.inner.owner, function, None)),
        }
    }

    /// Returns a handle of a function that one server executes (`grpc_function_handle_init`).
    ///
    /// # Errors
    ///
    /// [`RpcError::ServerNotFound`] if no connected server has this name;
    /// [`RpcError::FunctionNotFound`] or [`RpcError::FunctionDiffers`] if it does not offer the
    /// function with this signature. [`RpcError::CommunicationFailed`] or [`RpcError::Other`] if no
    /// server is connected and the registry does not answer, or does not accept the token.
    pub async fn handle_on<I: Parts, O: Parts>(
        &self,
        function: &Function<I, O>,
        server: &str,
    ) -> Result<Handle<I, O>, RpcError> {
        let cards = self.inner.cards().await?;
        let named: Vec<ServerCard> = cards.into_iter().filter(|card| card.name == server).collect();
        if named.is_empty() {
            return Err(RpcError::ServerNotFound { server: server.to_owned() });
        }
        let (name, signature) = (function.name(), function.signature());
        if let Some(error) = not_offered(name, &signature, &named) {
            return Err(error);
        }
        // Servers of one name may offer different functions.
        let able = named.iter().find(|card| card.functions.get(name) == Some(&signature));
        Ok(Handle::new(self.inner.owner, function, able.map(|card| card.number)))
    }

    /// Calls, and waits for the results (`grpc_call`).
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidFunctionHandle`] if the handle is of another client;
    /// [`RpcError::ServerLeft`] if the server of the handle is no longer listed;
    /// [`RpcError::NoServers`], [`RpcError::FunctionNotFound`], [`RpcError::FunctionDiffers`] and
    /// [`RpcError::Other`] as from [`handle`](Self::handle).
    ///
    /// [`RpcError::RpcRefused`] if the arguments cannot be encoded or exceed 1 GiB, or if the last
    /// server that was tried refused the call; [`RpcError::SessionFailed`] if the function fails,
    /// if its results cannot be decoded, or if the servers that were tried are lost;
    /// [`RpcError::CommunicationFailed`] if the servers cannot be listed, if none that may execute
    /// the call is connected, if none answers in time, or if the results cannot be fetched.
    pub async fn call<I: Parts, O: Parts>(
        &self,
        handle: &Handle<I, O>,
        arguments: &I,
    ) -> Result<O, RpcError> {
        let wanted = self.wanted(handle, arguments)?;
        decode(&self.inner.perform(&wanted, handle.bound()).await?)
    }

    fn wanted<I: Parts, O: Parts>(
        &self,
        handle: &Handle<I, O>,
        arguments: &I,
    ) -> Result<Wanted, RpcError> {
        if handle.owner() != self.inner.owner {
            return Err(RpcError::InvalidFunctionHandle);
        }
        let arguments = Encoded::encode("the tuple of its arguments", arguments)?;
        let (function, signature) = (handle.name(), handle.function().signature());
        Ok(Wanted { function, signature, arguments, results: O::COUNT as u32 })
    }

    /// Starts a call (`grpc_call_async`), which continues even if the program does not wait for it.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidFunctionHandle`] if the handle is of another client;
    /// [`RpcError::RpcRefused`] if the arguments cannot be encoded or exceed 1 GiB;
    /// [`RpcError::Other`] outside of a tokio runtime. [`wait`](Self::wait) returns the other
    /// errors of the call.
    pub fn call_async<I: Parts, O: Parts>(
        &self,
        handle: &Handle<I, O>,
        arguments: &I,
    ) -> Result<CallSession<O>, RpcError> {
        let wanted = self.wanted(handle, arguments)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            let reason = "there is no runtime of tokio here; call it inside of one".to_owned();
            RpcError::Other { reason }
        })?;
        let id = {
            let mut state = self.inner.state();
            let id = state.sessions.reserve();
            state.sessions.open(id, wanted.function.to_owned());
            id
        };
        let (inner, bound) = (self.inner.clone(), handle.bound());
        let session = Ending { inner: inner.clone(), id, outcome: None };
        // The state must not be locked during `spawn`: a runtime that is shutting down drops the
        // task there, and the drop of `session` locks the state.
        let performed = async move {
            let mut session = session;
            session.outcome = Some(inner.perform(&wanted, bound).await);
        };
        // The spans of the call's orders are children of the caller's span.
        let running = runtime.spawn(performed.in_current_span());
        let mut state = self.inner.state();
        match state.sessions.is_running(id) {
            true => drop(state.running.insert(id, running.abort_handle())),
            false => running.abort(),
        }
        Ok(CallSession::new(self.inner.owner, id))
    }

    fn own<O>(&self, session: &CallSession<O>) -> Result<SessionId, RpcError> {
        match session.owner() == self.inner.owner {
            true => Ok(session.id()),
            false => Err(RpcError::InvalidSessionId { session: session.id().0 }),
        }
    }

    async fn wait_until(
        &self,
        until: Until,
        which: impl FnOnce(&State) -> Vec<SessionId>,
    ) -> Waited {
        let waiter = {
            let mut state = self.inner.state();
            let sessions = which(&state);
            state.waits += 1;
            let number = state.waits;
            if let Some(over) = state.sessions.wait(number, sessions, until) {
                return over.waited;
            }
            let (tell, over) = oneshot::channel();
            state.waiting.insert(number, tell);
            Waiter { inner: &self.inner, number, over }
        };
        waiter.over().await
    }

    /// Waits for a session and takes its results (`grpc_wait`). The session is invalid afterwards.
    ///
    /// # Errors
    ///
    /// The error with which the call ended, as from [`call`](Self::call);
    /// [`RpcError::SessionFailed`] also if it was cancelled. [`RpcError::InvalidSessionId`] if the
    /// session is of another client, or its result was taken.
    pub async fn wait<O: DeserializeOwned>(&self, session: &CallSession<O>) -> Result<O, RpcError> {
        let id = self.own(session)?;
        if let Err(error @ RpcError::InvalidSessionId { .. }) = self.wait_and(&[id]).await {
            return Err(error);
        }
        self.results(session)
    }

    /// Takes the results of a session that has ended. The session is invalid afterwards.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotCompleted`] if the call has not ended; otherwise the errors of
    /// [`wait`](Self::wait).
    pub fn results<O: DeserializeOwned>(&self, session: &CallSession<O>) -> Result<O, RpcError> {
        let id = self.own(session)?;
        let results = self.inner.state().sessions.take(id)?;
        decode(&results)
    }

    /// Waits until all of the sessions have ended (`grpc_wait_and`). Returns the error of the first
    /// failed session, if any.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if one of the sessions does not exist, or its result was
    /// taken.
    pub async fn wait_and(&self, sessions: &[SessionId]) -> Result<(), RpcError> {
        self.wait_until(Until::All, |_| sessions.to_vec()).await.map(drop)
    }

    /// Waits until one of the sessions has ended, and returns it (`grpc_wait_or`), whether it
    /// failed or not.
    ///
    /// # Errors
    ///
    /// [`RpcError::NoneCompleted`] if the list is empty. [`RpcError::InvalidSessionId`] if one of
    /// the sessions does not exist, or its result was taken.
    pub async fn wait_or(&self, sessions: &[SessionId]) -> Result<SessionId, RpcError> {
        let waited = self.wait_until(Until::One, |_| sessions.to_vec()).await?;
        waited.ok_or(RpcError::NoneCompleted)
    }

    /// Waits until all sessions that are running now have ended (`grpc_wait_all`).
    ///
    /// # Errors
    ///
    /// The error of the oldest of these sessions that failed, if any.
    pub async fn wait_all(&self) -> Result<(), RpcError> {
        self.wait_until(Until::All, |state| state.sessions.running()).await.map(drop)
    }

    /// Waits until any session has ended, and returns it (`grpc_wait_any`). A session that an
    /// earlier wait has returned does not count, unless that wait was dropped.
    ///
    /// # Errors
    ///
    /// [`RpcError::NoneCompleted`] if no other session exists.
    pub async fn wait_any(&self) -> Result<SessionId, RpcError> {
        let waited = self.wait_until(Until::One, |state| state.sessions.unnamed()).await?;
        waited.ok_or(RpcError::NoneCompleted)
    }

    /// Checks whether a session has ended (`grpc_probe`); [`RpcError::NotCompleted`] if not.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if there is no such session, or its result was taken.
    pub fn probe(&self, session: SessionId) -> Result<(), RpcError> {
        self.inner.state().sessions.probe(session)
    }

    /// Returns one of the sessions that has ended (`grpc_probe_or`); [`RpcError::NoneCompleted`] if
    /// none has.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if one of the sessions does not exist, or its result was
    /// taken.
    pub fn probe_or(&self, sessions: &[SessionId]) -> Result<SessionId, RpcError> {
        self.inner.state().sessions.probe_or(sessions)
    }

    /// Cancels a session (`grpc_cancel`). A function in execution runs to its end, and its results
    /// are dropped. A session that has ended remains unchanged.
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if there is no such session, or its result was taken.
    pub fn cancel(&self, session: SessionId) -> Result<(), RpcError> {
        let mut state = self.inner.state();
        match state.sessions.probe(session) {
            Err(RpcError::NotCompleted) => {
                state.cancel(session);
                Ok(())
            }
            known => known,
        }
    }

    /// Cancels all sessions (`grpc_cancel_all`).
    pub fn cancel_all(&self) {
        let mut state = self.inner.state();
        state.sessions.running().into_iter().for_each(|session| state.cancel(session));
    }

    /// Returns the name of the function that a session calls (`grpc_get_handle`).
    ///
    /// # Errors
    ///
    /// [`RpcError::InvalidSessionId`] if there is no such session, or its result was taken.
    pub fn function_of(&self, session: SessionId) -> Result<String, RpcError> {
        self.inner.state().sessions.function(session)
    }

    /// Returns the error of a failed session (`grpc_get_error`); `None` if it has not failed.
    ///
    /// # Errors
    ///
    /// [`RpcError::NotCompleted`] if the call has not ended. [`RpcError::InvalidSessionId`] if
    /// there is no such session, or its result was taken.
    pub fn error(&self, session: SessionId) -> Result<Option<RpcError>, RpcError> {
        self.inner.state().sessions.error(session)
    }

    /// Returns the next failed session, in the order of failure (`grpc_get_failed_sessionid`). Each
    /// failed session is returned once.
    pub fn failed_session(&self) -> Option<SessionId> {
        self.inner.state().sessions.pop_failed()
    }
}

impl Drop for RemoteRpc {
    fn drop(&mut self) {
        self.cancel_all();
    }
}

fn decode<O: DeserializeOwned>(results: &[u8]) -> Result<O, RpcError> {
    postcard::from_bytes(results).map_err(|error| {
        let reason = format!("the results are not those of the function: {error}");
        RpcError::SessionFailed { reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_divided_by_the_cores_and_the_speed_of_servers() {
        // The cores and the speed of each core.
        let servers = [(8, 1.0), (1, 1.0), (1, 2.0)];
        let mut loads = [0; 3];
        for _ in 0..22 {
            let ends_s =
                |place: &usize| end_s(loads[*place] + 1, servers[*place].0, servers[*place].1);
            let first = (0..3).min_by(|one, other| ends_s(one).total_cmp(&ends_s(other))).unwrap();
            loads[first] += 1;
        }

        assert_eq!(loads, [16, 2, 4], "all end after two seconds");
    }
}
