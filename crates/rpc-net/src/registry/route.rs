//! The route of a call to a server, and its withdrawal.

use crate::server::executor::Executor;
use crate::wire::messages::{Request, Response, TextCall, request_response};
use gridspan_rpc::calls::{Catalogue, RpcError};
use quinn::Connection;
use std::pin::pin;
use std::sync::Arc;

pub(crate) enum Route<C: Catalogue> {
    /// The server is in this process.
    Here(Arc<Executor<C>>),
    /// The server has joined.
    There(Connection),
}

impl<C: Catalogue> Clone for Route<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Here(executor) => Self::Here(executor.clone()),
            Self::There(connection) => Self::There(connection.clone()),
        }
    }
}

impl<C: Catalogue> Route<C> {
    /// Makes a call. If `unwanted` resolves before the answer, withdraws the call; the future then
    /// ends when the server no longer works on it.
    pub(crate) async fn call(
        &self,
        call: &TextCall,
        number: u64,
        unwanted: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let connection = match self {
            Self::Here(executor) => {
                let called = (&call.function[..], &call.arguments[..]);
                return executor.call(call.traceparent, called, unwanted).await;
            }
            Self::There(connection) => connection,
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
