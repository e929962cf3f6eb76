//! The client of a group: sends orders to servers, and data to servers that request it.

use crate::wire::budget::Budget;
use crate::wire::messages::{
    BEGUN, Order, Request, Response, TaskError, Times, read_message, read_message_after,
    write_message,
};
use crate::wire::requests::Requests;
use crate::wire::token::RemoteError;
use crate::wire::transfer::give;
use bytes::Bytes;
use gridspan_rpc::calls::RpcError;
use quinn::Connection;
use ring::rand::{SecureRandom, SystemRandom};
use std::io;
use std::sync::Arc;

/// Size in bytes of the largest request for data.
const QUESTION_BYTES_MAX: usize = 1 << 20;
/// Size in bytes of the largest answer to an order.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A function that returns a client's data in segments, by the numbers of the group and the datum.
pub(crate) type Supply = Arc<dyn Fn(u64, u32) -> Option<Vec<Bytes>> + Send + Sync>;

/// Returns a random number from the system, for identifiers that must be unique.
pub(crate) fn dice() -> Result<u64, RemoteError> {
    let mut dice = [0; 8];
    let no_dice = |_| RemoteError::Listen(io::Error::other("the system has no random numbers"));
    SystemRandom::new().fill(&mut dice).map_err(no_dice)?;
    Ok(u64::from_le_bytes(dice))
}

/// Makes a server execute a task, and calls `begun` when the task starts to compute. Dropping the
/// future withdraws the order.
pub(crate) async fn order(
    connection: &Connection,
    order: Order,
    begun: impl FnOnce(),
) -> Result<Result<Times, TaskError>, RemoteError> {
    let away = |error| RemoteError::away(connection.remote_address(), &error);
    let (mut send, mut receive) = connection.open_bi().await.map_err(away)?;
    if write_message(&mut send, &Request::Task(order)).await.is_err() {
        // A server that refuses a request does not read all of it, but answers.
        drop(send);
    }
    let lost = |error: String| match connection.close_reason() {
        Some(reason) => RemoteError::away(connection.remote_address(), &reason),
        None => RemoteError::Malformed(error),
    };
    let mut first = [0];
    receive.read_exact(&mut first).await.map_err(|error| lost(error.to_string()))?;
    let before: &[u8] = if first == [BEGUN] {
        begun();
        &[]
    } else {
        &first
    };
    let response = read_message_after(before, &mut receive, &Budget::new(ANSWER_BYTES_MAX)).await;
    match response.map_err(|error| lost(error.to_string()))?.0 {
        Response::Done(outcome) => Ok(outcome),
        // The server has not read the order; it may accept the next.
        Response::Called(Err(RpcError::RpcRefused { reason })) => {
            Ok(Err(TaskError::Refused(reason)))
        }
        _ => Err(RemoteError::Malformed("it should be the outcome of a task".to_owned())),
    }
}

/// Answers a server's requests for data, as long as the server is connected.
pub(crate) async fn supply(connection: Connection, data: Supply) {
    let budget = Budget::new(QUESTION_BYTES_MAX);
    let mut requests = Requests::new(&connection);
    while let Ok((mut send, mut receive, open)) = requests.next().await {
        let (data, budget) = (data.clone(), budget.clone());
        tokio::spawn(async move {
            let _open = open;
            if let Ok((Request::Give { group, data: asked }, _claim)) =
                read_message(&mut receive, &budget).await
            {
                // The server may be gone.
                let _ = give(data(group, asked), &mut send).await;
            }
        });
    }
}
