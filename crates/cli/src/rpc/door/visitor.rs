//! Whoever has a token, and calls.

use super::token::{DoorError, Token};
use super::wire::{Answer, Listed, Question, TextCall, ask};
use gridspan_rpc::calls::RpcError;
use quinn::{Connection, Endpoint};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Somebody before a door.
#[derive(Debug)]
pub(crate) struct Visitor {
    token: Token,
    endpoint: Endpoint,
}

impl Visitor {
    /// Somebody with this token. Needs a runtime of tokio.
    pub(crate) fn new(token: Token) -> Result<Self, DoorError> {
        let any: IpAddr = match token.address.is_ipv4() {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        let mut endpoint = Endpoint::client((any, 0).into()).map_err(DoorError::Listen)?;
        endpoint.set_default_client_config(token.client()?);
        Ok(Self { token, endpoint })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Where the door is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.token.address
    }

    /// Comes in.
    pub(super) async fn connect(&self) -> Result<Connection, DoorError> {
        self.connect_to(None).await
    }

    /// Comes to a server that has joined, or to the door itself.
    pub(crate) async fn connect_to(
        &self,
        server: Option<SocketAddr>,
    ) -> Result<Connection, DoorError> {
        let address = server.unwrap_or(self.token.address);
        let name = &self.token.names()[usize::from(server.is_some())];
        let connecting = self.endpoint.connect(address, name);
        let connecting =
            connecting.map_err(|error| DoorError::Away { address, reason: error.to_string() })?;
        connecting.await.map_err(|error| DoorError::away(address, &error))
    }

    /// The servers behind the door.
    pub(crate) async fn list(&self) -> Result<Vec<Listed>, DoorError> {
        match ask(&self.connect().await?, &Question::List).await? {
            Answer::Servers(servers) => Ok(servers),
            _ => Err(DoorError::Malformed("another answer than a list".to_owned())),
        }
    }

    /// Calls a function with arguments in JSON; its results in JSON, or the error of the standard. Each server has
    /// `timeout` to answer.
    pub(crate) async fn call(
        &self,
        function: &str,
        arguments: &str,
        timeout: Duration,
    ) -> Result<Result<String, RpcError>, DoorError> {
        let (function, arguments) = (function.to_owned(), arguments.to_owned());
        let call = Question::Call(TextCall { number: 0, function, arguments, timeout });
        match ask(&self.connect().await?, &call).await? {
            Answer::Called(outcome) => Ok(outcome),
            _ => Err(DoorError::Malformed("another answer than results".to_owned())),
        }
    }

    /// Says good-bye.
    pub(crate) async fn leave(&self) {
        self.endpoint.close(0_u32.into(), b"");
        self.endpoint.wait_idle().await;
    }
}
