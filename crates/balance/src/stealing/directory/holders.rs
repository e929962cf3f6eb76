//! The nodes that hold tasks, as estimated by a directory.

use super::backlog::Backlog;
use gridspan_topology::{NodeId, Time};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

/// Assumed time of a task before any was observed.
const UNKNOWN_TASK_NS: u64 = 1_000_000;

/// The holders of one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders(BTreeMap<NodeId, Holder>);

/// Estimated tasks of one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    /// Number of tasks at the time `at`.
    tasks: u64,
    at: Time,
    pub(super) workers: u32,
    backlog: Backlog,
}

impl Holder {
    /// Returns the estimated time in nanoseconds at which its last task starts to run; the holder
    /// with the latest time can spare most.
    fn dry_ns(&self, now: Time, task_ns: u64) -> u128 {
        if self.is_replenished(now, task_ns) {
            return u128::from(now.0) + u128::from(self.backlog.lasted_ns(now));
        }
        let lasts = u128::from(self.tasks) * u128::from(known(task_ns)) / u128::from(self.workers);
        u128::from(self.at.0) + lasts
    }

    /// Returns whether its tasks are known to spawn others.
    pub(super) fn is_replenished(&self, now: Time, task_ns: u64) -> bool {
        self.backlog.is_replenished(now, u64::from(self.workers), known(task_ns))
    }

    /// Returns the estimated present number of tasks. This is the last reported number if the time
    /// of a task is not known or its tasks spawn others. It is at least 1, because a node reports
    /// when it has no tasks.
    pub(super) fn tasks(&self, now: Time, task_ns: u64) -> u64 {
        if task_ns == 0 || self.is_replenished(now, task_ns) {
            return self.tasks.max(1);
        }
        let elapsed = u128::from(now.0.saturating_sub(self.at.0)) * u128::from(self.workers);
        let taken = u64::try_from(elapsed / u128::from(known(task_ns))).unwrap_or(u64::MAX);
        self.tasks.saturating_sub(taken).max(1)
    }
}

fn known(task_ns: u64) -> u64 {
    if task_ns == 0 { UNKNOWN_TASK_NS } else { task_ns }
}

impl Holders {
    /// Sets the present number of tasks of a node.
    pub(super) fn set(&mut self, node: NodeId, tasks: u64, workers: u32, now: Time) {
        if tasks == 0 {
            self.0.remove(&node);
        } else {
            let mut backlog = self.0.get(&node).map(|holder| holder.backlog).unwrap_or_default();
            backlog.observe(now, tasks);
            self.0.insert(node, Holder { tasks, at: now, workers: workers.max(1), backlog });
        }
    }

    /// Records that a node gives away `tasks` of its `of` tasks.
    pub(super) fn gives(&mut self, node: NodeId, tasks: u64, of: u64, now: Time) {
        let Some(holder) = self.0.get_mut(&node).filter(|_| tasks < of) else {
            return self.remove(node);
        };
        holder.backlog.gave(now, tasks);
        (holder.tasks, holder.at) = (of - tasks, now);
    }

    /// Returns the estimate for a node, if it is assumed to hold tasks.
    pub(super) fn of(&self, node: NodeId) -> Option<Holder> {
        self.0.get(&node).copied()
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(NodeId) -> bool) {
        self.0.retain(|&node, _| keep(node));
    }

    /// Returns the total number of workers of all holders.
    pub(super) fn workers(&self) -> u64 {
        self.0.values().map(|holder| u64::from(holder.workers)).sum()
    }

    /// Returns the estimated total number of tasks.
    pub(super) fn tasks(&self, now: Time, task_ns: u64) -> u64 {
        let tasks = self.0.values().map(|holder| holder.tasks(now, task_ns));
        tasks.fold(0, u64::saturating_add)
    }

    /// Returns the estimated time that one worker would need for all tasks.
    pub(super) fn lasts(&self, now: Time, task_ns: u64) -> Duration {
        let lasts = |holder: &Holder| match holder.is_replenished(now, task_ns) {
            true => holder.backlog.lasted_ns(now).saturating_mul(holder.workers.into()),
            false => holder.tasks(now, task_ns).saturating_mul(known(task_ns)),
        };
        Duration::from_nanos(self.0.values().map(lasts).fold(0, u64::saturating_add))
    }

    /// Returns, among the holders for which `is_meant` is true, the one that will have tasks for
    /// longest.
    pub(super) fn richest(
        &self,
        now: Time,
        task_ns: u64,
        is_meant: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, Holder)> {
        // Among equal holders, the one with the lowest number is chosen.
        let rank = |node: NodeId, holder: &Holder| (holder.dry_ns(now, task_ns), Reverse(node));
        let all = self.0.iter().map(|(&node, &holder)| (node, holder));
        let all = all.filter(|&(node, _)| is_meant(node));
        all.max_by_key(|(node, holder)| rank(*node, holder))
    }

    /// Returns all holders, first those that will have tasks for longest.
    pub(super) fn richest_first(&self, now: Time, task_ns: u64) -> Vec<(NodeId, Holder)> {
        let mut all: Vec<_> = self.0.iter().map(|(&node, &holder)| (node, holder)).collect();
        all.sort_by_key(|(node, holder)| (Reverse(holder.dry_ns(now, task_ns)), *node));
        all
    }
}

/// Returns the time within which this directory's node should have received all messages sent to it
/// at the same moment: a round trip, or 100 µs if the latency is unknown.
pub(super) fn quiet(one_way: Duration) -> Duration {
    const UNKNOWN: Duration = Duration::from_micros(100);
    if one_way.is_zero() { UNKNOWN } else { one_way * 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_richest_holder_has_work_for_longest() {
        let mut holders = Holders::default();
        holders.set(NodeId(1), 8, 4, Time(0));
        holders.set(NodeId(2), 3, 1, Time(0));
        holders.set(NodeId(3), 2, 1, Time(15 * MS));

        let order: Vec<u32> =
            holders.richest_first(Time(15 * MS), 10 * MS).iter().map(|(node, _)| node.0).collect();

        // The nodes run dry at 20, 30 and 35 ms.
        assert_eq!(order, [3, 2, 1]);
        assert_eq!(holders.richest(Time(15 * MS), 10 * MS, |_| true).unwrap().0, NodeId(3));
        assert_eq!(
            holders.richest(Time(15 * MS), 10 * MS, |node| node != NodeId(3)).unwrap().0,
            NodeId(2)
        );
    }

    #[test]
    fn estimated_tasks_decrease_with_time() {
        let mut holders = Holders::default();
        holders.set(NodeId(1), 8, 2, Time(0));

        let at = |ms: u64| holders.tasks(Time(ms * MS), 10 * MS);

        assert_eq!([at(0), at(10), at(35), at(79)], [8, 6, 1, 1]);
    }

    #[test]
    fn estimated_tasks_of_unknown_length_do_not_decrease() {
        let mut holders = Holders::default();
        holders.set(NodeId(1), 12, 1, Time(0));

        assert_eq!(holders.tasks(Time(20 * MS), 0), 12);
        assert_eq!(holders.tasks(Time(20 * MS), 20 * MS), 11);
    }

    #[test]
    fn if_tasks_spawn_others_the_richest_holder_has_had_tasks_for_longest() {
        let mut holders = Holders::default();
        holders.set(NodeId(1), 40, 1, Time(0));
        holders.set(NodeId(2), 5, 1, Time(0));
        // Tasks of 100 ns each. The first node ran dry and has tasks again; the second never ran
        // dry.
        holders.set(NodeId(1), 0, 1, Time(400 * MS));
        holders.set(NodeId(1), 60, 1, Time(800 * MS));
        holders.set(NodeId(2), 4, 1, Time(900 * MS));

        let (node, holder) = holders.richest(Time(1000 * MS), 100, |_| true).unwrap();

        assert_eq!((node, holder.tasks(Time(1000 * MS), 100)), (NodeId(2), 4));
    }

    #[test]
    fn a_holder_that_gave_most_tasks_away_is_not_the_richest() {
        let mut holders = Holders::default();
        holders.set(NodeId(1), 8, 1, Time(0));
        holders.set(NodeId(2), 8, 1, Time(400 * MS));

        holders.gives(NodeId(1), 6, 8, Time(1000 * MS));

        let order = holders.richest_first(Time(1000 * MS), 100);
        assert_eq!(order.iter().map(|(node, _)| node.0).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(order[1].1.tasks(Time(1000 * MS), 100), 2);
    }
}
