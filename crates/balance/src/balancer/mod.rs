//! A strategy behind its gate: what the runtime asks for plans, and tells what came of them.
//!
//! Start: measure a window and ask [`Balancer::decide`]. A plan that comes back is carried out, and
//! [`Balancer::carried_out`] told what that took. Steady state: while [`Balancer::is_judging`],
//! tell [`Balancer::progress`] how many messages were handled; a step is as many as it was before
//! the plan. Failure: once [`Balancer::wants_undo`], the next window is answered with the plan that
//! takes the last one back, for those members that still are where it has moved them.
//!
//! Strategies that do not predict ([`Strategy::predicts`]) move actors for the sake of moving and
//! pass the gate by.

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
use gridspan_topology::{LinkChange, Time};
use planning::PlanningTime;
use std::collections::VecDeque;
use std::time::Duration;
use undo::{Undo, UndoPlan, work_of_message};

/// A strategy, its gate, and the plan that is being judged.
pub struct Balancer {
    strategy: Box<dyn Strategy>,
    gate: Option<Gate>,
    model: CostModel,
    passed: Option<Passed>,
    undo: Option<Undo>,
    /// What crossed sites in a step before the plan that leaders take back.
    led_before: Traffic,
    speeds: SpeedEstimate,
    pace: RecentPace,
    planning: PlanningTime,
    reports: VecDeque<BalanceReport>,
}

/// A plan that was handed out.
struct Passed {
    /// The plan that takes it back; none where each leader keeps its part.
    undo: Option<Plan>,
    report: BalanceReport,
    /// How many messages made a step.
    messages: f64,
    /// Seconds of work for each message, by the snapshot of one place.
    work: f64,
    is_carried_out: bool,
    is_gated: bool,
}

impl Balancer {
    /// Asks `strategy`, and a gate if there should be one and the strategy predicts.
    pub fn new(strategy: Box<dyn Strategy>, is_gated: bool) -> Self {
        let gate = (is_gated && strategy.predicts()).then(|| Gate::new(GateConfig::default()));
        let model = CostModel::default();
        let reports = VecDeque::new();
        let led_before = Traffic::default();
        let (speeds, pace) = (SpeedEstimate::default(), RecentPace::of_new_job());
        let planning = PlanningTime::default();
        let (passed, undo) = (None, None);
        Self { strategy, gate, model, passed, undo, led_before, speeds, pace, planning, reports }
    }

    /// The name of the strategy.
    pub fn name(&self) -> &'static str {
        self.strategy.name()
    }

    /// Whether it may ever move anything.
    pub fn is_active(&self) -> bool {
        self.strategy.name() != "none"
    }

    /// Whether the strategy wants to hear of events.
    pub fn predicts(&self) -> bool {
        self.strategy.predicts()
    }

    /// Whether the leaders of the sites should plan.
    pub fn is_led(&self) -> bool {
        self.strategy.is_led()
    }

    /// Whether it should hear of the job's pace, also while no plan is judged: what is judged later
    /// is compared with that.
    pub fn wants_pace(&self) -> bool {
        self.is_active() && self.gate.is_some()
    }

    /// Whether it is worth to measure now: no plan is being judged, and balancing has not cost too
    /// much.
    pub fn may_begin(&self, now: Time) -> bool {
        let has_room = self.gate.as_ref().is_none_or(|gate| gate.has_room(now));
        self.is_active() && has_room && !self.is_judging() && !self.wants_undo()
    }

    /// Whether a plan was carried out and is being judged.
    pub fn is_judging(&self) -> bool {
        self.passed.as_ref().is_some_and(|passed| passed.is_carried_out)
    }

    /// Whether the last plan is to be taken back.
    pub fn wants_undo(&self) -> bool {
        self.undo.is_some()
    }

    /// Learns from what was measured how fast PEs are, and puts that in the place of what they have
    /// said of themselves.
    pub fn learn_speeds(&mut self, snapshot: &mut Snapshot) {
        self.speeds.learn(&Evidence::of(&snapshot.actors));
        self.speeds.apply(&mut snapshot.pes);
    }

    /// How fast PEs are by all that was measured; left empty. Whoever learns in its place gives it
    /// back.
    pub fn take_speeds(&mut self) -> SpeedEstimate {
        std::mem::take(&mut self.speeds)
    }

    /// Gives back what was taken.
    pub fn keep_speeds(&mut self, speeds: SpeedEstimate) {
        self.speeds = speeds;
    }

    /// A link has changed.
    pub fn link_changed(&mut self, change: &LinkChange) {
        self.strategy.link_changed(change);
    }

    /// What to move, after what was measured. A plan that is not empty is to be carried out.
    pub fn decide(&mut self, window: &Window<'_>) -> Plan {
        if self.passed.is_some() {
            return Plan::none();
        }
        let (undo, is_excused) = match self.undo.take() {
            Some(Undo::Plan(undo)) => undo.unless_excused(window, &self.model),
            Some(Undo::Led(_)) | None => (None, false),
        };
        if is_excused && let Some(gate) = &mut self.gate {
            gate.pardon();
        }
        let is_undo = undo.is_some();
        let best = Figures::of_best(window.snapshot, &self.model);
        if !is_undo && let Some(refusal) = self.rules_out(window, &best) {
            return self.refuse_to_plan(window, &best, refusal);
        }
        let plan = undo.unwrap_or_else(|| {
            self.planning.ask(window.snapshot.actors.len());
            self.strategy.plan(window.snapshot)
        });
        // A plan that does not fit is the strategy's fault, and nothing to be carried out.
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
                }
                plan
            }
            false => Plan::none(),
        }
    }

    /// Why it is no use to ask the strategy: even the best plan there could be would not pass, or
    /// would not pay for making it. Who asks for a plan gets one that may pass, whatever it takes.
    fn rules_out(&mut self, window: &Window<'_>, best: &Figures) -> Option<Refusal> {
        let gate = self.gate.as_mut()?;
        let planning = match window.takes_time && window.cause != Cause::Request {
            true => self.planning.expected(window.snapshot.actors.len()),
            false => Duration::ZERO,
        };
        gate.rules_out(&proposal(&Occasion::of(window), best, &self.pace), planning)
    }

    /// Answers a window without a plan.
    fn refuse_to_plan(&mut self, window: &Window<'_>, best: &Figures, refusal: Refusal) -> Plan {
        let occasion = Occasion::of(window);
        if let Refusal::TooLittle { .. } = refusal {
            // There is nothing to gain, which ends what the gate has seen before.
            let nothing = Figures { step_after: best.step_before, ..*best };
            self.weigh(&occasion, &nothing, false, None);
            return Plan::none();
        }
        let mut report = self.report(&occasion, best);
        report.refusal = Some(refusal);
        self.pace.end_window();
        self.reports.push_back(report);
        Plan::none()
    }

    /// To decide what to move has taken so long, of the job's time.
    pub fn planned_for(&mut self, time: Duration) {
        self.planning.took(time);
    }

    /// Whether the last plan is to be taken back by the leaders that keep it; asked once.
    pub fn take_led_undo(&mut self) -> bool {
        match self.undo {
            Some(Undo::Led(before)) => {
                (self.led_before, self.undo) = (before, None);
                true
            }
            _ => false,
        }
    }

    /// Whether leaders should carry out what they have planned, or found to take back.
    pub fn decide_led(&mut self, occasion: &Occasion, figures: &Figures, is_undo: bool) -> bool {
        // A mistake is taken back before anything else is tried.
        let is_free = self.passed.is_none() && (is_undo || self.undo.is_none());
        is_free && self.weigh(occasion, figures, is_undo, None)
    }

    /// Whether a plan should be carried out; `undo` takes it back, and is none if others keep that.
    fn weigh(
        &mut self,
        occasion: &Occasion,
        figures: &Figures,
        is_undo: bool,
        undo: Option<Plan>,
    ) -> bool {
        let mut report = self.report(occasion, figures);
        if occasion.cause == Cause::Undo && !is_undo {
            // The plan was excused, and another is asked for in its place.
            report.cause = Cause::Period;
        }
        if is_undo {
            report.cause = Cause::Undo;
            if undo.is_none() {
                report.after = self.led_before;
            }
        } else if let Some(gate) = &mut self.gate {
            let proposal = proposal(occasion, figures, &self.pace);
            self.pace.end_window();
            report.predicted = Some(proposal.gain());
            if let Verdict::Refuse(refusal) = gate.consider(&proposal) {
                (report.moved, report.bytes_moved, report.after) = (0, 0, report.before);
                report.replicas = 0;
                report.refusal = Some(refusal);
                self.reports.push_back(report);
                return false;
            }
        }
        if figures.moves == 0 {
            if let Some(gate) = &mut self.gate {
                gate.withdrawn();
            }
            self.reports.push_back(report);
            return false;
        }
        let messages = messages_of_step(occasion, figures);
        let is_gated = !is_undo && self.gate.is_some();
        let (work, is_carried_out) = (f64::MAX, false);
        self.passed = Some(Passed { undo, report, messages, work, is_carried_out, is_gated });
        true
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

    /// Measuring and planning have taken so long, whatever came of it.
    pub fn spent(&mut self, time: Duration) {
        if let Some(gate) = &mut self.gate {
            gate.spent(time);
        }
    }

    /// The last plan has been carried out while the job went on: so many have moved, and it took so
    /// long.
    pub fn carried_out(&mut self, now: Time, moved: u64, took: Duration) {
        // While one plan is judged, others move nobody.
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

    /// So many messages have been handled in `time`, which has just ended; pauses of main are left
    /// out.
    pub fn progress(&mut self, now: Time, time: Duration, handled: u64) {
        let is_way = self.pace.add(time, handled);
        let (Some(passed), Some(gate)) = (&self.passed, &mut self.gate) else { return };
        if passed.messages <= 0.0 {
            return;
        }
        let steps = handled as f64 / passed.messages;
        if is_way {
            return gate.made_way(time, steps);
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
            self.conclude(Some(outcome));
        }
    }

    /// Whether a plan has passed whose actors may still be on their way.
    pub fn is_moving(&self) -> bool {
        self.passed.as_ref().is_some_and(|passed| !passed.is_carried_out)
    }

    /// Nothing more will be seen of the plan that is being judged.
    pub fn give_up(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.withdrawn();
        }
        self.conclude(None);
    }

    fn conclude(&mut self, outcome: Option<Outcome>) {
        // What has not been carried out has not happened.
        if let Some(Passed { mut report, is_carried_out: true, .. }) = self.passed.take() {
            report.realised = outcome.map(|outcome| outcome.realised);
            self.reports.push_back(report);
        }
    }

    /// What became of a rebalance that nobody has been told of.
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
        // The window may have begun with the job; its first messages may be no part of a step.
        step: mean.min(step.median),
        step_usual: step.median,
        step_slow: step.slow,
        window: occasion.time,
        predicted_now: figures.step_before,
        predicted_then: figures.step_after,
        bytes_inside: figures.bytes_busiest,
        bytes_between_sites: figures.bytes_between_sites,
        pause: None,
        remaining: None,
        is_passing: figures.is_passing,
    }
}

#[cfg(test)]
mod tests;
