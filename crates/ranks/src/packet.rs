//! The messages of the actors: what ranks send to each other, and main to ranks.

use crate::content::Content;
use crate::deadlock::{Flush, WaitState};
use crate::matching::{Arrival, Arrived, Label};
use crate::name_server::{PlacedRanks, ServerReply, ServerRequest};
use crate::places::Places;
use crate::runs::Run;
use crate::ticket::{Asker, Ticket};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    /// All data. A send that waits until a receive matches it asks for an acknowledgement with this
    /// number.
    Whole { content: Content, acknowledge: Option<u32> },
    /// An offer of a long message, which the sender keeps until the receiver accepts it.
    Offer { token: u32, kind: u64, bytes: u64 },
    /// A long message whose data are on their way to a receive that was dropped. This variant is
    /// never sent.
    Coming { to: Ticket, kind: u64, bytes: u64 },
    /// The parts of a message of a collective operation.
    Parts(Vec<Part>),
}

impl Load {
    /// Number of bytes that a receiver gets.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole { content, .. } => content.bytes().len(),
            Self::Offer { bytes, .. } | Self::Coming { bytes, .. } => *bytes as usize,
            Self::Parts(parts) => parts.iter().map(|part| part.content.bytes().len()).sum(),
        }
    }
}

/// A message without its label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Payload {
    /// The number of the sender in the job.
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
    /// The rank no longer wants the lock of this number, which may be granted already.
    Withdraw {
        lock: u32,
    },
}

impl Access {
    /// Whether it runs the operator of the window, which is code of the program.
    pub(crate) fn runs_operator(&self) -> bool {
        matches!(self, Self::Accumulate { .. } | Self::FetchAndAccumulate { .. })
    }
}

/// The end of an access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) token: u32,
    pub(crate) content: Option<Content>,
}

/// What a spawned rank begins with.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SpawnedGroup {
    /// The first number of the communicators with the parents.
    pub(crate) number: u32,
    /// The ranks that begin together.
    pub(crate) children: PlacedRanks,
    pub(crate) parents: PlacedRanks,
    /// A table without ranks.
    pub(crate) places: Arc<Places>,
    /// The ranks that have failed before, and why.
    pub(crate) failed: BTreeMap<u32, String>,
    /// Whether the ranks look by themselves for deadlocks.
    pub(crate) looks: bool,
    /// Number of messages of this process that share this value; 0 for a decoded one, which belongs
    /// to one message.
    #[serde(skip)]
    pub(crate) shared_by: u32,
}

impl SpawnedGroup {
    /// One message's share of the bytes on the heap, which several messages may have in common.
    fn heap_bytes(&self) -> usize {
        let Self { children, parents, places, failed, .. } = self;
        let reasons: usize = failed.values().map(String::len).sum();
        let lists = children.heap_bytes() + parents.heap_bytes() + places.links().heap_bytes();
        (lists + reasons) / self.shared_by.max(1) as usize
    }
}

/// A message to the actor that runs a rank.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) enum RankMessage {
    /// From main: contribute the PE where this rank lives.
    Report,
    /// From main: run, until the next migration point or the end.
    Begin(Arc<Places>),
    /// From main: contribute the result.
    Results,
    /// From main: the ranks make no progress; report to rank 0 what this rank waits for.
    Explain,
    /// To rank 0: what a rank waits for.
    Stuck(u32, Option<String>),
    /// A message from another rank.
    Message(Label, Payload),
    /// To the sender of an offer: send the data, to the receive that got the offer.
    Accept { token: u32, receive: Ticket, at: Arrival },
    /// The data of an accepted offer.
    Data(Ticket, Arrived<Payload>),
    /// To the sender of a message that asks for an acknowledgement: a receive has matched it.
    Matched { token: u32 },
    /// An access of this rank of the job to the window of this number.
    Access { from: u32, window: u32, token: u32, access: Access },
    /// The end of an access.
    Answer(Answer),
    /// From a rank that waits for the lock of this number on a window: which ranks are before it?
    AskLock { from: u32, window: u32, lock: u32 },
    /// The ranks before a rank that waits for a lock; `None` if they are too many. Unless it
    /// `is_last`, another such message follows once fewer ranks are before it.
    BeforeLock { lock: u32, before: Option<Vec<Run>>, is_last: bool },
    /// A part of a long message of this rank of the job, encoded.
    Piece { from: u32, is_last: bool, bytes: Bytes },
    /// From the rank to itself: try again to migrate back to the PE that has its futures.
    Return,
    /// From the rank to itself: wake the tasks that yielded to the PE.
    GoOn,
    /// From the rank to itself: the delay of this number is over.
    Elapsed(u64),
    /// To rank 0: a request to the name server.
    Ask { asker: Asker, request: Box<ServerRequest> },
    /// The answer to a request.
    Answered { ticket: Ticket, reply: ServerReply },
    /// From rank 0 to a rank that it has spawned: begin.
    Spawned(Arc<SpawnedGroup>),
    /// To rank 0: a rank of the spawned group that starts with rank `first` has begun.
    Begun { first: u32 },
    /// Answer once this rank has ended.
    TellEnd(Asker),
    /// From main, once in each period: report to rank 0 whether this rank waits. If
    /// `is_late_next`, main's next request comes late, and the rank looks by itself until then.
    Look { is_late_next: bool },
    /// From the rank to itself: look, if this is the number of the last timer for it.
    LookAgain(u64),
    /// From main: the run has ended; no longer look by yourself.
    Rest,
    /// To rank 0: whether a rank waits.
    Waits { rank: u32, state: WaitState },
    /// From rank 0: exchange markers with others.
    Flush(Flush),
    /// From rank `from`: all messages that it sent before this marker have come.
    Marker { round: u64, from: u32 },
    /// To rank 0: a rank has received all its markers, and `waits` says what it waits for. `None`
    /// if the rank has changed since it reported its wait; then it may lack markers.
    Flushed { round: u64, rank: u32, waits: Option<String> },
    /// To rank 0: the program of a rank has failed. The rank knows of `known` ranks, and has used
    /// no communicator number from `next_communicator` on.
    HasFailed { rank: u32, known: u32, next_communicator: u32, reason: String },
    /// From rank 0 to a failed rank: report the failure to the `ranks` ranks of the job.
    TellFailure { ranks: u32 },
    /// A rank has failed. All its messages have come before.
    Failed { rank: u32, reason: String },
    /// A communicator was revoked, by this rank of the job.
    Revoked { communicator: u32, from: u32 },
}

impl RankMessage {
    /// Whether it offers a long message.
    pub(crate) fn is_offer(&self) -> bool {
        matches!(self, Self::Message(_, Payload { load: Load::Offer { .. }, .. }))
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Message(_, payload) | Self::Data(_, Arrived { message: payload, .. }) => {
                match payload.load {
                    Load::Offer { .. } | Load::Coming { .. } => 0,
                    _ => payload.load.bytes(),
                }
            }
            Self::Access {
                access:
                    Access::Put { content, .. }
                    | Access::Accumulate { content, .. }
                    | Access::FetchAndAccumulate { content, .. },
                ..
            } => content.bytes().len(),
            Self::Answer(Answer { content: Some(content), .. }) => content.bytes().len(),
            Self::Piece { bytes, .. } => bytes.len(),
            Self::HasFailed { reason, .. } | Self::Failed { reason, .. } => reason.len(),
            Self::Ask { request, .. } => request.heap_bytes(),
            Self::Answered { reply, .. } => reply.heap_bytes(),
            Self::Spawned(group) => group.heap_bytes(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_to_spawned_ranks_count_for_a_share_of_the_list_until_each_has_a_copy() {
        let children = PlacedRanks { ranks: (5..105).collect(), places: vec![(0, 1); 100] };
        let (parents, places, failed) = (PlacedRanks::default(), Arc::default(), BTreeMap::new());
        let (number, looks, shared_by) = (9, false, 100);
        let group = SpawnedGroup { number, children, parents, places, failed, looks, shared_by };
        let message = RankMessage::Spawned(Arc::new(group));
        assert_eq!(message.heap_bytes(), 12);
        let bytes = postcard::to_stdvec(&message).unwrap();
        let decoded: RankMessage = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(decoded.heap_bytes(), 1200);
    }
}
