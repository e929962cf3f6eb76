//! Whoever has a token, and calls.

use super::token::{DoorError, Token};
use super::wire::{Answer, Listed, Question, TextCall, ask};
use gridspan_rpc::calls::RpcError;
use quinn::{Connection, Endpoint};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long whoever calls looks for a door that he has lost, and how often.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(200);

/// Somebody before a door. Clones are the same.
#[derive(Clone, Debug)]
pub struct Visitor {
    token: Token,
    endpoint: Endpoint,
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
        let connecting = self.endpoint.connect(address, name);
        let connecting =
            connecting.map_err(|error| DoorError::Away { address, reason: error.to_string() })?;
        connecting.await.map_err(|error| DoorError::away(address, &error))
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
        match ask(&self.door().await?, &Question::List).await? {
            Answer::Servers(servers) => Ok(servers),
            _ => Err(DoorError::Malformed("another answer than a list".to_owned())),
        }
    }

    /// Calls a function with arguments in JSON; its results in JSON, or the error of the standard. Each server has
    /// `timeout` to answer. Whoever was at the door and finds it gone waits for it to come back, and calls again: then the
    /// function may be executed more than once.
    pub async fn call(
        &self,
        function: &str,
        arguments: &str,
        timeout: Duration,
    ) -> Result<Result<String, RpcError>, DoorError> {
        let (function, arguments) = (function.to_owned(), arguments.to_owned());
        let call = Question::Call(TextCall { number: 0, function, arguments, timeout });
        let mut door = self.door().await?;
        loop {
            match ask(&door, &call).await {
                Ok(Answer::Called(outcome)) => return Ok(outcome),
                Ok(_) => {
                    return Err(DoorError::Malformed("another answer than results".to_owned()));
                }
                Err(error @ DoorError::Away { .. }) => door = self.again(error).await?,
                Err(error) => return Err(error),
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
