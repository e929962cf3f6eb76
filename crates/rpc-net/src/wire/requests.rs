//! The requests of one connection. If many come, more may be open at the same time.
//!
//! QUIC keeps state for each stream that the other side may open, whether it does or not. Most
//! connections never have more than a few open streams, and a registry has many connections.

use crate::server::in_flight::{InFlight, Open};
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of requests of one connection that may be open at the same time at first.
pub(crate) const OPEN_FIRST: u32 = 32;
/// Number that may be open once more than half of [`OPEN_FIRST`] are open; further requests wait.
const OPEN_MAX: u32 = 1000;
/// Largest number of unanswered calls, or orders of tasks, that one side has on a connection. Their
/// answers take as long as functions do. The other streams are for requests with early answers,
/// such as cancellations and requests for results, which must not wait for the calls.
pub(crate) const LONG_MAX: usize = 800;
/// The other side allows new streams only when more than an eighth of [`OPEN_MAX`] have ended.
const _: () = assert!(LONG_MAX + (OPEN_MAX as usize / 8) < OPEN_MAX as usize);

/// Limits the unanswered calls, or orders of tasks, that this side has on a connection to
/// [`LONG_MAX`]. Clones share the limit.
#[derive(Clone, Debug)]
pub(crate) struct LongRequests(Arc<Semaphore>);

impl Default for LongRequests {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LONG_MAX)))
    }
}

impl LongRequests {
    /// Waits until another one may be sent. It counts until the returned value is dropped.
    pub(crate) async fn begin(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        self.0.clone().acquire_owned().await.ok()
    }
}

pub(crate) struct Requests<'a> {
    connection: &'a Connection,
    open: InFlight,
    is_wide: bool,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self { connection, open: InFlight::default(), is_wide: false }
    }

    /// Waits for the next request, which is open while the returned `Open` exists.
    pub(crate) async fn next(&mut self) -> Result<(SendStream, RecvStream, Open), ConnectionError> {
        let (send, receive) = self.connection.accept_bi().await?;
        let open = self.open.begin();
        if !self.is_wide && self.open.count() > OPEN_FIRST as usize / 2 {
            self.connection.set_max_concurrent_bi_streams(VarInt::from_u32(OPEN_MAX));
            self.is_wide = true;
        }
        Ok((send, receive, open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::by_name::Client;
    use crate::wire::token::Token;
    use quinn::Endpoint;
    use std::net::SocketAddr;
    use std::time::Duration;

    /// Returns both ends of a connection: that of a client, and that of its registry.
    async fn connected() -> (Connection, Connection) {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key) = Token::new(listen).unwrap();
        let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let token = token.at(registry.local_addr().unwrap());
        let client = Client::new(token).unwrap();
        let comes_in = async { registry.accept().await.unwrap().await.unwrap() };
        let (connection, server) = tokio::join!(client.connect(), comes_in);
        (connection.unwrap(), server)
    }

    async fn ask(connection: &Connection, what: &[u8]) -> RecvStream {
        let (mut send, receive) = connection.open_bi().await.unwrap();
        send.write_all(what).await.unwrap();
        send.finish().unwrap();
        receive
    }

    #[tokio::test]
    async fn requests_with_early_answers_pass_calls_that_wait() {
        let (connection, server) = connected().await;
        tokio::spawn(async move {
            let (mut requests, mut waiting) = (Requests::new(&server), Vec::new());
            while let Ok((send, mut receive, open)) = requests.next().await {
                match &receive.read_to_end(1).await.unwrap()[..] {
                    b"+" => waiting.push((send, open)),
                    // The end of the stream is the answer.
                    _ => drop(send),
                }
            }
        });
        let asked = async {
            let mut calls = Vec::new();
            for _ in 0..LONG_MAX {
                calls.push(ask(&connection, b"+").await);
            }
            for _ in 0..OPEN_MAX {
                let mut answer = ask(&connection, b"-").await;
                assert!(answer.read_to_end(1).await.unwrap().is_empty());
            }
        };

        tokio::time::timeout(Duration::from_secs(60), asked).await.unwrap();
    }

    #[tokio::test]
    async fn a_busy_connection_may_have_1000_open_requests() {
        let (connection, server) = connected().await;
        let asks = tokio::spawn(async move {
            let mut streams = Vec::new();
            for _ in 0..=OPEN_MAX {
                let (mut send, receive) = connection.open_bi().await.unwrap();
                send.write_all(b"?").await.unwrap();
                streams.push((send, receive));
            }
        });
        let (mut requests, mut all) = (Requests::new(&server), Vec::new());
        let hears = async {
            while let Ok(request) = requests.next().await {
                all.push(request);
            }
        };

        let late = tokio::time::timeout(Duration::from_secs(2), hears).await;

        assert!(late.is_err() && !asks.is_finished(), "one more than may be open");
        assert_eq!(all.len(), OPEN_MAX as usize);
    }
}
