//! The state of the coordinator. The other files of this folder implement its operations.

use super::event::{Asker, CoordinatorCommand, FollowUp};
use super::state::advice::Advice;
use super::state::balance::Balances;
use super::state::broadcasts::RequestOrders;
use super::state::checkpoint::Checkpoints;
use super::state::collections::CollectionState;
use super::state::diagnosis::Diagnosing;
use super::state::losses::Losses;
use super::state::membership::Members;
use super::state::phases::Phases;
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
use gridspan_topology::{NodeId, PeId, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// See the [module](super).
pub struct Coordinator {
    pub(super) common: Common,
    /// Node where the coordinator runs.
    pub(super) node: NodeId,
    /// Number of times the coordinator has moved.
    pub(super) term: u64,
    /// Transfers that main requested, in order, each with the asker that waits for it.
    pub(super) transfers: VecDeque<(NodeId, Asker)>,
    /// The transfer that begins now, with its asker.
    pub(super) departing: Option<(NodeId, Asker)>,
    pub(super) now: Time,
    /// `now` minus the clock of this node, fixed when the coordinator moved here.
    pub(super) clock_ahead_ns: i128,
    /// A clock in nanoseconds since any origin, if time is real.
    pub(super) stopwatch: Option<Stopwatch>,
    pub(super) out: Vec<CoordinatorCommand>,
    /// Work to do before the next event.
    pub(super) follow_ups: VecDeque<FollowUp>,
    pub(super) timers: Timers,
    pub(super) pieces: Pieces,
    /// Counts the bytes of the requests that wait here, and of the numbers kept for actors.
    pub(super) budget: Budget,
    /// Number of controls sent that may lead to messages, for quiescence.
    pub(super) created: u64,
    /// Number of such controls handled.
    pub(super) processed: u64,
    pub(super) outcome: Option<Result<(), JobError>>,
    /// Whether the outcome was sent to all nodes.
    pub(super) is_end_told: bool,
    /// Number of times the right to number broadcasts was granted to a PE.
    pub(super) handovers: u64,
    pub(super) collections: BTreeMap<CollectionId, CollectionState>,
    pub(super) requests: RequestOrders,
    pub(super) accumulators: Accumulators,
    /// Number of the next result for each member that has received any.
    pub(super) result_numbers: BTreeMap<ActorId, u64>,
    pub(super) quiescence: QuiescenceRounds,
    pub(super) phases: Phases,
    pub(super) checkpoints: Checkpoints,
    pub(super) publications: Publications,
    pub(super) survey: Survey,
    pub(super) balancer: Balancer,
    pub(super) balances: Balances,
    /// Whether any PE has handled a message of a step.
    pub(super) uses_steps: bool,
    pub(super) advice: Advice,
    pub(super) members: Members,
    pub(super) losses: Losses,
    pub(super) stall: StallWatch,
    pub(super) diagnosing: Diagnosing,
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
            phases: Phases::default(),
            checkpoints: Checkpoints::default(),
            publications: Publications::default(),
            survey: Survey::default(),
            balancer: common.balancing.balancer(common.seed),
            balances: Balances::default(),
            uses_steps: false,
            advice: Advice::new(common.broadcasts == Mode::Planned),
            members: Members::default(),
            losses: Losses::default(),
            stall: StallWatch::default(),
            diagnosing: Diagnosing::default(),
            common,
        }
    }

    /// Returns the place where the coordinator runs.
    pub(super) fn place(&self) -> CoordinatorPlace {
        CoordinatorPlace { term: self.term, node: self.node }
    }

    /// Sets the clock that times planning, in nanoseconds since any origin. Without it, as in
    /// virtual time, planning takes no time.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = Some(stopwatch);
    }

    /// Returns the time by which [`wake`](Self::wake) must be called even if no event arrives.
    pub fn next_wakeup(&self) -> Option<Time> {
        let due = self.timers.next().filter(|_| self.outcome.is_none())?;
        Some(shifted(due, -self.clock_ahead_ns))
    }

    /// Sets the time, from the clock of this node.
    pub(super) fn set_now(&mut self, now: Time) {
        self.now = self.now.max(shifted(now, self.clock_ahead_ns));
    }

    /// Returns the outcome of the job, once it has ended.
    pub fn outcome(&self) -> Option<&Result<(), JobError>> {
        self.outcome.as_ref()
    }

    /// Returns a count of the coordinator's work for the job. Periodic work does not count.
    pub fn activity(&self) -> u64 {
        self.created.wrapping_add(self.processed)
    }

    /// Whether the coordinator has only periodic work until a packet arrives. It has more if main
    /// waits for a change of a link, which may happen at any time.
    pub fn has_only_upkeep(&self) -> bool {
        self.survey.change_waits.is_empty()
    }

    /// Returns the number of times the right to number broadcasts was granted to a PE.
    pub fn handovers(&self) -> u64 {
        self.handovers
    }

    /// Returns the number of requests for quiescence that were answered.
    pub fn quiescences(&self) -> u64 {
        self.quiescence.found
    }

    /// Returns the number of phases that were found complete.
    pub fn completions(&self) -> u64 {
        self.phases.complete.len() as u64
    }

    pub(super) fn stopwatch_ns(&self) -> u64 {
        self.stopwatch.as_ref().map_or(0, |stopwatch| stopwatch())
    }

    pub(super) fn state(&mut self, collection: CollectionId) -> Option<&mut CollectionState> {
        self.collections.get_mut(&collection)
    }

    /// Returns the home of a member. In a bound collection the placement of the base gives it.
    pub(super) fn home(&self, id: ActorId) -> Option<PeId> {
        let info = &self.collections.get(&id.collection)?.info;
        let info = match info.base() {
            Some(base) => &self.collections.get(&base)?.info,
            None => info,
        };
        Some(info.home(id.key, &self.common.layout, &self.common.maps))
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
            "a packet was sent to collection {}, which does not exist",
            collection.0
        )));
    }

    /// Ends the job. All nodes are notified after the present event.
    pub(super) fn stop(&mut self, outcome: Result<(), JobError>) {
        self.outcome.get_or_insert(outcome);
    }
}

/// Returns `time` plus `by_ns` nanoseconds, clamped to the range of a time.
fn shifted(time: Time, by_ns: i128) -> Time {
    let ns = (i128::from(time.0) + by_ns).clamp(0, i128::from(u64::MAX));
    Time(ns as u64)
}
