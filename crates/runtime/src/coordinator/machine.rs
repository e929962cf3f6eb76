//! All that the coordinator keeps. What it does is told in the files beside this one, each of which
//! adds its part.

use super::event::{Asker, CoordinatorCommand};
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
use super::state::timers::Timers;
use crate::address::id::{ActorId, CollectionId};
use crate::error::JobError;
use crate::message::Control;
use crate::message::payload::Payload;
use crate::pe::{Budget, Common, Pieces, Stopwatch};
use gridspan_balance::Balancer;
use gridspan_bcast::Mode;
use gridspan_topology::{NodeId, Time};
use serde::Serialize;
use std::collections::BTreeMap;

/// See the [module](super).
pub struct Coordinator {
    pub(super) common: Common,
    /// Where it runs.
    pub(super) node: NodeId,
    pub(super) now: Time,
    /// Nanoseconds of any origin, where time is real.
    pub(super) stopwatch: Option<Stopwatch>,
    pub(super) out: Vec<CoordinatorCommand>,
    pub(super) timers: Timers,
    pub(super) pieces: Pieces,
    /// Counts what waits here.
    pub(super) budget: Budget,
    /// Controls sent and handled that may lead to messages, for quiescence.
    pub(super) created: u64,
    pub(super) processed: u64,
    pub(super) outcome: Option<Result<(), JobError>>,
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
            now: Time::ZERO,
            stopwatch: None,
            out: Vec::new(),
            timers: Timers::default(),
            pieces: Pieces::default(),
            budget: Budget::default(),
            created: 0,
            processed: 0,
            outcome: None,
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

    /// The node that it runs on.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Has planning timed: nanoseconds of any origin. In virtual time planning takes none.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.stopwatch = Some(stopwatch);
    }

    /// When [`wake`](Self::wake) has something to do although nothing comes.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.timers.next().filter(|_| self.outcome.is_none())
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

    /// Answers a question.
    pub(super) fn answer<T: Serialize + Send + 'static>(&mut self, asker: Asker, answer: T) {
        let answer = Payload::new(answer);
        self.post(asker.pe, Control::Reply { slot: asker.slot, answer });
    }

    pub(super) fn stopwatch_ns(&self) -> u64 {
        self.stopwatch.as_ref().map_or(0, |stopwatch| stopwatch())
    }
}
