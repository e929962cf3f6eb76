//! Errors of a job that could not start.

use super::checkpoint::CheckpointError;
use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Why a job could not start on a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StartError {
    /// The coordinator was to run on a node that the job does not have.
    #[error("there is no {node} for the coordinator; the job has {nodes} nodes, counted from 0")]
    NoSuchCoordinator {
        /// The node that was named.
        node: NodeId,
        /// Number of nodes of the job.
        nodes: u32,
    },
    /// The job's definition has one name twice.
    #[error("the job has two definitions of the {what} `{name}`; give each its own name")]
    DefinedTwice {
        /// What was defined: a placement map or a reducer.
        what: String,
        /// The name.
        name: String,
    },
    /// A node of the job has no PEs.
    #[error("a node of the job has no PEs; give each node at least one")]
    NoPes,
    /// The PEs of a node are too many for one process.
    #[error("{pes} PEs are more than the {limit} of one process; use more nodes, or simulate them")]
    TooManyPes {
        /// Number of PEs.
        pes: u32,
        /// The limit.
        limit: u32,
    },
    /// The system refused a thread.
    #[error("cannot start the thread of {thread} ({reason}); use fewer PEs")]
    Thread {
        /// What the thread is for.
        thread: String,
        /// The error of the system.
        reason: String,
    },
    /// The name of the job cannot be part of the certificates of its nodes.
    #[error("cannot start: {reason}")]
    JobName {
        /// The name.
        name: String,
        /// What is allowed in a name.
        reason: String,
    },
    /// Keys or certificates for the nodes of this process could not be made or used.
    #[error("cannot start: {reason}")]
    Certificate {
        /// The error of the certificate.
        reason: String,
    },
    /// The system refused a port for a node of this process.
    #[error("cannot start: {reason}")]
    Port {
        /// The error of the system.
        reason: String,
    },
    /// The settings of the job, or the addresses of its nodes, cannot be encoded for the nodes.
    #[error("cannot start: {reason}")]
    Network {
        /// The error of the encoder.
        reason: String,
    },
    /// The process of a node did not join the job.
    #[error("{node} did not start: {error}")]
    Node {
        /// The node.
        node: NodeId,
        /// What happened to its process.
        error: NodeProcessError,
    },
    /// The node could not join the network of the job, because its certificate or key cannot be
    /// used.
    #[error("cannot join the job: {reason}")]
    Join {
        /// The error of the certificate.
        reason: String,
    },
    /// A checkpoint cannot be read, or the place with the checkpoints cannot be used.
    #[error("cannot use the checkpoint, or the place for checkpoints: {0}")]
    Checkpoint(#[from] CheckpointError),
    /// The folder for checkpoints has those of an earlier run.
    #[error(
        "{} has checkpoints of an earlier run, the last is {number}: continue from it with `--restart {}`, or \
         use another folder", .folder.display(), .folder.display()
    )]
    CheckpointsBefore {
        /// The folder.
        folder: PathBuf,
        /// The number of the last complete one.
        number: u64,
    },
    /// A checkpoint was made by a job of another name.
    #[error(
        "the checkpoint was made by job `{was}`, and this is job `{is}`: continue with the program that made it"
    )]
    CheckpointOfOther {
        /// The name of the job that made it.
        was: String,
        /// The name of this job.
        is: String,
    },
    /// A checkpoint has an actor type, placement map or reducer that the job does not have. Maps
    /// and reducers must also keep their order, and new ones come after those of the checkpoint.
    #[error(
        "the checkpoint was made by a job with the {what} `{name}`, which this job does not have at its place; \
         continue with the program that made it"
    )]
    CheckpointWithOther {
        /// What is missing: an actor type, a placement map or a reducer.
        what: String,
        /// Its name.
        name: String,
    },
    /// Messages or states of an actor have another structure than in the checkpoint.
    #[error(
        "{what} were `{was}` when the checkpoint was made, and are `{is}` now: raise `VERSION` of the actor \
         above {version} and write its `upgrade`, or continue with the program that made it"
    )]
    CheckpointChanged {
        /// The messages or the states, with the type of the actor.
        what: String,
        /// Structure in the checkpoint.
        was: String,
        /// Structure now.
        is: String,
        /// [`Actor::VERSION`](crate::Actor::VERSION), then and now.
        version: u32,
    },
    /// A checkpoint has an actor of a later version.
    #[error(
        "the checkpoint has `{actor}` of version {was}, and this program has version {is}: continue with the \
         program that made it, or a later one"
    )]
    CheckpointNewer {
        /// The type of the actor.
        actor: String,
        /// [`Actor::VERSION`](crate::Actor::VERSION) in the checkpoint.
        was: u32,
        /// The version of this program.
        is: u32,
    },
    /// The state of an actor cannot be taken over from an earlier version.
    #[error("cannot take over the state of a `{actor}` of version {was} as version {is}: {reason}")]
    CheckpointState {
        /// The type of the actor.
        actor: String,
        /// [`Actor::VERSION`](crate::Actor::VERSION) in the checkpoint.
        was: u32,
        /// The version of this program.
        is: u32,
        /// The error of [`Actor::upgrade`](crate::Actor::upgrade).
        reason: String,
    },
    /// A message that waited for an actor of an earlier version does not decode as one of the
    /// present version.
    #[error(
        "a message that waited for a `{actor}` of version {was} is none of version {is}: {reason}; let messages \
         keep their structure, or begin with another checkpoint"
    )]
    CheckpointMessage {
        /// The type of the actor.
        actor: String,
        /// [`Actor::VERSION`](crate::Actor::VERSION) in the checkpoint.
        was: u32,
        /// The version of this program.
        is: u32,
        /// The error.
        reason: String,
    },
    /// A job with a group cannot continue on another number of PEs or nodes unless it says what
    /// becomes of the members.
    #[error(
        "the checkpoint has the group of `{actor}` with a member on each of {was}; the job has {is} now: add the \
         type with `Job::resizable_group`, or continue on as many"
    )]
    CheckpointOfGroup {
        /// The type of the members.
        actor: String,
        /// Number of PEs or nodes before.
        was: String,
        /// Number of PEs or nodes now.
        is: String,
    },
    /// Some members of a group have contributed to an operation at the checkpoint, and others have
    /// not, so that the group must keep its size.
    #[error(
        "the checkpoint has the group of `{actor}` with a member on each of {was}, of which only some have \
         contributed to an operation; the job has {is} now: continue on as many"
    )]
    CheckpointOfBusyGroup {
        /// The type of the members.
        actor: String,
        /// Number of PEs or nodes before.
        was: String,
        /// Number of PEs or nodes now.
        is: String,
    },
    /// The settings of a simulation do not fit its grid.
    #[error("{reason}")]
    Simulation {
        /// The problem.
        reason: String,
    },
    /// The program was built without a feature that the job needs.
    #[error("{what} needs the feature `{feature}` of `gridspan`")]
    Feature {
        /// What the job needs.
        what: String,
        /// The feature.
        feature: String,
    },
}

/// Why a process that should be a node did not join its job.
///
/// ```
/// use gridspan_runtime::{JobError, NodeProcessError, StartError};
///
/// /// Whether another attempt may succeed: the machine was busy.
/// fn may_succeed_later(error: &JobError) -> bool {
///     let JobError::CannotStart(StartError::Node { error, .. }) = error else { return false };
///     matches!(error, NodeProcessError::Silent { .. })
/// }
/// # assert!(!may_succeed_later(&JobError::Cancelled));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum NodeProcessError {
    /// The function that returns the command panicked.
    #[error("the function that returns its command panicked")]
    NoCommand,
    /// The system could not start the program.
    #[error("`{program}`: {reason}")]
    Spawn {
        /// The program of the command.
        program: String,
        /// The error of the system.
        reason: String,
    },
    /// The process ended, or closed its output, before it listened.
    #[error(
        "its process {end} before it listened; its program must call `gridspan::embed::node` first, and may have printed why to standard error"
    )]
    Ended {
        /// How it ended, as text.
        end: String,
    },
    /// The process did not listen in time.
    #[error("its process did not listen within {limit:?}")]
    Silent {
        /// The time limit.
        limit: Duration,
    },
    /// The node reported an error.
    #[error("{reason}")]
    Failed {
        /// The error.
        reason: String,
    },
}
