//! What a rank waits for: as text, and as the ranks that can let it go on.

use super::LocalState;
use super::memory::Window;
use super::slots::Wait;
use crate::packet::RankMessage;
use crate::runs::Run;
use crate::ticket::Ticket;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of runs of consecutive ranks in the list of ranks for which a rank waits. A rank
/// seldom waits for more, and long lists cost memory at the rank that looks for deadlocks.
const RUNS_MAX: usize = 64;
/// Largest number of lists of a rank that waits for one rank of each list. It is more than the
/// neighbours in a grid of three dimensions.
const LISTS_MAX: usize = 32;

/// The lists for a rank that goes on once one rank of each list in `left`, or of each in `right`,
/// has acted. If there are too many lists, one list of all these ranks: one of them must act in any
/// case.
fn either(left: &[Vec<Run>], right: &[Vec<Run>]) -> Vec<Vec<Run>> {
    if left.len().saturating_mul(right.len()) > LISTS_MAX {
        let ranks: BTreeSet<Run> = left.iter().chain(right).flatten().copied().collect();
        return vec![ranks.into_iter().collect()];
    }
    let mut lists = Vec::with_capacity(left.len() * right.len());
    for one in left {
        for other in right {
            let mut list = one.clone();
            list.extend(other.iter().filter(|run| !one.contains(run)));
            lists.push(list);
        }
    }
    lists
}

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

    /// Lists of ranks: one rank of each list must act before this rank goes on, by a message, by
    /// giving back a lock or, in a job with `ErrorsReturn`, by a failure or a revocation. `None` if
    /// something else can let it go on, such as a timer, the name server or data on their way, or
    /// if there are too many or some are not known.
    ///
    /// The operations that tasks await are alternatives. An operation that is part of a wait for
    /// several stands for all of these.
    pub(crate) fn waits_until(&self) -> Option<Vec<Vec<Run>>> {
        if !(self.sleeping.is_empty() && self.resumed.is_empty() && self.tasks.is_empty()) {
            return None;
        }
        let (mut communicators, mut joined) = (BTreeSet::new(), BTreeSet::new());
        let mut until = vec![Vec::new()];
        for (ticket, at, wait) in self.slots.awaited() {
            communicators.insert(at.communicator);
            let lists = match self.joined.with(ticket) {
                // Earlier waits, such as `wait_any`, may have left wakers in several of them.
                Some((number, _)) if !joined.insert(number) => continue,
                Some((_, all)) => self.lists_of_all(all, &mut communicators)?,
                None => self.lists_of(wait, &mut communicators)?,
            };
            until = either(&until, &lists);
            // Leaving out a list may hide a deadlock, but reports no false one.
            until.retain(|list| list.len() <= RUNS_MAX);
            if until.is_empty() {
                return None;
            }
        }
        for (_, watcher) in &self.watchers {
            until = either(&until, &[watcher.peers.runs(RUNS_MAX)?]);
            communicators.insert(watcher.at.communicator);
        }
        if until.iter().any(Vec::is_empty) {
            return None;
        }
        let interrupting = self.interrupts.of_all(&communicators, RUNS_MAX)?;
        until.iter_mut().for_each(|list| list.extend(&interrupting));
        until.retain(|list| list.len() <= RUNS_MAX);
        (!until.is_empty()).then_some(until)
    }

    /// The lists of ranks for the end of one operation. The only list is empty if the operation
    /// ends through other operations of this rank. `None` if something else can end it. Adds the
    /// communicators of messages for whose receivers it waits.
    fn lists_of(&self, wait: &Wait, communicators: &mut BTreeSet<u32>) -> Option<Vec<Vec<Run>>> {
        Some(match wait {
            Wait::Receive(_, peers) => vec![peers.runs(RUNS_MAX)?],
            Wait::Receiver(token) => vec![vec![(self.sent.get(token)?.to, 1)]],
            Wait::Buffer => {
                let buffered = || self.sent.values().filter(|sent| sent.buffered > 0);
                communicators.extend(buffered().map(|sent| sent.label.context / 2));
                // All of the receivers must act.
                let receivers: BTreeSet<u32> = buffered().map(|sent| sent.to).collect();
                receivers.into_iter().take(LISTS_MAX).map(|to| vec![(to, 1)]).collect()
            }
            Wait::Lock(lock) => vec![lock.before.clone()?],
            Wait::Task => vec![Vec::new()],
            Wait::Data(_) | Wait::Access | Wait::Reply => return None,
        })
    }

    /// The lists of ranks for the end of all of these operations. Leaves out those that something
    /// else can end. `None` if there are no others.
    fn lists_of_all(
        &self,
        tickets: &[Ticket],
        communicators: &mut BTreeSet<u32>,
    ) -> Option<Vec<Vec<Run>>> {
        let mut all: BTreeSet<Vec<Run>> = BTreeSet::new();
        for (at, wait) in tickets.iter().filter_map(|ticket| self.slots.open(*ticket)) {
            communicators.insert(at.communicator);
            all.extend(self.lists_of(wait, communicators).unwrap_or_default());
        }
        // An empty list is the first one.
        let lists: Vec<Vec<Run>> = all.into_iter().take(LISTS_MAX).collect();
        (!lists.is_empty()).then_some(lists)
    }

    /// The ranks with the windows for whose locks this rank waits.
    pub(crate) fn lock_targets(&self) -> Vec<u32> {
        let target = |wait: &Wait| match wait {
            Wait::Lock(lock) => Some(lock.target),
            _ => None,
        };
        self.slots.awaited().filter_map(|(_, _, wait)| target(wait)).collect()
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

    /// Whether this rank waits for the first answer of the target of a lock, or would ask again at
    /// its next look.
    pub(crate) fn asks_for_locks(&self) -> bool {
        // Each message of a longer pause may take this path. Few ranks have accesses under way.
        let asks = |(_, ticket): &(u32, Ticket)| match self.slots.open(*ticket) {
            Some((_, Wait::Lock(lock))) => lock.is_asked == lock.before.is_none(),
            _ => false,
        };
        self.accesses.values().any(asks)
    }

    /// Answers a rank that waits for a lock on a window of this rank, and tells it once when the
    /// ranks before it have become fewer. If the window has ended, only this rank could grant the
    /// lock.
    pub(super) fn answer_for_lock(&mut self, from: u32, window: u32, lock: u32) {
        let before = match self.windows.get_mut(&window) {
            Some(window) => {
                window.watch(from, lock);
                window.before(from, lock, RUNS_MAX)
            }
            None => Some(vec![(self.rank, 1)]),
        };
        let is_last = before.is_none();
        self.put(from, RankMessage::BeforeLock { lock, before, is_last });
    }

    /// Tells the ranks that have asked, once each, which ranks are before them for the locks of a
    /// window: these may have become fewer.
    pub(super) fn tell_watchers_of(&mut self, window: u32) {
        let Some(window) = self.windows.get_mut(&window) else { return };
        let watched = window.take_watched();
        let before = |(from, lock)| (from, lock, window.before(from, lock, RUNS_MAX));
        let told: Vec<_> = watched.into_iter().map(before).collect();
        for (from, lock, before) in told {
            self.put(from, RankMessage::BeforeLock { lock, before, is_last: true });
        }
    }

    /// Removes and returns all windows of this rank, and the messages to the ranks that wait for
    /// locks on them: only this rank could grant these.
    pub(crate) fn end_windows(&mut self) -> (BTreeMap<u32, Window>, Vec<(u32, RankMessage)>) {
        let mut windows = std::mem::take(&mut self.windows);
        let mut told = Vec::new();
        for (from, lock) in windows.values_mut().flat_map(Window::take_watched) {
            let before = Some(vec![(self.rank, 1)]);
            told.push((from, RankMessage::BeforeLock { lock, before, is_last: false }));
        }
        (windows, told)
    }

    /// Notes which ranks are before this one for a lock. If they are not those of an earlier
    /// answer, which this rank may have reported, the wait has changed.
    pub(super) fn note_before_lock(&mut self, lock: u32, before: Option<Vec<Run>>, is_last: bool) {
        let Some((_, ticket)) = self.accesses.get(&lock) else { return };
        let Some(wait) = self.slots.lock_wait(*ticket) else { return };
        wait.is_asked = !is_last;
        let is_change = wait.before.is_some() && wait.before != before;
        wait.before = before;
        self.changes += u64::from(is_change);
    }
}
