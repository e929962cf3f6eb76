//! The tasks of a group: the server and the state of each, and the tasks that may be ordered.

use crate::id::{ServerId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of times that a task is ordered. Orders that are [forgiven](TaskStates::forgive)
/// do not count, such as the first that each server refuses.
pub(super) const ATTEMPTS_MAX: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    Waiting,
    Ordered,
    Done,
    Failed,
}

/// The reason that a task can no longer be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// The task was tried too often.
    Tried,
    /// No server is left that could execute it.
    Alone,
    /// An argument is lost, and cannot be produced again.
    MissingInput,
}

/// All tasks of a group.
#[derive(Debug)]
pub(super) struct TaskStates {
    /// The server to which each task goes next.
    servers: Vec<ServerId>,
    states: Vec<TaskState>,
    /// Number of orders of each task that count as attempts.
    counts: Vec<u32>,
    /// Number of tasks that are neither done nor failed.
    unsettled: usize,
    /// Number of such tasks mapped to each server.
    loads: Vec<usize>,
    /// Tasks that may be ready, because they or their inputs have changed since they were last
    /// examined.
    pub(super) changed: BTreeSet<TaskId>,
    /// Late tasks that are begun a second time, and their second server.
    pub(super) copies: Vec<(TaskId, ServerId)>,
    /// Tasks that were moved before their arguments existed, and the server that keeps a core free
    /// for each.
    pub(super) reserved: BTreeMap<TaskId, ServerId>,
    /// Number of refusals of a task by each server.
    refusals: BTreeMap<TaskId, BTreeMap<ServerId, u32>>,
    /// Tasks that can no longer be executed.
    pub(super) stuck: BTreeMap<TaskId, Stuck>,
}

impl TaskStates {
    /// Creates the states of tasks mapped to `mapped`, all waiting, on `servers` servers.
    pub(super) fn new(mapped: &[ServerId], servers: usize) -> Self {
        let mut loads = vec![0; servers];
        mapped.iter().for_each(|server| loads[server.index()] += 1);
        Self {
            servers: mapped.to_vec(),
            states: vec![TaskState::Waiting; mapped.len()],
            counts: vec![0; mapped.len()],
            unsettled: mapped.len(),
            loads,
            changed: (0..mapped.len() as u32).map(TaskId).collect(),
            copies: Vec::new(),
            reserved: BTreeMap::new(),
            refusals: BTreeMap::new(),
            stuck: BTreeMap::new(),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = TaskId> + use<> {
        (0..self.states.len() as u32).map(TaskId)
    }

    pub(super) fn state(&self, task: TaskId) -> TaskState {
        self.states[task.index()]
    }

    /// Whether a task is done or has failed.
    pub(super) fn is_settled(&self, task: TaskId) -> bool {
        matches!(self.state(task), TaskState::Done | TaskState::Failed)
    }

    /// Whether all tasks are done or have failed.
    pub(super) fn are_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Returns the server to which a task goes next.
    pub(super) fn server(&self, task: TaskId) -> ServerId {
        self.servers[task.index()]
    }

    /// Number of tasks mapped to a server that are neither done nor failed.
    pub(super) fn load(&self, server: ServerId) -> usize {
        self.loads[server.index()]
    }

    pub(super) fn set(&mut self, task: TaskId, state: TaskState) {
        let before = usize::from(self.is_settled(task));
        self.states[task.index()] = state;
        let after = usize::from(self.is_settled(task));
        let load = &mut self.loads[self.servers[task.index()].index()];
        (*load, self.unsettled) = (*load + before - after, self.unsettled + before - after);
        if state == TaskState::Waiting {
            self.changed.insert(task);
        }
    }

    /// Maps a task that is neither done nor failed to another server.
    pub(super) fn send(&mut self, task: TaskId, to: ServerId) {
        let from = std::mem::replace(&mut self.servers[task.index()], to);
        self.loads[from.index()] -= 1;
        self.loads[to.index()] += 1;
    }

    /// Notes that a task is ordered.
    pub(super) fn ordered(&mut self, task: TaskId) {
        self.set(task, TaskState::Ordered);
        self.counts[task.index()] += 1;
    }

    /// Excludes the last order of a task from its count.
    pub(super) fn forgive(&mut self, task: TaskId) {
        let count = &mut self.counts[task.index()];
        *count = count.saturating_sub(1);
    }

    /// Whether a task was ordered the maximum number of times.
    pub(super) fn has_no_attempts_left(&self, task: TaskId) -> bool {
        self.counts[task.index()] >= ATTEMPTS_MAX
    }

    /// Notes that a server refuses a task; returns whether this is its first refusal.
    pub(super) fn refused(&mut self, task: TaskId, server: ServerId) -> bool {
        let refusals = self.refusals.entry(task).or_default().entry(server).or_default();
        *refusals += 1;
        *refusals == 1
    }

    /// Number of times that a server refused a task.
    pub(super) fn refusals(&self, task: TaskId, server: ServerId) -> u32 {
        let of_task = self.refusals.get(&task);
        of_task.and_then(|of| of.get(&server)).copied().unwrap_or(0)
    }
}
