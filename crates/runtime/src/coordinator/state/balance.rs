//! State of rebalances, which run one at a time, and of the measurements after them.

use crate::address::id::{CollectionId, RebalanceId};
use crate::coordinator::event::Asker;
use crate::message::{Edge, MeasuredSpeed, ReplicaOrder};
use gridspan_balance::leaders::Top;
use gridspan_balance::{ActorLoad, Cause, PeLoad};
use gridspan_topology::{PeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Queued rebalances, and the measurements for the present one.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Balances {
    /// Causes of queued rebalances. The first is in progress, the others wait.
    pub(crate) queue: VecDeque<Cause>,
    /// Whether the first is postponed until the coordinator has moved.
    pub(crate) is_put_off: bool,
    /// Collections in which all members have reached their first sync point and wait until the
    /// moves are known.
    pub(crate) first_syncs: BTreeSet<CollectionId>,
    /// Number of PEs that still measure; after the decision, number of moves and of starts and ends
    /// of replicas that are not reported yet.
    pub(crate) missing: usize,
    pub(crate) loads: Vec<(ActorLoad, u32)>,
    pub(crate) edges: Vec<Edge>,
    pub(crate) replicas: Vec<ReplicaOrder>,
    /// Replicas to begin when the rest of the plan is over, by the PE of the first replica.
    pub(crate) begins: BTreeMap<PeId, Vec<ReplicaOrder>>,
    pub(crate) pes: BTreeMap<PeId, PeLoad>,
    /// The speeds of PEs at the last rebalance that the coordinator has decided; empty if they
    /// differ little. If the coordinator moves, they are unknown until the next one.
    #[serde(skip)]
    pub(crate) speeds: Vec<MeasuredSpeed>,
    /// The coordinator's part of planning by the sites' leaders, while they plan.
    #[serde(skip)]
    pub(crate) top: Option<Top>,
    /// Number of rebalances that the leaders have planned, including the present one.
    pub(crate) led: u64,
    /// Planning time in nanoseconds; the longest of several leaders.
    pub(crate) planning_ns: u64,
    /// Planning time of `top`, in nanoseconds.
    pub(crate) top_ns: u64,
    /// Measuring time of main's PE, which other PEs spend at the same time, plus the time to
    /// collect all loads here, in nanoseconds.
    pub(crate) collecting_ns: u64,
    /// Number of messages handled since the start of the job, on the PEs that have answered.
    pub(crate) handled: u64,
    /// Start of the present window by the clock of the job's own time, and the number of messages
    /// handled by then.
    pub(crate) window: (Time, u64),
    /// Length of the last window.
    pub(crate) measured: Duration,
    /// Time of the present request for loads.
    pub(crate) asked: Time,
    /// Total time of the rebalances that main has requested and that moved nothing.
    pub(crate) futile: Duration,
    /// Time at which the present phase of moves was decided.
    pub(crate) planned: Time,
    /// Time at which main's PE was asked, by the clock of the job's own time.
    pub(crate) asked_own: Time,
    /// Lag of the clock of the job's own time behind that of the coordinator, at the last report of
    /// main's PE.
    pub(crate) own_lag: Duration,
    /// Number of moves, and of starts and ends of replicas, that were carried out in the present
    /// rebalance.
    pub(crate) moved: u64,
    /// Number of completed rebalances.
    pub(crate) count: u64,
    /// Askers, in order, to be answered with `moved`.
    pub(crate) waits: VecDeque<Asker>,
    pub(crate) progress: ProgressProbe,
    pub(crate) events: Events,
    /// Whether the periodic timer has started.
    pub(crate) is_periodic: bool,
    /// Whether no message was handled in the last window.
    pub(crate) was_idle: bool,
    /// The period that ends if a probe finds messages handled since the last window.
    pub(crate) idle_tick: Option<Duration>,
}

/// Progress probes, which measure the pace of the job.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct ProgressProbe {
    /// Whether a probe is in progress or scheduled.
    pub(crate) is_on: bool,
    /// Number of the probe in progress.
    pub(crate) number: u64,
    pub(crate) missing: u32,
    pub(crate) handled: u64,
    /// Time at which main's PE was asked, by the clock of the job's own time.
    pub(crate) asked: Time,
    /// Time of the last report of progress, from a probe or a window, by the clock of the job's own
    /// time, and the number of messages handled by then.
    pub(crate) last: Option<(Time, u64)>,
    /// Number of consecutive probes that found no message handled.
    pub(crate) empty: u32,
    pub(crate) pause: Duration,
    /// Number of probes answered since probing began.
    pub(crate) count: u32,
}

/// Events that may be worth a rebalance.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Events {
    /// An event that waits for a look.
    pub(crate) waiting: Option<Cause>,
    /// The scheduled look.
    pub(crate) look: Option<Look>,
    /// Number of looks scheduled so far.
    pub(crate) looks: u64,
    /// Pause before a repeated look, which doubles with each.
    pub(crate) pause: Duration,
    /// Whether to discard the present window, and to start one after the event.
    pub(crate) is_fresh_wanted: bool,
    /// Whether the event waits until the job has handled messages. If the coordinator moves
    /// meanwhile, the next look sets this again.
    #[serde(skip)]
    pub(crate) awaits_work: bool,
}

/// A scheduled look at an event.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Look {
    pub(crate) number: u64,
    /// Whether the event was looked at before, and the gate refused to plan for it.
    pub(crate) is_retry: bool,
}

impl Balances {
    /// Whether no rebalance is in progress.
    pub(crate) fn is_settled(&self) -> bool {
        self.queue.is_empty() || self.is_put_off
    }

    /// Returns the rebalance that is in progress, or else the next one.
    pub(crate) fn present(&self) -> RebalanceId {
        RebalanceId(self.count + 1)
    }

    /// Ends the window at the time when the PEs were asked, and starts the next one. Called when
    /// all measurements have arrived.
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
