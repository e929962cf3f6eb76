//! State of each collection.

use super::broadcasts::WaitsForNumber;
use super::reductions::ForMain;
use super::sequencer::Sequencer;
use crate::address::collection::CollectionInfo;
use crate::coordinator::event::Asker;
use crate::message::{Contribution, ReductionGroup};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The members of one collection, and the collective operations on it.
#[derive(Serialize, Deserialize)]
pub(crate) struct CollectionState {
    pub(crate) info: CollectionInfo,
    /// Number of PEs that still create their first members, plus, in a bound collection, number of
    /// members that do not live with their partners yet.
    pub(crate) creating: u64,
    /// The asker that waits until `creating` is 0.
    pub(crate) creator: Asker,
    /// Members that take part in reductions.
    pub(crate) reductions: Attendance,
    /// Members that take part in sync points.
    pub(crate) syncs: Attendance,
    /// The number of the next broadcast.
    pub(crate) broadcasts: u64,
    /// State of the right to number broadcasts.
    pub(crate) sequencer: Sequencer,
    /// Number of insertions in progress. Broadcasts wait for them, so that a new member neither
    /// misses nor repeats one.
    pub(crate) inserting: u32,
    pub(crate) waiting: VecDeque<WaitsForNumber>,
    /// The number of the next reduction over each section, by name.
    pub(crate) sections: BTreeMap<u64, u64>,
    /// Reductions to main, by the group that contributes.
    pub(crate) for_main: BTreeMap<ReductionGroup, ForMain>,
}

/// Number of members that contribute to each of a sequence of collective operations.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Attendance {
    /// Number of the next operation to be completed.
    pub(crate) next: u64,
    pub(crate) members: u64,
    /// Number of members that join with an operation, by its number.
    pub(crate) joining: BTreeMap<u64, u64>,
    /// Number of members that leave before an operation, by its number.
    pub(crate) leaving: BTreeMap<u64, u64>,
}

impl Attendance {
    pub(crate) fn new(members: u64) -> Self {
        Self { members, ..Self::default() }
    }

    /// Adds a member from the next operation on, and returns the operation's number.
    pub(crate) fn join(&mut self) -> u64 {
        *self.joining.entry(self.next).or_default() += 1;
        self.next
    }

    /// Adds a member to operations in which members do not wait for each other, so that some may be
    /// several operations ahead. The new member starts with the operation after the next, so that
    /// it is neither far behind nor far ahead. Before the first operation is complete, it starts
    /// with that one. Returns the number of the operation with which it starts.
    pub(crate) fn join_on_the_way(&mut self) -> u64 {
        let first = if self.next == 0 { 0 } else { self.next.saturating_add(1) };
        *self.joining.entry(first).or_default() += 1;
        first
    }

    /// Removes a member that has contributed to all operations before `first_missed`.
    pub(crate) fn leave(&mut self, first_missed: u64) {
        *self.leaving.entry(first_missed).or_default() += 1;
    }

    /// Returns the number of contributions that operation `number` takes.
    pub(crate) fn expected(&self, number: u64) -> u64 {
        let joined: u64 = self.joining.range(..=number).map(|(_, members)| members).sum();
        let left: u64 = self.leaving.range(..=number).map(|(_, members)| members).sum();
        (self.members + joined).saturating_sub(left)
    }

    /// Returns the number of members, with those that join or leave with a later operation.
    pub(crate) fn all(&self) -> u64 {
        self.expected(u64::MAX)
    }

    /// Completes the next operation.
    pub(crate) fn complete(&mut self) {
        self.members = self.expected(self.next);
        // A faulty node may send the largest number.
        self.next = self.next.saturating_add(1);
        self.joining = self.joining.split_off(&self.next);
        self.leaving = self.leaving.split_off(&self.next);
    }

    /// Completes the next operation, to which no member contributes, and those after it up to
    /// number `end` or to the first with which members join or leave.
    pub(crate) fn skip_until(&mut self, end: u64) {
        self.complete();
        let changes = [&self.joining, &self.leaving].map(|all| all.keys().next().copied());
        let end = changes.into_iter().flatten().fold(end, u64::min);
        self.next = self.next.max(end);
    }
}

impl CollectionState {
    /// Returns the number of the next operation over a group.
    pub(crate) fn next(&self, group: ReductionGroup) -> u64 {
        match group {
            ReductionGroup::Collection(_) => self.reductions.next,
            ReductionGroup::Sync(_) => self.syncs.next,
            ReductionGroup::Section(section) => {
                self.sections.get(&section.name).copied().unwrap_or_default()
            }
        }
    }

    /// Whether all members have contributed to the next operation over their group.
    pub(crate) fn is_complete(&self, next: &Contribution) -> bool {
        let expected = match next.group {
            ReductionGroup::Collection(_) => self.reductions.expected(next.sequence),
            ReductionGroup::Sync(_) => self.syncs.expected(next.sequence),
            ReductionGroup::Section(_) => next.expected,
        };
        next.count >= expected
    }

    pub(crate) fn complete(&mut self, group: ReductionGroup) {
        match group {
            ReductionGroup::Collection(_) => self.reductions.complete(),
            ReductionGroup::Sync(_) => self.syncs.complete(),
            ReductionGroup::Section(section) => {
                *self.sections.entry(section.name).or_default() += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_joins_on_the_way_starts_with_the_operation_after_the_next() {
        let mut attendance = Attendance::new(1);
        assert_eq!(attendance.join_on_the_way(), 0);
        assert_eq!(attendance.expected(0), 2);
        attendance.complete();
        assert_eq!(attendance.join_on_the_way(), 2);
        assert_eq!((attendance.expected(1), attendance.expected(2)), (2, 3));
        attendance.complete();
        assert_eq!(attendance.expected(2), 3);
    }

    #[test]
    fn operations_without_members_are_skipped_at_once() {
        let mut attendance = Attendance::new(1);
        attendance.leave(0);
        attendance.joining.insert(1 << 60, 2);
        attendance.skip_until(1 << 50);
        assert_eq!((attendance.next, attendance.expected(1 << 50)), (1 << 50, 0));
        attendance.skip_until(u64::MAX);
        assert_eq!((attendance.next, attendance.expected(1 << 60)), (1 << 60, 2));
    }

    #[test]
    fn members_that_join_or_leave_change_the_expected_contributions() {
        let mut attendance = Attendance::new(3);
        assert_eq!(attendance.expected(0), 3);
        attendance.leave(1);
        assert_eq!((attendance.expected(0), attendance.expected(1)), (3, 2));
        attendance.complete();
        assert_eq!(attendance.join(), 1);
        assert_eq!((attendance.expected(1), attendance.expected(2)), (3, 3));
        attendance.complete();
        attendance.complete();
        assert_eq!(attendance.expected(3), 3);
    }
}
