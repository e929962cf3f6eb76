//! Admits connections at an endpoint. Unfinished handshakes and connections have separate tables.
//!
//! Anyone may start a handshake, and only the holder of a token can finish it. Therefore a
//! handshake takes no place of a connection. If there are too many handshakes, the address with the
//! most loses its oldest one. A share of the handshakes may come from unproven addresses; beyond
//! it, the sender must answer a Retry packet (RFC 9000, section 8.1.2), so that forged addresses
//! take no more places.

use crate::lock::lock;
use crate::server::connection_table::{Connections, Full};
use quinn::{Connection, Incoming, VarInt};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Largest number of connections; each takes about 140 kB.
const CONNECTIONS_MAX: usize = 1024;
/// Largest number of handshakes. A processor finishes some thousand in a second, so that even a
/// flood at that rate leaves each handshake time for a round trip.
const HANDSHAKES_MAX: usize = 1024;
/// One in this number of handshakes may have an unproven address.
const UNPROVEN_PART: usize = 4;
/// Time limit of a handshake: several round trips of a satellite link, and retransmissions.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Reason for closing a connection that loses its place to another.
const MAKES_ROOM: &[u8] = b"others need the place of this connection, which is idle: connect again";
/// Reason for closing a new connection if no place can be freed.
const IS_FULL: &[u8] = b"all places are in use: connect later";

/// Admits connections. Clones share their tables.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    handshakes: Arc<Mutex<Connections<oneshot::Sender<()>>>>,
    unproven: Arc<Semaphore>,
    connections: Arc<Mutex<Connections<Connection>>>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Mutex<Connections<Connection>>>,
    number: u64,
}

/// An open request on a connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    place: Arc<Place>,
    is_needed: bool,
}

/// The place of a handshake, until it is dropped.
struct Handshake {
    handshakes: Arc<Mutex<Connections<oneshot::Sender<()>>>>,
    number: u64,
    _unproven: Option<OwnedSemaphorePermit>,
}

impl Default for Admission {
    fn default() -> Self {
        Self::with_places(HANDSHAKES_MAX, CONNECTIONS_MAX)
    }
}

impl Admission {
    fn with_places(handshakes: usize, connections: usize) -> Self {
        Self {
            handshakes: Arc::new(Mutex::new(Connections::new(handshakes))),
            unproven: Arc::new(Semaphore::new((handshakes / UNPROVEN_PART).max(1))),
            connections: Arc::new(Mutex::new(Connections::new(connections))),
        }
    }

    /// Admits a connection after its other side has proven that it has the token, if a place is
    /// free or can be freed.
    pub(crate) async fn admit(&self, incoming: Incoming) -> Option<(Place, Connection)> {
        let address = incoming.remote_address().ip();
        let unproven = match incoming.remote_address_validated() {
            true => None,
            false => match self.unproven.clone().try_acquire_owned() {
                Ok(unproven) => Some(unproven),
                Err(_) => {
                    // A Retry fails only for addresses that are proven.
                    let _ = incoming.retry();
                    return None;
                }
            },
        };
        let (way, evicted) = oneshot::channel();
        // Insertion never fails here, because no entry of this table counts as in use.
        let (number, oldest) = lock(&self.handshakes).insert(address, way).ok()?;
        // This ends the evicted handshake at once.
        drop(oldest);
        let handshakes = self.handshakes.clone();
        let handshake = Handshake { handshakes, number, _unproven: unproven };
        let connecting = incoming.accept().ok()?;
        let connection = tokio::select! {
            finished = tokio::time::timeout(HANDSHAKE_LIMIT, connecting) => finished.ok()?.ok()?,
            _ = evicted => return None,
        };
        drop(handshake);
        Some((self.place(address, &connection)?, connection))
    }

    /// Returns the place of a connection after its other side has proven that it has the token.
    fn place(&self, address: IpAddr, connection: &Connection) -> Option<Place> {
        match lock(&self.connections).insert(address, connection.clone()) {
            Ok((number, evicted)) => {
                if let Some(evicted) = evicted {
                    tracing::info!(address = %evicted.remote_address(), "closed for another");
                    evicted.close(VarInt::from_u32(0), MAKES_ROOM);
                }
                Some(Place { connections: self.connections.clone(), number })
            }
            Err(Full) => {
                connection.close(VarInt::from_u32(0), IS_FULL);
                None
            }
        }
    }
}

impl Place {
    /// Starts a request.
    pub(crate) fn begin(self: &Arc<Self>) -> InUse {
        lock(&self.connections).begin(self.number);
        InUse { place: self.clone(), is_needed: false }
    }
}

impl InUse {
    /// Ends the request. `is_needed` states whether something depends on the connection afterwards.
    pub(crate) fn end(mut self, is_needed: bool) {
        self.is_needed = is_needed;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _closed = lock(&self.connections).remove(self.number);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        lock(&self.place.connections).end(self.place.number, self.is_needed);
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let _evicted = lock(&self.handshakes).remove(self.number);
    }
}

#[cfg(test)]
mod tests;
