//! A value that all tasks of a pool share and that only improves: the bound of a branch and bound
//! search.
//!
//! Each node keeps the best value that it knows in one atomic word, which tasks read and improve
//! while they run. Agents send improvements to the nodes that `bound_spread` selects. So no
//! improvement waits for a task to end.
//!
//! **Tasks that run twice.** Some tasks run again, because a node is lost that had them; others run
//! as [backups](super::backups) beside the other copy of their loan. Only one of the two outputs
//! counts. If the other output has the best value, the run that counts must find that value too,
//! and so must not prune by it. Two rules ensure this:
//!
//! 1. Tasks that repeat others ([`Repeats`](super::lineage::Repeats)) see a bound that is worse by
//!    one, so that they find the best value again. So do the tasks that they spawn here, or call in
//!    another pool.
//! 2. Backups, and the tasks that they spawn or call, record no values: the output of the other
//!    copy may count, and that copy sees the exact bound.
//!
//! So the outputs that count contain a value as good as any recorded one. Suppose that a task
//! records the best value, and its output does not count. Follow the path from the root to that
//! task, up to the first task whose output does not count. This first task ran twice, and its other
//! run counts. By the second rule, the run on the path is no backup. So the run that counts is a
//! backup, or it began when the output of the run on the path could no longer count (`ledger`, and
//! recalls in `backups`). Either way it is a repetition, and by the first rule it prunes nothing on
//! its way to the value. This holds if the output of a task contains the values that the task has
//! found, and if a task prunes only what is not better than the bound that it sees. It does not
//! matter whether, or when, tasks for which no frame waits record values.
//!
//! In virtual time the code of a task runs at one instant, whatever time it charges. A value that
//! it finds after a charge becomes known to the other PEs when the charged time has passed. The
//! task itself does not notice values that other tasks find within its charged time.

use super::lineage::LineageId;
use crate::message::steal_agent::Nudge;
use gridspan_topology::Time;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Which of two values of a shared bound is the better one.
///
/// The worst value, `i64::MIN` for [`Maximise`](Self::Maximise) and `i64::MAX` for
/// [`Minimise`](Self::Minimise), cannot be recorded, because it means that there is no value.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// use gridspan::Goal;
/// # #[derive(Default, Serialize, Deserialize)]
/// # struct Nothing;
/// # impl Merge for Nothing {
/// #     fn merge(&mut self, _other: Self) {}
/// # }
/// #[derive(Serialize, Deserialize)]
/// struct Offer(i64);
///
/// impl Search for Offer {
///     # type Total = Nothing;
///     const GOAL: Goal = Goal::Minimise;
///
///     fn visit(self, cx: &mut SearchContext<'_, Self>) {
///         cx.improve(self.0);
///         # if self.0 > 5 { cx.spawn(Offer(self.0 - 3)) }
///     }
/// }
/// # let job = Job::new("offers").search::<Offer>().main(async |grid: Grid| {
/// # let pool = grid.search_pool().await?;
/// # pool.run(Offer(12)).await?;
/// # assert_eq!(pool.bound().await?, Some(3));
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Goal {
    /// The larger one.
    Maximise,
    /// The smaller one.
    Minimise,
}

/// The rank that stands for no value. Ranks are larger for better values.
pub(super) const NONE: i64 = i64::MIN;

impl Goal {
    /// Converts a value to a rank, which is larger for better values, or a rank to its value.
    pub(super) fn rank(self, value: i64) -> i64 {
        match self {
            Self::Maximise => value,
            // Reverses the order and, unlike negation, has a result for each value.
            Self::Minimise => !value,
        }
    }
}

/// The value of a pool's bound that a node knows.
pub(super) struct Bound {
    best: AtomicI64,
    /// In virtual time: the times at which running tasks will have found values, and the ranks of
    /// these values.
    ahead: Mutex<Vec<(Time, i64)>>,
    nudge: OnceLock<Nudge>,
}

impl Default for Bound {
    fn default() -> Self {
        Self { best: AtomicI64::new(NONE), ahead: Mutex::default(), nudge: OnceLock::new() }
    }
}

impl Bound {
    /// Returns the rank of the best value.
    #[inline]
    pub(super) fn best(&self) -> i64 {
        self.best.load(Ordering::Relaxed)
    }

    /// Records a value by its rank. Returns whether it is better than the best that the node knew.
    pub(super) fn learn(&self, rank: i64) -> bool {
        self.best.fetch_max(rank, Ordering::SeqCst) < rank
    }

    /// Sets the callback that notifies the network thread of improvements.
    pub(super) fn connect(&self, nudge: Nudge) {
        // A second callback would be that of the same node.
        let _ = self.nudge.set(nudge);
    }

    /// Makes the network thread look for improvements at once.
    pub(super) fn nudge(&self) {
        if let Some(nudge) = self.nudge.get() {
            nudge();
        }
    }

    /// Returns the next time at which a running task will have found a value, in virtual time.
    pub(super) fn next_found(&self) -> Option<Time> {
        self.ahead().iter().map(|&(at, _)| at).min()
    }

    /// Records the values that have been found by now.
    pub(super) fn advance(&self, now: Time) {
        self.ahead().retain(|&(at, rank)| {
            let is_ahead = at > now;
            if !is_ahead {
                self.learn(rank);
            }
            is_ahead
        });
    }

    fn ahead(&self) -> MutexGuard<'_, Vec<(Time, i64)>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of a pool's bound that a PE knows.
pub(super) struct LocalBound {
    shared: Arc<Bound>,
    goal: Goal,
    /// The best value found on this PE: a task knows its own values at once.
    own: i64,
    /// Whether improvements become known to other PEs only when the time charged before them has
    /// passed.
    pub(super) is_deferred: bool,
}

impl LocalBound {
    pub(super) fn new(shared: Arc<Bound>, goal: Goal) -> Self {
        Self { shared, goal, own: NONE, is_deferred: false }
    }

    /// The best value that is known here.
    #[inline]
    pub(super) fn value(&self) -> Option<i64> {
        self.seen_by(LineageId::FOUNDERS)
    }

    /// The value by which tasks of this lineage prune.
    #[inline]
    pub(super) fn seen_by(&self, lineage: LineageId) -> Option<i64> {
        let rank = self.rank_seen_by(lineage);
        (rank != NONE).then(|| self.goal.rank(rank))
    }

    #[inline]
    fn rank_seen_by(&self, lineage: LineageId) -> i64 {
        // `NONE` is the least rank.
        self.best().saturating_sub(i64::from(lineage.is_repeat()))
    }

    /// The rank of the best value that is known here.
    #[inline]
    fn best(&self) -> i64 {
        self.own.max(self.shared.best())
    }

    /// The best value that all PEs of this node know. In virtual time, values not yet found do not
    /// count.
    pub(super) fn shared_value(&self) -> Option<i64> {
        let best = self.shared.best();
        (best != NONE).then(|| self.goal.rank(best))
    }

    /// Records a value that a task has found at time `at`, unless the task is a backup. Returns
    /// whether the value is better than the one [seen by](Self::seen_by) this lineage.
    pub(super) fn improve(&mut self, value: i64, at: Time, lineage: LineageId) -> bool {
        let rank = self.goal.rank(value);
        if rank <= self.rank_seen_by(lineage) {
            return false;
        }
        // A repetition may have found a known value again.
        if rank > self.best() && !lineage.is_backup() {
            self.record(rank, at);
        }
        true
    }

    fn record(&mut self, rank: i64, at: Time) {
        self.own = rank;
        if !self.is_deferred {
            if self.shared.learn(rank) {
                self.shared.nudge();
            }
            return;
        }
        let mut ahead = self.shared.ahead();
        // The value replaces those that are neither found earlier nor better: a task that charges
        // nothing finds all its values at once.
        ahead.retain(|&(then, found)| then < at || found > rank);
        ahead.push((at, rank));
    }
}

#[cfg(test)]
mod tests {
    use super::super::lineage::Repeats;
    use super::*;

    const BACKUP: Repeats = Repeats { is_backup: true, is_rerun: false };

    fn pe(node: &Arc<Bound>, goal: Goal) -> LocalBound {
        LocalBound::new(node.clone(), goal)
    }

    #[test]
    fn only_better_values_are_taken_and_all_pes_of_a_node_know_them() {
        for (goal, values) in
            [(Goal::Maximise, [3, 1, 3, 7, i64::MAX]), (Goal::Minimise, [3, 5, 3, -7, i64::MIN])]
        {
            let node = Arc::new(Bound::default());
            let (mut first, second) = (pe(&node, goal), pe(&node, goal));
            assert_eq!(second.value(), None);
            let taken = values.map(|value| first.improve(value, Time::ZERO, LineageId::FOUNDERS));
            assert_eq!(taken, [true, false, false, true, true], "{goal:?}");
            assert_eq!(second.value(), Some(values[4]));
        }
    }

    #[test]
    fn the_worst_value_is_not_recorded() {
        for (goal, worst) in [(Goal::Maximise, i64::MIN), (Goal::Minimise, i64::MAX)] {
            let node = Arc::new(Bound::default());
            let mut pe = pe(&node, goal);
            assert!(!pe.improve(worst, Time::ZERO, LineageId::FOUNDERS), "{goal:?}");
            assert_eq!((pe.value(), pe.shared_value()), (None, None));
            let next = goal.rank(NONE + 1);
            assert!(pe.improve(next, Time::ZERO, LineageId::FOUNDERS));
            assert_eq!((pe.value(), pe.shared_value()), (Some(next), Some(next)));
        }
    }

    #[test]
    fn in_virtual_time_other_pes_know_a_value_once_it_has_been_found() {
        let node = Arc::new(Bound::default());
        let (mut first, second) = (pe(&node, Goal::Maximise), pe(&node, Goal::Maximise));
        first.is_deferred = true;
        assert!(
            first.improve(5, Time(100), LineageId::FOUNDERS)
                && first.improve(8, Time(300), LineageId::FOUNDERS)
        );
        assert_eq!(
            (first.value(), second.value(), node.next_found()),
            (Some(8), None, Some(Time(100)))
        );
        assert_eq!(first.shared_value(), None, "only the PE of the task knows");
        node.advance(Time(200));
        assert_eq!((second.value(), node.next_found()), (Some(5), Some(Time(300))));
        node.advance(Time(300));
        assert_eq!((second.value(), node.next_found()), (Some(8), None));
    }

    #[test]
    fn the_network_thread_is_notified_of_improvements_only() {
        let node = Arc::new(Bound::default());
        let heard = Arc::new(AtomicI64::new(0));
        let count = heard.clone();
        node.connect(Arc::new(move || _ = count.fetch_add(1, Ordering::Relaxed)));
        let mut pe = pe(&node, Goal::Minimise);
        for value in [9, 9, 10, 8] {
            pe.improve(value, Time::ZERO, LineageId::FOUNDERS);
        }
        assert_eq!(heard.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn backups_record_no_value_and_find_the_best_one_again() {
        for (goal, [worse, best, better]) in
            [(Goal::Maximise, [4, 5, 6]), (Goal::Minimise, [6, 5, 4])]
        {
            let backup = LineageId::of_root(BACKUP);
            // A backup may run again, because a node that had a part of it is lost.
            for lineage in [backup, backup.rerun()] {
                let mut pe = pe(&Arc::default(), goal);
                assert!(pe.improve(best, Time::ZERO, lineage), "{goal:?}");
                assert_eq!((pe.value(), pe.seen_by(lineage)), (None, None));

                assert!(pe.improve(best, Time::ZERO, LineageId::FOUNDERS));
                assert_eq!((pe.value(), pe.seen_by(lineage)), (Some(best), Some(worse)));
                let improves = [worse, best, better].map(|it| pe.improve(it, Time::ZERO, lineage));
                assert_eq!(improves, [false, true, true], "{goal:?}");
                assert_eq!(pe.value(), Some(best));
            }
        }
    }

    #[test]
    fn tasks_that_run_again_find_the_best_value_again_and_record_better_ones() {
        let again = LineageId::FOUNDERS.rerun();
        for (goal, [worse, best, better]) in
            [(Goal::Maximise, [4, 5, 6]), (Goal::Minimise, [6, 5, 4])]
        {
            let heard = Arc::new(AtomicI64::new(0));
            let count = heard.clone();
            let node = Arc::new(Bound::default());
            node.connect(Arc::new(move || _ = count.fetch_add(1, Ordering::Relaxed)));
            let mut pe = pe(&node, goal);
            // The value of a task that is lost.
            node.learn(goal.rank(best));

            assert_eq!((pe.value(), pe.seen_by(again)), (Some(best), Some(worse)), "{goal:?}");
            let improves = [worse, best, best].map(|it| pe.improve(it, Time::ZERO, again));
            assert_eq!(improves, [false, true, true], "{goal:?}");
            assert_eq!(heard.load(Ordering::Relaxed), 0, "all know the value");

            assert!(pe.improve(better, Time::ZERO, again));
            assert_eq!((pe.value(), pe.seen_by(again)), (Some(better), Some(best)), "{goal:?}");
            assert_eq!(heard.load(Ordering::Relaxed), 1);
        }
    }
}
