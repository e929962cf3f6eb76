//! The client of a registry, which has a token and calls functions by name.

use crate::wire::messages::{
    ATTEMPTS, KnownVersions, ListedServer, Request, Response, ServerUpdate, TextCall,
    request_response,
};
use crate::wire::requests::LongRequests;
use crate::wire::token::{RemoteError, Token};
use gridspan_rpc::calls::{RpcError, error_string};
use gridspan_rpc::trace::{client_span, context_of, note_failure};
use quinn::{Connection, ConnectionError, Endpoint, TransportErrorCode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use tracing::Instrument;

/// Time for which a client looks for a lost registry, and for which it waits for a list or news.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval between attempts to find a lost registry.
const PAUSE: Duration = Duration::from_millis(200);
/// Largest number of times that a client repeats a handshake that the other side gave up. In a
/// flood of handshakes, the other side evicts the oldest.
const HANDSHAKES_AGAIN_MAX: u32 = 8;
/// Largest number of times that a call is sent again.
const AGAIN_MAX: u32 = 3;

/// A client of a registry. Clones share its connection.
#[derive(Clone, Debug)]
pub struct Client {
    token: Token,
    endpoint: Endpoint,
    /// Connection to the registry. Locked while it is opened, so that concurrent calls share one
    /// connection; each of them waits for a limited time.
    registry: Arc<Mutex<Option<Connection>>>,
    /// The unanswered calls.
    calls: LongRequests,
}

impl Client {
    /// Creates a client with this token. Requires a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Listen`] if there is no tokio runtime, or the system opens no socket;
    /// [`RemoteError::Identity`] if the certificates of the token cannot be used.
    pub fn new(token: Token) -> Result<Self, RemoteError> {
        let any: IpAddr = match token.address.is_ipv4() {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut endpoint = Endpoint::client((any, 0).into()).map_err(RemoteError::Listen)?;
        endpoint.set_default_client_config(token.client()?);
        Ok(Self { token, endpoint, registry: Arc::default(), calls: LongRequests::default() })
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the address of the registry.
    pub fn address(&self) -> SocketAddr {
        self.token.address
    }

    /// Connects to the registry.
    pub(crate) async fn connect(&self) -> Result<Connection, RemoteError> {
        self.connect_to(None).await
    }

    /// Connects to a server that has joined, or to the registry itself.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Stale`] if one side refuses the certificate of the other;
    /// [`RemoteError::Away`] if the connection cannot be opened for another reason.
    pub async fn connect_to(&self, server: Option<SocketAddr>) -> Result<Connection, RemoteError> {
        let address = server.unwrap_or(self.token.address);
        let name = &self.token.names()[usize::from(server.is_some())];
        let mut again = 0;
        loop {
            let connecting = self
                .endpoint
                .connect(address, name)
                .map_err(|error| RemoteError::Away { address, reason: error.to_string() })?;
            match connecting.await {
                Err(error) if again < HANDSHAKES_AGAIN_MAX && is_given_up(&error) => again += 1,
                Err(error) => return Err(RemoteError::away(address, &error)),
                Ok(connection) => return Ok(connection),
            }
        }
    }

    /// Limits the time of a request to the registry.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        asked: impl Future<Output = Result<T, RemoteError>>,
    ) -> Result<T, RemoteError> {
        let (address, reason) = (self.token.address, format!("no answer in {limit:?}"));
        let late = |_| RemoteError::Away { address, reason };
        tokio::time::timeout(limit, asked).await.map_err(late)?
    }

    /// Returns a connection to the registry, which requests share while it lasts.
    async fn registry(&self) -> Result<Connection, RemoteError> {
        let mut registry = self.registry.lock().await;
        if let Some(known) = registry.as_ref().filter(|known| known.close_reason().is_none()) {
            return Ok(known.clone());
        }
        Ok(registry.insert(self.connect().await?).clone())
    }

    /// Lists the servers of the registry.
    ///
    /// # Errors
    ///
    /// [`RemoteError::Stale`] or [`RemoteError::Away`] as from [`connect_to`](Self::connect_to).
    /// [`RemoteError::Away`] also if the connection is lost, or if no answer comes in 30 s;
    /// [`RemoteError::Malformed`] if the answer cannot be understood, and [`RemoteError::TooMuch`]
    /// if it exceeds 256 MiB.
    pub async fn list(&self) -> Result<Vec<ListedServer>, RemoteError> {
        let asked = async { request_response(&self.registry().await?, &Request::List).await };
        match self.within(PATIENCE, asked).await? {
            Response::Servers(servers) => Ok(servers),
            _ => Err(RemoteError::Malformed("it should be a list of servers".to_owned())),
        }
    }

    /// Requests the changes of the servers since these versions.
    pub(crate) async fn news(&self, known: KnownVersions) -> Result<ServerUpdate, RemoteError> {
        let asked = async {
            request_response(&self.registry().await?, &Request::ServerUpdate(known)).await
        };
        match self.within(PATIENCE, asked).await? {
            Response::ServerUpdate(news) => Ok(news),
            _ => Err(RemoteError::Malformed("it should be changes of servers".to_owned())),
        }
    }

    /// Calls a function with arguments in JSON. Returns its results in JSON, or the error of the
    /// GridRPC standard. Each server that the registry tries has `timeout` to answer. If the
    /// connection to the registry is lost, the client waits for the registry to come back and sends
    /// the call again, up to three times; the function may then be executed more than once. The
    /// whole call takes at most `timeout` for each attempt of the registry, and 30 s to find the
    /// registry. While 800 calls of the client are unanswered, further ones wait, within that time.
    ///
    /// # Errors
    ///
    /// The outer error is as from [`list`](Self::list), after the times above. The inner error is
    /// [`RpcError::NoServers`] or [`RpcError::FunctionNotFound`] if no server offers the function;
    /// [`RpcError::SessionFailed`] if the function fails or panics, if `arguments` is not the JSON
    /// of its arguments, or if its results have numbers that JSON does not have;
    /// [`RpcError::RpcRefused`] if the registry, or the last server that was tried, refused the
    /// call; [`RpcError::CommunicationFailed`] if that server did not answer in time, and
    /// [`RpcError::Other`] if it was lost.
    pub async fn call(
        &self,
        function: &str,
        arguments: &str,
        timeout: Duration,
    ) -> Result<Result<String, RpcError>, RemoteError> {
        let span = client_span(function, Some(self.token.address));
        let (function, arguments) = (function.to_owned(), arguments.to_owned());
        let traceparent = context_of(&span);
        let call = Request::Call(TextCall { number: 0, function, arguments, timeout, traceparent });
        let limit = timeout.saturating_mul(ATTEMPTS).saturating_add(PATIENCE);
        let asked = self.within(limit, self.request_again_if_lost(&call)).instrument(span.clone());
        let outcome = match asked.await {
            Ok(Response::Called(outcome)) => Ok(outcome),
            Ok(_) => Err(RemoteError::Malformed("it should be results of a call".to_owned())),
            Err(error) => Err(error),
        };
        match &outcome {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => note_failure(&span, error_string(error.code()), error),
            Err(error) => note_failure(&span, "GRPC_COMMUNICATION_FAILED", error),
        }
        outcome
    }

    /// Sends a call, and sends it again, up to [`AGAIN_MAX`] times, if the registry is lost.
    async fn request_again_if_lost(&self, request: &Request) -> Result<Response, RemoteError> {
        // The other streams of the connection are for lists and news.
        let _unanswered = self.calls.begin().await;
        let (mut registry, mut again) = (self.registry().await?, 0);
        loop {
            match request_response(&registry, request).await {
                Err(error @ RemoteError::Away { .. }) if again < AGAIN_MAX => {
                    again += 1;
                    registry = self.again(error).await?;
                }
                answered => return answered,
            }
        }
    }

    /// Connects to the lost registry, once it is back. Gives up after [`PATIENCE`].
    async fn again(&self, lost: RemoteError) -> Result<Connection, RemoteError> {
        tracing::info!(error = %lost, "looks for the registry again");
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match self.registry().await {
                Err(RemoteError::Away { .. }) => tokio::time::sleep(PAUSE).await,
                found => return found,
            }
        }
        Err(lost)
    }

    /// Closes all connections.
    pub async fn leave(&self) {
        self.endpoint.close(0_u32.into(), b"");
        self.endpoint.wait_idle().await;
    }
}

/// Whether the other side gave up the handshake for a reason outside of the handshake.
fn is_given_up(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(close)
        if close.error_code == TransportErrorCode::APPLICATION_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::budget::Budget;
    use crate::wire::messages::{WAITING_BYTES_MAX, read_message, write_message};
    use crate::wire::requests::{LONG_MAX, Requests};
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::watch;
    use tokio::task::JoinSet;

    /// Answers all requests but calls. Sends the number of open calls.
    async fn busy_registry(registry: Endpoint, tell: watch::Sender<usize>) {
        let caller = registry.accept().await.unwrap().await.unwrap();
        let (mut requests, mut calls) = (Requests::new(&caller), Vec::new());
        let budget = Budget::new(WAITING_BYTES_MAX);
        while let Ok((mut send, mut receive, open)) = requests.next().await {
            match read_message(&mut receive, &budget).await.unwrap().0 {
                Request::Call(_) => calls.push((send, open)),
                _ => write_message(&mut send, &Response::Servers(Vec::new())).await.unwrap(),
            }
            tell.send_replace(calls.len());
        }
    }

    #[tokio::test]
    async fn a_client_with_more_calls_than_streams_still_gets_a_list() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key) = Token::new(listen).unwrap();
        let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let client = Client::new(token.at(registry.local_addr().unwrap())).unwrap();
        let (tell, mut open) = watch::channel(0);
        tokio::spawn(busy_registry(registry, tell));
        let mut calls = JoinSet::new();
        for _ in 0..1200 {
            let client = client.clone();
            calls.spawn(async move { client.call("f", "[]", Duration::from_secs(600)).await });
        }
        let most = open.wait_for(|open| *open >= LONG_MAX);
        drop(tokio::time::timeout(Duration::from_secs(60), most).await.unwrap().unwrap());

        let listed = client.list().await;

        assert!(matches!(&listed, Ok(servers) if servers.is_empty()), "{listed:?}");
        assert_eq!(*open.borrow(), LONG_MAX, "the others wait");
    }

    #[tokio::test]
    async fn a_call_that_ends_its_registry_is_sent_again_three_times() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key) = Token::new(listen).unwrap();
        let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let token = token.at(registry.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let of_registry = asked.clone();
        tokio::spawn(async move {
            while let Some(incoming) = registry.accept().await {
                let caller = incoming.await.unwrap();
                drop(caller.accept_bi().await);
                of_registry.fetch_add(1, Ordering::SeqCst);
                caller.close(0_u32.into(), b"it has failed");
            }
        });
        let client = Client::new(token).unwrap();

        let called = client.call("f", "[]", Duration::from_secs(60)).await;

        assert!(matches!(called, Err(RemoteError::Away { .. })), "{called:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn a_request_without_an_answer_ends_at_its_time_limit() {
        let (token, _key) = Token::new("127.0.0.1:1".parse().unwrap()).unwrap();
        let client = Client::new(token).unwrap();
        let never = std::future::pending::<Result<(), RemoteError>>();

        let said = client.within(Duration::from_millis(1), never).await;

        assert!(matches!(said, Err(RemoteError::Away { .. })), "{said:?}");
    }
}
