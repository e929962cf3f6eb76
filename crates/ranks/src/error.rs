//! The errors of operations of ranks.

use crate::element::name_of;
use crate::refusal::RankRefusal;
use std::fmt;
use std::ops::Range;

/// The first number that the name server gives to a communicator. It gives two numbers to each
/// group that ranks make by spawning, by connecting or by a name. Communicators that ranks agree on
/// have lower numbers.
pub(crate) const SERVED_FROM: u32 = 1 << 30;

/// The operation that failed: its name, its communicator and its peer.
///
/// ```
/// use gridspan::ranks::{self, RankError};
///
/// let job = ranks::run(2, async |world| {
///     let error = world.send(&[1.0], 9, 4).await.unwrap_err();
///     let RankError::NoSuchRank { at, size, .. } = error else { return Err(error) };
///     assert_eq!((at.call, at.peer, at.tag, size), ("send", Some(9), Some(4), 2));
///     Ok(())
/// });
/// # gridspan::embed::Runner::on_threads(1).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallSite {
    /// The name of the operation.
    pub call: &'static str,
    /// The rank with which it communicates, if there is a certain one.
    pub peer: Option<u32>,
    /// The tag, if there is a certain one.
    pub tag: Option<u32>,
    /// The number of the communicator; the world is number 0. The numbers of groups that were
    /// spawned, connected or joined start at 2^30; texts number these connected groups from 0 on.
    pub communicator: u32,
}

impl CallSite {
    pub(crate) fn new(call: &'static str, communicator: u32) -> Self {
        Self { call, peer: None, tag: None, communicator }
    }

    pub(crate) fn with(self, peer: Option<u32>, tag: Option<u32>) -> Self {
        Self { peer, tag, ..self }
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call)?;
        if let Some(peer) = self.peer {
            write!(f, " with rank {peer}")?;
        }
        if let Some(tag) = self.tag {
            write!(f, ", tag {tag}")?;
        }
        match self.communicator {
            0 => f.write_str(", on the world"),
            number @ 1..SERVED_FROM => write!(f, ", on communicator {number}"),
            number => write!(f, ", on connected group {}", (number - SERVED_FROM) / 2),
        }
    }
}

/// Why an operation of a rank failed. A rank that returns an error ends the job, or fails alone in
/// a job with [`ErrorsReturn`](crate::ErrorsReturn).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RankError {
    /// The communicator has no such rank. Nothing was sent or received.
    #[error("{at}: there is no rank {rank} among {size}")]
    NoSuchRank {
        /// The operation.
        at: CallSite,
        /// The rank.
        rank: u32,
        /// Number of ranks of the communicator.
        size: u32,
    },
    /// The message is longer than the buffer, and is lost. Probe for its length first, or receive a
    /// `Vec`.
    #[error("{at}: a message of {sent} bytes does not fit into a buffer of {room}")]
    Truncated {
        /// The receive.
        at: CallSite,
        /// Number of bytes of the message.
        sent: usize,
        /// Number of bytes of the buffer.
        room: usize,
    },
    /// The message has elements or a value of another type than the receiver expects. The message
    /// is lost.
    #[error("{at}: {sent} was sent where {expected} is expected")]
    TypeMismatch {
        /// The receive.
        at: CallSite,
        /// What was sent.
        sent: String,
        /// What the receiver expects.
        expected: &'static str,
    },
    /// A value does not encode or decode.
    #[error("{at}: a value of type {of} does not encode or decode: {reason}")]
    Malformed {
        /// The operation.
        at: CallSite,
        /// The type of the value.
        of: &'static str,
        /// The reason.
        reason: String,
    },
    /// The ranks of a collective operation have given different numbers of elements, or a rank gave
    /// a wrong number of them.
    #[error("{at}: {found} elements where {expected} are expected")]
    WrongLength {
        /// The operation.
        at: CallSite,
        /// Number of elements that were given.
        found: usize,
        /// Number of elements that are expected.
        expected: usize,
    },
    /// The attached buffer has no room for a buffered send. Nothing was sent.
    #[error("{at}: {needed} bytes do not fit into the attached buffer, which has {free} free")]
    BufferFull {
        /// The send.
        at: CallSite,
        /// Number of bytes of the message.
        needed: usize,
        /// Number of free bytes.
        free: usize,
    },
    /// The rank has attached a buffer already.
    #[error("a buffer is attached already; detach it first")]
    BufferAttached,
    /// The receive was cancelled.
    #[error("{at}: cancelled")]
    Cancelled {
        /// The operation.
        at: CallSite,
    },
    /// The rank came to a migration point, or ended, while operations were not complete.
    #[error("rank {rank} left `run` before these operations were complete: {}", list(pending))]
    PendingOperations {
        /// The number of the rank in the job.
        rank: u32,
        /// The operations.
        pending: Vec<CallSite>,
    },
    /// A rank with which the operation communicates has failed, in a job with
    /// [`ErrorsReturn`](crate::ErrorsReturn). Messages that it had sent before can still be
    /// received.
    #[error("{at}: rank {rank} of the job has failed: {reason}")]
    PeerFailed {
        /// The operation.
        at: CallSite,
        /// The number of the failed rank in the job.
        rank: u32,
        /// Its error.
        reason: String,
    },
    /// The communicator was [revoked](crate::Comm::revoke). Nothing was sent or received.
    #[error("{at}: the communicator was revoked")]
    Revoked {
        /// The operation.
        at: CallSite,
    },
    /// A group has no such position.
    #[error("a group of {size} ranks has no position {position}")]
    NoSuchPosition {
        /// The position.
        position: u32,
        /// Number of ranks of the group.
        size: u32,
    },
    /// A position of a group was named twice.
    #[error("position {position} is named twice")]
    PositionTwice {
        /// The position.
        position: u32,
    },
    /// A group has a rank that the communicator lacks. Nothing was sent.
    #[error("{at}: rank {rank} of the job is not in the communicator")]
    NotInCommunicator {
        /// The operation.
        at: CallSite,
        /// The number of the rank in the job.
        rank: u32,
    },
    /// No grid with the given extents has this number of ranks.
    #[error("{ranks} ranks do not fill a grid of {dims:?}")]
    NoSuchGrid {
        /// Number of ranks.
        ranks: u32,
        /// The extents; those that were given as 0 were free.
        dims: Vec<u32>,
    },
    /// A grid of these extents has no points, or more than there are ranks. Nothing was sent.
    #[error("{at}: a grid of {dims:?} does not have 1 to {ranks} points")]
    UnfitGrid {
        /// The operation.
        at: CallSite,
        /// The extents.
        dims: Vec<u32>,
        /// Number of ranks.
        ranks: u32,
    },
    /// The grid has no such axis.
    #[error("{at}: there is no axis {axis} among {axes}")]
    NoSuchAxis {
        /// The operation.
        at: CallSite,
        /// The axis.
        axis: usize,
        /// Number of axes.
        axes: usize,
    },
    /// An argument does not have one entry for each axis of the grid. Nothing was sent.
    #[error("{at}: {found} entries for {axes} axes")]
    OneForEachAxis {
        /// The operation.
        at: CallSite,
        /// Number of entries.
        found: usize,
        /// Number of axes.
        axes: usize,
    },
    /// An edge of a graph was named by one of its two ranks only. All ranks get this error.
    #[error("{at}: an edge is named by its sender or its receiver only")]
    OneSidedEdge {
        /// The operation.
        at: CallSite,
    },
    /// The elements are not the same number for each rank.
    #[error("{at}: {found} elements do not divide among {ranks} ranks")]
    Indivisible {
        /// The operation.
        at: CallSite,
        /// Number of elements.
        found: usize,
        /// Number of ranks.
        ranks: u32,
    },
    /// The root of a collective operation has given no value. Other ranks still wait for it.
    #[error("{at}: the root has no value")]
    NothingAtRoot {
        /// The operation.
        at: CallSite,
    },
    /// Ranks of the communicator were in different collective operations. All must call the same
    /// operations in one order.
    #[error("{at}: other ranks are in another collective operation; all must call the same one")]
    OperationsDiffer {
        /// The operation.
        at: CallSite,
    },
    /// The elements are not in the window of the rank. Nothing was sent.
    #[error("{at}: elements {range:?} of {length} in the window")]
    OutsideOfWindow {
        /// The access.
        at: CallSite,
        /// The positions of the elements.
        range: Range<usize>,
        /// Number of elements that the rank has in the window.
        length: usize,
    },
    /// A value was to be received from [`PROC_NULL`](crate::PROC_NULL).
    #[error("{at}: PROC_NULL sends no value")]
    NoValueFromNull {
        /// The receive.
        at: CallSite,
    },
    /// The result of a request was returned before.
    #[error("{at}: its result was already returned")]
    AlreadyReturned {
        /// The operation.
        at: CallSite,
    },
    /// Only a job with [`ErrorsReturn`](crate::ErrorsReturn) can do this. Nothing was done.
    #[error("{at}: the job lacks the resource ErrorsReturn; add it")]
    NeedsErrorsReturn {
        /// The operation.
        at: CallSite,
    },
    /// The ranks of the communicator have used all numbers of communicators. All of them get this
    /// error.
    #[error(
        "{at}: its ranks have used all 2^30 numbers of communicators; make fewer, or keep them"
    )]
    NoNumberLeft {
        /// The operation.
        at: CallSite,
    },
    /// A request to spawn, to connect, or about a name was refused. Nothing was done.
    #[error("{at}: {refusal}")]
    Refused {
        /// The operation.
        at: CallSite,
        /// Why it was refused.
        refusal: RankRefusal,
    },
    /// A reason that the program gives, or that it cannot react to, such as a panic.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for RankError {
    fn from(reason: String) -> Self {
        Self::Failed(reason)
    }
}

impl From<&str> for RankError {
    fn from(reason: &str) -> Self {
        Self::Failed(reason.to_owned())
    }
}

fn list(pending: &[CallSite]) -> String {
    /// Number of operations that are named.
    const NAMED_MAX: usize = 8;
    let named: Vec<String> = pending.iter().take(NAMED_MAX).map(CallSite::to_string).collect();
    let more = if pending.len() > NAMED_MAX { "; …" } else { "" };
    named.join("; ") + more
}

/// Names a kind of element for an error.
pub(crate) fn kind_name(kind: u64) -> String {
    match name_of(kind) {
        Some(name) => name.to_owned(),
        None => format!("another type (kind {kind:x})"),
    }
}
