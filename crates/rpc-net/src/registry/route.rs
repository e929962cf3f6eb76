//! The route of a call to a server, and its withdrawal.

use crate::server::executor::Executor;
use crate::wire::messages::{Request, Response, TextCall, request_response};
use crate::wire::requests::LongRequests;
use gridspan_rpc::calls::{Catalogue, RpcError};
use quinn::Connection;
use std::pin::pin;
use std::sync::Arc;

pub(crate) enum Route<C: Catalogue> {
    /// The server is in this process.
    Here(Arc<Executor<C>>),
    /// The server has joined: its connection, and the unanswered calls on it.
    There(Connection, LongRequests),
}

impl<C: Catalogue> Clone for Route<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Here(executor) => Self::Here(executor.clone()),
            Self::There(connection, calls) => Self::There(connection.clone(), calls.clone()),
        }
    }
}

impl<C: Catalogue> Route<C> {
    /// Returns the route to a server that has joined over this connection.
    pub(crate) fn to(connection: Connection) -> Self {
        Self::There(connection, LongRequests::default())
    }

    /// Makes a call. If `unwanted` resolves before the answer, withdraws the call; the future then
    /// ends when the server no longer works on it.
    pub(crate) async fn call(
        &self,
        call: &TextCall,
        number: u64,
        unwanted: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let (connection, calls) = match self {
            Self::Here(executor) => {
                let called = (&call.function[..], &call.arguments[..]);
                return executor.call(call.traceparent, called, unwanted).await;
            }
            Self::There(connection, calls) => (connection, calls),
        };
        let mut unwanted = pin!(unwanted);
        // A call that is withdrawn while it waits here is never sent.
        let _unanswered = tokio::select! {
            biased;
            () = &mut unwanted => return Err(RpcError::CommunicationFailed),
            unanswered = calls.begin() => unanswered,
        };
        let request = Request::Call(TextCall { number, ..call.clone() });
        let mut response = pin!(request_response(connection, &request));
        let answered = tokio::select! {
            answered = &mut response => answered,
            () = unwanted => {
                // The server may be gone, which the answer to the call shows as well.
                let _ = request_response(connection, &Request::Cancel(number)).await;
                response.await
            }
        };
        match answered {
            Ok(Response::Called(outcome)) => outcome,
            Ok(_) => Err(RpcError::CommunicationFailed),
            Err(error) => Err(RpcError::Other { reason: error.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::by_name::Client;
    use crate::wire::budget::Budget;
    use crate::wire::messages::{WAITING_BYTES_MAX, read_message, write_message};
    use crate::wire::requests::{LONG_MAX, Requests};
    use crate::wire::token::Token;
    use gridspan_rpc::calls::Functions;
    use quinn::Endpoint;
    use std::collections::BTreeMap;
    use std::net::SocketAddr;
    use std::time::Duration;
    use tokio::sync::watch;
    use tokio::task::JoinSet;

    /// More than a connection has streams.
    const CALLS: u64 = 1200;

    struct Nothing;

    impl Catalogue for Nothing {
        fn functions() -> Functions {
            Functions::new()
        }
    }

    /// Accepts calls, and answers each once it is withdrawn. Sends the number of open calls.
    async fn member(connection: Connection, tell: watch::Sender<usize>) {
        let (mut requests, mut calls) = (Requests::new(&connection), BTreeMap::new());
        let budget = Budget::new(WAITING_BYTES_MAX);
        while let Ok((mut send, mut receive, open)) = requests.next().await {
            match read_message(&mut receive, &budget).await.unwrap().0 {
                Request::Call(call) => drop(calls.insert(call.number, (send, open))),
                Request::Cancel(number) => {
                    let (mut call, _open) = calls.remove(&number).unwrap();
                    let withdrawn = Response::Called(Err(RpcError::NotCompleted));
                    write_message(&mut call, &withdrawn).await.unwrap();
                    write_message(&mut send, &Response::Noted).await.unwrap();
                }
                other => panic!("{other:?}"),
            }
            tell.send_replace(calls.len());
        }
    }

    #[tokio::test]
    async fn calls_are_withdrawn_from_a_server_that_answers_none_of_them() {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (token, key) = Token::new(listen).unwrap();
        let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let client = Client::new(token.at(registry.local_addr().unwrap())).unwrap();
        let comes_in = async { registry.accept().await.unwrap().await.unwrap() };
        let (there, connection) = tokio::join!(client.connect(), comes_in);
        let (tell, mut open) = watch::channel(0);
        tokio::spawn(member(there.unwrap(), tell));
        let (withdraw, withdrawn) = watch::channel(false);
        let (route, mut calls) = (Route::<Nothing>::to(connection), JoinSet::new());
        for number in 0..CALLS {
            let (route, mut withdrawn) = (route.clone(), withdrawn.clone());
            calls.spawn(async move {
                let (function, arguments) = ("f".to_owned(), "[]".to_owned());
                let timeout = Duration::from_secs(60);
                let call = TextCall { number: 0, function, arguments, timeout, traceparent: None };
                let unwanted = async { drop(withdrawn.wait_for(|is_over| *is_over).await) };
                route.call(&call, number, unwanted).await
            });
        }
        let limit = Duration::from_secs(60);
        let most = open.wait_for(|open| *open == LONG_MAX);
        drop(tokio::time::timeout(limit, most).await.unwrap().unwrap());

        withdraw.send_replace(true);
        let ended = tokio::time::timeout(limit, calls.join_all()).await.unwrap();

        let answered = ended.iter().filter(|end| **end == Err(RpcError::NotCompleted)).count();
        assert_eq!((ended.len() as u64, answered), (CALLS, LONG_MAX), "the others were not sent");
    }
}
