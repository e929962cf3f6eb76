//! Weighs a plan: asks the gate, and records the plan or the report of its refusal.

use super::Balancer;
use super::pace::RecentPace;
use super::passed::Passed;
use super::report::{BalanceReport, Cause};
use super::window::Occasion;
use crate::cost::Traffic;
use crate::cost::figures::Figures;
use crate::gate::{Proposal, Verdict};
use crate::plan::Plan;
use std::time::Duration;

impl Balancer {
    /// Returns whether a plan should be carried out, and records the plan if it should, or a report
    /// if not. `undo` is the inverse plan, `None` if leaders keep it.
    pub(super) fn weigh(
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
        if !is_undo {
            // An undo that is put off belongs to the placement that this plan replaces.
            (self.undo, self.is_undo_put_off) = (None, false);
        }
        let is_gated = !is_undo && self.gate.is_some();
        let (work, available, is_carried_out) = (f64::MAX, Vec::new(), false);
        self.passed =
            Some(Passed { undo, report, messages, work, available, is_carried_out, is_gated });
        true
    }

    /// The report of a plan that undoes the last one. The gate does not judge such a plan.
    /// `is_led`: leaders keep the plan.
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

    /// The report of a plan with these figures, as if it were carried out.
    pub(super) fn report(&self, occasion: &Occasion, figures: &Figures) -> BalanceReport {
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
}

/// Number of messages that all actors handle in a step.
fn messages_of_step(occasion: &Occasion, figures: &Figures) -> f64 {
    occasion.handled as f64 / figures.steps.max(1) as f64
}

/// What the gate judges about a plan with these figures.
pub(super) fn proposal(occasion: &Occasion, figures: &Figures, pace: &RecentPace) -> Proposal {
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
