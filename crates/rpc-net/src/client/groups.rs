//! Groups of typed functions on the servers of a registry.

use crate::client::by_name::Client;
use crate::client::connection_pool::ConnectionPool;
use crate::client::connector::{Connector, tell};
use crate::client::group_calls::Calls;
use crate::client::platform::platform;
use crate::client::server_list::ServerList;
use crate::client::store::ClientStore;
use crate::client::task_client::dice;
use crate::execution::driver::execute_group;
use crate::execution::events::{Contact, Plan};
use crate::lock::lock;
use crate::registry::link_table::LINKS_MAX;
use crate::wire::messages::{KnownVersions, ListedServer, Request};
use crate::wire::token::{RemoteError, Token};
use crate::wire::transfer::fetch;
use gridspan_rpc::calls::{RpcError, ServerCard};
use gridspan_rpc::group::{
    AssumedLinks, CallGroup, CallWindow, Encoded, Execute, Freed, Mapper, ServerPool, error_of,
};
use gridspan_workflow::heuristics::Heuristic;
use gridspan_workflow::{DataId, Platform};
use quinn::Connection;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The servers of a registry, for a client that maps groups to them. Clones share the connections.
/// Requires a tokio runtime with a thread that nothing else blocks for more than a second: a client
/// that sends nothing for two seconds is considered lost.
///
/// The client connects once to each server that the registry lists, and then uses the server
/// without the registry, so that groups continue while the registry is away.
#[derive(Clone)]
pub struct Remote {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    connector: Connector,
    /// Changes when an attempt to reach a server has ended.
    met: watch::Sender<()>,
    kept: ClientStore,
    known: Mutex<KnownServers>,
}

/// Time to wait for news of servers if one is connected.
const NEWS: Duration = Duration::from_secs(2);
/// Time to wait for news of servers if none is connected.
const FIRST_NEWS: Duration = Duration::from_secs(30);
/// Interval at which a group looks for a missing server.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Default)]
struct KnownServers {
    server_list: ServerList,
    members: ConnectionPool,
}

fn other(error: &RemoteError) -> RpcError {
    match error {
        RemoteError::Away { .. } => RpcError::CommunicationFailed,
        error => RpcError::Other { reason: error.to_string() },
    }
}

/// Returns the error for a window whose mapping took so long that the client has forgotten a server
/// which had left.
fn forgotten() -> RpcError {
    let reason = "a server had left long before its group was mapped; run the group again";
    RpcError::Other { reason: reason.to_owned() }
}

impl Remote {
    /// Creates a client of the registry that a token names.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Listen`] if there is no tokio runtime, or the system opens no socket or gives
    /// no random numbers; [`RemoteError::Identity`] if the certificates of the token cannot be
    /// used.
    pub fn new(token: Token) -> Result<Self, RemoteError> {
        let (client, kept) = (Client::new(token)?, ClientStore::new(dice()?));
        let connector = Connector::new(client.clone(), kept.supply());
        let (met, known) = (watch::Sender::new(()), Mutex::default());
        Ok(Self { inner: Arc::new(Inner { client, connector, met, kept, known }) })
    }

    /// Returns a mapper of groups to these servers.
    pub fn mapper(&self) -> Mapper<Self> {
        Mapper::to(self.clone())
    }

    /// Uses a heuristic to map the calls that `body` makes, and executes them, as [`Mapper::map`]
    /// does. Drops the measured times of functions afterwards. A program that maps several groups
    /// should therefore keep a [`mapper`](Self::mapper).
    ///
    /// # Errors
    ///
    /// Those of [`Mapper::map`]. [`RpcError::CommunicationFailed`] also if no server is connected
    /// and the registry does not answer, or if a result cannot be fetched; [`RpcError::Other`] also
    /// if no server is connected and the registry does not accept the token, or if a server was
    /// forgotten while its group was mapped.
    pub async fn map<R>(
        &self,
        heuristic: &dyn Heuristic,
        body: impl AsyncFnOnce(&CallGroup<'_, Self>) -> Result<R, RpcError>,
    ) -> Result<R, RpcError> {
        self.mapper().map(heuristic, body).await
    }

    /// Closes all connections. Servers drop the data that they keep for this client's groups.
    pub async fn leave(&self) {
        self.inner.client.leave().await;
    }

    /// Returns the data that servers may fetch from this client.
    pub(crate) fn kept(&self) -> &ClientStore {
        &self.inner.kept
    }

    /// Returns how a server is or was reached, the round trip to it, and the number of calls that
    /// it executes at the same time.
    pub(crate) fn contact(&self, number: u32) -> Option<(Contact, Duration, u32)> {
        let known = self.known();
        let (listed, sample) = known.members.known(number)?;
        let (round_trip, cores) = (sample.round_trip.unwrap_or_default(), listed.cores.max(1));
        Some((known.members.contact(number)?.clone(), round_trip, cores))
    }

    fn known(&self) -> MutexGuard<'_, KnownServers> {
        lock(&self.inner.known)
    }

    #[cfg(test)]
    pub(crate) fn is_reaching_any(&self) -> bool {
        self.known().members.is_reaching_any()
    }

    fn connection(&self, number: u32) -> Option<Connection> {
        self.known().members.connection(number)
    }

    /// Requests news of servers until the news are complete or the time has passed; the next call
    /// requests the rest.
    async fn hear_news(&self) -> Result<(), RpcError> {
        // Servers that were reached before can be used without a registry.
        let mut is_enough = self.known().members.has_contact();
        let patience = if is_enough { NEWS } else { FIRST_NEWS };
        let until = tokio::time::Instant::now() + patience;
        loop {
            // A registry that has just restarted answers a request without versions only when its
            // servers are back.
            let known = match is_enough {
                true => self.known().server_list.known(),
                false => KnownVersions::default(),
            };
            match tokio::time::timeout_at(until, self.inner.client.news(known)).await {
                Ok(Ok(news)) => {
                    let is_all = news.links.len() < LINKS_MAX;
                    self.known().server_list.apply(news);
                    if is_all {
                        return Ok(());
                    }
                    is_enough = true;
                }
                _ if is_enough => {
                    tracing::warn!("not all news of servers came in time");
                    return Ok(());
                }
                Ok(Err(error)) => return Err(other(&error)),
                Err(_) => return Err(RpcError::CommunicationFailed),
            }
        }
    }

    /// Starts to connect to new servers and, after a while, again to those that were not reached,
    /// each separately. Waits for them as long as [`ConnectionPool::patience`] states.
    async fn meet(&self) {
        let mut met = self.inner.met.subscribe();
        let due = {
            let mut known = self.known();
            let listed = known.server_list.listed();
            known.members.list(Instant::now(), listed)
        };
        for (number, listed) in due {
            let (connector, inner) = (self.inner.connector.clone(), Arc::downgrade(&self.inner));
            tokio::spawn(async move {
                let reached = connector.with(&listed).await;
                match inner.upgrade() {
                    Some(inner) => {
                        lock(&inner.known).members.reached(Instant::now(), number, reached);
                        // This has no effect if no request waits for servers.
                        inner.met.send_replace(());
                    }
                    // The client is gone.
                    None => reached.into_iter().for_each(|(contact, _)| {
                        contact.connection.close(0_u32.into(), b"");
                    }),
                }
            });
        }
        loop {
            let patience = self.known().members.patience(Instant::now());
            let Some(patience) = patience else { return };
            // Either an attempt has ended, or the wait is over.
            let _ = tokio::time::timeout(patience, met.changed()).await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        lock(&self.known).members.close();
    }
}

impl ServerPool for Remote {
    async fn cards(&self) -> Result<Vec<ServerCard>, RpcError> {
        self.hear_news().await?;
        self.meet().await;
        let known = self.known();
        let card = |(number, listed): (u32, &ListedServer)| {
            let mut card = listed.card.clone();
            card.number = number;
            card.speed /= f64::from(listed.cores.max(1));
            card.is_direct = true;
            card
        };
        Ok(known.members.there().map(card).collect())
    }

    async fn pause(&self) {
        tokio::time::sleep(PAUSE).await;
    }

    async fn platform(
        &self,
        cards: &[ServerCard],
        assumed: &AssumedLinks,
        observed_speed: &dyn Fn(u32) -> f64,
    ) -> Result<Platform, RpcError> {
        let known = self.known();
        // A server that has left since cannot be used, but keeps its position.
        let of = |card: &ServerCard| known.members.known(card.number);
        let all: Option<Vec<_>> = cards.iter().map(of).collect();
        let (listed, samples): (Vec<_>, Vec<_>) = all.ok_or_else(forgotten)?.into_iter().unzip();
        let platform =
            platform(&listed, &samples, assumed, &|place| observed_speed(cards[place].number));
        Ok(platform.with_apart(self.inner.kept.apart(cards)))
    }

    fn standing(&self, server: u32) -> Option<u32> {
        self.connection(server).map(|_| server)
    }

    fn begin_group(&self) -> u32 {
        self.inner.kept.begin()
    }

    fn free(&self, group: u32, data: &Freed, servers: &BTreeSet<u32>) {
        self.inner.kept.free(group, data);
        let ranges: Vec<(u32, u32)> = data.ranges().map(|range| (range.start, range.end)).collect();
        let group = self.inner.kept.wire(group);
        for connection in servers.iter().filter_map(|&server| self.connection(server)) {
            tell(&connection, Request::Free { group, data: ranges.clone() });
        }
    }

    fn end_group(&self, group: u32, servers: BTreeSet<u32>) {
        self.inner.kept.end(group);
        let wire = self.inner.kept.wire(group);
        for connection in servers.iter().filter_map(|&server| self.connection(server)) {
            tell(&connection, Request::End(wire));
        }
    }

    async fn fetch(&self, group: u32, data: u32, server: u32) -> Result<Encoded, RpcError> {
        let kept = &self.inner.kept;
        let bytes = kept.size(group, data);
        let (Some(connection), Some(bytes)) = (self.connection(server), bytes) else {
            return Err(RpcError::CommunicationFailed);
        };
        let fetched = fetch(&connection, kept.wire(group), data, bytes).await;
        let (bytes, _) = fetched.map_err(|_| RpcError::CommunicationFailed)?;
        Encoded::new(bytes)
    }
}

impl Execute for Remote {
    async fn execute(window: &CallWindow<'_, '_, Self>) -> Result<(), RpcError> {
        let remote = window.server_pool();
        let (kept, number) = (&remote.inner.kept, window.group());
        let contact = |card: &ServerCard| remote.known().members.contact(card.number).cloned();
        let contacts: Option<Vec<Contact>> = window.cards().iter().map(contact).collect();
        let contacts = contacts.ok_or_else(forgotten)?;
        let (graph, group) = (window.graph(), kept.wire(number));
        for data in (0..graph.data().len() as u32).map(DataId) {
            if let Some(value) = window.value(data) {
                kept.offer(number, window.version(data), value);
            }
        }
        let (platform, mapping) = (window.platform(), window.mapping());
        let (straggler_policy, is_single) = (window.straggler_policy(), false);
        let plan = Plan { graph, platform, mapping, straggler_policy, group, is_single };
        let mut calls = Calls::new(window, kept);
        match execute_group(plan, &contacts, &mut calls).await {
            (_, None) => Ok(()),
            (_, Some((task, failure))) => Err(error_of(window.function(task), &failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::link_table::LinkTable;
    use crate::server::handler::respond;
    use crate::wire::budget::Budget;
    use crate::wire::messages::{Response, ServerUpdate, WAITING_BYTES_MAX, read_message};
    use crate::wire::token::Key;
    use gridspan_topology::{LinkSample, Time};
    use quinn::Endpoint;
    use std::net::SocketAddr;

    /// Starts a registry that reports the links of a table, and returns a client with its token.
    fn registry_with(link_table: LinkTable) -> Remote {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key): (Token, Key) = Token::new(listen).unwrap();
        let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let token = token.at(registry.local_addr().unwrap());
        tokio::spawn(async move {
            let caller = registry.accept().await.unwrap().await.unwrap();
            let budget = Budget::new(WAITING_BYTES_MAX);
            while let Ok((mut send, mut receive)) = caller.accept_bi().await {
                let Ok((Request::ServerUpdate(known), _claim)) =
                    read_message(&mut receive, &budget).await
                else {
                    continue;
                };
                let (version, links) = link_table.since(known.links, Time::ZERO);
                let servers = (known.servers == 0).then(Vec::new);
                let known = KnownVersions { registry: 7, servers: 1, links: version };
                respond(&mut send, &Response::ServerUpdate(ServerUpdate { known, servers, links }))
                    .await;
            }
        });
        Remote::new(token).unwrap()
    }

    #[tokio::test]
    async fn news_in_several_parts_are_requested_until_complete() {
        let mut link_table = LinkTable::default();
        let round_trip = Some(Duration::from_millis(2));
        let sample = LinkSample { round_trip, ..LinkSample::default() };
        (0..2000).for_each(|to| link_table.observe(Time::ZERO, (to, to + 1), sample));
        let remote = registry_with(link_table);

        remote.cards().await.unwrap();

        assert_eq!(
            remote.known().server_list.known(),
            KnownVersions { registry: 7, servers: 1, links: 4000 }
        );
    }
}
