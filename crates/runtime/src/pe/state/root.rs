//! What only PE 0 keeps: how many members collections have, and what main waits for.

use super::advice::Advice;
use super::balance::Balances;
use super::callback::{Callback, CallbackWith};
use super::publications::Publications;
use super::quiescence::QuiescenceRounds;
use super::sequencer::Sequencer;
use super::stall::StallWatch;
use super::survey::Survey;
use crate::error::GridError;
use crate::id::{ActorId, CollectionId, KindId};
use crate::payload::Payload;
use crate::pe::delivery::Accounted;
use crate::reduce::{Op, Value};
use crate::wire::{Asked, ReductionGroup, Wanted};
use gridspan_balance::Balancer;
use gridspan_topology::PeId;
use std::collections::{BTreeMap, VecDeque};

/// What main does with the result of a reduction.
type MainWait<C> = CallbackWith<C, Result<(Op, Value), GridError>>;

/// The root's knowledge.
pub(crate) struct Root<C> {
    pub(crate) collections: BTreeMap<CollectionId, CollectionState<C>>,
    /// Broadcast requests by sender, so that they get their numbers in the order they were sent.
    pub(crate) requests: BTreeMap<(CollectionId, ActorId), RequestOrder>,
    pub(crate) quiescence: QuiescenceRounds<C>,
    pub(crate) publications: Publications<C>,
    pub(crate) survey: Survey<C>,
    pub(crate) balancer: Balancer,
    pub(crate) balances: Balances<C>,
    /// Whether messages of steps are handled anywhere.
    pub(crate) uses_steps: bool,
    /// How tree broadcasts travel.
    pub(crate) advice: Advice,
    pub(crate) stall: StallWatch,
}

/// Broadcasts that one sender asked for.
#[derive(Default)]
pub(crate) struct RequestOrder {
    /// How many have come in order.
    pub(crate) come: u64,
    /// Others, by how many there are with each.
    pub(crate) early: BTreeMap<u64, Accounted<BroadcastRequest>>,
}

/// A broadcast without a number yet.
pub(crate) struct BroadcastRequest {
    pub(crate) kind: KindId,
    pub(crate) asked: Asked,
    pub(crate) wanted: Wanted,
    pub(crate) priority: i32,
}

/// What needs the number of the next broadcast, while that is not here or not settled.
pub(crate) enum WaitsForNumber {
    /// As it has come, while another PE had the right to number.
    Request(Accounted<BroadcastRequest>),
    /// A broadcast whose sender's turn it is.
    Broadcast(Accounted<BroadcastRequest>),
    /// A new member is wanted.
    Insertion { id: ActorId, init: Payload, at: PeId },
}

/// The members of one collection, and the collective operations on it.
pub(crate) struct CollectionState<C> {
    /// PEs that still make their first members, and what to do once all have.
    pub(crate) creating: u32,
    pub(crate) created: Option<Callback<C>>,
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
    pub(crate) for_main: BTreeMap<ReductionGroup, ForMain<C>>,
}

impl<C> CollectionState<C> {
    /// A collection whose `members` are being made on `pes` PEs.
    pub(crate) fn new(pes: u32, members: u64, created: Callback<C>) -> Self {
        Self {
            creating: pes,
            created: Some(created),
            reductions: Attendance::new(members),
            syncs: Attendance::new(members),
            broadcasts: 0,
            sequencer: Sequencer::default(),
            inserting: 0,
            waiting: VecDeque::new(),
            sections: BTreeMap::new(),
            for_main: BTreeMap::new(),
        }
    }
}

/// Results of reductions to main, or main's waits for them, in order.
pub(crate) struct ForMain<C> {
    pub(crate) results: VecDeque<(Op, Value)>,
    pub(crate) waits: VecDeque<MainWait<C>>,
}

impl<C> Default for ForMain<C> {
    fn default() -> Self {
        Self { results: VecDeque::new(), waits: VecDeque::new() }
    }
}

/// How many members have to contribute to each of a sequence of collective operations.
#[derive(Default)]
pub(crate) struct Attendance {
    /// The next one to be completed.
    pub(crate) next: u64,
    members: u64,
    /// Members that join with, or are missing from, a later one.
    joining: BTreeMap<u64, u64>,
    leaving: BTreeMap<u64, u64>,
}

impl Attendance {
    fn new(members: u64) -> Self {
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

impl<C> Root<C> {
    pub(crate) fn new(balancer: Balancer, plans_broadcasts: bool) -> Self {
        Self {
            collections: BTreeMap::new(),
            requests: BTreeMap::new(),
            quiescence: QuiescenceRounds::default(),
            publications: Publications::default(),
            survey: Survey::default(),
            balancer,
            balances: Balances::default(),
            uses_steps: false,
            advice: Advice::new(plans_broadcasts),
            stall: StallWatch::default(),
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
