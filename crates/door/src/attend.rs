//! Answers what is asked of a workshop, at a door or at a server that has joined one.

use super::budget::{Budget, Claim};
use super::groups::Groups;
use super::stuff::give;
use super::token::DoorError;
use super::wire::{Answer, BEGUN, Order, Question, hear, say};
use super::workshop::Workshop;
use bytes::Bytes;
use gridspan_rpc::calls::{Catalogue, RpcError};
use quinn::{Connection, RecvStream, SendStream, VarInt};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// More bytes of nothing are not sent to whoever measures a way.
const POUR_BYTES_MAX: u64 = 16 << 20;
const POUR_SEGMENT: &[u8] = &[0; 64 << 10];

/// Hears a question, and what it takes of a budget. Who asks more than may wait hears that,
/// whatever he asks: he shall not take it for the end of all that is here.
pub(super) async fn heard(
    (send, receive): (&mut SendStream, &mut RecvStream),
    budget: &Budget,
) -> Option<(Question, Claim)> {
    let error = match hear(receive, budget).await {
        Ok(heard) => return Some(heard),
        Err(error @ DoorError::TooMuch) => error,
        Err(_) => return None,
    };
    // The rest of it is not heard. He may be gone now.
    let _ = receive.stop(VarInt::from_u32(0));
    let refused = RpcError::RpcRefused { reason: error.to_string() };
    answer(send, &Answer::Called(Err(refused))).await;
    None
}

/// Answers a question for a workshop; gives it back if it is for others. Without a workshop nothing
/// is executed or kept.
pub(super) async fn attend<C: Catalogue>(
    question: Question,
    workshop: Option<&Arc<Workshop<C>>>,
    (connection, groups): (&Connection, &Mutex<Groups>),
    send: &mut SendStream,
) -> Option<Question> {
    match (question, workshop) {
        (Question::Echo, _) => answer(send, &Answer::Noted).await,
        (Question::Pour(bytes), _) => pour(bytes, send).await,
        (Question::Give { group, data }, Some(workshop)) => workshop.give(group, data, send).await,
        // Who asked may be gone.
        (Question::Give { .. }, None) => drop(give(None, send).await),
        (Question::Task(order), Some(workshop)) => {
            task(order, workshop, (connection, groups), send).await;
        }
        (Question::Free { group, data }, Some(workshop)) => {
            workshop.free(group, &data, groups);
            answer(send, &Answer::Noted).await;
        }
        (Question::End(group), Some(workshop)) => {
            workshop.end(group, groups);
            answer(send, &Answer::Noted).await;
        }
        (question, _) => return Some(question),
    }
    None
}

/// Says what there is to say, to whoever may be gone.
pub(super) async fn answer(send: &mut SendStream, answer: &Answer) {
    let _ = say(send, answer).await;
    let _ = send.stopped().await;
}

/// Executes a task as long as whoever ordered it waits, and tells him when it begins.
async fn task<C: Catalogue>(
    order: Order,
    workshop: &Arc<Workshop<C>>,
    (connection, groups): (&Connection, &Mutex<Groups>),
    send: &mut SendStream,
) {
    let (tell, begun) = oneshot::channel();
    let mut begun = pin!(begun);
    let mut executed = pin!(workshop.task(order, connection, groups, tell));
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
    answer(send, &done).await;
}

async fn pour(bytes: u64, send: &mut SendStream) {
    let mut poured = async || -> Result<(), DoorError> {
        let mut left = bytes.min(POUR_BYTES_MAX) as usize;
        while left > 0 {
            let segment = Bytes::from_static(&POUR_SEGMENT[..left.min(POUR_SEGMENT.len())]);
            left -= segment.len();
            let written = send.write_chunk(segment).await;
            written.map_err(|error| DoorError::Malformed(error.to_string()))?;
        }
        // The stream is not closed yet.
        let _ = send.finish();
        Ok(())
    };
    // Who asked may be gone.
    let _ = poured().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::order;
    use crate::token::Token;
    use crate::wire::{Trouble, Work};
    use gridspan_rpc::calls::Signature;
    use quinn::Endpoint;

    // Whoever writes a long text on the only thread says nothing meanwhile, and is taken to be
    // gone.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_orders_more_than_may_wait_hears_so_and_the_connection_goes_on() {
        let listen = ([127, 0, 0, 1], 0).into();
        let (token, key) = Token::new(listen).unwrap();
        let door = Endpoint::server(key.server().unwrap(), listen).unwrap();
        let mut guest = Endpoint::client(listen).unwrap();
        guest.set_default_client_config(token.client().unwrap());
        let connecting = guest.connect(door.local_addr().unwrap(), &token.names()[0]).unwrap();
        let comes_in = async { door.accept().await.unwrap().await.unwrap() };
        let (connection, server) = tokio::join!(connecting, comes_in);
        let connection = connection.unwrap();
        tokio::spawn(async move {
            while let Ok((mut send, mut receive)) = server.accept_bi().await {
                let budget = Budget::new(1000);
                if heard((&mut send, &mut receive), &budget).await.is_some() {
                    answer(&mut send, &Answer::Done(Err(Trouble::Failed("heard".into())))).await;
                }
            }
        });
        let task = |name: &str| {
            let work = Work::Function(name.to_owned(), Signature::of::<(), ()>());
            let (inputs, outputs) = (vec![], vec![]);
            Order { group: 1, place: 0, work, inputs, outputs }
        };

        for bytes in [2000, 20 << 20] {
            let long = order(&connection, task(&"f".repeat(bytes)), || {}).await.unwrap();
            let Err(Trouble::Refused(reason)) = long else { panic!("{long:?}") };
            assert_eq!(reason, DoorError::TooMuch.to_string());
        }

        let short = order(&connection, task("f"), || {}).await.unwrap();
        assert_eq!(short, Err(Trouble::Failed("heard".to_owned())));
    }
}
