//! How a call gets to a server, and is taken back from it.

use crate::server::executor::Executor;
use crate::wire::messages::{Request, Response, TextCall, request_response};
use gridspan_rpc::calls::{Catalogue, RpcError};
use quinn::Connection;
use std::pin::pin;
use std::sync::Arc;

/// How a server is reached.
pub(crate) enum Route<C: Catalogue> {
    /// It is of this process.
    Here(Arc<Executor<C>>),
    /// It has joined.
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
    /// Calls, as long as `unwanted` does not resolve. Then the call is taken back, and this ends
    /// when nothing is done for it.
    pub(crate) async fn call(
        &self,
        call: &TextCall,
        number: u64,
        unwanted: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let connection = match self {
            Self::Here(executor) => {
                return executor.call(&call.function, &call.arguments, unwanted).await;
            }
            Self::There(connection) => connection,
        };
        let request = Request::Call(TextCall { number, ..call.clone() });
        let mut response = pin!(request_response(connection, &request));
        let answered = tokio::select! {
            answered = &mut response => answered,
            () = unwanted => {
                // He may be gone, which the answer says as well.
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
