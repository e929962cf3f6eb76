//! What a rank waits for: as text, and as the ranks that can let it go on.

use super::LocalState;
use super::slots::Wait;
use crate::packet::RankMessage;
use crate::runs::Run;
use std::collections::BTreeSet;

/// Largest number of runs of consecutive ranks in the list of ranks for which a rank waits. A rank
/// seldom waits for more, and long lists cost memory at the rank that looks for deadlocks.
const RUNS_MAX: usize = 64;

impl LocalState {
    /// What the rank waits for, as text.
    pub(crate) fn waits(&self) -> String {
        let probes = self.watchers.iter().map(|(_, watcher)| watcher.at);
        let waits: Vec<String> =
            self.slots.waiting().chain(probes).map(|at| at.to_string()).collect();
        match waits.is_empty() {
            true => "code that is not an operation of ranks".to_owned(),
            false => waits.join(" and "),
        }
    }

    /// The ranks of which one must act before this rank goes on: by a message, by giving back a
    /// lock or, in a job with `ErrorsReturn`, by a failure or a revocation. `None` if something
    /// else can let it go on, such as a timer, the name server or data on their way, or if there
    /// are too many or some are not known.
    pub(crate) fn waits_until(&self) -> Option<Vec<Run>> {
        if !(self.sleeping.is_empty() && self.resumed.is_empty() && self.tasks.is_empty()) {
            return None;
        }
        let mut until: Vec<Run> = Vec::new();
        let mut communicators = BTreeSet::new();
        for (at, wait) in self.slots.awaited() {
            communicators.insert(at.communicator);
            match wait {
                Wait::Receive(_, peers) => until.extend(peers.runs(RUNS_MAX)?),
                Wait::Receiver(token) => until.push((self.sent.get(token)?.to, 1)),
                Wait::Buffer => {
                    for sent in self.sent.values().filter(|sent| sent.buffered > 0) {
                        until.push((sent.to, 1));
                        communicators.insert(sent.label.context / 2);
                    }
                }
                Wait::Lock(lock) => until.extend(lock.before.as_deref()?),
                // It waits for other operations of this rank.
                Wait::Task => {}
                Wait::Data(_) | Wait::Access | Wait::Reply => return None,
            }
        }
        for (_, watcher) in &self.watchers {
            until.extend(watcher.peers.runs(RUNS_MAX)?);
            communicators.insert(watcher.at.communicator);
        }
        if until.is_empty() {
            return None;
        }
        until.extend(self.interrupts.of_all(&communicators, RUNS_MAX)?);
        (until.len() <= RUNS_MAX).then_some(until)
    }

    /// The ranks with the windows for whose locks this rank waits.
    pub(crate) fn lock_targets(&self) -> Vec<u32> {
        let target = |wait: &Wait| match wait {
            Wait::Lock(lock) => Some(lock.target),
            _ => None,
        };
        self.slots.awaited().filter_map(|(_, wait)| target(wait)).collect()
    }

    /// Asks the targets of the locks for which this rank waits which ranks are before it.
    pub(crate) fn ask_for_locks(&mut self) {
        let Self { rank, accesses, slots, .. } = self;
        let mut questions = Vec::new();
        for (lock, (target, ticket)) in accesses.iter() {
            if let Some(wait) = slots.lock_wait(*ticket)
                && !std::mem::replace(&mut wait.is_asked, true)
            {
                let (from, window) = (*rank, wait.window);
                questions.push((*target, RankMessage::AskLock { from, window, lock: *lock }));
            }
        }
        for (target, question) in questions {
            self.put(target, question);
        }
    }

    /// Answers a rank that waits for a lock on a window of this rank. If the window has ended, no
    /// rank but this one could ever grant the lock.
    pub(super) fn answer_for_lock(&mut self, from: u32, window: u32, lock: u32) {
        let before = match self.windows.get(&window) {
            Some(window) => window.before(from, lock, RUNS_MAX),
            None => Some(vec![(self.rank, 1)]),
        };
        self.put(from, RankMessage::BeforeLock { lock, before });
    }

    /// Notes which ranks are before this one for a lock. If they are not those of an earlier
    /// answer, which this rank may have reported, the wait has changed.
    pub(super) fn note_before_lock(&mut self, lock: u32, before: Option<Vec<Run>>) {
        let Some((_, ticket)) = self.accesses.get(&lock) else { return };
        let Some(wait) = self.slots.lock_wait(*ticket) else { return };
        wait.is_asked = false;
        let is_change = wait.before.is_some() && wait.before != before;
        wait.before = before;
        self.changes += u64::from(is_change);
    }
}
