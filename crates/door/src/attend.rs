//! Answers what is asked of a workshop, at a door or at a server that has joined one.

use super::groups::Groups;
use super::stuff::give;
use super::token::DoorError;
use super::wire::{Answer, BEGUN, Order, Question, say};
use super::workshop::Workshop;
use bytes::Bytes;
use gridspan_rpc::calls::Catalogue;
use quinn::{Connection, SendStream};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// More bytes of nothing are not sent to whoever measures a way.
const POUR_BYTES_MAX: u64 = 16 << 20;
const POUR_SEGMENT: &[u8] = &[0; 64 << 10];

/// Answers a question for a workshop; gives it back if it is for others. Without a workshop nothing is executed or kept.
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
