//! Attempts to execute tasks, and what servers do with them.

use super::copies::AttemptId;
use crate::execution::TaskQueue;
use crate::id::{DataId, ServerId, TaskId};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// It has this number in the queue of its server.
    Queued(u64),
    Running {
        since_s: f64,
    },
    Over,
}

/// One attempt to execute a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) task: TaskId,
    pub(super) server: ServerId,
    pub(super) stage: Stage,
}

/// What one server does.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerState {
    pub(super) free: u32,
    /// Attempts, each of which may get its own copy of data.
    pub(super) queue: TaskQueue<(DataId, AttemptId), AttemptId>,
    /// How many attempts wait here whose inputs exist.
    pub(super) waiting: u32,
}

impl ServerState {
    /// Whether there is a core for which nothing is there or on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.free > self.waiting
    }
}
