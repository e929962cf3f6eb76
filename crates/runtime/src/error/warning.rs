//! Warnings about a job, which continues.

use gridspan_topology::NodeId;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A problem of a job, which continues; see [`Job::on_warning`](crate::Job::on_warning). Its text
/// is a sentence without a full stop.
///
/// ```
/// use gridspan::{Job, Warning};
///
/// let job = Job::new("watched").on_warning(|warning| match warning {
///     Warning::CheckpointNotKept { checkpoint, .. } => println!("no checkpoint {checkpoint}"),
///     other => println!("warning: {other}"),
/// });
/// # gridspan::embed::Runner::on_threads(1).run(job.main(async |_| Ok(()))).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Warning {
    /// The job can never continue: look for the actor that should have sent, answered or
    /// contributed.
    #[error("{waits}")]
    Stalled {
        /// What the job waits for, and which actors could have sent it.
        waits: String,
    },
    /// Some PEs have been inside handlers for long, and the others have no work.
    #[error("{inside}; no other PE has work to do")]
    LongHandlers {
        /// The PEs and their handlers.
        inside: String,
    },
    /// PE 0 has been inside a handler for long.
    #[error("{inside}; requests of main wait meanwhile")]
    LongHandlerOfMain {
        /// The PE and its handler.
        inside: String,
    },
    /// A node runs another build of the program.
    #[error(
        "{node} at site {site}, on host {host}, runs another build of the program; messages have the same structure"
    )]
    OtherBuild {
        /// The node.
        node: NodeId,
        /// The node's site.
        site: String,
        /// The node's host.
        host: String,
    },
    /// The machine has probably too little memory for a job that continues from a checkpoint, or
    /// for the next checkpoint of a new job.
    #[error("{reason}")]
    ScarceMemory {
        /// How much memory is missing, and what to do.
        reason: String,
    },
    /// All PEs stand still for a checkpoint, since some are late.
    #[error("the job stands still for checkpoint {checkpoint}: {late}")]
    CheckpointSlow {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// The PEs that are late.
        late: String,
    },
    /// A checkpoint is given up, since some PEs were too late.
    #[error("checkpoint {checkpoint} is given up, and the job goes on: {reason}")]
    CheckpointLate {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// What was late.
        reason: String,
    },
    /// A checkpoint is given up, since a node could not keep its part: its memory is scarce, or the
    /// folder or object store refuses.
    #[error("checkpoint {checkpoint} is given up: {reason}")]
    CheckpointNotKept {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// Why the part could not be kept.
        reason: String,
    },
    /// A checkpoint is given up, since for too long no part of it was encoded, stored or copied: a
    /// handler, the folder, the object store or the links took too long.
    #[error("checkpoint {checkpoint} is given up, and the one before stays the last: {reason}")]
    CheckpointNotStored {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// The parts that are missing.
        reason: String,
    },
    /// The manifest of a complete checkpoint is not in the folder or object store. The nodes have
    /// the checkpoint in memory, but no other job can continue from it.
    #[error(
        "the manifest of checkpoint {checkpoint} is not stored, so that only this job can go back to it: {reason}"
    )]
    ManifestNotStored {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// Why it could not be stored.
        reason: String,
    },
    /// Checkpoints have been postponed for long.
    #[error(
        "checkpoints of {job} have been postponed for {} s; a loss repeats all work since then: {reason}",
        .since.as_secs()
    )]
    CheckpointsPostponed {
        /// The job.
        job: String,
        /// For how long.
        since: Duration,
        /// What postpones them.
        reason: String,
    },
    /// Main has not allowed a checkpoint for long.
    #[error(
        "main of {job} has reached no progress point for {} s, so no checkpoints are made; call `Grid::progress` \
         where it can begin again",
        .since.as_secs()
    )]
    NoProgressPoint {
        /// The job.
        job: String,
        /// For how long.
        since: Duration,
    },
    /// The nodes of the job cannot change yet.
    #[error("the change of the job's nodes waits for a checkpoint: {reason}")]
    ChangeWaits {
        /// What postpones the checkpoint.
        reason: String,
    },
    /// Checkpoints are wanted, but a loss of nodes ends the job.
    #[error(
        "a loss of nodes ends this job, since its main cannot begin again; define it by `restartable_main`"
    )]
    NotRestartable,
    /// PEs are not bound to processors.
    #[error("{reason}")]
    NotBound {
        /// Why they cannot be bound.
        reason: String,
    },
    /// A process of the job works without something that its launcher wants.
    #[error("{reason}")]
    Process {
        /// What the process lacks, with the error of the system.
        reason: String,
    },
    /// A node is lost that has borrowed tasks of which no copies are kept, so the others cannot run
    /// them again. The job goes back to its last checkpoint or, if it cannot, ends.
    #[error("the job cannot go on without {node} at site {site}: {reason}; raise `--log-bytes`")]
    LoansNotKept {
        /// The lost node.
        node: NodeId,
        /// The node's site.
        site: String,
        /// The node that lent the tasks, and the limit of its log.
        reason: String,
    },
    /// The job continues from a checkpoint, and a node could not keep a copy that was made again.
    /// The loss of the node that has the part may end the job before the next checkpoint.
    #[error("a copy of a part of checkpoint {checkpoint} is missing until the next one: {reason}")]
    CopyNotKept {
        /// Number of the checkpoint.
        checkpoint: u64,
        /// Why the copy could not be kept.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_warnings_are_in_seconds() {
        let (job, since) = ("heat".to_owned(), Duration::from_millis(61_500));
        let reason = "a pool of tasks is open".to_owned();
        let postponed = Warning::CheckpointsPostponed { job: job.clone(), since, reason };
        assert_eq!(
            postponed.to_string(),
            "checkpoints of heat have been postponed for 61 s; a loss repeats all work since then: \
             a pool of tasks is open"
        );
        assert_eq!(
            Warning::NoProgressPoint { job, since }.to_string(),
            "main of heat has reached no progress point for 61 s, so no checkpoints are made; call \
             `Grid::progress` where it can begin again"
        );
    }
}
