//! A value that all tasks of a pool share and that only improves: the bound of a branch and bound
//! search.
//!
//! Each node keeps the best value that it knows in one atomic word, which tasks read and improve
//! while they run. Agents send improvements to the nodes that `bound_spread` selects. So no
//! improvement waits for a task to end.
//!
//! A task that no frame waits for records no value, because the tasks that run in its place would
//! prune by the value, and their outputs would lack it. For the same reason [backups](super::backups)
//! record none: the output of the other copy may count, which must not lack it. And as the output of
//! a backup may count in place of the other copy's, which may have found the best value, a backup
//! sees a bound that is worse by one: what only equals the best value, it finds again.
//!
//! In virtual time a task ends as soon as it has begun. A value that it finds after a charge
//! becomes known to the other PEs when the charged time has passed; the task itself does not notice
//! values that other tasks find meanwhile.

use super::lineage::{LineageId, Lineages};
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
    /// these.
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

    /// Whether there is a value, or a running task will have found one.
    pub(super) fn is_set(&self) -> bool {
        self.best() != NONE || !self.ahead().is_empty()
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
    lineages: Lineages,
}

impl LocalBound {
    pub(super) fn new(shared: Arc<Bound>, goal: Goal, lineages: Lineages) -> Self {
        Self { shared, goal, own: NONE, is_deferred: false, lineages }
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
        let best = self.own.max(self.shared.best());
        // `NONE` is the least rank.
        best.saturating_sub(i64::from(lineage.is_backup()))
    }

    /// The best value that all PEs of this node know. In virtual time, values not yet found do not
    /// count.
    pub(super) fn shared_value(&self) -> Option<i64> {
        let best = self.shared.best();
        (best != NONE).then(|| self.goal.rank(best))
    }

    /// Records a value that a task has found at time `at`. Returns whether it is better than the
    /// value [seen by](Self::seen_by) this lineage. The value is not recorded if no frame waits for
    /// tasks of the lineage, or if they are backups.
    pub(super) fn improve(&mut self, value: i64, at: Time, lineage: LineageId) -> bool {
        let seen = self.rank_seen_by(lineage);
        let Self { shared, goal, own, is_deferred, lineages } = self;
        let rank = goal.rank(value);
        if rank <= seen {
            return false;
        }
        if lineage.is_backup() {
            return true;
        }
        let record = || {
            *own = rank;
            if !*is_deferred {
                return shared.learn(rank);
            }
            let mut ahead = shared.ahead();
            // The value replaces those that are neither found earlier nor better: a task that
            // charges nothing finds all its values at once.
            ahead.retain(|&(then, found)| then < at || found > rank);
            ahead.push((at, rank));
            false
        };
        if lineages.unless_orphaned(lineage, record) == Some(true) {
            shared.nudge();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::lineage::{LINEAGE_MAX, Via};
    use super::*;
    use crate::message::steal_agent::CopyId;
    use gridspan_topology::NodeId;

    fn pe(node: &Arc<Bound>, goal: Goal) -> LocalBound {
        LocalBound::new(node.clone(), goal, Lineages::default())
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
            let (node, lineages) = (Arc::new(Bound::default()), Lineages::default());
            let copy = CopyId { loan: 0, is_backup: true };
            let backup = lineages.enter([Via::Copy(NodeId(1), copy)]).unwrap();
            let mut pe = LocalBound::new(node, goal, lineages);
            assert!(pe.improve(best, Time::ZERO, backup.id()), "{goal:?}");
            assert_eq!((pe.value(), pe.seen_by(backup.id())), (None, None));

            assert!(pe.improve(best, Time::ZERO, LineageId::FOUNDERS));
            assert_eq!((pe.value(), pe.seen_by(backup.id())), (Some(best), Some(worse)));
            let improves = [worse, best, better].map(|it| pe.improve(it, Time::ZERO, backup.id()));
            assert_eq!(improves, [false, true, true], "{goal:?}");
            assert_eq!(pe.value(), Some(best));
        }
    }

    #[test]
    fn a_task_for_which_no_frame_waits_records_no_value() {
        for is_deferred in [false, true] {
            let (node, lineages) = (Arc::new(Bound::default()), Lineages::default());
            let loan = |lender, loan| Via::Copy(NodeId(lender), CopyId { loan, is_backup: false });
            let [of_lost, of_other] =
                [1, 2].map(|lender| lineages.enter([loan(lender, 0)]).unwrap());
            let cut = lineages.enter((0..LINEAGE_MAX as u64).map(|it| loan(2, it))).unwrap();
            let mut pe = LocalBound::new(node.clone(), Goal::Maximise, lineages.clone());
            pe.is_deferred = is_deferred;
            lineages.note_lost(NodeId(1));

            for orphan in [&of_lost, &cut] {
                assert!(pe.improve(9, Time::ZERO, orphan.id()));
                assert_eq!((pe.value(), node.is_set()), (None, false));
            }
            assert!(pe.improve(5, Time::ZERO, of_other.id()));
            assert_eq!((pe.value(), node.is_set()), (Some(5), true));
        }
    }
}
