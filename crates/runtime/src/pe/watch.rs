//! Listeners to a job, and limits for a job that does not end.

use crate::error::Warning;
use crate::message::Diagnosis;
use gridspan_topology::{NodeId, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Called with a warning about a job, such as the reason why it makes no progress.
pub(crate) type OnWarning = Arc<dyn Fn(&Warning) + Send + Sync>;

/// Called with a diagnosis, and the number of the request for it.
pub(crate) type OnDiagnosis = Arc<dyn Fn(u64, &Diagnosis) + Send + Sync>;

/// Called with a complete checkpoint.
pub(crate) type OnCheckpoint = Arc<dyn Fn(&CheckpointReport) + Send + Sync>;

/// Called when the checkpoint from which a job continues has all its copies again.
pub(crate) type OnCopiesRemade = Arc<dyn Fn(&CopiesRemade) + Send + Sync>;

/// Called with a large broadcast or multicast that has reached all of its nodes.
pub(crate) type OnBroadcast = Arc<dyn Fn(&BroadcastReport) + Send + Sync>;

/// Called with the amount of work that is done, and the total.
pub(crate) type OnProgress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A complete checkpoint; see [`Job::on_checkpoint`](crate::Job::on_checkpoint).
///
/// ```
/// use gridspan::{CheckpointReport, Job};
///
/// fn show(report: &CheckpointReport) {
///     let CheckpointReport { number, bytes, stopped, stored, .. } = report;
///     println!("checkpoint {number}: {bytes} bytes, stopped {stopped:?}, stored in {stored:?}");
/// }
/// let job = Job::new("shown").on_checkpoint(show);
/// # gridspan::embed::Runner::on_threads(1).run(job.main(async |_| Ok(()))).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// When it was complete.
    pub at: Time,
    /// Its number, counted over all runs of the job.
    pub number: u64,
    /// Bytes of the parts of all PEs, without copies.
    pub bytes: u64,
    /// Time for which PEs handled no messages: from the order to stop until all parts were
    /// captured, less the mean time for which PEs still ran the handlers that were under way.
    pub stopped: Duration,
    /// Time that a PE has taken for the checkpoint after that, between handlers: the longest time
    /// to encode a part, and an estimate of the time to send and receive copies of the largest one.
    #[serde(default)]
    pub work: Duration,
    /// Time from the end of the stop until all parts were encoded, and they and their copies were
    /// stored.
    pub stored: Duration,
    /// Time until the next checkpoint is due, if [`CheckpointEvery::Auto`](crate::CheckpointEvery)
    /// computes it, from [`stopped`](Self::stopped), [`work`](Self::work) and
    /// [`time_to_loss`](Self::time_to_loss).
    pub next_after: Option<Duration>,
    /// Mean time until the job loses a node, as the settings say: the time between failures of a
    /// node divided by the number of nodes.
    pub time_to_loss: Duration,
}

/// The checkpoint from which a job continues has all its copies again; see
/// [`Job::on_copies_remade`](crate::Job::on_copies_remade).
///
/// ```
/// use gridspan::{CopiesRemade, Job};
///
/// let show = |CopiesRemade { checkpoint, .. }: &CopiesRemade| println!("checkpoint {checkpoint}");
/// let job = Job::new("shown").on_copies_remade(show);
/// # gridspan::embed::Runner::on_threads(1).run(job.main(async |_| Ok(()))).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CopiesRemade {
    /// When the last copy was kept.
    pub at: Time,
    /// Number of the checkpoint.
    pub checkpoint: u64,
}

/// A large broadcast or multicast that has reached all of its nodes; see
/// [`Job::on_broadcast`](crate::Job::on_broadcast).
///
/// ```
/// use gridspan::{BroadcastReport, Job};
///
/// fn show(report: &BroadcastReport) {
///     let BroadcastReport { root, bytes, reached, took, .. } = report;
///     println!("{bytes} bytes from {root} reached {reached} nodes after {took:?}");
/// }
/// let job = Job::new("shown").on_broadcast(show);
/// # gridspan::embed::Runner::on_threads(1).run(job.main(async |_| Ok(()))).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BroadcastReport {
    /// When the coordinator learned that the broadcast began.
    pub at: Time,
    /// The node from which it came.
    pub root: NodeId,
    /// Its size in bytes, encoded.
    pub bytes: u64,
    /// Number of nodes that it reached, without the root.
    pub reached: u64,
    /// Version of the plan of its trees; 0 if they follow the layout alone.
    pub plan: u64,
    /// Time from its start until the last node had all of it. The latency of that node's report to
    /// the root is subtracted, if it is known.
    pub took: Duration,
    /// The edges of its trees, each after the one that reaches its sender. Empty if the coordinator
    /// has moved since the plan was made.
    pub edges: Vec<BroadcastEdge>,
}

/// An edge of a tree of a broadcast.
///
/// ```
/// use gridspan::{BroadcastEdge, BroadcastReport};
///
/// /// The node that had all of a broadcast last.
/// fn last(report: &BroadcastReport) -> Option<BroadcastEdge> {
///     report.edges.iter().copied().max_by_key(|edge| edge.after)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BroadcastEdge {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Number of the tree: a plan may divide a broadcast among several.
    pub tree: u32,
    /// Time from the start until the receiving node had all of the broadcast, by all trees. `None`
    /// for a node that only passes it on.
    pub after: Option<Duration>,
}

/// Listeners to a job, and limits for a job that does not end. Drivers in real time apply them.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    pub(crate) on_warning: Vec<OnWarning>,
    pub(crate) on_diagnosis: Vec<OnDiagnosis>,
    pub(crate) on_checkpoint: Vec<OnCheckpoint>,
    pub(crate) on_copies_remade: Vec<OnCopiesRemade>,
    pub(crate) on_broadcast: Vec<OnBroadcast>,
    pub(crate) on_progress: Vec<OnProgress>,
    /// Whether a job that can make no progress fails.
    pub(crate) fails: bool,
    pub(crate) time_limit: Option<Duration>,
    /// The part of `time_limit` that earlier runs of the job in this process have used.
    pub(crate) time_used: Duration,
    /// Silence after which a node is lost, if a network connects it with this one.
    pub(crate) lost_after: Option<Duration>,
}

impl Watch {
    /// The time from the beginning of this run until the time limit of the job, if it has one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.time_limit.map(|limit| limit.saturating_sub(self.time_used))
    }
}
