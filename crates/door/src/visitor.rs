//! Whoever has a token, and calls.

use super::token::{DoorError, Token};
use super::wire::{ATTEMPTS, Answer, Known, Listed, News, Question, TextCall, ask};
use gridspan_rpc::calls::RpcError;
use quinn::{Connection, ConnectionError, Endpoint, TransportErrorCode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long whoever calls looks for a door that he has lost, and how often.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);
/// How many handshakes that the other side gave up are begun again: under a flood, another takes
/// the place of one.
const HANDSHAKES_AGAIN_MAX: u32 = 8;
/// So many times a call is sent again at most.
const AGAIN_MAX: u32 = 3;

/// Somebody before a door. Clones are the same.
#[derive(Clone, Debug)]
pub struct Visitor {
    token: Token,
    endpoint: Endpoint,
    /// Locked while the door is looked for, so that many who call come in once: each of them waits
    /// for a limited time.
    door: Arc<Mutex<Option<Connection>>>,
}

impl Visitor {
    /// Somebody with this token. Needs a runtime of tokio.
    pub fn new(token: Token) -> Result<Self, DoorError> {
        let any: IpAddr = match token.address.is_ipv4() {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut endpoint = Endpoint::client((any, 0).into()).map_err(DoorError::Listen)?;
        endpoint.set_default_client_config(token.client()?);
        Ok(Self { token, endpoint, door: Arc::default() })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where the door is.
    pub fn address(&self) -> SocketAddr {
        self.token.address
    }

    /// Comes in.
    pub(super) async fn connect(&self) -> Result<Connection, DoorError> {
        self.connect_to(None).await
    }

    /// Comes to a server that has joined, or to the door itself.
    pub async fn connect_to(&self, server: Option<SocketAddr>) -> Result<Connection, DoorError> {
        let address = server.unwrap_or(self.token.address);
        let name = &self.token.names()[usize::from(server.is_some())];
        let mut again = 0;
        loop {
            let connecting = self
                .endpoint
                .connect(address, name)
                .map_err(|error| DoorError::Away { address, reason: error.to_string() })?;
            match connecting.await {
                Err(error) if again < HANDSHAKES_AGAIN_MAX && is_given_up(&error) => again += 1,
                Err(error) => return Err(DoorError::away(address, &error)),
                Ok(connection) => return Ok(connection),
            }
        }
    }

    /// What somebody at a door says within a time.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        asked: impl Future<Output = Result<T, DoorError>>,
    ) -> Result<T, DoorError> {
        let (address, reason) = (self.token.address, format!("no answer in {limit:?}"));
        let late = |_| DoorError::Away { address, reason };
        tokio::time::timeout(limit, asked).await.map_err(late)?
    }

    /// A connection to the door, which questions share as long as it lasts.
    async fn door(&self) -> Result<Connection, DoorError> {
        let mut door = self.door.lock().await;
        if let Some(known) = door.as_ref().filter(|known| known.close_reason().is_none()) {
            return Ok(known.clone());
        }
        Ok(door.insert(self.connect().await?).clone())
    }

    /// The servers behind the door.
    pub async fn list(&self) -> Result<Vec<Listed>, DoorError> {
        let asked = async { ask(&self.door().await?, &Question::List).await };
        match self.within(PATIENCE, asked).await? {
            Answer::Servers(servers) => Ok(servers),
            _ => Err(DoorError::Malformed("another answer than a list".to_owned())),
        }
    }

    /// What is new of the servers for whoever knows this.
    pub(super) async fn news(&self, known: Known) -> Result<News, DoorError> {
        let asked = async { ask(&self.door().await?, &Question::News(known)).await };
        match self.within(PATIENCE, asked).await? {
            Answer::News(news) => Ok(news),
            _ => Err(DoorError::Malformed("another answer than news".to_owned())),
        }
    }

    /// Calls a function with arguments in JSON; its results in JSON, or the error of the standard.
    /// Each server has `timeout` to answer. Whoever was at the door and finds it gone waits for it
    /// to come back, and calls again, a few times: then the function may be executed more than
    /// once. All of that ends when the door would have tried all servers that it tries for a call,
    /// and some time to find it has passed.
    pub async fn call(
        &self,
        function: &str,
        arguments: &str,
        timeout: Duration,
    ) -> Result<Result<String, RpcError>, DoorError> {
        let (function, arguments) = (function.to_owned(), arguments.to_owned());
        let call = Question::Call(TextCall { number: 0, function, arguments, timeout });
        let limit = timeout.saturating_mul(ATTEMPTS).saturating_add(PATIENCE);
        match self.within(limit, self.insist(&call)).await? {
            Answer::Called(outcome) => Ok(outcome),
            _ => Err(DoorError::Malformed("another answer than results".to_owned())),
        }
    }

    /// Asks, and asks again where the door is lost.
    async fn insist(&self, question: &Question) -> Result<Answer, DoorError> {
        let (mut door, mut again) = (self.door().await?, 0);
        loop {
            match ask(&door, question).await {
                Err(error @ DoorError::Away { .. }) if again < AGAIN_MAX => {
                    again += 1;
                    door = self.again(error).await?;
                }
                answered => return answered,
            }
        }
    }

    /// The door that was lost, once it is back.
    async fn again(&self, lost: DoorError) -> Result<Connection, DoorError> {
        tracing::info!(error = %lost, "looks for the door again");
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match self.door().await {
                Err(DoorError::Away { .. }) => tokio::time::sleep(PAUSE).await,
                found => return found,
            }
        }
        Err(lost)
    }

    /// Says good-bye.
    pub async fn leave(&self) {
        self.endpoint.close(0_u32.into(), b"");
        self.endpoint.wait_idle().await;
    }
}

/// Whether the other side has given up a handshake for no reason that lies in it.
fn is_given_up(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(close)
        if close.error_code == TransportErrorCode::APPLICATION_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn a_call_that_ends_its_door_is_sent_again_a_few_times_only() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key) = Token::new(listen).unwrap();
        let door = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let token = token.at(door.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let of_door = asked.clone();
        tokio::spawn(async move {
            while let Some(incoming) = door.accept().await {
                let guest = incoming.await.unwrap();
                drop(guest.accept_bi().await);
                of_door.fetch_add(1, Ordering::SeqCst);
                guest.close(0_u32.into(), b"it has failed");
            }
        });
        let visitor = Visitor::new(token).unwrap();

        let called = visitor.call("f", "[]", Duration::from_secs(60)).await;

        assert!(matches!(called, Err(DoorError::Away { .. })), "{called:?}");
        assert_eq!(asked.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn who_says_nothing_is_not_waited_for_without_end() {
        let (token, _key) = Token::new("127.0.0.1:1".parse().unwrap()).unwrap();
        let visitor = Visitor::new(token).unwrap();
        let never = std::future::pending::<Result<(), DoorError>>();

        let said = visitor.within(Duration::from_millis(1), never).await;

        assert!(matches!(said, Err(DoorError::Away { .. })), "{said:?}");
    }
}
