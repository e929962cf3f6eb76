//! Rebalances, one at a time, and what is watched after them.

use crate::address::id::{CollectionId, RebalanceId};
use crate::coordinator::event::Asker;
use crate::message::Edge;
use crate::message::ReplicaOrder;
use gridspan_balance::leaders::Top;
use gridspan_balance::{ActorLoad, Cause, PeLoad};
use gridspan_topology::{PeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Rebalances, and what has come in for the present one.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Balances {
    /// Why rebalances are wanted. The first is under way, the others wait.
    pub(crate) queue: VecDeque<Cause>,
    /// Whether the first begins only once the coordinator has moved.
    pub(crate) is_put_off: bool,
    /// Collections whose members have all reached their first sync point, and it is not known what
    /// moves after that.
    pub(crate) first_syncs: BTreeSet<CollectionId>,
    /// PEs that still measure, or actors that still move.
    pub(crate) missing: usize,
    pub(crate) loads: Vec<(ActorLoad, u32)>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) replicas: Vec<ReplicaOrder>,
    /// Replicas that are to be begun, by the PEs of the first, when all else of the plan is
    /// over.
    pub(crate) begins: BTreeMap<PeId, Vec<ReplicaOrder>>,
    pub(crate) pes: BTreeMap<PeId, PeLoad>,
    /// What is above the leaders of the sites while they plan, and how many rebalances they have
    /// planned.
    #[serde(skip)]
    pub(crate) top: Option<Top>,
    pub(crate) led: u64,
    /// How long planning took, in nanoseconds: of several leaders the one that took longest.
    pub(crate) planning_ns: u64,
    /// And what is above them.
    pub(crate) top_ns: u64,
    /// How long main's PE has measured, as others did at the same time, and how long the loads of
    /// all were collected here.
    pub(crate) collecting_ns: u64,
    /// Messages that the PEs which have answered have handled since the job began.
    pub(crate) handled: u64,
    /// Since when by the clock of the job's own time the present window is, and how many messages
    /// had been handled by then.
    pub(crate) window: (Time, u64),
    /// How long the last window was.
    pub(crate) measured: Duration,
    /// When the PEs were asked for the present occasion, and when they were told what to move.
    pub(crate) asked: Time,
    pub(crate) planned: Time,
    /// When main's PE was asked, by the clock of the job's own time.
    pub(crate) asked_own: Time,
    /// How far the clock of the job's own time was behind when main's PE told it last.
    pub(crate) own_lag: Duration,
    /// Actors that have moved.
    pub(crate) moved: u64,
    /// How many rebalances are over.
    pub(crate) count: u64,
    /// Who asked, in order; they learn how many actors have moved.
    pub(crate) waits: VecDeque<Asker>,
    pub(crate) progress: ProgressProbe,
    pub(crate) events: Events,
    /// Whether it is time now and then.
    pub(crate) is_periodic: bool,
    /// Whether nothing was handled in the last window.
    pub(crate) was_idle: bool,
    /// The period that waits to hear whether anything has been handled since.
    pub(crate) idle_tick: Option<Duration>,
}

/// The pace of the job.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ProgressProbe {
    /// Whether there is a question, or a time at which the next is asked.
    pub(crate) is_on: bool,
    /// The question that is being answered.
    pub(crate) number: u64,
    pub(crate) missing: u32,
    pub(crate) handled: u64,
    /// When main's PE was asked, by the clock of the job's own time.
    pub(crate) asked: Time,
    /// When the PEs were asked before, and how many messages had been handled.
    pub(crate) last: Option<(Time, u64)>,
    /// How many questions in a row found that nothing was handled.
    pub(crate) empty: u32,
    pub(crate) pause: Duration,
    /// How many questions came with this pause.
    pub(crate) count: u32,
}

/// Events after which to balance.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Events {
    /// One that nobody has looked at.
    pub(crate) waiting: Option<Cause>,
    /// The look that is to come.
    pub(crate) look: Option<Look>,
    /// How many looks there were to come so far.
    pub(crate) looks: u64,
    /// For how long the next look is put off.
    pub(crate) pause: Duration,
    /// Whether the present window only ends so that one begins that knows of the event.
    pub(crate) is_fresh_wanted: bool,
}

/// A time at which an event is looked at.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Look {
    pub(crate) number: u64,
    /// Whether the event was looked at before, and the gate refused to plan for it.
    pub(crate) is_retry: bool,
}

impl Balances {
    /// Whether no rebalance is under way.
    pub(crate) fn is_settled(&self) -> bool {
        self.queue.is_empty() || self.is_put_off
    }

    /// The rebalance that is under way, or is next.
    pub(crate) fn present(&self) -> RebalanceId {
        RebalanceId(self.count + 1)
    }

    /// What was measured has come in: the window until the PEs were asked, after which another
    /// begins.
    pub(crate) fn end_window(&mut self, now: Time) -> Option<gridspan_balance::Occasion> {
        let (since, before) = self.window;
        self.window = (self.asked_own, self.handled);
        self.measured = self.asked_own.since(since);
        let &cause = self.queue.front()?;
        let (time, handled) = (self.measured, self.handled.saturating_sub(before));
        self.was_idle = handled == 0;
        Some(gridspan_balance::Occasion { now, cause, time, handled })
    }
}
