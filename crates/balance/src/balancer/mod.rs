//! A strategy together with its gate: gives the runtime plans and learns from their results.
//!
//! Start: measure a window and call [`Balancer::decide`]. If it returns a plan, carry the plan out
//! and report its cost to [`Balancer::carried_out`]. Steady state: while [`Balancer::is_judging`],
//! report the number of handled messages to [`Balancer::progress`]; a step is assumed to have as
//! many messages as before the plan. Failure: once [`Balancer::wants_undo`], the next call of
//! `decide` returns the inverse of the last plan, for the actors that are still on the PE to which
//! the plan moved them. If that plan is excused (`undo.rs`), `decide` asks the strategy instead.
//! While no actor can move, for example between the migration points of ranks, it returns no plan,
//! and an undo waits.
//!
//! If other programs slow PEs after a plan was carried out, the balancer stops judging the plan:
//! the steps that follow show the effect of these programs, and actors could not leave the slow PEs
//! until the judgement ends. This matters for jobs whose actors can move only at a few points of
//! their run. A plan may also be the cause, for example if it crowds PEs onto a processor. So the
//! balancer stops at most two judgements in a row.
//!
//! Strategies that do not predict ([`Strategy::predicts`]) bypass the gate.

mod disturbance;
pub(crate) mod pace;
mod planning;
mod report;
mod undo;
mod window;

pub use report::{BalanceReport, Cause};
pub use window::{Occasion, Window};

use crate::balancer::pace::RecentPace;
use crate::cost::figures::Figures;
use crate::cost::{CostModel, Traffic};
use crate::gate::{Appraisal, Gate, GateConfig, Outcome, Proposal, Refusal, Verdict};
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::snapshot::speeds::{Evidence, SpeedEstimate};
use crate::strategies::strategy::Strategy;
use disturbance::{DISTURBED_MAX, is_disturbed};
use gridspan_topology::{Bandwidth, LinkChange, SiteId, Time};
use planning::PlanningTime;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use undo::{Undo, UndoPlan, work_of_message};

/// A strategy, its gate, and the plan that is being judged.
pub struct Balancer {
    strategy: Box<dyn Strategy>,
    gate: Option<Gate>,
    model: CostModel,
    passed: Option<Passed>,
    undo: Option<Undo>,
    /// Whether the undo waits until an actor can move.
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

/// A plan that the runtime received.
struct Passed {
    /// The inverse plan; `None` where each leader keeps its part.
    undo: Option<Plan>,
    report: BalanceReport,
    /// Number of messages per step.
    messages: f64,
    /// Seconds of work for each message before the plan; `f64::MAX` for a plan of leaders.
    work: f64,
    /// Part of a processor that each PE got before the plan; empty for a plan of leaders.
    available: Vec<f64>,
    is_carried_out: bool,
    is_gated: bool,
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

    /// Returns the speed estimate and leaves an empty one. A leader that learns instead returns the
    /// estimate with [`Balancer::keep_speeds`].
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

    /// Returns the moves to make after a measured window. A plan that is not empty must be carried
    /// out. Call it only if the leaders do not plan: a plan of theirs that waits to be undone stays
    /// as it is.
    pub fn decide(&mut self, window: &Window<'_>) -> Plan {
        let is_disturbed = self.passed.as_ref().is_some_and(|passed| {
            passed.is_carried_out && is_disturbed(&passed.available, window.snapshot)
        });
        if is_disturbed && self.disturbed < DISTURBED_MAX {
            self.disturbed += 1;
            self.conclude(None);
            if let Some(gate) = &mut self.gate {
                gate.disturbed();
            }
        }
        if self.passed.is_some() {
            return Plan::none();
        }
        let is_fixed = !window.snapshot.actors.is_empty() && !window.snapshot.may_change();
        self.is_undo_put_off = self.wants_undo() && is_fixed;
        if is_fixed {
            return Plan::none();
        }
        let undo = match self.undo.take() {
            Some(Undo::Plan(undo)) => {
                let inverse = undo.unless_excused(window, &self.model);
                if inverse.is_none()
                    && let Some(gate) = &mut self.gate
                {
                    gate.pardon();
                }
                inverse
            }
            // The leaders have kept the moves. They no longer plan, and will not undo them.
            Some(Undo::Led(_)) | None => None,
        };
        let is_undo = undo.is_some();
        let best = Figures::of_best(window.snapshot, &self.model);
        if !is_undo && let Some(refusal) = self.rules_out(window, &best) {
            return self.refuse_to_plan(window, &best, refusal);
        }
        let plan = undo.unwrap_or_else(|| {
            self.planning.ask(window.snapshot.actors.len());
            self.strategy.plan(window.snapshot)
        });
        // A plan that does not fit the snapshot is a fault of the strategy; it is not carried out.
        let Ok(appraisal) = Appraisal::of(window.snapshot, &plan, &self.model) else {
            return Plan::none();
        };
        let figures = Figures::of(window.snapshot, &appraisal, &plan);
        if !is_undo && let Some(gate) = &mut self.gate {
            gate.planned(figures.gain(), best.gain());
        }
        let occasion = Occasion::of(window);
        match self.weigh(&occasion, &figures, is_undo, Some(plan.inverse(window.snapshot))) {
            true => {
                if let Some(passed) = &mut self.passed {
                    passed.work = work_of_message(window);
                    passed.available = window.snapshot.pes.iter().map(|pe| pe.available).collect();
                }
                plan
            }
            false => Plan::none(),
        }
    }

    /// Returns a reason not to ask the strategy, if there is one: even the best possible plan would
    /// not pass, or would not pay for planning. A request ([`Cause::Request`]) counts planning as
    /// free, so that it gets any plan that may pass.
    fn rules_out(&mut self, window: &Window<'_>, best: &Figures) -> Option<Refusal> {
        let gate = self.gate.as_mut()?;
        let planning = match window.takes_time && window.cause != Cause::Request {
            true => self.planning.expected(window.snapshot.actors.len()),
            false => Duration::ZERO,
        };
        gate.rules_out(&proposal(&Occasion::of(window), best, &self.pace), planning)
    }

    /// Reports a window for which the strategy is not asked. Returns an empty plan.
    fn refuse_to_plan(&mut self, window: &Window<'_>, best: &Figures, refusal: Refusal) -> Plan {
        let occasion = Occasion::of(window);
        if let Refusal::TooLittle { .. } = refusal {
            // A proposal without a gain ends the gate's episode.
            let nothing = Figures { step_after: best.step_before, ..best.clone() };
            self.weigh(&occasion, &nothing, false, None);
            return Plan::none();
        }
        let mut report = self.report(&occasion, best);
        report.refusal = Some(refusal);
        self.pace.end_window();
        self.reports.push_back(report);
        Plan::none()
    }

    /// Records the time that the job lost to the last decision.
    pub fn planned_for(&mut self, time: Duration) {
        self.planning.took(time);
    }

    /// Returns whether the leaders should undo the last plan; `true` only once for each plan. Call
    /// it when they begin to plan: they cannot undo a plan that is not theirs, so it stays as it
    /// is.
    pub fn take_led_undo(&mut self) -> bool {
        match self.undo.take() {
            Some(Undo::Led(before)) => {
                self.led_before = before;
                true
            }
            Some(Undo::Plan(_)) | None => false,
        }
    }

    /// Returns whether leaders should carry out their plan, or the undo of their last one if
    /// `is_undo`; records the plan if they should.
    pub fn decide_led(&mut self, occasion: &Occasion, figures: &Figures, is_undo: bool) -> bool {
        // A mistake is undone before anything else is tried.
        let is_free = self.passed.is_none() && (is_undo || self.undo.is_none());
        is_free && self.weigh(occasion, figures, is_undo, None)
    }

    /// Returns whether a plan should be carried out, and records the plan if it should, or a report
    /// if not. `undo` is the inverse plan, `None` if leaders keep it.
    fn weigh(
        &mut self,
        occasion: &Occasion,
        figures: &Figures,
        is_undo: bool,
        undo: Option<Plan>,
    ) -> bool {
        let report = match is_undo {
            true => self.undo_report(occasion, figures, undo.is_none()),
            false => self.judged_report(occasion, figures),
        };
        let is_refused = report.refusal.is_some();
        if is_refused || figures.moves == 0 {
            if let Some(gate) = self.gate.as_mut().filter(|_| !is_refused) {
                gate.withdrawn();
            }
            self.reports.push_back(report);
            return false;
        }
        let messages = messages_of_step(occasion, figures);
        let is_gated = !is_undo && self.gate.is_some();
        let (work, available, is_carried_out) = (f64::MAX, Vec::new(), false);
        self.passed =
            Some(Passed { undo, report, messages, work, available, is_carried_out, is_gated });
        true
    }

    /// The report of a plan that undoes the last one, which the gate does not judge. `is_led`:
    /// leaders keep the plan.
    fn undo_report(&self, occasion: &Occasion, figures: &Figures, is_led: bool) -> BalanceReport {
        let report = self.report(occasion, figures);
        let after = if is_led { self.led_before } else { report.after };
        BalanceReport { cause: Cause::Undo, after, ..report }
    }

    /// The report of a proposed plan, with the refusal of the gate if it refuses the plan.
    fn judged_report(&mut self, occasion: &Occasion, figures: &Figures) -> BalanceReport {
        let mut report = self.report(occasion, figures);
        if occasion.cause == Cause::Undo {
            // The plan to undo was excused, and the strategy was asked for a new one.
            report.cause = Cause::Period;
        }
        let Some(gate) = &mut self.gate else { return report };
        let proposal = proposal(occasion, figures, &self.pace);
        self.pace.end_window();
        report.predicted = Some(proposal.gain());
        if let Verdict::Refuse(refusal) = gate.consider(&proposal) {
            (report.moved, report.bytes_moved, report.after) = (0, 0, report.before);
            report.replicas = 0;
            report.refusal = Some(refusal);
        }
        report
    }

    fn report(&self, occasion: &Occasion, figures: &Figures) -> BalanceReport {
        let steps = figures.steps.max(1);
        let in_a_step = |traffic: Traffic| Traffic {
            messages: traffic.messages.div_ceil(steps),
            bytes: traffic.bytes.div_ceil(steps),
        };
        BalanceReport {
            at: occasion.now,
            cause: occasion.cause,
            strategy: self.name().to_owned(),
            actors: figures.actors,
            moved: figures.moves,
            replicas: figures.replicas,
            bytes_moved: figures.bytes_inside.saturating_add(figures.bytes_between_sites),
            before: in_a_step(figures.traffic_before),
            after: in_a_step(figures.traffic_after),
            predicted: None,
            realised: None,
            took: Duration::ZERO,
            refusal: None,
        }
    }

    /// Records the time spent on measuring and planning, whether or not a plan results.
    pub fn spent(&mut self, time: Duration) {
        if let Some(gate) = &mut self.gate {
            gate.spent(time);
        }
    }

    /// Records that the last plan has been carried out while the job went on: `moved` actors moved
    /// in the time `took`.
    pub fn carried_out(&mut self, now: Time, moved: u64, took: Duration) {
        // While one plan is judged, other rebalances move no actors.
        let Some(passed) = self.passed.as_mut().filter(|passed| !passed.is_carried_out) else {
            return;
        };
        (passed.report.moved, passed.report.took) = (moved, took);
        passed.is_carried_out = true;
        let is_judged = passed.is_gated && moved > 0;
        if moved > 0 {
            self.pace = RecentPace::after_a_move();
        }
        if let Some(gate) = &mut self.gate {
            match passed.is_gated && moved == 0 {
                true => gate.withdrawn(),
                false => gate.carried_out_meanwhile(now, took),
            }
        }
        if !is_judged {
            self.conclude(None);
        }
    }

    /// Records that the job handled `handled` messages in the last `time`, which does not include
    /// pauses of main.
    pub fn progress(&mut self, now: Time, time: Duration, handled: u64) {
        let is_way = self.pace.add(time, handled);
        let (Some(passed), Some(gate)) = (&self.passed, &mut self.gate) else { return };
        if passed.messages <= 0.0 {
            return;
        }
        let steps = handled as f64 / passed.messages;
        if is_way {
            return gate.progressed_meanwhile(time, steps);
        }
        if let Some(outcome) = gate.observe(now, time, steps) {
            if outcome.should_undo {
                self.undo = Some(match &passed.undo {
                    Some(plan) => Undo::Plan(UndoPlan {
                        plan: plan.clone(),
                        work: passed.work,
                        step: outcome.step,
                    }),
                    None => Undo::Led(passed.report.before),
                });
            }
            self.disturbed = 0;
            self.conclude(Some(outcome));
        }
    }

    /// Whether a plan has passed and its actors may still be migrating.
    pub fn is_moving(&self) -> bool {
        self.passed.as_ref().is_some_and(|passed| !passed.is_carried_out)
    }

    /// Ends the judgement of the present plan, because no more steps will be observed.
    pub fn give_up(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.withdrawn();
        }
        self.conclude(None);
    }

    fn conclude(&mut self, outcome: Option<Outcome>) {
        // A plan that has not been carried out is not reported.
        if let Some(Passed { mut report, is_carried_out: true, .. }) = self.passed.take() {
            report.realised = outcome.map(|outcome| outcome.realised);
            self.reports.push_back(report);
        }
    }

    /// Removes and returns the oldest report that has not been taken.
    pub fn take_report(&mut self) -> Option<BalanceReport> {
        self.reports.pop_front()
    }
}

fn messages_of_step(occasion: &Occasion, figures: &Figures) -> f64 {
    occasion.handled as f64 / figures.steps.max(1) as f64
}

fn proposal(occasion: &Occasion, figures: &Figures, pace: &RecentPace) -> Proposal {
    let mean = occasion.time.div_f64(figures.steps.max(1) as f64);
    let step = pace.usual_step(messages_of_step(occasion, figures), mean);
    Proposal {
        now: occasion.now,
        // The window may have begun with the job; its first messages may belong to no step.
        step: mean.min(step.median),
        step_usual: step.median,
        step_slow: step.slow,
        window: occasion.time,
        predicted_now: figures.step_before,
        predicted_then: figures.step_after,
        bytes_inside: figures.bytes_busiest.clone(),
        bytes_between_sites: figures.bytes_between_sites,
        is_passing: figures.is_passing,
    }
}

#[cfg(test)]
mod tests;
