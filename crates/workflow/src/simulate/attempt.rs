//! Attempts to execute tasks, and what servers do with them.

use super::copies::AttemptId;
use crate::id::{ServerId, TaskId};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// So many inputs are not there.
    Waiting(usize),
    Ready,
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
    pub(super) ready: BTreeSet<(u32, AttemptId)>,
    /// How many attempts wait here whose inputs exist.
    pub(super) waiting: u32,
}

impl ServerState {
    /// Whether there is a core for which nothing is there or on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.free > self.waiting
    }
}
