//! The tracing spans of the orders that a client sends to servers.

use crate::wire::messages::{TaskError, Times, Work};
use crate::wire::token::RemoteError;
use gridspan_rpc::trace::{client_span, note_failure};
use std::net::SocketAddr;
use tracing::Span;

/// The name of a task that computes nothing.
const EMULATED: &str = "emulated task";

/// Returns the span of an order to the server at this address.
pub(crate) fn order_span(work: &Work, server: SocketAddr) -> Span {
    match work {
        Work::Function(name, _) => client_span(name, Some(server)),
        Work::Emulated { .. } => client_span(EMULATED, Some(server)),
    }
}

/// Notes in the span of an order why the order was not carried out, if it was not.
pub(crate) fn note_answer(span: &Span, answer: &Result<Result<Times, TaskError>, RemoteError>) {
    match answer {
        Ok(Ok(_)) => {}
        Ok(Err(TaskError::Failed(reason))) => note_failure(span, "GRPC_SESSION_FAILED", reason),
        Ok(Err(TaskError::Refused(reason))) => note_failure(span, "GRPC_RPC_REFUSED", reason),
        Ok(Err(TaskError::Missing(_) | TaskError::Unreached { .. })) => {
            note_failure(span, "GRPC_RPC_REFUSED", &"its arguments are not at their sources");
        }
        Err(error) => note_failure(span, "GRPC_COMMUNICATION_FAILED", error),
    }
}
