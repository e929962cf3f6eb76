//! What is asked at a door, and answered: JSON, one stream for each question.

use super::token::DoorError;
use gridspan_rpc::calls::{RpcError, ServerCard};
use quinn::{Connection, RecvStream, SendStream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longer texts are refused.
const TEXT_BYTES_MAX: usize = 256 << 20;

/// What somebody wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Which servers are there?
    List,
    /// Call a function.
    Call(TextCall),
    /// Send calls to me, through this connection.
    Join(ServerCard),
}

/// A call in text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TextCall {
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
}

/// Asks, and waits for the answer.
pub(super) async fn ask(connection: &Connection, question: &Question) -> Result<Answer, DoorError> {
    let away = |reason: String| DoorError::Away { address: connection.remote_address(), reason };
    let streams = connection.open_bi().await;
    let (mut send, mut receive) = streams.map_err(|error| away(error.to_string()))?;
    say(&mut send, question).await.map_err(|error| away(error.to_string()))?;
    hear(&mut receive).await.map_err(|error| match connection.close_reason() {
        Some(reason) => away(reason.to_string()),
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

/// Hears all that is said on a stream.
pub(super) async fn hear<T: DeserializeOwned>(from: &mut RecvStream) -> Result<T, DoorError> {
    let text = from.read_to_end(TEXT_BYTES_MAX).await;
    let text = text.map_err(|error| DoorError::Malformed(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| DoorError::Malformed(error.to_string()))
}
