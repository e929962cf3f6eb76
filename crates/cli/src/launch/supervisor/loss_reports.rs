//! Whether the launcher believes a node that reports the loss of others.
//!
//! A node that is cut off loses the others, and they lose it. Each side reports that the other one
//! is lost, and either report may come first. As in the decision of the job's coordinator, the part
//! with at least half of the members goes on ([`has_half_left`]):
//!
//! - All nodes are connected to the node of main, so that node knows how many it has lost. It is
//!   believed at once if at least half of the members are left without the lost ones.
//! - Another node is connected to some nodes only. It is believed at once if more than half of the
//!   members, or all that would be left, agree with it.
//! - A report is believed at once if the processes of all lost nodes have ended: they cannot
//!   disagree.
//! - A node that reports its own loss is believed at once if at least half of the members are left
//!   without it: the others have informed it.
//!
//! Otherwise the launcher waits for the reports of the others, which notice the silence at about
//! the same time. If they report nothing, they are lost.

use gridspan_runtime::has_half_left;
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time in which other nodes can disagree: nodes that lose each other notice it after a few missing
/// heartbeats.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reports in the present run that are not believed yet.
#[derive(Default)]
pub(super) struct LossReports {
    /// By their reporters. The losses of all reports of a node are combined.
    reports: BTreeMap<NodeId, LossReport>,
    /// The node that has reported first.
    first: Option<NodeId>,
    until: Option<Time>,
}

/// The losses that a node has reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LossReport {
    /// The lost nodes, including those already known to be lost.
    pub(super) lost: BTreeSet<NodeId>,
    /// What the node has observed.
    pub(super) reason: String,
}

/// What the launcher knows of the members of the run.
pub(super) struct RunMembers {
    /// All members, that of main first.
    pub(super) members: Vec<NodeId>,
    /// Those that are not lost.
    pub(super) left: BTreeSet<NodeId>,
    /// Those whose processes have ended.
    pub(super) ended: BTreeSet<NodeId>,
}

impl LossReports {
    /// Adds the report of a node that others are lost.
    pub(super) fn add(&mut self, reporter: NodeId, lost: &[NodeId], reason: &str, now: Time) {
        let report = self.reports.entry(reporter).or_default();
        report.lost.extend(lost);
        if report.reason.is_empty() {
            report.reason = reason.to_owned();
        }
        self.first.get_or_insert(reporter);
        self.until.get_or_insert(now + PATIENCE);
    }

    /// Takes a report that is believed, and drops all others.
    pub(super) fn take_believed(&mut self, known: &RunMembers) -> Option<LossReport> {
        let believed = self.believed(known).cloned()?;
        self.clear();
        Some(believed)
    }

    /// Takes the first report if no report was believed in time, and drops all others.
    pub(super) fn take_late(&mut self, now: Time) -> Option<LossReport> {
        if self.until.is_none_or(|until| until > now) {
            return None;
        }
        let first = self.first.and_then(|first| self.reports.remove(&first));
        self.clear();
        first
    }

    /// When [`take_late`](Self::take_late) may return a report.
    pub(super) fn due(&self) -> Option<Time> {
        self.until
    }

    /// Drops all reports.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops the report of a node that is lost.
    pub(super) fn drop_of(&mut self, reporter: NodeId) {
        self.reports.remove(&reporter);
        if self.first == Some(reporter) {
            self.first = self.reports.keys().next().copied();
        }
        if self.reports.is_empty() {
            self.clear();
        }
    }

    fn believed(&self, known: &RunMembers) -> Option<&LossReport> {
        let agreed = self.agreed(known);
        let is_believed = |(reporter, report): &(&NodeId, &LossReport)| {
            let is_new = |node: &&NodeId| known.left.contains(*node);
            // A node reports its own loss only after the others have informed it.
            let decides =
                known.members.first() == Some(*reporter) || report.lost.contains(*reporter);
            report.lost.iter().filter(is_new).all(|node| known.ended.contains(node))
                || agreed.contains(&report.lost)
                || (decides && known.keep_half_without(&report.lost))
        };
        self.reports.iter().find(is_believed).map(|(_, report)| report)
    }

    /// The sets of lost nodes on which enough members agree.
    fn agreed(&self, known: &RunMembers) -> BTreeSet<&BTreeSet<NodeId>> {
        let all = known.members.len();
        // At least half of the members must agree. The sets are not compared for each report of a
        // large job before that.
        if 2 * self.reports.len() < all {
            return BTreeSet::new();
        }
        // Most nodes report the same losses.
        let mut reporters: BTreeMap<&BTreeSet<NodeId>, Vec<NodeId>> = BTreeMap::new();
        for (&reporter, report) in &self.reports {
            reporters.entry(&report.lost).or_default().push(reporter);
        }
        let is_agreed = |lost: &&BTreeSet<NodeId>| {
            let after: BTreeSet<NodeId> = known.left.difference(lost).copied().collect();
            let agreeing = reporters.iter().filter(|(other, _)| other.is_disjoint(&after));
            let agree = agreeing.flat_map(|(_, by)| by).filter(|by| after.contains(*by)).count();
            known.keep_half_without(lost) && (2 * agree > all || agree == after.len())
        };
        reporters.keys().copied().filter(is_agreed).collect()
    }
}

impl RunMembers {
    /// Whether at least half of the members are left without these nodes.
    fn keep_half_without(&self, lost: &BTreeSet<NodeId>) -> bool {
        let (all, left) = (self.members.len(), self.left.difference(lost).count());
        has_half_left(all, all.saturating_sub(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(7_000_000_000);

    fn nodes(numbers: impl IntoIterator<Item = u32>) -> Vec<NodeId> {
        numbers.into_iter().map(NodeId).collect()
    }

    /// Members of a run, none of which is lost or has ended.
    fn known(members: u32) -> RunMembers {
        let left = (0..members).map(NodeId).collect();
        RunMembers { members: nodes(0..members), left, ended: BTreeSet::new() }
    }

    /// Adds a report, and returns the nodes that the launcher counts as lost by it.
    fn lost(
        reports: &mut LossReports,
        members: u32,
        reporter: u32,
        of: impl IntoIterator<Item = u32>,
    ) -> Option<Vec<u32>> {
        reports.add(NodeId(reporter), &nodes(of), "it is silent", NOW);
        let believed = reports.take_believed(&known(members))?;
        Some(believed.lost.iter().map(|node| node.0).collect())
    }

    #[test]
    fn a_node_that_is_cut_off_is_lost_although_it_reports_first() {
        let mut reports = LossReports::default();
        assert_eq!(lost(&mut reports, 4, 3, [0]), None);
        assert_eq!(lost(&mut reports, 4, 0, [3]), Some(vec![3]));
        assert_eq!(reports.due(), None, "nothing is open");
    }

    #[test]
    fn the_node_of_main_is_lost_if_it_is_cut_off() {
        let mut reports = LossReports::default();
        assert_eq!(lost(&mut reports, 4, 0, [1, 2, 3]), None, "fewer than half would be left");
        assert_eq!(lost(&mut reports, 4, 1, [0]), None);
        assert_eq!(lost(&mut reports, 4, 2, [0]), None, "these are half of the members");
        assert_eq!(lost(&mut reports, 4, 3, [0]), Some(vec![0]));
    }

    #[test]
    fn a_thousand_reports_before_that_of_mains_node_take_no_time() {
        let mut reports = LossReports::default();
        for reporter in 1..=1000 {
            assert_eq!(lost(&mut reports, 2000, reporter, [0]), None, "half of the members");
        }
        assert_eq!(lost(&mut reports, 2000, 1001, [0]), Some(vec![0]));
    }

    #[test]
    fn half_of_the_members_go_on_as_the_node_of_main_says() {
        let mut reports = LossReports::default();
        assert_eq!(lost(&mut reports, 4, 2, [0, 1]), None);
        assert_eq!(lost(&mut reports, 4, 0, [2, 3]), Some(vec![2, 3]));
        for reporter in [0, 1] {
            let mut reports = LossReports::default();
            assert_eq!(lost(&mut reports, 2, reporter, [1 - reporter]), Some(vec![1 - reporter]));
        }
    }

    #[test]
    fn nodes_of_which_all_have_ended_do_not_disagree() {
        let mut reports = LossReports::default();
        reports.add(NodeId(3), &nodes([0, 1, 2]), "they are silent", NOW);
        let ended = nodes([0, 1, 2]).into_iter().collect();
        let believed = reports.take_believed(&RunMembers { ended, ..known(4) }).unwrap();
        assert_eq!(believed.reason, "they are silent");
    }

    #[test]
    fn the_first_report_is_believed_if_no_other_node_says_anything() {
        let mut reports = LossReports::default();
        assert_eq!(lost(&mut reports, 5, 4, [0, 1, 2]), None);
        let due = reports.due().unwrap();
        assert_eq!((due, reports.take_late(NOW)), (NOW + PATIENCE, None));
        assert_eq!(lost(&mut reports, 5, 3, [0]), None, "the time does not begin again");

        let late = reports.take_late(due).unwrap();

        assert_eq!(late.lost, nodes([0, 1, 2]).into_iter().collect());
        assert_eq!(reports.due(), None);
    }

    #[test]
    fn the_report_of_a_node_that_is_lost_meanwhile_is_dropped() {
        let mut reports = LossReports::default();
        assert_eq!(lost(&mut reports, 5, 4, [0, 1, 2]), None);
        reports.drop_of(NodeId(4));
        assert_eq!(reports.due(), None);
        assert_eq!(reports.take_late(NOW + PATIENCE), None);
    }
}
