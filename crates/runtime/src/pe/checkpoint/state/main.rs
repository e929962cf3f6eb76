//! State of main's PE for the checkpoints that main requests at its progress points.

use bytes::Bytes;
use gridspan_topology::{NodeId, Time};
use std::time::Duration;

/// Time before the next try, if a checkpoint had to be postponed, or could not be stored.
pub(crate) const RETRY: Duration = Duration::from_millis(200);
/// Maximum number of times that [`RETRY`] is doubled, once for each checkpoint in a row that could
/// not be stored.
const DOUBLINGS_MAX: u32 = 9;

/// What main's PE knows about main's progress points and about the checkpoints made there.
#[derive(Default)]
pub(crate) struct MainCheckpoints {
    /// The data that main stored in the checkpoint from which the job continues, until main asks
    /// for it.
    pub(crate) progress: Option<Bytes>,
    /// Whether to make the next checkpoint before its time: the last one could not be stored, or the
    /// one from which the job continues lacks a copy, or the job has continued from it before.
    pub(crate) is_wanted_early: bool,
    /// Time of the last checkpoint, or of the one from which the job continues.
    pub(crate) last: Option<Time>,
    /// Number of main's progress points since the last checkpoint, or since this run began.
    pub(crate) points: u64,
    /// Time of main's last progress point.
    pub(crate) last_point: Time,
    /// Whether a warning has said that the last progress point is long ago.
    pub(crate) is_quiet_told: bool,
    /// Time between the last two progress points, or from the start to the first one, if a warning
    /// is due after such a time; else zero.
    pub(crate) last_gap: Duration,
    /// Since when checkpoints have been postponed.
    pub(crate) postponed_since: Option<Time>,
    /// Whether a warning has said that checkpoints are postponed.
    pub(crate) is_postponed_told: bool,
    /// Number of the last checkpoint that was captured.
    last_captured: u64,
    /// The highest number of a checkpoint that is complete, was given up, or was restored.
    last_resolved: u64,
    /// Number of checkpoints in a row that were captured and then given up.
    unstored: u32,
    /// Whether main has requested a checkpoint and has no answer yet.
    pub(crate) is_requested: bool,
    /// When a checkpoint may be tried again.
    pub(crate) retry_at: Time,
    /// Time that main waited for the last checkpoint, less the mean time that PEs computed
    /// meanwhile; once it is complete, its cost as the coordinator has measured it.
    pub(crate) cost: Duration,
    /// The nodes that will leave, if the job is to stop after a checkpoint.
    pub(crate) pause: Option<Vec<NodeId>>,
    /// Whether a warning has said that the checkpoint for `pause` was postponed.
    pub(crate) is_late_told: bool,
}

impl MainCheckpoints {
    /// Notes that main is at a progress point of a run that began at `began`. `patience`: after
    /// this time without one, a warning is due.
    pub(crate) fn note_point(&mut self, [began, now]: [Time; 2], patience: Option<Duration>) {
        let gap = now.since(self.last_point.max(began));
        let is_long = patience.is_some_and(|patience| gap >= patience);
        self.last_gap = if is_long { gap } else { Duration::ZERO };
        (self.last_point, self.is_quiet_told) = (now, false);
    }

    /// Postpones the next try.
    pub(crate) fn note_postponed(&mut self, now: Time) {
        self.retry_at = now + RETRY;
    }

    /// Notes that a checkpoint was captured, for which main waited for the time `cost`.
    pub(crate) fn note_captured(&mut self, checkpoint: u64, now: Time, cost: Duration) {
        self.last_captured = checkpoint;
        self.is_postponed_told = false;
        self.postponed_since = None;
        (self.last, self.points) = (Some(now), 0);
        self.is_wanted_early = false;
        self.cost = cost;
    }

    /// Notes the checkpoint from which the job continues: its time and its cost. `is_again`: the job
    /// has continued from it before, and has completed no other since.
    pub(crate) fn note_restored(&mut self, at: Time, cost: Duration, is_again: bool) {
        (self.last, self.cost) = (Some(at), cost);
        self.is_wanted_early = is_again;
    }

    /// Notes that the checkpoint from which the job continues lacks a copy. If another one is being
    /// stored, that one will replace it.
    pub(crate) fn note_lacking_copy(&mut self, now: Time) {
        if !self.is_storing() {
            self.is_wanted_early = true;
            self.retry_at = self.retry_at.max(now + RETRY);
        }
    }

    /// Whether a captured checkpoint is neither complete nor given up.
    pub(crate) fn is_storing(&self) -> bool {
        self.last_captured > self.last_resolved
    }

    /// Notes that a checkpoint is complete, and what it has cost.
    pub(crate) fn note_complete(&mut self, checkpoint: u64, cost: Duration) {
        self.cost = cost;
        self.unstored = 0;
        self.last_resolved = self.last_resolved.max(checkpoint);
    }

    /// Notes that PEs go on without a checkpoint, or from one. If a captured one was given up, the
    /// next try comes later each time, unless the job is to stop after it.
    pub(crate) fn note_resumed(&mut self, checkpoint: u64, now: Time) {
        if self.is_storing() && checkpoint == self.last_captured {
            self.unstored = (self.unstored + 1).min(DOUBLINGS_MAX);
            let doublings = if self.pause.is_some() { 0 } else { self.unstored };
            self.retry_at = now + RETRY * 2_u32.pow(doublings);
            self.is_wanted_early = true;
        }
        self.last_resolved = self.last_resolved.max(checkpoint);
    }
}
