//! What can go wrong with a job, and what to do about it.

use gridspan_topology::{NodeId, PeId};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::time::Duration;

/// Why a job ended without success. All nodes of the job report the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum JobError {
    /// `main` or an actor gave up.
    #[error("{0}")]
    Failed(String),
    /// A handler panicked. The panic's own message stands above, on that node's standard error.
    #[error("a handler of {actor} panicked on {pe} ({place}): {reason}")]
    Panicked {
        /// The type of the actor.
        actor: String,
        /// Where it ran.
        pe: PeId,
        /// The PE's node and site.
        place: String,
        /// The panic's message.
        reason: String,
    },
    /// A node stayed silent for too long. Look at its standard error, or at the link to its site.
    #[error("lost {node} at site {site}: {reason}")]
    NodeLost {
        /// The node that was lost.
        node: NodeId,
        /// The site it was in.
        site: String,
        /// What was observed; it names the other nodes that were lost with this one.
        reason: String,
        /// These nodes.
        others: Vec<NodeId>,
    },
    /// The mailboxes of a PE outgrew their budget. Raise the limit, or send less before receiving.
    #[error(
        "out of memory for messages on {pe} ({place}): {queued_bytes} bytes queued, {held_bytes} of them until something before them has come, the hard limit is {limit_bytes}; fullest mailboxes: {fullest}"
    )]
    OverBudget {
        /// The PE whose mailboxes are full.
        pe: PeId,
        /// The PE's node and site.
        place: String,
        /// Bytes queued when it was noticed.
        queued_bytes: u64,
        /// How many of these wait for what comes before them: a broadcast, an earlier message, or
        /// the receiver itself.
        held_bytes: u64,
        /// The configured limit.
        limit_bytes: u64,
        /// The collections and members with most messages waiting.
        fullest: String,
    },
    /// The job can never go on, and was to end then. Look at who should have sent, answered or
    /// contributed.
    #[error("{0}")]
    Stalled(String),
    /// The job took longer than it may. Give it more time, or look at what it waits for.
    #[error("the job still ran after its time limit of {limit:?}: {waits}")]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// What it waited for.
        waits: String,
    },
    /// A node runs a program whose values mean something else. Start all nodes from one build.
    #[error(
        "{node} at site {site}, on host {host}, runs another program or another version of it: {difference}"
    )]
    OtherProgram {
        /// The node.
        node: NodeId,
        /// Its site.
        site: String,
        /// Its host.
        host: String,
        /// What differs: here on the coordinator's node, there on that node.
        difference: String,
    },
    /// A peer sent something that does not decode; the programs of the nodes differ.
    #[error("{0}")]
    Protocol(String),
}

/// What a panic says.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// Why an ask got no answer. The question may or may not have been handled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// No answer came in time; it is dropped should it still come.
    #[error("no answer in time; the member may be busy, gone, or never reply to this message")]
    Timeout,
    /// The answer has another type than the question asked for.
    #[error("the answer does not fit the question: {0}")]
    Malformed(String),
}

/// Why `main` could not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// An ask failed.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The type was not registered.
    #[error("{0} is not part of the job; add `.actor::<{0}>()` to its definition")]
    NotRegistered(&'static str),
    /// The type of tasks or searches was not added to the job.
    #[error("{name} is not part of the job; add `.{method}::<{name}>()` to its definition")]
    NoSuchTask {
        /// The type.
        name: &'static str,
        /// The method of [`Job`](crate::Job) that adds it.
        method: &'static str,
    },
    /// A task was to begin on a PE that does not exist.
    #[error(
        "there is no {pe} to begin on; the job has {pes} PEs, the first of which is {}",
        PeId(0)
    )]
    NoSuchPe {
        /// Where it was to begin.
        pe: PeId,
        /// How many PEs there are.
        pes: u32,
    },
    /// The pool was closed before the task was done.
    #[error(
        "the pool of tasks is closed, and what it had to do is lost; close it later, or open another"
    )]
    PoolClosed,
    /// The result of a reduction has another type than asked for.
    #[error("the reduction of collection {collection} gave {found}, not the {wanted} asked for")]
    Reduction {
        /// The collection.
        collection: u32,
        /// What the members contributed.
        found: String,
        /// What `main` asked for.
        wanted: String,
    },
    /// A placement map that the job does not know.
    #[error("the job has no placement map `{0}`; add it with `Job::placement`")]
    UnknownPlacement(String),
    /// Two members of a collection were given the same index.
    #[error("a collection was given two members with the index {0}; each index names one member")]
    DuplicateIndex(String),
    /// A publication or a task is too large to be sent in one piece.
    #[error("{bytes} bytes are more than the {limit} that are sent in one piece; divide it")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The job has one node only.
    #[error("a job of one node has no links; run it on several")]
    NoLinks,
    /// The job has no such node, or it has joined the job and may leave it.
    #[error(
        "{node} cannot run the coordinator; name one of the {nodes} nodes that the job began with"
    )]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// How many there are.
        nodes: u32,
    },
    /// The job is ending, so nothing will answer any more.
    #[error("the job is ending")]
    Ending,
}

impl From<GridError> for JobError {
    fn from(error: GridError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<String> for JobError {
    fn from(error: String) -> Self {
        Self::Failed(error)
    }
}

impl From<&str> for JobError {
    fn from(error: &str) -> Self {
        Self::Failed(error.to_owned())
    }
}
