//! The state of the coordinator. The other files of this folder implement its operations.

use super::event::{Asker, CoordinatorCommand, FollowUp};
use super::state::advice::Advice;
use super::state::balance::Balances;
use super::state::broadcasts::RequestOrders;
use super::state::collections::CollectionState;
use super::state::membership::Members;
use super::state::publications::Publications;
use super::state::quiescence::QuiescenceRounds;
use super::state::reductions::Accumulators;
use super::state::stall::StallWatch;
use super::state::survey::Survey;
use super::state::timers::{Timer, Timers};
use crate::address::id::{ActorId, CollectionId};
use crate::error::JobError;
use crate::message::CoordinatorPlace;
use crate::pe::{Budget, Common, Pieces, Stopwatch};
use gridspan_balance::Balancer;
use gridspan_bcast::Mode;
use gridspan_topology::{NodeId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// See the [module](super).
pub struct Coordinator {
    pub(super) common: Common,
    /// Where it runs, and how often it has moved.
    pub(super) node: NodeId,
    pub(super) term: u64,
    /// Where main wants it to run, in order, and who waits for that; and the transfer that begins
    /// now.
    pub(super) transfers: VecDeque<(NodeId, Asker)>,
    pub(super) departing: Option<(NodeId, Asker)>,
    pub(super) now: Time,
    /// By how much `now` is ahead of the clock of this node, since the coordinator has moved here.
    pub(super) clock_ahead_ns: i128,
    /// Nanoseconds of any origin, where time is real.
    pub(super) stopwatch: Option<Stopwatch>,
    pub(super) out: Vec<CoordinatorCommand>,
    /// What is to be done before the next event.
    pub(super) follow_ups: VecDeque<FollowUp>,
    pub(super) timers: Timers,
    pub(super) pieces: Pieces,
    /// Counts what waits here.
    pub(super) budget: Budget,
    /// Controls sent and handled that may lead to messages, for quiescence.
    pub(super) created: u64,
    pub(super) processed: u64,
    pub(super) outcome: Option<Result<(), JobError>>,
    /// Whether all nodes were told of it.
    pub(super) is_end_told: bool,
    /// Times that the right to number broadcasts passed to a PE.
    pub(super) handovers: u64,
    pub(super) collections: BTreeMap<CollectionId, CollectionState>,
    pub(super) requests: RequestOrders,
    pub(super) accumulators: Accumulators,
    /// The number of the next result for each member that has got some.
    pub(super) result_numbers: BTreeMap<ActorId, u64>,
    pub(super) quiescence: QuiescenceRounds,
    pub(super) publications: Publications,
    pub(super) survey: Survey,
    pub(super) balancer: Balancer,
    pub(super) balances: Balances,
    /// Whether messages of steps are handled anywhere.
    pub(super) uses_steps: bool,
    pub(super) advice: Advice,
    pub(super) members: Members,
    pub(super) stall: StallWatch,
}

impl Coordinator {
    pub(crate) fn new(node: NodeId, common: Common) -> Self {
        Self {
            node,
            term: 0,
            transfers: VecDeque::new(),
            departing: None,
            now: Time::ZERO,
            clock_ahead_ns: 0,
            stopwatch: None,
            out: Vec::new(),
            follow_ups: VecDeque::new(),
            timers: Timers::default(),
            pieces: Pieces::default(),
            budget: Budget::default(),
            created: 0,
            processed: 0,
            outcome: None,
            is_end_told: false,
            handovers: 0,
            collections: BTreeMap::new(),
            requests: RequestOrders::default(),
            accumulators: Accumulators::default(),
            result_numbers: BTreeMap::new(),
            quiescence: QuiescenceRounds::default(),
            publications: Publications::default(),
            survey: Survey::default(),
            balancer: common.balancing.balancer(common.seed),
            balances: Balances::default(),
            uses_steps: false,
            advice: Advice::new(common.broadcasts == Mode::Planned),
            members: Members::default(),
            stall: StallWatch::default(),
            common,
        }
    }

    /// Where it is.
    pub(super) fn place(&self) -> CoordinatorPlace {
        CoordinatorPlace { term: self.term, node: self.node }
    }

    /// Has planning timed: nanoseconds of any origin. In virtual time planning takes none.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = Some(stopwatch);
    }

    /// When [`wake`](Self::wake) has something to do although nothing comes.
    pub fn next_wakeup(&self) -> Option<Time> {
        let due = self.timers.next().filter(|_| self.outcome.is_none())?;
        Some(shifted(due, -self.clock_ahead_ns))
    }

    /// The time is `now` by the clock of this node.
    pub(super) fn set_now(&mut self, now: Time) {
        self.now = self.now.max(shifted(now, self.clock_ahead_ns));
    }

    /// How the job ended, once it has.
    pub fn outcome(&self) -> Option<&Result<(), JobError>> {
        self.outcome.as_ref()
    }

    /// How much it has ever done for the job. What it does again and again does not count.
    pub fn activity(&self) -> u64 {
        self.created.wrapping_add(self.processed)
    }

    /// Whether nothing will happen here unless something comes: main does not wait for a change of
    /// a link, which may come at any time.
    pub fn has_only_upkeep(&self) -> bool {
        self.survey.change_waits.is_empty()
    }

    /// Times that the right to number broadcasts has passed to a PE.
    pub fn handovers(&self) -> u64 {
        self.handovers
    }

    /// How often it has answered that the job is quiescent.
    pub fn quiescences(&self) -> u64 {
        self.quiescence.found
    }

    pub(super) fn stopwatch_ns(&self) -> u64 {
        self.stopwatch.as_ref().map_or(0, |stopwatch| stopwatch())
    }

    pub(super) fn state(&mut self, collection: CollectionId) -> Option<&mut CollectionState> {
        self.collections.get_mut(&collection)
    }

    pub(super) fn run_after(&mut self, delay: Duration, timer: Timer) {
        let Timers { due, set } = &mut self.timers;
        due.insert((self.now + delay, *set), timer);
        *set += 1;
    }

    /// Ends the job with an error, the first one if there are several.
    pub(super) fn fail(&mut self, error: JobError) {
        self.stop(Err(error));
    }

    pub(super) fn fail_no_collection(&mut self, collection: CollectionId) {
        self.fail(JobError::Protocol(format!(
            "something was sent to collection {}, which does not exist",
            collection.0
        )));
    }

    /// Ends the job. All nodes are told once the event at hand is handled.
    pub(super) fn stop(&mut self, outcome: Result<(), JobError>) {
        self.outcome.get_or_insert(outcome);
    }
}

/// A time that is later by `by_ns` nanoseconds, within what a time can be.
fn shifted(time: Time, by_ns: i128) -> Time {
    let ns = (i128::from(time.0) + by_ns).clamp(0, i128::from(u64::MAX));
    Time(ns as u64)
}
