//! Errors of a job, with advice on what to do about them.

mod checkpoint;
mod misuse;
mod refusal;
mod start;
mod warning;

pub use checkpoint::CheckpointError;
pub use misuse::Misuse;
pub use refusal::RefusalCause;
pub use start::{NodeProcessError, StartError};
pub use warning::Warning;

use gridspan_topology::{NodeId, PeId};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt::Display;
use std::time::Duration;

/// The observation for which a node was declared lost.
///
/// ```
/// use gridspan::{JobError, LossCause};
///
/// /// Whether a retry on the same nodes may succeed.
/// fn may_retry(error: &JobError) -> bool {
///     matches!(error, JobError::NodeLost { cause: LossCause::Silent, .. })
/// }
/// # assert!(!may_retry(&JobError::Cancelled));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LossCause {
    /// It was silent for too long: its machine, or the link to its site, failed or stood still.
    Silent,
    /// Its process has ended: no process has its port any more.
    Ended,
    /// It closed its connections.
    Closed,
    /// It was started again.
    Restarted,
    /// It was never reached.
    Unreachable,
    /// It refused this node.
    Refused(RefusalCause),
}

/// Why a job ended without success. All nodes of the job report the same.
///
/// ```
/// use gridspan::prelude::*;
///
/// let job = Job::new("fit").main(async |_grid: Grid| Err("the data has no points".into()));
/// let advice = match gridspan::embed::Runner::on_threads(2).run(job) {
///     Ok(()) => "done".to_owned(),
///     Err(JobError::Failed(reason)) => format!("correct the input: {reason}"),
///     Err(JobError::NodeLost { site, .. }) => format!("look at the link to {site}"),
///     Err(error) => error.to_string(),
/// };
/// assert_eq!(advice, "correct the input: the data has no points");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum JobError {
    /// `main` or an actor ended the job, for the reason given.
    #[error("{0}")]
    Failed(String),
    /// A handler panicked. The panic's own message was printed before, on that node's standard
    /// error.
    #[error("a handler of {actor} panicked on {pe} ({place}): {reason}")]
    Panicked {
        /// The type of the actor.
        actor: String,
        /// The PE where the actor ran.
        pe: PeId,
        /// The PE's node and site.
        place: String,
        /// The panic's message.
        reason: String,
    },
    /// A node was silent or unreachable for too long, was started again, refused this node, or
    /// closed its connection. Look at its standard error, or at the link to its site.
    #[error("lost {node} at site {site}: {reason}")]
    NodeLost {
        /// The lost node.
        node: NodeId,
        /// The site of the node.
        site: String,
        /// What was observed.
        cause: LossCause,
        /// The observation as text, with the names of other nodes lost at the same time.
        reason: String,
        /// The other lost nodes.
        others: Vec<NodeId>,
    },
    /// The mailboxes of a PE exceeded their budget. Raise the limit, or send less before receiving.
    #[error(
        "out of memory for messages on {pe} ({place}): {queued_bytes} bytes queued, {held_bytes} of them held for earlier messages; the hard limit is {limit_bytes}; fullest mailboxes: {fullest}"
    )]
    OverBudget {
        /// The PE with the full mailboxes.
        pe: PeId,
        /// The PE's node and site.
        place: String,
        /// Number of bytes queued when the limit was exceeded.
        queued_bytes: u64,
        /// Number of these bytes in messages that wait until a broadcast, an earlier message, or
        /// their receiver arrives.
        held_bytes: u64,
        /// The configured limit.
        limit_bytes: u64,
        /// The collections and members with the most waiting messages.
        fullest: String,
    },
    /// The run of this node has ended, because the job goes on from a checkpoint without nodes that
    /// are lost.
    #[error("the job goes on from a checkpoint")]
    Recovering,
    /// The program that started the job has cancelled it.
    #[error("the job was cancelled")]
    Cancelled,
    /// The job can never continue, and was configured to end in that case. Look for the actor that
    /// should have sent, answered or contributed.
    #[error("{waits}")]
    Stalled {
        /// What the job waits for, and which actors could have sent it.
        waits: String,
    },
    /// The job exceeded its time limit. Give it more time, or look at what it waits for.
    #[error("the job still ran after its time limit of {limit:?}: {waits}")]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// What the job waited for.
        waits: String,
    },
    /// A node runs a program with another definition, and would misread values. Start all nodes
    /// from one build.
    #[error(
        "{node} at site {site}, on host {host}, runs another program or another version of it: {difference}"
    )]
    OtherProgram {
        /// The node.
        node: NodeId,
        /// The node's site.
        site: String,
        /// The node's host.
        host: String,
        /// The difference: "here" is the coordinator's node, "there" is that node.
        difference: String,
    },
    /// A node sent invalid data; the programs of the nodes may differ.
    #[error("{0}")]
    Protocol(String),
    /// `main` panicked. The panic's own message was printed before, on the standard error of node
    /// 0.
    #[error("main panicked: {reason}")]
    MainPanicked {
        /// The panic's message.
        reason: String,
    },
    /// An operation of `main` failed, and `main` returned its error.
    #[error(transparent)]
    Grid(#[from] GridError),
    /// An actor broke a rule of the runtime.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// The job could not start on a node, where none of its actors ran.
    #[error(transparent)]
    CannotStart(#[from] StartError),
    /// The coordinator panicked. The fault is in Gridspan, or in code of the job that runs there,
    /// such as a strategy or a reducer. The panic's own message was printed before, on the standard
    /// error of the coordinator's node.
    #[error("the coordinator panicked: {reason}")]
    CoordinatorPanicked {
        /// The panic's message.
        reason: String,
    },
    /// Too much waited for the coordinator while it moved to another node. Raise the limit, or move
    /// the coordinator when the job is quieter.
    #[error(
        "{held_bytes} bytes wait on {node} for the coordinator, which is moving to another node, above the limit of {limit_bytes}; raise the limit, or move the coordinator when the job is quieter"
    )]
    CoordinatorOverBudget {
        /// The node where the packets waited.
        node: NodeId,
        /// Number of bytes that waited.
        held_bytes: u64,
        /// The configured limit.
        limit_bytes: u64,
    },
    /// A thread of the runtime died.
    #[error("the thread of {thread} {end}; this is a bug in Gridspan")]
    ThreadLost {
        /// What the thread was for.
        thread: String,
        /// How it ended.
        end: String,
    },
    /// The network of a node failed.
    #[error("{reason}")]
    Network {
        /// What failed, and the error of the system.
        reason: String,
    },
    /// This guest was not admitted, because it runs another program. Use the job's build.
    #[error(
        "{guest} runs another program than the job, or another version of it; use the job's build"
    )]
    GuestOtherProgram {
        /// The guest.
        guest: NodeId,
    },
    /// The job continues without this guest. Join again with a new invitation.
    #[error(
        "the job continues without this node, which was declared lost ({reason}); join again with a new invitation"
    )]
    GuestDeclaredLost {
        /// What other nodes observed.
        reason: String,
    },
    /// The result of an embedded job was taken before.
    #[error("the result of the job was taken before")]
    ResultTaken,
}

impl JobError {
    /// Creates the error of a job that main or an actor ends because of `error`.
    pub fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Returns the error of a job whose main has panicked.
pub fn main_panicked(panic: &(dyn Any + Send)) -> JobError {
    JobError::MainPanicked { reason: panic_message(panic) }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// Error of an ask without a valid answer. The request may or may not have been handled.
///
/// ```
/// # use gridspan::prelude::*;
/// # #[derive(Serialize, Deserialize)]
/// # struct Silent;
/// # impl Actor for Silent {
/// #     type Index = Ix1;
/// #     type Init = ();
/// #     type Message = Reply<u64>;
/// #     fn create((): (), _cx: &mut Context<Self>) -> Self { Silent }
/// #     fn handle(&mut self, _never_answered: Reply<u64>, _cx: &mut Context<Self>) {}
/// # }
/// # let job = Job::new("silence").actor::<Silent>().main(async |grid: Grid| {
/// # let members = grid.create::<Silent>(Ix1::range(1), |_| ()).await?;
/// let asked = members.member(Ix1(0)).ask(Duration::from_millis(20), |reply| reply).await;
/// let answer = match asked {
///     Ok(answer) => Some(answer),
///     Err(GridError::Ask(AskError::Timeout)) => None, // go on without it
///     Err(error) => return Err(error.into()),
/// };
/// assert_eq!(answer, None);
/// # Ok(())
/// # });
/// # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AskError {
    /// No answer arrived in time; a late one is dropped.
    #[error("no answer in time; the member may be busy, gone, or never reply to this message")]
    Timeout,
    /// The answer has another type than the request asked for.
    #[error("the answer does not fit the question: cannot decode {what}: {reason}")]
    Malformed {
        /// What was to be decoded.
        what: String,
        /// Why it does not decode.
        reason: String,
    },
}

/// Error of an operation of `main`.
///
/// ```
/// use gridspan::prelude::*;
///
/// let job = Job::new("watch").main(async |grid: Grid| {
///     match grid.link_change().await {
///         Ok(change) => println!("a link has changed: {change:?}"),
///         Err(GridError::NoLinks) => println!("one node, nothing to watch"),
///         Err(error) => return Err(error.into()),
///     }
///     Ok(())
/// });
/// assert_eq!(gridspan::embed::Runner::on_threads(2).run(job), Ok(()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum GridError {
    /// An ask failed.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The actor type was not registered.
    #[error("{0} is not part of the job; add `.actor::<{0}>()` to its definition")]
    NotRegistered(String),
    /// Main waits for something else at a progress point.
    #[error(
        "main waits for something else while it calls `progress`; await everything else first, since a main that \
         begins from the checkpoint could not receive it"
    )]
    ProgressWhileWaiting,
    /// What main remembered at a checkpoint has another structure.
    #[error(
        "what main remembered at the checkpoint cannot be read ({reason}); continue with the program that made it"
    )]
    Restored {
        /// The error of the decoder.
        reason: String,
    },
    /// The type of tasks or searches was not added to the job.
    #[error("{name} is not part of the job; add `.{method}::<{name}>()` to its definition")]
    NoSuchTask {
        /// The type.
        name: String,
        /// The method of [`Job`](crate::Job) that adds it.
        method: String,
    },
    /// A task was to start on a PE that does not exist.
    #[error(
        "there is no {pe} to start on; the job has {pes} PEs, the first of which is {}",
        PeId(0)
    )]
    NoSuchPe {
        /// The PE that was named.
        pe: PeId,
        /// Number of PEs of the job.
        pes: u32,
    },
    /// The pool was closed before the task was done.
    #[error(
        "the pool of tasks is closed, and its unfinished tasks are lost; close it later, or open another"
    )]
    PoolClosed,
    /// The result of a reduction has another type than requested.
    #[error("the reduction of collection {collection} gave {found}, not the {wanted} asked for")]
    Reduction {
        /// The collection.
        collection: u32,
        /// The type that the members contributed.
        found: String,
        /// The type that `main` requested.
        wanted: String,
    },
    /// The counts of a phase do not agree.
    #[error(
        "in a phase of {producers} producers, {done} were done with {produced} items, of which {consumed} were consumed; count each item once, and each producer once after its last item"
    )]
    Phase {
        /// Number of producers that main expected.
        producers: u64,
        /// Number of producers that announced their end.
        done: u64,
        /// Number of items produced.
        produced: u64,
        /// Number of items consumed.
        consumed: u64,
    },
    /// A placement map that the job does not know.
    #[error("the job has no placement map `{0}`; add it with `Job::placement`")]
    UnknownPlacement(String),
    /// Two members of a collection were given the same index.
    #[error("a collection was given two members with the index {0}; each index names one member")]
    DuplicateIndex(String),
    /// A bound collection was given an index for which the base collection has no member.
    #[error(
        "collection {collection} has no member {index} to which a member could be bound; insert it there first, or leave the index out"
    )]
    NoPartner {
        /// The base collection.
        collection: u32,
        /// The index.
        index: String,
    },
    /// A collection was to be bound to a group.
    #[error(
        "the members of a group never move, so nothing can be bound to them; create another group, or bind to a collection"
    )]
    BoundToGroup,
    /// A collection of deterministic actors was to be bound, or bound to.
    #[error(
        "{0} was declared deterministic, and its actors may have replicas elsewhere, so they cannot be bound; declare it with `Job::actor`"
    )]
    BoundReplicas(String),
    /// A collection whose members are [created on demand](crate::Job::on_demand) was to be bound.
    #[error(
        "messages create {0}, so a member could lack the partner that it is bound to; declare it with `Job::actor`, and insert its members"
    )]
    BoundOnDemand(String),
    /// A publication or a task is too large to be sent in one piece.
    #[error("{bytes} bytes exceed the limit of {limit} for one piece; divide the data")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The job has one node only.
    #[error("a job of one node has no links; run it on several")]
    NoLinks,
    /// The job has no such node, or the node is a guest, which may leave the job.
    #[error(
        "{node} cannot run the coordinator; name one of the {nodes} nodes that the job began with"
    )]
    NoSuchNode {
        /// The node.
        node: NodeId,
        /// Number of founders.
        nodes: u32,
    },
    /// The job is ending, so no answer will arrive.
    #[error("the job is ending")]
    Ending,
    /// A collection that checkpoints contain was to be bound to one that they
    /// [leave out](crate::Job::transient).
    #[error(
        "checkpoints leave out {base} but not {bound}, which a restoration would leave without partners; declare {bound} with `Job::transient` too"
    )]
    BoundToTransient {
        /// The actor type of the base collection.
        base: String,
        /// The actor type that was to be bound.
        bound: String,
    },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_main_is_unchanged_after_encoding() {
        let error = GridError::Ask(AskError::Malformed {
            what: "an answer".to_owned(),
            reason: "it is too short".to_owned(),
        });
        let failure = JobError::from(error.clone());

        let bytes = postcard::to_allocvec(&failure).unwrap();
        let received: JobError = postcard::from_bytes(&bytes).unwrap();

        assert_eq!(received, JobError::Grid(error));
        assert_eq!(
            received.to_string(),
            "the answer does not fit the question: cannot decode an answer: it is too short"
        );
    }
}
