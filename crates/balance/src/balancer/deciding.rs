//! Decides whether the runtime should move actors after a measured window.

use super::Balancer;
use super::report::Cause;
use super::undo::{Undo, work_of_message};
use super::weighing::proposal;
use super::window::{Occasion, Window};
use crate::cost::figures::Figures;
use crate::gate::{Appraisal, Refusal};
use crate::plan::Plan;
use crate::snapshot::PeLoad;
use std::time::Duration;

impl Balancer {
    /// Returns the moves to make after a measured window. A plan that is not empty must be carried
    /// out. Call it only if the leaders do not plan: it drops an undo that waits for the leaders,
    /// so their last plan stays as it is.
    pub fn decide(&mut self, window: &Window<'_>) -> Plan {
        self.stop_if_disturbed(&window.snapshot.pes, &window.snapshot.load_per_pe());
        if self.passed.is_some() {
            return Plan::none();
        }
        let is_fixed = !window.snapshot.actors.is_empty() && !window.snapshot.may_change();
        let is_held_up = match &self.undo {
            Some(Undo::Plan(undo)) => undo.is_held_up(window.snapshot),
            Some(Undo::Led(_)) | None => false,
        };
        self.is_undo_put_off = self.wants_undo() && (is_fixed || is_held_up);
        if is_fixed {
            return Plan::none();
        }
        let undo = if is_held_up { None } else { self.take_undo(window) };
        let is_undo = undo.is_some();
        let best = Figures::of_best(window.snapshot, &self.model);
        if !is_undo && let Some(refusal) = self.rules_out(window, &best) {
            self.report_refusal(window, &best, refusal);
            return Plan::none();
        }
        let plan = undo.unwrap_or_else(|| {
            self.planning.ask(window.snapshot.actors.len());
            self.strategy.plan(window.snapshot)
        });
        match self.accepts(window, &plan, &best, is_undo) {
            true => plan,
            false => Plan::none(),
        }
    }

    /// Returns the inverse of the last plan if that plan is to be undone and is not excused.
    fn take_undo(&mut self, window: &Window<'_>) -> Option<Plan> {
        match self.undo.take() {
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

    /// Reports a window for which the strategy is not asked.
    fn report_refusal(&mut self, window: &Window<'_>, best: &Figures, refusal: Refusal) {
        let occasion = Occasion::of(window);
        if let Refusal::TooLittle { .. } = refusal {
            // A proposal without a gain ends the gate's episode.
            let nothing = Figures { step_after: best.step_before, ..best.clone() };
            self.weigh(&occasion, &nothing, false, None);
            return;
        }
        let mut report = self.report(&occasion, best);
        report.refusal = Some(refusal);
        self.pace.end_window();
        self.reports.push_back(report);
    }

    /// Returns whether a plan should be carried out, and records the plan if it should. `best` has
    /// the figures of the best possible plan.
    fn accepts(&mut self, window: &Window<'_>, plan: &Plan, best: &Figures, is_undo: bool) -> bool {
        // A plan that does not fit the snapshot is a fault of the strategy; it is not carried out.
        let Ok(appraisal) = Appraisal::of(window.snapshot, plan, &self.model) else {
            return false;
        };
        let figures = Figures::of(window.snapshot, &appraisal, plan);
        if !is_undo && let Some(gate) = &mut self.gate {
            gate.planned(figures.gain(), best.gain());
        }
        let inverse = plan.inverse(window.snapshot);
        let is_accepted = self.weigh(&Occasion::of(window), &figures, is_undo, Some(inverse));
        if let Some(passed) = self.passed.as_mut().filter(|_| is_accepted) {
            passed.work = work_of_message(window);
            passed.available = available(&window.snapshot.pes);
        }
        is_accepted
    }

    /// Records the time that the job lost to the last decision.
    pub fn planned_for(&mut self, time: Duration) {
        self.planning.took(time);
    }

    /// Records the time spent on measuring and planning, whether or not a plan results.
    pub fn spent(&mut self, time: Duration) {
        if let Some(gate) = &mut self.gate {
            gate.spent(time);
        }
    }

    /// Returns whether the leaders should undo the last plan; `true` only once for each plan. Call
    /// it when they begin to plan: they cannot undo a plan that is not theirs, so it stays as it
    /// is.
    pub fn take_led_undo(&mut self) -> bool {
        self.is_undo_put_off = false;
        match self.undo.take() {
            Some(Undo::Led(before)) => {
                self.led_before = before;
                true
            }
            Some(Undo::Plan(_)) | None => false,
        }
    }

    /// Puts off an undo that [`Balancer::take_led_undo`] has returned, because one of its actors
    /// cannot move now, or the rebalance only begins a new window. Meanwhile a plan of the leaders
    /// that passes replaces the undo.
    pub fn put_off_led_undo(&mut self) {
        self.undo = Some(Undo::Led(self.led_before));
        self.is_undo_put_off = true;
    }

    /// Returns whether leaders should carry out their plan, or the undo of their last one if
    /// `is_undo`; records the plan if they should. `pes` and `loads` are the measured states of all
    /// PEs and the time that the actors on each have used ([`Top::pes`](crate::leaders::Top::pes)).
    pub fn decide_led(
        &mut self,
        occasion: &Occasion,
        figures: &Figures,
        (pes, loads): (&[PeLoad], &[Duration]),
        is_undo: bool,
    ) -> bool {
        self.stop_if_disturbed(pes, loads);
        // A mistake is undone before anything else is tried, unless its actors cannot move.
        let is_undo_awaited = self.undo.is_some() && !self.is_undo_put_off;
        let is_free = self.passed.is_none() && (is_undo || !is_undo_awaited);
        let is_accepted = is_free && self.weigh(occasion, figures, is_undo, None);
        if let Some(passed) = self.passed.as_mut().filter(|_| is_accepted) {
            passed.available = available(pes);
        }
        is_accepted
    }
}

/// Returns the part of a processor that each PE gets.
fn available(pes: &[PeLoad]) -> Vec<f64> {
    pes.iter().map(|pe| pe.available).collect()
}
