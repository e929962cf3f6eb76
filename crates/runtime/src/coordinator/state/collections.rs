//! What is kept of each collection.

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
    /// PEs that still make their first members, and who waits for them.
    pub(crate) creating: u32,
    pub(crate) creator: Asker,
    /// Takes part in reductions.
    pub(crate) reductions: Attendance,
    /// Takes part in sync points.
    pub(crate) syncs: Attendance,
    /// The number of the next broadcast.
    pub(crate) broadcasts: u64,
    /// Who numbers them.
    pub(crate) sequencer: Sequencer,
    /// Insertions that are under way. Broadcasts wait for them, so that a new member neither misses
    /// nor repeats one.
    pub(crate) inserting: u32,
    pub(crate) waiting: VecDeque<WaitsForNumber>,
    /// The number of the next reduction over each section, by name.
    pub(crate) sections: BTreeMap<u64, u64>,
    /// Reductions to main, by who contributes.
    pub(crate) for_main: BTreeMap<ReductionGroup, ForMain>,
}

/// How many members have to contribute to each of a sequence of collective operations.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Attendance {
    /// The next one to be completed.
    pub(crate) next: u64,
    pub(crate) members: u64,
    /// Members that join with, or are missing from, a later one.
    pub(crate) joining: BTreeMap<u64, u64>,
    pub(crate) leaving: BTreeMap<u64, u64>,
}

impl Attendance {
    pub(crate) fn new(members: u64) -> Self {
        Self { members, ..Self::default() }
    }

    /// A member joins with the next operation; returns its number.
    pub(crate) fn join(&mut self) -> u64 {
        *self.joining.entry(self.next).or_default() += 1;
        self.next
    }

    /// A member joins where others do not wait for each other, and may be some operations ahead:
    /// with the one after the next, so that it is neither far behind nor far ahead of them. Before
    /// the first is complete nobody is ahead. Returns the number of the operation.
    pub(crate) fn join_on_the_way(&mut self) -> u64 {
        let first = if self.next == 0 { 0 } else { self.next + 1 };
        *self.joining.entry(first).or_default() += 1;
        first
    }

    /// A member is gone that has contributed to all operations before `first_missed`.
    pub(crate) fn leave(&mut self, first_missed: u64) {
        *self.leaving.entry(first_missed).or_default() += 1;
    }

    /// How many contributions the operation `number` takes.
    pub(crate) fn expected(&self, number: u64) -> u64 {
        let joined: u64 = self.joining.range(..=number).map(|(_, members)| members).sum();
        let left: u64 = self.leaving.range(..=number).map(|(_, members)| members).sum();
        (self.members + joined).saturating_sub(left)
    }

    /// The next operation is complete.
    pub(crate) fn complete(&mut self) {
        self.members = self.expected(self.next);
        self.joining = self.joining.split_off(&(self.next + 1));
        self.leaving = self.leaving.split_off(&(self.next + 1));
        self.next += 1;
    }
}

impl CollectionState {
    pub(crate) fn is_complete(&self, here: &Contribution) -> bool {
        let Contribution { sequence, count, .. } = *here;
        match here.group {
            ReductionGroup::Collection(_) => {
                sequence == self.reductions.next && count >= self.reductions.expected(sequence)
            }
            ReductionGroup::Sync(_) => {
                sequence == self.syncs.next && count >= self.syncs.expected(sequence)
            }
            ReductionGroup::Section(section) => {
                let next = self.sections.get(&section.name).copied().unwrap_or_default();
                sequence == next && count >= here.expected
            }
        }
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
    fn who_joins_on_the_way_is_awaited_from_the_operation_after_the_next() {
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
    fn attendance_follows_members_that_come_and_go() {
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
