//! A daemon: opens a registry and answers requests until it is stopped.

use crate::client::task_client::dice;
use crate::lock::lock;
use crate::registry::link_table::LinkTable;
use crate::registry::route::Route;
use crate::registry::server_table::{PlacedCall, ServerTable};
use crate::server::admission::Admission;
use crate::server::caller::Caller;
use crate::server::handler::{attend, heard, respond};
use crate::server::in_flight::{InFlight, Open};
use crate::server::task_server::{LocalServers, TaskServer};
use crate::wire::budget::Budget;
use crate::wire::messages::{
    ATTEMPTS, KnownVersions, LinkObservation, ListedServer, Peer, Request, Response, ServerUpdate,
    TaskError, TextCall, WAITING_BYTES_MAX,
};
use crate::wire::requests::Requests;
use crate::wire::token::{Key, RemoteError, Token, key_path};
use gridspan_rpc::calls::{Catalogue, RpcError, ServerCard};
use gridspan_topology::Time;
use quinn::{Endpoint, Incoming, RecvStream, SendStream, VarInt};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Time for which a daemon that stops waits for requests in progress.
const GRACE: Duration = Duration::from_secs(10);
/// Maximum time in which servers find a restarted registry: they notice that the old one is gone,
/// and then look for the new one at intervals.
const RETURN: Duration = Duration::from_secs(15);
/// Interval between checks of whether a server has come back.
const POLLING_INTERVAL: Duration = Duration::from_millis(20);

/// Options of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonOptions {
    /// Address to listen at. With port 0 the daemon takes that of an earlier daemon with the same
    /// token, or else the system chooses one. `None` is the address of the earlier daemon, or else
    /// any port of the loopback interface.
    pub listen: Option<SocketAddr>,
    /// Address at which other processes reach the daemon, if it differs from `listen`.
    pub advertise: Option<IpAddr>,
    /// Path of the daemon's token.
    pub token: PathBuf,
    /// Whether the daemon takes over the certificates and the address of an earlier daemon with the
    /// same token, and keeps its certificates and address for the next daemon.
    pub is_kept: bool,
}

/// An open registry.
#[derive(Debug)]
pub(crate) struct OpenedDaemon {
    options: DaemonOptions,
    endpoint: Endpoint,
    /// The names in the certificate of the daemon, and in that of servers that join it.
    names: [String; 2],
    /// Whether an earlier daemon had this registry.
    is_back: bool,
}

struct Daemon<C: Catalogue> {
    /// Unique number of the registry; it changes when the registry is opened again.
    registry: u64,
    server_table: Mutex<ServerTable<Route<C>>>,
    /// Requests in progress.
    open: InFlight,
    /// Whether the daemon is being stopped.
    is_ending: AtomicBool,
    /// Number of the next forwarded call.
    numbers: AtomicU64,
    admission: Admission,
    /// The known links between servers.
    link_table: Mutex<LinkTable>,
    /// Time when the registry was opened.
    begun: Instant,
    /// Whether an earlier daemon had this registry: the servers of that daemon will find this one.
    is_back: bool,
    /// The task server, if the daemon executes anything itself.
    task_server: Option<Arc<TaskServer<C>>>,
}

impl DaemonOptions {
    /// Checks that the daemon will have the address of the earlier daemon with its token, because
    /// servers and clients look for it there. `key` is the key of the earlier daemon.
    fn check_place(&self, key: &Key) -> Result<(), RemoteError> {
        let was = key.address();
        let is_same = |listen: SocketAddr| {
            listen.ip() == was.ip() && (listen.port() == 0 || listen.port() == was.port())
        };
        let elsewhere = |address| Err(RemoteError::Elsewhere { path: self.token.clone(), address });
        if !self.listen.is_none_or(is_same) {
            return elsewhere(was);
        }
        let Some(ip) = self.advertise else { return Ok(()) };
        let found = Token::read(&self.token)?.address;
        if found.ip() == ip { Ok(()) } else { elsewhere(found) }
    }
}

impl OpenedDaemon {
    /// Opens the registry, and writes its token unless an earlier daemon has written it. Requires a
    /// tokio runtime.
    pub(crate) fn open(options: DaemonOptions) -> Result<Self, RemoteError> {
        let kept = key_path(&options.token);
        let is_there = options.is_kept && options.token.exists();
        let before = if is_there { Key::read(&kept)? } else { None };
        let is_back = before.is_some();
        let (token, key, mut endpoint) = match before {
            Some(key) => {
                options.check_place(&key)?;
                let endpoint = Endpoint::server(key.server()?, key.address());
                (None, key, endpoint.map_err(RemoteError::Listen)?)
            }
            None => {
                let listen = options.listen.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
                let ip = options.advertise.unwrap_or(listen.ip());
                if ip.is_unspecified() {
                    return Err(RemoteError::Nowhere(listen));
                }
                // The certificates do not name the address, which only the socket determines.
                let (token, key) = Token::new(listen)?;
                let endpoint = Endpoint::server(key.server()?, listen);
                let endpoint = endpoint.map_err(RemoteError::Listen)?;
                let address = endpoint.local_addr().map_err(RemoteError::Listen)?;
                (Some(token.at((ip, address.port()).into())), key.at(address), endpoint)
            }
        };
        endpoint.set_default_client_config(key.client()?);
        if options.is_kept {
            key.write(&kept)?;
        }
        if let Some(token) = token {
            token.write(&options.token)?;
        }
        Ok(Self { options, endpoint, names: key.names(), is_back })
    }

    /// Returns the address of the registry.
    pub(crate) fn address(&self) -> Result<SocketAddr, RemoteError> {
        self.endpoint.local_addr().map_err(RemoteError::Listen)
    }
}

/// Answers requests at the registry until `end` resolves, and then waits up to [`GRACE`] for those
/// in progress. `own` contains the servers of this process.
pub(crate) async fn daemon<C: Catalogue>(
    plan: OpenedDaemon,
    own: Option<LocalServers<C>>,
    end: impl Future<Output = ()>,
) -> Result<(), RemoteError> {
    let OpenedDaemon { options, endpoint, names, is_back } = plan;
    let mut server_table = ServerTable::new();
    let task_server =
        own.as_ref().map(|own| Arc::new(TaskServer::new(own, endpoint.clone(), names)));
    if let Some(LocalServers { card, executor, pes, .. }) = own {
        server_table
            .join(card, (pes, None), Route::Here(executor))
            .map_err(RemoteError::Unwelcome)?;
    }
    let daemon = Arc::new(Daemon {
        registry: dice()?,
        server_table: Mutex::new(server_table),
        open: InFlight::default(),
        is_ending: AtomicBool::new(false),
        numbers: AtomicU64::new(0),
        admission: Admission::default(),
        link_table: Mutex::default(),
        begun: Instant::now(),
        is_back,
        task_server,
    });
    let mut end = std::pin::pin!(end);
    let mut served = Ok(());
    loop {
        tokio::select! {
            () = &mut end => break,
            incoming = endpoint.accept() => match incoming {
                Some(incoming) => drop(tokio::spawn(daemon.clone().receive(incoming))),
                None => {
                    served = Err(RemoteError::Listen(io::Error::other("the UDP socket failed")));
                    break;
                }
            },
        }
    }
    endpoint.set_server_config(None);
    daemon.is_ending.store(true, Ordering::SeqCst);
    daemon.open.over(GRACE).await;
    endpoint.close(VarInt::from_u32(0), b"the daemon has ended");
    endpoint.wait_idle().await;
    if !options.is_kept {
        // The user may have removed the token.
        let _ = std::fs::remove_file(&options.token);
    }
    served
}

impl<C: Catalogue> Daemon<C> {
    fn server_table(&self) -> MutexGuard<'_, ServerTable<Route<C>>> {
        lock(&self.server_table)
    }

    /// Serves one connection until its end.
    async fn receive(self: Arc<Self>, incoming: Incoming) {
        let Some((place, connection)) = self.admission.admit(incoming).await else { return };
        let place = Arc::new(place);
        let (joined, groups) = (Mutex::default(), Mutex::default());
        let caller = Arc::new(Caller { connection, joined, groups });
        let budget = Budget::new(WAITING_BYTES_MAX);
        let mut requests = Requests::new(&caller.connection);
        while let Ok((send, receive, of_caller)) = requests.next().await {
            let (daemon, caller, budget) = (self.clone(), caller.clone(), budget.clone());
            let (open, in_use) = (self.open.begin(), place.begin());
            tokio::spawn(async move {
                let _of_caller = of_caller;
                daemon.attend((send, receive), &budget, &caller, open).await;
                in_use.end(caller.is_depended_on());
            });
        }
        let gone = lock(&caller.joined).take();
        gone.into_iter().for_each(|number| self.leave(number));
        self.task_server.iter().for_each(|task_server| task_server.forget(&caller.groups));
    }

    /// Reads a request, and answers it. A call that comes while the daemon is being stopped is not
    /// answered: its caller sends it to the next daemon, once this one has closed the connection.
    async fn attend(
        self: &Arc<Self>,
        (mut send, mut receive): (SendStream, RecvStream),
        budget: &Budget,
        caller: &Caller,
        open: Open,
    ) {
        // The request counts towards the budget until it is answered.
        let Some((request, _claim)) = heard((&mut send, &mut receive), budget).await else {
            return;
        };
        if matches!(request, Request::Call(_)) && self.is_ending.load(Ordering::SeqCst) {
            // The daemon does not wait for it.
            drop(open);
            caller.connection.closed().await;
            return;
        }
        let of_caller = (&caller.connection, &caller.groups);
        let request = attend(request, self.task_server.as_ref(), of_caller, &mut send).await;
        let Some(request) = request else { return };
        let stopped = send.stopped();
        let response = tokio::select! {
            // The caller no longer waits for the answer.
            _ = stopped => return,
            response = self.response(request, caller) => response,
        };
        respond(&mut send, &response).await;
    }

    async fn response(self: &Arc<Self>, request: Request, caller: &Caller) -> Response {
        match request {
            Request::List => Response::Servers(self.list()),
            Request::ServerUpdate(known) => {
                Response::ServerUpdate(self.news_once_back(known).await)
            }
            Request::Call(call) => Response::Called(self.call(call).await),
            Request::Join(card, pes) => self.join(card, pes, caller),
            Request::LinkReport(observations) => self.probe_links(&observations, caller),
            Request::Task(_) => {
                let reason = "a registry executes nothing".to_owned();
                Response::Done(Err(TaskError::Refused(reason)))
            }
            // A caller cancels by closing the stream of its call, and a registry keeps no data.
            _ => Response::Noted,
        }
    }

    fn list(&self) -> Vec<ListedServer> {
        let estimates = lock(&self.link_table).estimates(self.now());
        let mut links: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for ((from, to), estimate) in estimates {
            links.entry(to).or_default().push((from, estimate));
        }
        let mut listed = self.server_table().list();
        for listed in &mut listed {
            listed.links = links.remove(&listed.card.number).unwrap_or_default();
        }
        listed
    }

    /// Whether servers of an earlier daemon may still come back.
    fn may_come(&self) -> bool {
        self.is_back && self.begun.elapsed() < RETURN
    }

    /// Returns the changes since these versions. While no server is present, but some may come
    /// back, a client without known versions waits, as a call does.
    async fn news_once_back(&self, known: KnownVersions) -> ServerUpdate {
        while known == KnownVersions::default()
            && self.may_come()
            && self.server_table().places().is_empty()
        {
            tokio::time::sleep(POLLING_INTERVAL).await;
        }
        self.news(known)
    }

    /// Returns the changes since these versions, with a limited number of links. Groups request
    /// this before each window, so the cost must be proportional to the answer.
    fn news(&self, known: KnownVersions) -> ServerUpdate {
        // Versions of another registry are not comparable.
        let known = if known.registry == self.registry { known } else { KnownVersions::default() };
        let (of_servers, servers) = {
            let server_table = self.server_table();
            let is_known =
                known.registry == self.registry && known.servers == server_table.version();
            (server_table.version(), (!is_known).then(|| server_table.list()))
        };
        let (of_links, links) = lock(&self.link_table).since(known.links, self.now());
        let known = KnownVersions { registry: self.registry, servers: of_servers, links: of_links };
        ServerUpdate { known, servers, links }
    }

    /// Records a server's observations. Returns the peers to which it should measure links.
    fn probe_links(&self, observations: &[LinkObservation], caller: &Caller) -> Response {
        // `joined` stays locked to the end, and the link table is locked before the server table is
        // read. `leave` removes a server from the link table last, so this function records nothing
        // for a server that has left.
        let joined = lock(&caller.joined);
        let Some(own) = *joined else {
            return Response::Refused("only servers report links; join first".to_owned());
        };
        let mut link_table = lock(&self.link_table);
        let places = self.server_table().places();
        let known = observations.iter().filter(|sighting| places.contains_key(&sighting.from));
        known.for_each(|seen| link_table.observe(self.now(), (seen.from, own), seen.sample));
        let others: Vec<u32> = places.keys().copied().filter(|&other| other != own).collect();
        let due = link_table.due(self.now(), own, &others).into_iter();
        let peer = |(number, wants_rate)| {
            let address = places.get(&number).copied().flatten();
            Peer { number, address, wants_rate }
        };
        Response::Peers(due.map(peer).collect())
    }

    /// Returns the time since the registry was opened.
    fn now(&self) -> Time {
        Time::ZERO + self.begun.elapsed()
    }

    /// Removes a server. It never holds both locks, because `probe_links` locks the link table
    /// first.
    fn leave(&self, number: u32) {
        self.server_table().leave(number);
        lock(&self.link_table).leave(number);
    }

    fn join(&self, card: ServerCard, pes: u32, caller: &Caller) -> Response {
        let mut joined = lock(&caller.joined);
        if joined.is_some() {
            return Response::Refused("a server has joined here already".to_owned());
        }
        let place = (pes, Some(caller.connection.remote_address()));
        // The server table is unlocked after this statement.
        let number = self.server_table().join(card, place, Route::to(caller.connection.clone()));
        match number {
            Ok(number) => {
                *joined = Some(number);
                // The task that serves the connection may already have noticed its end, and does
                // not check again.
                if caller.connection.close_reason().is_some() {
                    joined.take().into_iter().for_each(|number| self.leave(number));
                }
                Response::Joined
            }
            Err(why) => Response::Refused(why),
        }
    }

    /// Tries a call on up to [`ATTEMPTS`] servers, one after the other.
    async fn call(self: &Arc<Self>, call: TextCall) -> Result<String, RpcError> {
        let (bytes, call) = (call.arguments.len() as u64, Arc::new(call));
        let (mut tried, mut problem) = (BTreeSet::new(), RpcError::CommunicationFailed);
        for attempt in 0..ATTEMPTS {
            let placed = self.place(&call.function, bytes, &tried).await;
            let placed = match placed {
                Ok(Some(placed)) => placed,
                Ok(None) => break,
                Err(error) if attempt == 0 => return Err(error),
                Err(_) => break,
            };
            tried.insert(placed.offer.number);
            match self.attempt(placed, call.clone()).await {
                Err(RpcError::SessionFailed { reason }) => {
                    return Err(RpcError::SessionFailed { reason });
                }
                Err(error) => problem = error,
                results => return results,
            }
        }
        Err(problem)
    }

    /// Finds a server for a call. Servers of an earlier daemon come back one by one, so this waits
    /// for them if no present server offers the function.
    async fn place(
        &self,
        function: &str,
        bytes: u64,
        tried: &BTreeSet<u32>,
    ) -> Result<Option<PlacedCall<Route<C>>>, RpcError> {
        loop {
            let placed = self.server_table().place(function, bytes, tried);
            if placed.is_ok() || !self.may_come() || !tried.is_empty() {
                return placed;
            }
            tokio::time::sleep(POLLING_INTERVAL).await;
        }
    }

    /// Sends a call to a server. The call counts as the server's load until the server has
    /// answered, even after the timeout. Withdraws the call if the caller is gone or the timeout
    /// has passed.
    async fn attempt(
        self: &Arc<Self>,
        placed: PlacedCall<Route<C>>,
        call: Arc<TextCall>,
    ) -> Result<String, RpcError> {
        let (daemon, timeout, begun) = (self.clone(), call.timeout, Instant::now());
        // Dropping `_wanted` when this call ends withdraws the call from the server.
        let (_wanted, unwanted) = oneshot::channel::<()>();
        // `late` is locked only while the server table is locked, and is empty once the server has
        // answered.
        let late = Arc::new(Mutex::new(Some(placed.offer)));
        let of_task = late.clone();
        let going = tokio::spawn(async move {
            let number = daemon.numbers.fetch_add(1, Ordering::SeqCst);
            let outcome = placed.route.call(&call, number, async { drop(unwanted.await) }).await;
            let mut server_table = daemon.server_table();
            if outcome.is_ok() {
                let (bytes, took_s) = (call.arguments.len() as u64, begun.elapsed().as_secs_f64());
                server_table.observe(&call.function, &placed, bytes, took_s);
            }
            let ended = lock(&of_task).take();
            ended.into_iter().for_each(|offer| server_table.ended(offer));
            outcome
        });
        match tokio::time::timeout(timeout, going).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(RpcError::CommunicationFailed),
            Err(_) => {
                let mut server_table = self.server_table();
                let mut late = lock(&late);
                *late = late.take().map(|offer| server_table.late(offer));
                Err(RpcError::CommunicationFailed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
