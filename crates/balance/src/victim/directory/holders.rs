//! Who holds tasks, as a directory believes.

use gridspan_topology::{NodeId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a task is taken to take before anybody knows.
const UNKNOWN_TASK_NS: u64 = 1_000_000;

/// The holders of one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders(BTreeMap<NodeId, Holder>);

/// What one node is believed to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// As of `at`.
    tasks: u64,
    at: Time,
    pub(super) workers: u32,
}

impl Holder {
    /// When its last task will have been taken to run, in nanoseconds; who is latest can spare most.
    fn dry_ns(&self, task_ns: u64) -> u128 {
        let lasts = u128::from(self.tasks) * u128::from(known(task_ns)) / u128::from(self.workers);
        u128::from(self.at.0) + lasts
    }

    /// How many it should have by now. At least one: it says itself when there is none.
    pub(super) fn tasks(&self, now: Time, task_ns: u64) -> u64 {
        let elapsed = u128::from(now.0.saturating_sub(self.at.0)) * u128::from(self.workers);
        let taken = u64::try_from(elapsed / u128::from(known(task_ns))).unwrap_or(u64::MAX);
        self.tasks.saturating_sub(taken).max(1)
    }
}

fn known(task_ns: u64) -> u64 {
    if task_ns == 0 { UNKNOWN_TASK_NS } else { task_ns }
}

impl Holders {
    /// The node has so many now.
    pub(super) fn set(&mut self, node: NodeId, tasks: u64, workers: u32, now: Time) {
        if tasks == 0 {
            self.0.remove(&node);
        } else {
            self.0.insert(node, Holder { tasks, at: now, workers: workers.max(1) });
        }
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(NodeId) -> bool) {
        self.0.retain(|&node, _| keep(node));
    }

    /// How many workers they have.
    pub(super) fn workers(&self) -> u64 {
        self.0.values().map(|holder| u64::from(holder.workers)).sum()
    }

    /// How many tasks they should have by now.
    pub(super) fn tasks(&self, now: Time, task_ns: u64) -> u64 {
        self.0.values().map(|holder| holder.tasks(now, task_ns)).sum()
    }

    /// Who will have some for longest, of those that may be asked.
    pub(super) fn richest(
        &self,
        task_ns: u64,
        is_meant: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, Holder)> {
        // The lowest number among equals.
        let rank =
            |node: NodeId, holder: &Holder| (holder.dry_ns(task_ns), std::cmp::Reverse(node));
        let all = self.0.iter().map(|(&node, &holder)| (node, holder));
        let all = all.filter(|&(node, _)| is_meant(node));
        all.max_by_key(|(node, holder)| rank(*node, holder))
    }

    /// All, those first that will have some for longest.
    pub(super) fn richest_first(&self, task_ns: u64) -> Vec<(NodeId, Holder)> {
        let mut all: Vec<_> = self.0.iter().map(|(&node, &holder)| (node, holder)).collect();
        all.sort_by_key(|(node, holder)| (std::cmp::Reverse(holder.dry_ns(task_ns)), *node));
        all
    }
}

/// The time after which this directory's node may have heard everything that was sent to it at once.
pub(super) fn quiet(one_way: Duration) -> Duration {
    const UNKNOWN: Duration = Duration::from_micros(100);
    if one_way.is_zero() { UNKNOWN } else { one_way * 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_richest_is_who_has_work_for_longest() {
        let mut holders = Holders::default();
        holders.set(NodeId(1), 8, 4, Time(0));
        holders.set(NodeId(2), 3, 1, Time(0));
        holders.set(NodeId(3), 2, 1, Time(15 * MS));

        let order: Vec<u32> =
            holders.richest_first(10 * MS).iter().map(|(node, _)| node.0).collect();

        // Dry at 20, 30 and 35 ms.
        assert_eq!(order, [3, 2, 1]);
        assert_eq!(holders.richest(10 * MS, |_| true).unwrap().0, NodeId(3));
        assert_eq!(holders.richest(10 * MS, |node| node != NodeId(3)).unwrap().0, NodeId(2));
    }

    #[test]
    fn tasks_are_believed_to_be_taken_one_after_the_other() {
        let mut holders = Holders::default();
        holders.set(NodeId(1), 8, 2, Time(0));

        let at = |ms: u64| holders.tasks(Time(ms * MS), 10 * MS);

        assert_eq!([at(0), at(10), at(35), at(1000)], [8, 6, 1, 1]);
    }
}
