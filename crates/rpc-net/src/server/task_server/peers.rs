//! Connections to other servers, from which data of groups comes.

use super::lock;
use quinn::{Connection, Endpoint};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::OnceCell;

/// A connection, once it is there, or nothing if it did not come about. Whoever waits for it
/// meanwhile hears the same: each trying anew, one after the other, would wait for a server that is
/// gone as often as there are tasks.
type Line = Arc<OnceCell<Option<Connection>>>;

/// Other servers, by where they are.
pub(super) struct Peers {
    endpoint: Endpoint,
    /// What the certificates of daemons, and of those that joined them, name.
    names: [String; 2],
    lines: Mutex<BTreeMap<SocketAddr, Line>>,
}

/// Whether somebody connects, or has, and the connection has not ended.
fn is_of_use(line: &Line) -> bool {
    match line.get() {
        Some(connection) => connection.as_ref().is_some_and(|peer| peer.close_reason().is_none()),
        // Lines are taken under the lock of all, as this is asked.
        None => Arc::strong_count(line) > 1,
    }
}

impl Peers {
    /// Reached by an endpoint.
    pub(super) fn new(endpoint: Endpoint, names: [String; 2]) -> Self {
        Self { endpoint, names, lines: Mutex::default() }
    }

    /// A connection to another server, kept for what else comes from there.
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

    /// The connection to another server, if there is one.
    pub(super) fn known(&self, address: SocketAddr) -> Option<Connection> {
        let known = lock(&self.lines).get(&address)?.get()?.clone();
        known.filter(|peer| peer.close_reason().is_none())
    }

    /// A new connection to another server.
    pub(super) async fn connect(
        &self,
        address: SocketAddr,
        is_registry: bool,
    ) -> Option<Connection> {
        let name = &self.names[usize::from(!is_registry)];
        self.endpoint.connect(address, name).ok()?.await.ok()
    }

    /// Whether anything is kept of a server.
    #[cfg(test)]
    pub(super) fn has_line(&self, address: SocketAddr) -> bool {
        lock(&self.lines).contains_key(&address)
    }
}
