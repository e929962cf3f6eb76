//! A strategy together with its gate: gives the runtime plans and learns from their results.
//!
//! Start: measure a window and call [`Balancer::decide`]. If it returns a plan, carry the plan out
//! and report its cost to [`Balancer::carried_out`]. Steady state: while [`Balancer::is_judging`],
//! report the number of handled messages to [`Balancer::progress`]; a step is assumed to have as
//! many messages as before the plan. Failure: once [`Balancer::wants_undo`], the next call of
//! `decide` returns the inverse of the last plan, for the actors that are still on the PE to which
//! the plan moved them. If that plan is excused (`undo.rs`), `decide` asks the strategy instead.
//! While no actor can move, for example between the migration points of ranks, it returns no plan,
//! and an undo waits. An undo also waits while one of its actors cannot move, though others can,
//! such as ranks that have ended. Meanwhile `decide` asks the strategy, and a plan of the strategy
//! that passes replaces the undo. The same holds for leaders ([`Balancer::put_off_led_undo`]).
//!
//! If other programs slow PEs after a plan was carried out, the balancer stops judging the plan:
//! the steps that follow show the effect of these programs, and actors cannot leave the slow PEs
//! before the judgement ends. This matters for jobs whose actors can move only at a few points of
//! their run. A plan may also be the cause, for example if it crowds PEs onto a processor. So the
//! balancer stops at most two judgements in a row.
//!
//! Strategies that do not predict ([`Strategy::predicts`]) bypass the gate.

mod deciding;
mod disturbance;
mod judging;
pub(crate) mod pace;
mod passed;
mod planning;
mod report;
mod undo;
mod weighing;
mod window;

pub use report::{BalanceReport, Cause};
pub use window::{Occasion, Window};

use crate::balancer::pace::RecentPace;
use crate::cost::{CostModel, Traffic};
use crate::gate::{Gate, GateConfig};
use crate::snapshot::Snapshot;
use crate::snapshot::speeds::{Evidence, SpeedEstimate};
use crate::strategies::strategy::Strategy;
use gridspan_topology::{Bandwidth, LinkChange, SiteId, Time};
use passed::Passed;
use planning::PlanningTime;
use std::collections::{BTreeMap, VecDeque};
use undo::Undo;

/// A strategy, its gate, and the plan that is being judged.
pub struct Balancer {
    strategy: Box<dyn Strategy>,
    gate: Option<Gate>,
    model: CostModel,
    passed: Option<Passed>,
    undo: Option<Undo>,
    /// Whether the undo waits for a later rebalance, for example until its actors can move.
    is_undo_put_off: bool,
    /// Number of plans in a row whose judgement other programs have ended.
    disturbed: u32,
    /// Traffic between sites per step before the plan that the leaders undo.
    led_before: Traffic,
    speeds: SpeedEstimate,
    pace: RecentPace,
    planning: PlanningTime,
    reports: VecDeque<BalanceReport>,
}

impl Balancer {
    /// Creates a balancer that asks `strategy`. The balancer has a gate if `is_gated` and the
    /// strategy predicts.
    pub fn new(strategy: Box<dyn Strategy>, is_gated: bool) -> Self {
        let gate = (is_gated && strategy.predicts()).then(|| Gate::new(GateConfig::default()));
        let model = CostModel::default();
        let reports = VecDeque::new();
        let led_before = Traffic::default();
        let (speeds, pace) = (SpeedEstimate::default(), RecentPace::of_new_job());
        let planning = PlanningTime::default();
        let (passed, undo, is_undo_put_off, disturbed) = (None, None, false, 0);
        Self {
            strategy,
            gate,
            model,
            passed,
            undo,
            is_undo_put_off,
            disturbed,
            led_before,
            speeds,
            pace,
            planning,
            reports,
        }
    }

    /// The name of the strategy.
    pub fn name(&self) -> &'static str {
        self.strategy.name()
    }

    /// Whether the strategy may move actors: `false` for `none` only.
    pub fn is_active(&self) -> bool {
        self.strategy.name() != "none"
    }

    /// Whether the strategy moves actors to shorten steps ([`Strategy::predicts`]).
    pub fn predicts(&self) -> bool {
        self.strategy.predicts()
    }

    /// Whether the leaders of the sites should plan.
    pub fn is_led(&self) -> bool {
        self.strategy.is_led()
    }

    /// Whether the job's pace should be reported to [`Balancer::progress`] even while no plan is
    /// judged: later plans are compared with that pace.
    pub fn wants_pace(&self) -> bool {
        self.is_active() && self.gate.is_some()
    }

    /// Whether a window should be measured now: the strategy may move actors, no plan is being
    /// judged or waits to be undone, and balancing has not cost too much.
    pub fn may_begin(&self, now: Time) -> bool {
        let has_room = self.gate.as_ref().is_none_or(|gate| gate.has_room(now));
        let is_undo_queued = self.wants_undo() && !self.is_undo_put_off;
        self.is_active() && has_room && !self.is_judging() && !is_undo_queued
    }

    /// Whether a plan was carried out and is being judged.
    pub fn is_judging(&self) -> bool {
        self.passed.as_ref().is_some_and(|passed| passed.is_carried_out)
    }

    /// Whether a plan has passed and its actors may still be migrating.
    pub fn is_moving(&self) -> bool {
        self.passed.as_ref().is_some_and(|passed| !passed.is_carried_out)
    }

    /// Whether the last plan should be undone.
    pub fn wants_undo(&self) -> bool {
        self.undo.is_some()
    }

    /// Learns the speeds of PEs from the snapshot's measurements, and replaces the speeds that PEs
    /// reported for themselves.
    pub fn learn_speeds(&mut self, snapshot: &mut Snapshot) {
        self.speeds.learn(&Evidence::of(&snapshot.actors));
        self.speeds.apply(&mut snapshot.pes);
    }

    /// Returns the speed estimate and leaves an empty one. A leader that learns speeds in place of
    /// this balancer gives the estimate back with [`Balancer::keep_speeds`].
    pub fn take_speeds(&mut self) -> SpeedEstimate {
        std::mem::take(&mut self.speeds)
    }

    /// Sets the speed estimate.
    pub fn keep_speeds(&mut self, speeds: SpeedEstimate) {
        self.speeds = speeds;
    }

    /// Sets the rates at which state moves between nodes of a site, for the sites where they are
    /// known.
    pub fn state_moves_at(&mut self, rates: BTreeMap<SiteId, Bandwidth>) {
        if let Some(gate) = &mut self.gate {
            gate.state_moves_at(rates);
        }
    }

    /// Passes the change of a link to the strategy.
    pub fn link_changed(&mut self, change: &LinkChange) {
        self.strategy.link_changed(change);
    }

    /// Removes and returns the oldest report that has not been taken.
    pub fn take_report(&mut self) -> Option<BalanceReport> {
        self.reports.pop_front()
    }
}

#[cfg(test)]
mod tests;
