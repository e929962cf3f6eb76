//! The tasks of a group: where each goes, what became of it, and which may be ordered.

use crate::id::{ServerId, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// A task is ordered so many times at most, for servers that are lost or slow. The first refusal of
/// each server does not count.
pub(super) const ATTEMPTS_MAX: u32 = 8;

/// What became of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    Waiting,
    Ordered,
    Done,
    Failed,
}

/// Why a task cannot be executed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stuck {
    /// It was tried too often.
    Tried,
    /// No server is left that could execute it.
    Alone,
    /// An argument is lost, and cannot be made again.
    MissingInput,
}

/// All tasks of a group.
#[derive(Debug)]
pub(super) struct TaskStates {
    /// Where each goes next.
    servers: Vec<ServerId>,
    states: Vec<TaskState>,
    counts: Vec<u32>,
    /// How many are neither done nor failed; and how many of them go to each server.
    unsettled: usize,
    loads: Vec<usize>,
    /// Those that may be ready, for something has happened to them or to what they read since they
    /// were looked at.
    pub(super) stirred: BTreeSet<TaskId>,
    /// Those that are begun again elsewhere while they are late.
    pub(super) copies: Vec<(TaskId, ServerId)>,
    /// Those that were moved before their arguments existed, and where a core is free for each.
    pub(super) reserved: BTreeMap<TaskId, ServerId>,
    /// How often each server refused one.
    refusals: BTreeMap<TaskId, BTreeMap<ServerId, u32>>,
    /// Those that cannot be executed any more.
    pub(super) stuck: BTreeMap<TaskId, Stuck>,
}

impl TaskStates {
    /// All wait, on so many servers.
    pub(super) fn new(mapped: &[ServerId], servers: usize) -> Self {
        let mut loads = vec![0; servers];
        mapped.iter().for_each(|server| loads[server.index()] += 1);
        Self {
            servers: mapped.to_vec(),
            states: vec![TaskState::Waiting; mapped.len()],
            counts: vec![0; mapped.len()],
            unsettled: mapped.len(),
            loads,
            stirred: (0..mapped.len() as u32).map(TaskId).collect(),
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

    /// Whether a task is done, or has failed.
    pub(super) fn is_settled(&self, task: TaskId) -> bool {
        matches!(self.state(task), TaskState::Done | TaskState::Failed)
    }

    /// Whether all are.
    pub(super) fn are_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Where a task goes next.
    pub(super) fn server(&self, task: TaskId) -> ServerId {
        self.servers[task.index()]
    }

    /// How many tasks go to a server that are neither done nor failed.
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
            self.stirred.insert(task);
        }
    }

    /// A task that is neither done nor failed goes to another server.
    pub(super) fn send(&mut self, task: TaskId, to: ServerId) {
        let from = std::mem::replace(&mut self.servers[task.index()], to);
        self.loads[from.index()] -= 1;
        self.loads[to.index()] += 1;
    }

    /// A task is ordered.
    pub(super) fn ordered(&mut self, task: TaskId) {
        self.set(task, TaskState::Ordered);
        self.counts[task.index()] += 1;
    }

    /// The last order of a task does not count.
    pub(super) fn forgive(&mut self, task: TaskId) {
        let count = &mut self.counts[task.index()];
        *count = count.saturating_sub(1);
    }

    /// Whether a task was ordered as often as it may.
    pub(super) fn is_tired(&self, task: TaskId) -> bool {
        self.counts[task.index()] >= ATTEMPTS_MAX
    }

    /// A server refuses a task; whether for the first time.
    pub(super) fn refused(&mut self, task: TaskId, server: ServerId) -> bool {
        let refusals = self.refusals.entry(task).or_default().entry(server).or_default();
        *refusals += 1;
        *refusals == 1
    }

    /// How often a server refused a task.
    pub(super) fn refusals(&self, task: TaskId, server: ServerId) -> u32 {
        let of_task = self.refusals.get(&task);
        of_task.and_then(|of| of.get(&server)).copied().unwrap_or(0)
    }
}
