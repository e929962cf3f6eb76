//! Connections to other servers, from which data of groups is fetched.

use crate::lock::lock;
use quinn::{Connection, Endpoint};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;

/// A connection, once it is open, or `None` if it failed. Concurrent users share one attempt and
/// its result. If each made an attempt in turn, the waits for a server that is gone would add up
/// over all tasks.
type Line = Arc<OnceCell<Option<Connection>>>;

/// Connections to other servers, by address.
pub(super) struct Peers {
    endpoint: Endpoint,
    /// The names in the certificate of a daemon, and in those of servers that join it.
    names: [String; 2],
    lines: Mutex<BTreeMap<SocketAddr, Line>>,
}

/// Whether the connection is open, or is being opened.
fn is_of_use(line: &Line) -> bool {
    match line.get() {
        Some(connection) => connection.as_ref().is_some_and(|peer| peer.close_reason().is_none()),
        // A line that is being opened has another owner: it was cloned under the lock held here.
        None => Arc::strong_count(line) > 1,
    }
}

impl Peers {
    /// Creates an empty set of connections, which `endpoint` opens on demand.
    pub(super) fn new(endpoint: Endpoint, names: [String; 2]) -> Self {
        Self { endpoint, names, lines: Mutex::default() }
    }

    /// Returns a connection to another server, which is kept for further use.
    pub(super) async fn to(&self, address: SocketAddr, is_registry: bool) -> Option<Connection> {
        let line = {
            let mut lines = lock(&self.lines);
            if !lines.get(&address).is_some_and(is_of_use) {
                lines.retain(|_, line| is_of_use(line));
            }
            lines.entry(address).or_default().clone()
        };
        line.get_or_init(|| self.connect(address, is_registry)).await.clone()
    }

    /// Returns the connection to another server, if there is one.
    pub(super) fn known(&self, address: SocketAddr) -> Option<Connection> {
        let known = lock(&self.lines).get(&address)?.get()?.clone();
        known.filter(|peer| peer.close_reason().is_none())
    }

    /// Opens a new connection to another server.
    pub(super) async fn connect(
        &self,
        address: SocketAddr,
        is_registry: bool,
    ) -> Option<Connection> {
        let name = &self.names[usize::from(!is_registry)];
        self.endpoint.connect(address, name).ok()?.await.ok()
    }

    /// Whether a line to a server is kept.
    #[cfg(test)]
    pub(super) fn has_line(&self, address: SocketAddr) -> bool {
        lock(&self.lines).contains_key(&address)
    }
}
