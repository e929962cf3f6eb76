//! What is asked at a door, and answered: JSON, one stream for each question.
//!
//! What comes from outside is bounded before it is in memory: each text, and all that one connection has waiting.

use super::budget::{Budget, Claim};
use super::token::DoorError;
use gridspan_rpc::calls::{RpcError, ServerCard};
use quinn::{Connection, RecvStream, SendStream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longer texts are refused.
const TEXT_BYTES_MAX: usize = 256 << 20;
/// What one connection may have waiting: a text of the largest size, and another.
pub(super) const WAITING_BYTES_MAX: usize = 2 * TEXT_BYTES_MAX;
/// So much of a text is taken from the network at once.
const CHUNK_BYTES: usize = 1 << 20;

/// What somebody wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Which servers are there?
    List,
    /// Call a function.
    Call(TextCall),
    /// The call of this number is not wanted any more. It is answered all the same, once nothing is done for it.
    Cancel(u64),
    /// Send calls to me, through this connection.
    Join(ServerCard),
}

/// A call in text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TextCall {
    /// What the daemon calls it, where it passes it on.
    #[serde(default)]
    pub(super) number: u64,
    pub(super) function: String,
    /// The arguments in JSON.
    pub(super) arguments: String,
    /// How long one server has to answer.
    pub(super) timeout: Duration,
}

/// A server behind a door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listed {
    /// What it says of itself.
    pub(crate) card: ServerCard,
    /// How many calls it has from here.
    pub(crate) calls: u32,
    /// How long they compute, in seconds, as far as is known.
    pub(crate) load_s: f64,
}

/// What comes of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Servers(Vec<Listed>),
    /// The results in JSON, or why there are none.
    Called(Result<String, RpcError>),
    Joined,
    /// A server that may not join, and why.
    Refused(String),
    /// The call is taken back.
    Cancelled,
}

/// Asks, and waits for the answer.
pub(super) async fn ask(connection: &Connection, question: &Question) -> Result<Answer, DoorError> {
    let address = connection.remote_address();
    let streams = connection.open_bi().await;
    let (mut send, mut receive) = streams.map_err(|error| DoorError::away(address, &error))?;
    if say(&mut send, question).await.is_err() {
        // Who refuses a question does not hear all of it, and says so.
        drop(send);
    }
    let answered = hear(&mut receive, &Budget::new(TEXT_BYTES_MAX)).await;
    answered.map(|(answer, _)| answer).map_err(|error| match connection.close_reason() {
        Some(reason) => DoorError::away(connection.remote_address(), &reason),
        None => error,
    })
}

/// Says all there is to say on a stream.
pub(super) async fn say<T: Serialize>(to: &mut SendStream, what: &T) -> Result<(), DoorError> {
    let malformed = |error: String| DoorError::Malformed(error);
    let text = serde_json::to_vec(what).map_err(|error| malformed(error.to_string()))?;
    to.write_all(&text).await.map_err(|error| malformed(error.to_string()))?;
    to.finish().map_err(|error| malformed(error.to_string()))
}

/// Hears all that is said on a stream, and what that takes of a budget.
pub(super) async fn hear<T: DeserializeOwned>(
    from: &mut RecvStream,
    budget: &Budget,
) -> Result<(T, Claim), DoorError> {
    let (mut text, mut claim) = (Vec::new(), budget.claim());
    loop {
        let chunk = from.read_chunk(CHUNK_BYTES, true).await;
        let chunk = chunk.map_err(|error| DoorError::Malformed(error.to_string()))?;
        let Some(chunk) = chunk else { break };
        if text.len() + chunk.bytes.len() > TEXT_BYTES_MAX || !claim.grow(chunk.bytes.len()) {
            return Err(DoorError::TooMuch);
        }
        text.extend_from_slice(&chunk.bytes);
    }
    Ok((read(&text)?, claim))
}

/// Understands a text.
pub(super) fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, DoorError> {
    serde_json::from_slice(text).map_err(|error| DoorError::Malformed(error.to_string()))
}
