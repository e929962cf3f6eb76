//! The requests of one connection. If many come, more may be open at the same time.
//!
//! QUIC keeps state for each stream that the other side may open, whether it does or not. Most
//! connections never have more than a few open streams, and a registry has many connections.

use crate::server::in_flight::{InFlight, Open};
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};

/// Number of requests of one connection that may be open at the same time at first.
pub(crate) const OPEN_FIRST: u32 = 32;
/// Number that may be open once more than half of [`OPEN_FIRST`] are open; further requests wait.
const OPEN_MAX: u32 = 1000;

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

    #[tokio::test]
    async fn a_busy_connection_may_have_1000_open_requests() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key) = Token::new(listen).unwrap();
        let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let token = token.at(registry.local_addr().unwrap());
        let client = Client::new(token).unwrap();
        let comes_in = async { registry.accept().await.unwrap().await.unwrap() };
        let (connection, server) = tokio::join!(client.connect(), comes_in);
        let connection = connection.unwrap();
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
