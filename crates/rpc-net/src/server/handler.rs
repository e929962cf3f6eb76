//! Answers requests to a task server, at a registry or at a server that has joined one.

use crate::server::groups::Groups;
use crate::server::task_server::TaskServer;
use crate::wire::budget::{Budget, Claim};
use crate::wire::messages::{BEGUN, Order, Request, Response, read_message, write_message};
use crate::wire::token::RemoteError;
use crate::wire::transfer::give;
use bytes::Bytes;
use gridspan_rpc::calls::{Catalogue, RpcError};
use quinn::{Connection, RecvStream, SendStream, VarInt};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// Largest number of zero bytes that are sent for the measurement of a link.
const POUR_BYTES_MAX: u64 = 16 << 20;
const POUR_SEGMENT: &[u8] = &[0; 64 << 10];

/// Reads a request, and claims its part of a budget. Refuses a request beyond the budget with an
/// answer, whatever its kind, so that the caller does not consider the server and its data lost.
pub(crate) async fn heard(
    (send, receive): (&mut SendStream, &mut RecvStream),
    budget: &Budget,
) -> Option<(Request, Claim)> {
    let error = match read_message(receive, budget).await {
        Ok(heard) => return Some(heard),
        Err(error @ RemoteError::TooMuch) => error,
        Err(_) => return None,
    };
    // The rest of the request is not read. The caller may be gone.
    let _ = receive.stop(VarInt::from_u32(0));
    let refused = RpcError::RpcRefused { reason: error.to_string() };
    respond(send, &Response::Called(Err(refused))).await;
    None
}

/// Answers a request for a task server, and returns any other request. Without a task server
/// nothing is executed or kept.
pub(crate) async fn attend<C: Catalogue>(
    request: Request,
    task_server: Option<&Arc<TaskServer<C>>>,
    (connection, groups): (&Connection, &Mutex<Groups>),
    send: &mut SendStream,
) -> Option<Request> {
    match (request, task_server) {
        (Request::Echo, _) => respond(send, &Response::Noted).await,
        (Request::Pour(bytes), _) => pour(bytes, send).await,
        (Request::Give { group, data }, Some(task_server)) => {
            task_server.give(group, data, send).await
        }
        // The requester may be gone.
        (Request::Give { .. }, None) => drop(give(None, send).await),
        (Request::Task(order), Some(task_server)) => {
            task(order, task_server, (connection, groups), send).await;
        }
        (Request::Free { group, data }, Some(task_server)) => {
            task_server.free(group, &data, groups);
            respond(send, &Response::Noted).await;
        }
        (Request::End(group), Some(task_server)) => {
            task_server.end(group, groups);
            respond(send, &Response::Noted).await;
        }
        (request, _) => return Some(request),
    }
    None
}

/// Sends a response to a caller that may be gone, and waits until the response has arrived.
pub(crate) async fn respond(send: &mut SendStream, response: &Response) {
    let _ = write_message(send, response).await;
    let _ = send.stopped().await;
}

/// Executes a task while its client waits, and notifies the client when it starts.
async fn task<C: Catalogue>(
    order: Order,
    task_server: &Arc<TaskServer<C>>,
    (connection, groups): (&Connection, &Mutex<Groups>),
    send: &mut SendStream,
) {
    let (tell, begun) = oneshot::channel();
    let mut begun = pin!(begun);
    let mut executed = pin!(task_server.task(order, connection, groups, tell));
    let mut has_begun = false;
    let done = loop {
        let stopped = send.stopped();
        tokio::select! {
            _ = stopped => return,
            done = &mut executed => break done,
            begins = &mut begun, if !has_begun => {
                has_begun = true;
                if begins.is_ok() && send.write_all(&[BEGUN]).await.is_err() {
                    return;
                }
            }
        }
    };
    respond(send, &done).await;
}

async fn pour(bytes: u64, send: &mut SendStream) {
    let mut poured = async || -> Result<(), RemoteError> {
        let mut left = bytes.min(POUR_BYTES_MAX) as usize;
        while left > 0 {
            let segment = Bytes::from_static(&POUR_SEGMENT[..left.min(POUR_SEGMENT.len())]);
            left -= segment.len();
            let written = send.write_chunk(segment).await;
            written.map_err(|error| RemoteError::Malformed(error.to_string()))?;
        }
        // This succeeds, because the stream is not closed yet.
        let _ = send.finish();
        Ok(())
    };
    // The requester may be gone.
    let _ = poured().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::task_client::order;
    use crate::wire::messages::{TaskError, Work};
    use crate::wire::token::Token;
    use gridspan_rpc::calls::Signature;
    use quinn::Endpoint;

    // On a single thread, a client that writes a long text sends nothing else meanwhile, and is
    // considered lost.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_order_beyond_the_budget_is_refused_and_the_connection_stays_open() {
        let listen = ([127, 0, 0, 1], 0).into();
        let (token, key) = Token::new(listen).unwrap();
        let registry = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let mut caller = Endpoint::client(listen).unwrap();
        caller.set_default_client_config(token.client().unwrap());
        let connecting = caller.connect(registry.local_addr().unwrap(), &token.names()[0]).unwrap();
        let comes_in = async { registry.accept().await.unwrap().await.unwrap() };
        let (connection, server) = tokio::join!(connecting, comes_in);
        let connection = connection.unwrap();
        tokio::spawn(async move {
            while let Ok((mut send, mut receive)) = server.accept_bi().await {
                let budget = Budget::new(1000);
                if heard((&mut send, &mut receive), &budget).await.is_some() {
                    respond(&mut send, &Response::Done(Err(TaskError::Failed("heard".into()))))
                        .await;
                }
            }
        });
        let task = |name: &str| {
            let work = Work::Function(name.to_owned(), Signature::of::<(), ()>());
            let (inputs, outputs) = (vec![], vec![]);
            Order { group: 1, place: 0, work, inputs, outputs, traceparent: None }
        };

        for bytes in [2000, 20 << 20] {
            let long = order(&connection, task(&"f".repeat(bytes)), || {}).await.unwrap();
            let Err(TaskError::Refused(reason)) = long else { panic!("{long:?}") };
            assert_eq!(reason, RemoteError::TooMuch.to_string());
        }

        let short = order(&connection, task("f"), || {}).await.unwrap();
        assert_eq!(short, Err(TaskError::Failed("heard".to_owned())));
    }
}
