//! How a call gets to a server, and is taken back from it.

use super::bench::Bench;
use super::wire::{Answer, Question, TextCall, ask};
use gridspan_rpc::calls::{Catalogue, RpcError};
use quinn::Connection;
use std::pin::pin;
use std::sync::Arc;

/// How a server is reached.
pub(super) enum Way<C: Catalogue> {
    /// It is of this process.
    Here(Arc<Bench<C>>),
    /// It has joined.
    There(Connection),
}

impl<C: Catalogue> Clone for Way<C> {
    fn clone(&self) -> Self {
        match self {
            Self::Here(bench) => Self::Here(bench.clone()),
            Self::There(connection) => Self::There(connection.clone()),
        }
    }
}

impl<C: Catalogue> Way<C> {
    /// Calls, as long as `unwanted` does not resolve. Then the call is taken back, and this ends
    /// when nothing is done for it.
    pub(super) async fn call(
        &self,
        call: &TextCall,
        number: u64,
        unwanted: impl Future<Output = ()>,
    ) -> Result<String, RpcError> {
        let connection = match self {
            Self::Here(bench) => {
                return bench.call(&call.function, &call.arguments, unwanted).await;
            }
            Self::There(connection) => connection,
        };
        let question = Question::Call(TextCall { number, ..call.clone() });
        let mut answer = pin!(ask(connection, &question));
        let answered = tokio::select! {
            answered = &mut answer => answered,
            () = unwanted => {
                // He may be gone, which the answer says as well.
                let _ = ask(connection, &Question::Cancel(number)).await;
                answer.await
            }
        };
        match answered {
            Ok(Answer::Called(outcome)) => outcome,
            Ok(_) => Err(RpcError::CommunicationFailed),
            Err(error) => Err(RpcError::Other { reason: error.to_string() }),
        }
    }
}
