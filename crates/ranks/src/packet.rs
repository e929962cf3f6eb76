//! What ranks send each other, and main sends ranks: the messages of the actors.

use crate::content::Content;
use crate::matching::{Arrival, Arrived, Label};
use crate::places::Places;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Names an operation that is not complete. A place is used again for later operations, and each
/// operation of a rank has its own generation, also after the rank has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) slot: u32,
    pub(crate) generation: u64,
}

/// A part of a message of a collective operation: for example the value of one rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// What the part belongs to; each operation defines it.
    pub(crate) key: u64,
    pub(crate) content: Content,
}

/// The data of a message between ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Load {
    /// All data. A synchronous send asks for an acknowledgement, under this number.
    Whole { content: Content, acknowledge: Option<u32> },
    /// An offer of a long message, which the sender keeps until the receiver accepts it.
    Offer { token: u32, kind: u64, bytes: u64 },
    /// The parts of a message of a collective operation.
    Parts(Vec<Part>),
}

impl Load {
    /// Number of bytes that a receiver gets.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole { content, .. } => content.bytes.len(),
            Self::Offer { bytes, .. } => *bytes as usize,
            Self::Parts(parts) => parts.iter().map(|part| part.content.bytes.len()).sum(),
        }
    }
}

/// A message without its label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Letter {
    /// The rank of the sender in the world.
    pub(crate) origin: u32,
    pub(crate) load: Load,
}

/// An access to a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Access {
    Put {
        at: u64,
        content: Content,
    },
    Accumulate {
        at: u64,
        content: Content,
    },
    Get {
        at: u64,
        count: u64,
    },
    FetchAndAccumulate {
        at: u64,
        content: Content,
        count: u64,
    },
    Lock {
        is_exclusive: bool,
    },
    Unlock,
    /// The lock of this number is no longer wanted, whether it was granted or not.
    Withdraw {
        lock: u32,
    },
}

/// The end of an access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) token: u32,
    pub(crate) content: Option<Content>,
}

/// A message of the actor that runs a rank.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum RankMessage {
    /// From main: contribute the PE where this rank lives.
    Report,
    /// From main: run, until the next migration point or the end.
    Begin(Arc<Places>),
    /// From main: contribute the result.
    Results,
    /// From main: nothing happens any more; tell rank 0 what this rank waits for.
    Explain,
    /// To rank 0: what a rank waits for.
    Stuck(u32, Option<String>),
    /// A message from another rank.
    Letter(Label, Letter),
    /// To the sender of an offer: send the data, to the receive that got the offer.
    Accept { token: u32, receive: Ticket, at: Arrival },
    /// The data of an accepted offer.
    Data(Ticket, Arrived<Letter>),
    /// To the sender of a synchronous send: the message was matched.
    Matched { token: u32 },
    /// An access of this rank of the world to the window of this number.
    Access { from: u32, window: u32, token: u32, access: Access },
    /// The end of an access.
    Answer(Answer),
    /// A part of a long message of this rank of the world, encoded.
    Piece { from: u32, is_last: bool, bytes: Bytes },
    /// From the rank to itself: go back to where its futures are.
    Return,
    /// From the rank to itself: go on.
    GoOn,
    /// From the rank to itself: the delay of this number is over.
    Elapsed(u64),
}

impl RankMessage {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Letter(_, letter) | Self::Data(_, Arrived { message: letter, .. }) => {
                match letter.load {
                    Load::Offer { .. } => 0,
                    _ => letter.load.bytes(),
                }
            }
            Self::Access {
                access:
                    Access::Put { content, .. }
                    | Access::Accumulate { content, .. }
                    | Access::FetchAndAccumulate { content, .. },
                ..
            } => content.bytes.len(),
            Self::Answer(Answer { content: Some(content), .. }) => content.bytes.len(),
            Self::Piece { bytes, .. } => bytes.len(),
            _ => 0,
        }
    }
}
