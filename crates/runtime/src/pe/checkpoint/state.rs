//! State of a PE for checkpoints.

pub(crate) mod main;
pub(crate) mod restoring;
pub(crate) mod sending;

use crate::message::ReplicaOrder;
use crate::pe::callback::Callback;
use crate::pe::checkpoint::captured_part::CapturedPart;
use gridspan_topology::Time;
use main::MainCheckpoints;
use restoring::Restoring;
use sending::Sending;
use std::time::Duration;

/// A PE's part in the checkpoints of the job.
pub(crate) struct Checkpointing<C> {
    /// Time of the job when this run of it began.
    pub(crate) began: Time,
    /// Whether the PE handles no messages, because it is drained or restored.
    pub(crate) is_stopped: bool,
    /// Number of the checkpoint for which the PE stopped last, or will stop.
    pub(crate) stop: u64,
    /// The round of draining that the PE answers when it stops, once no actor here has a replica.
    pub(crate) first_round: Option<u64>,
    /// What the PE has last reported of its counts while it is drained, until it captures its part.
    pub(crate) reported: Option<Reported>,
    /// Whether the checkpoint was given up before the PE stopped: the PE then continues as soon as
    /// it has stopped.
    pub(crate) is_given_up: bool,
    /// Replicas that have ended for the checkpoint, and begin again after it.
    pub(crate) ended_replicas: Vec<ReplicaOrder>,
    /// Actions of main that wait until the PE continues.
    pub(crate) waiting: Vec<Callback<C>>,
    /// Number of tasks that main or actors have handed in to pools here and that are not done,
    /// except repeatable ones. No checkpoint is made meanwhile.
    pub(crate) tasks: u64,
    /// Number of such tasks that are repeatable: if the job continues from a checkpoint, main hands
    /// them in again. So they do not delay a checkpoint.
    pub(crate) repeatable_tasks: u64,
    /// What this PE has captured for a checkpoint, until it has encoded it or captures another one.
    pub(crate) captured: Option<CapturedPart>,
    /// Whether the job stays stopped after the checkpoint for which copies are sent.
    pub(crate) is_pause: bool,
    /// Main's requests for checkpoints, on main's PE.
    pub(crate) main: MainCheckpoints,
    /// Copies and other large messages.
    pub(crate) sending: Sending,
    /// What this PE has restored from a checkpoint.
    pub(crate) restoring: Restoring,
}

/// A report of a stopped PE about its counts.
pub(crate) struct Reported {
    /// The round that it answers.
    pub(crate) round: u64,
    /// Numbers of messages at the time: created, handled, and in mailboxes.
    pub(crate) messages: [u64; 3],
    /// When it was sent, and when the PE stopped.
    pub(crate) at: Time,
    pub(crate) stopped: Time,
    /// When the PE will report again, because its counts have changed.
    pub(crate) due: Option<Time>,
}

impl<C> Default for Checkpointing<C> {
    fn default() -> Self {
        Self {
            began: Time::ZERO,
            is_stopped: false,
            stop: 0,
            first_round: None,
            reported: None,
            is_given_up: false,
            ended_replicas: Vec::new(),
            waiting: Vec::new(),
            tasks: 0,
            repeatable_tasks: 0,
            captured: None,
            is_pause: false,
            main: MainCheckpoints::default(),
            sending: Sending::default(),
            restoring: Restoring::default(),
        }
    }
}

impl<C> Checkpointing<C> {
    /// The counter of open tasks that are repeatable, or of those that are not.
    pub(crate) fn open_tasks(&mut self, is_repeatable: bool) -> &mut u64 {
        if is_repeatable { &mut self.repeatable_tasks } else { &mut self.tasks }
    }

    /// Adds to the time that the encoding of the captured part has taken.
    pub(crate) fn note_encoding(&mut self, took: Duration) {
        if let Some(part) = &mut self.captured {
            part.note_encoding(took);
        }
    }

    /// The same for a member that was encoded early.
    pub(crate) fn note_early_encoding(&mut self, took: Duration) {
        if let Some(part) = &mut self.captured {
            part.note_early_encoding(took);
        }
    }

    /// Converts a time of the driver, which counts from the start of the run, to the time since the
    /// job began.
    pub(crate) fn job_time(&self, driver: Time) -> Time {
        Time(self.began.0.saturating_add(driver.0))
    }
}
