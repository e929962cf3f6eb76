//! What only PE 0 keeps: how many members collections have, and what main waits for.

use super::quiescence::Waves;
use crate::error::GridError;
use crate::id::KindId;
use crate::id::{ActorId, CollectionId};
use crate::parcel::Parcel;
use crate::pe::core::{Common, Core};
use crate::pe::published::Publications;
use crate::pe::timers::Action;
use crate::reduce::{Op, Value};
use crate::wire::ReductionGroup;
use gridspan_balance::{ActorLoad, Strategy};
use std::collections::{BTreeMap, VecDeque};

type MainWait = Box<dyn FnOnce(&mut Core, Result<(Op, Value), GridError>) + Send>;

/// The root's knowledge.
pub(in crate::pe) struct Root {
    pub(super) collections: BTreeMap<CollectionId, Family>,
    /// Broadcast requests by sender, so that they get their numbers in the order they were sent.
    pub(super) requests: BTreeMap<(CollectionId, ActorId), RequestOrder>,
    pub(super) waves: Waves,
    pub(in crate::pe) publications: Publications,
    pub(super) strategy: Box<dyn Strategy>,
    /// Collections at their sync point: the first is being balanced, the others wait.
    pub(super) balances: VecDeque<CollectionId>,
}

/// Broadcasts that one sender asked for.
#[derive(Default)]
pub(super) struct RequestOrder {
    pub(super) expected: u64,
    pub(super) early: BTreeMap<u64, BroadcastRequest>,
}

/// A broadcast without a number yet.
pub(super) struct BroadcastRequest {
    pub(super) kind: KindId,
    pub(super) message: Parcel,
    pub(super) priority: i32,
}

/// The members of one collection, and the collective operations on it.
#[derive(Default)]
pub(super) struct Family {
    /// PEs that still make their first members, and what to do once all have.
    pub(super) creating: u32,
    pub(super) created: Option<Action>,
    /// Takes part in reductions.
    pub(super) reductions: Attendance,
    /// Takes part in sync points.
    pub(super) syncs: Attendance,
    /// The number of the next broadcast.
    pub(super) broadcasts: u64,
    /// Insertions that are under way. Broadcasts wait for them, so that a new member neither misses
    /// nor repeats one.
    pub(super) inserting: u32,
    pub(super) waiting: VecDeque<BroadcastRequest>,
    /// The number of the next reduction over each section, by name.
    pub(super) sections: BTreeMap<u64, u64>,
    /// Reductions to main, by who contributes.
    pub(super) for_main: BTreeMap<ReductionGroup, ForMain>,
    /// Loads that have come in for the plan at the sync point.
    pub(super) loads: Vec<(ActorLoad, u32)>,
    pub(super) missing: u32,
}

/// Results of reductions to main, or main's waits for them, in order.
#[derive(Default)]
pub(super) struct ForMain {
    pub(super) results: VecDeque<(Op, Value)>,
    pub(super) waits: VecDeque<MainWait>,
}

/// How many members have to contribute to each of a sequence of collective operations.
#[derive(Default)]
pub(super) struct Attendance {
    /// The next one to be completed.
    pub(super) next: u64,
    members: u64,
    /// Members that join with, or are missing from, a later one.
    joining: BTreeMap<u64, u64>,
    leaving: BTreeMap<u64, u64>,
}

impl Attendance {
    pub(super) fn new(members: u64) -> Self {
        Self { members, ..Self::default() }
    }

    /// A member joins with the next operation; returns its number.
    pub(super) fn join(&mut self) -> u64 {
        *self.joining.entry(self.next).or_default() += 1;
        self.next
    }

    /// A member is gone that has contributed to all operations before `first_missed`.
    pub(super) fn leave(&mut self, first_missed: u64) {
        *self.leaving.entry(first_missed).or_default() += 1;
    }

    /// How many contributions the operation `number` takes.
    pub(super) fn expected(&self, number: u64) -> u64 {
        let joined: u64 = self.joining.range(..=number).map(|(_, members)| members).sum();
        let left: u64 = self.leaving.range(..=number).map(|(_, members)| members).sum();
        (self.members + joined).saturating_sub(left)
    }

    /// The next operation is complete.
    pub(super) fn complete(&mut self) {
        self.members = self.expected(self.next);
        self.joining = self.joining.split_off(&(self.next + 1));
        self.leaving = self.leaving.split_off(&(self.next + 1));
        self.next += 1;
    }
}

impl Root {
    pub(in crate::pe) fn new(common: &Common) -> Self {
        let strategy = gridspan_balance::by_name(&common.strategy, common.seed)
            .unwrap_or_else(|_| Box::new(gridspan_balance::NoMoves));
        Self {
            collections: BTreeMap::new(),
            requests: BTreeMap::new(),
            waves: Waves::default(),
            publications: Publications::default(),
            strategy,
            balances: VecDeque::new(),
        }
    }
}

impl Core {
    /// What main waits for, for people. Only the root knows.
    pub(in crate::pe) fn main_waits(&self) -> Vec<String> {
        let Some(root) = &self.root else { return Vec::new() };
        let mut waits: Vec<String> = root.publications.waits().chain(root.waves.waits()).collect();
        for (id, family) in &root.collections {
            if family.creating > 0 {
                waits.push(format!("collection {} on {} more PEs", id.0, family.creating));
            }
            let number = family.reductions.next;
            let here = self.accumulators.get(&(ReductionGroup::Collection(*id), number));
            let come = here.map_or(0, super::reduction::Accumulator::count);
            if family.for_main.values().any(|for_main| !for_main.waits.is_empty()) || come > 0 {
                let due = family.reductions.expected(number);
                waits.push(format!(
                    "reduction {number} over collection {}, to which {come} of {due} have contributed",
                    id.0
                ));
            }
        }
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
