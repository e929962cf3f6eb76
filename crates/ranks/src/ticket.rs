//! The names of operations that are not complete.

use serde::{Deserialize, Serialize};

/// Names an operation that is not complete. Later operations use a slot again; no two operations of
/// a rank have the same generation, even after the rank has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) slot: u32,
    pub(crate) generation: u64,
}

/// An operation of a rank that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    /// The number of the rank in the job.
    pub(crate) rank: u32,
    pub(crate) ticket: Ticket,
}
