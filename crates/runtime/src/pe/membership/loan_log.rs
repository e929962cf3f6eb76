//! The log of a node's loans: the tasks that it has lent to founders, until their outputs come.
//!
//! If a founder is lost, the node runs the tasks again that the founder had borrowed
//! (`tasks/backups.rs`). All pools of a node share one log, which holds a limited number of bytes:
//! beyond them it drops the oldest tasks. The job cannot go on without a founder that has borrowed
//! dropped tasks, so the node says this when the coordinator asks ([`LoanLog::spare`]). Once the
//! node has answered that the job can go on, the log drops no tasks that this founder has borrowed.

use bytes::Bytes;
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The logs of the nodes in this process, which may run one node of a job, or all.
pub(crate) struct LoanLogs {
    limit_bytes: u64,
    by_node: Mutex<BTreeMap<NodeId, Arc<LoanLog>>>,
}

impl LoanLogs {
    /// Makes empty logs of at most `limit_bytes` each.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, by_node: Mutex::default() }
    }

    /// The log of a node.
    pub(crate) fn of(&self, node: NodeId) -> Arc<LoanLog> {
        let mut logs = self.by_node.lock().unwrap_or_else(PoisonError::into_inner);
        logs.entry(node).or_insert_with(|| Arc::new(LoanLog::new(self.limit_bytes))).clone()
    }
}

/// The log of one node. Its PEs and its agents share it.
pub(crate) struct LoanLog {
    limit_bytes: u64,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    /// Number of loans so far.
    loans: u64,
    /// Bytes of the loans in `kept`.
    bytes: u64,
    /// The loans whose tasks are in the log, by their numbers: oldest first.
    kept: BTreeMap<u64, Kept>,
    /// The borrowers of the loans whose tasks were dropped, by the numbers of the loans.
    dropped: BTreeMap<u64, NodeId>,
    /// The lost founders without which the job can go on, as far as this log knows.
    spared: BTreeSet<NodeId>,
}

struct Kept {
    to: NodeId,
    bytes: u64,
    tasks: Bytes,
}

/// A loan in a log. The log forgets the loan when this value is dropped.
pub(crate) struct LoanEntry {
    log: Arc<LoanLog>,
    number: u64,
}

impl LoanLog {
    fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, state: Mutex::default() }
    }

    /// Maximum bytes of the loans in the log.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Enters a loan to the founder `to`, which takes `bytes` in all. Drops the oldest tasks in the
    /// log if it would exceed its limit, or these tasks if they alone exceed it.
    pub(crate) fn enter(self: &Arc<Self>, to: NodeId, bytes: usize, tasks: Bytes) -> LoanEntry {
        let mut state = self.state();
        let number = state.loans;
        state.loans += 1;
        state.enter(number, Kept { to, bytes: bytes as u64, tasks }, self.limit_bytes);
        LoanEntry { log: self.clone(), number }
    }

    /// Returns the number of loans to a lost founder whose tasks were dropped and whose outputs
    /// have not come. If there are none, all tasks of the founder can run again, and the log does
    /// not drop them from now on.
    pub(crate) fn spare(&self, lost: NodeId) -> u64 {
        let mut state = self.state();
        let dropped = state.dropped.values().filter(|&&to| to == lost).count() as u64;
        if dropped == 0 {
            state.spared.insert(lost);
        }
        dropped
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn enter(&mut self, number: u64, loan: Kept, limit_bytes: u64) {
        if loan.bytes > limit_bytes && !self.spared.contains(&loan.to) {
            self.dropped.insert(number, loan.to);
            return;
        }
        self.bytes += loan.bytes;
        self.kept.insert(number, loan);
        while self.bytes > limit_bytes {
            let may_go = |(_, loan): &(&u64, &Kept)| !self.spared.contains(&loan.to);
            let Some((&oldest, _)) = self.kept.iter().find(may_go) else { return };
            if let Some(loan) = self.remove(oldest) {
                self.dropped.insert(oldest, loan.to);
            }
        }
    }

    /// Forgets a loan, and returns its tasks unless they were dropped.
    fn forget(&mut self, number: u64) -> Option<Bytes> {
        self.dropped.remove(&number);
        self.remove(number).map(|loan| loan.tasks)
    }

    fn remove(&mut self, number: u64) -> Option<Kept> {
        let loan = self.kept.remove(&number)?;
        self.bytes -= loan.bytes;
        Some(loan)
    }
}

impl LoanEntry {
    /// Takes the tasks out of the log; `None` if the log has dropped them.
    pub(crate) fn take(&self) -> Option<Bytes> {
        self.log.state().forget(self.number)
    }
}

impl Drop for LoanEntry {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: NodeId = NodeId(1);
    const FAR: NodeId = NodeId(9);

    fn log_of(limit_bytes: u64) -> Arc<LoanLog> {
        LoanLogs::new(limit_bytes).of(NodeId(0))
    }

    fn enter(log: &Arc<LoanLog>, to: NodeId, bytes: usize) -> LoanEntry {
        log.enter(to, bytes, vec![7; bytes].into())
    }

    /// Whether the log has the tasks of each of these loans.
    fn has<const N: usize>(loans: [&LoanEntry; N]) -> [bool; N] {
        loans.map(|loan| loan.log.state().kept.contains_key(&loan.number))
    }

    #[test]
    fn beyond_the_limit_the_oldest_tasks_are_dropped() {
        let log = log_of(100);
        let [first, second] = [enter(&log, NEAR, 60), enter(&log, FAR, 40)];
        assert_eq!(has([&first, &second]), [true, true]);

        let third = enter(&log, FAR, 30);

        assert_eq!(has([&first, &second, &third]), [false, true, true]);
        assert_eq!(log.state().bytes, 70);
        assert_eq!((first.take(), second.take().map(|tasks| tasks.len())), (None, Some(40)));
    }

    #[test]
    fn a_loan_above_the_limit_drops_no_others() {
        let log = log_of(100);
        let [small, large] = [enter(&log, NEAR, 60), enter(&log, NEAR, 101)];
        assert_eq!(has([&small, &large]), [true, false]);
    }

    #[test]
    fn the_job_needs_a_founder_until_the_outputs_of_its_dropped_tasks_have_come() {
        let log = log_of(0);
        let loans = [enter(&log, NEAR, 1), enter(&log, NEAR, 1), enter(&log, FAR, 1)];
        assert_eq!([NEAR, FAR, NodeId(3)].map(|node| log.spare(node)), [2, 1, 0]);

        drop(loans);

        assert_eq!([NEAR, FAR].map(|node| log.spare(node)), [0, 0]);
        let state = log.state();
        assert_eq!((state.bytes, state.kept.len(), state.dropped.len()), (0, 0, 0));
    }

    #[test]
    fn tasks_of_a_spared_founder_stay_whatever_the_limit() {
        let log = log_of(100);
        let [old, other] = [enter(&log, FAR, 50), enter(&log, NEAR, 50)];
        assert_eq!(log.spare(FAR), 0);

        // Another thread did not know yet that the founder is lost.
        let late = enter(&log, FAR, 500);

        assert_eq!(has([&old, &other, &late]), [true, false, true]);
        assert_eq!([FAR, NEAR].map(|node| log.spare(node)), [0, 1]);
    }

    #[test]
    fn each_node_of_a_process_has_one_log() {
        let logs = LoanLogs::new(5);
        assert!(Arc::ptr_eq(&logs.of(NEAR), &logs.of(NEAR)));
        assert!(!Arc::ptr_eq(&logs.of(NEAR), &logs.of(FAR)));
        assert_eq!(logs.of(FAR).limit_bytes(), 5);
    }
}
