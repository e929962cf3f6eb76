//! Judges a plan by the steps after it.

use super::Balancer;
use super::disturbance::{DISTURBED_MAX, is_disturbed};
use super::pace::RecentPace;
use super::passed::Passed;
use super::undo::{Undo, UndoPlan};
use crate::gate::Outcome;
use crate::snapshot::PeLoad;
use gridspan_topology::Time;
use std::time::Duration;

impl Balancer {
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
        let has_moves = self.pace.add(time, handled);
        let (Some(passed), Some(gate)) = (&self.passed, &mut self.gate) else { return };
        if passed.messages <= 0.0 {
            return;
        }
        let steps = handled as f64 / passed.messages;
        if has_moves {
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

    /// Stops judging the present plan if other programs slow PEs, for at most [`DISTURBED_MAX`]
    /// plans in a row. `loads`: the time that the actors on each PE have used.
    pub(super) fn stop_if_disturbed(&mut self, pes: &[PeLoad], loads: &[Duration]) {
        let is_disturbed = self.passed.as_ref().is_some_and(|passed| {
            passed.is_carried_out && is_disturbed(&passed.available, pes, loads)
        });
        if is_disturbed && self.disturbed < DISTURBED_MAX {
            self.disturbed += 1;
            self.conclude(None);
            if let Some(gate) = &mut self.gate {
                gate.disturbed();
            }
        }
    }

    /// Ends the judgement of the present plan, because no more steps will be observed.
    pub fn give_up(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.withdrawn();
        }
        self.conclude(None);
    }

    /// Ends the judgement of the present plan, and reports the plan.
    fn conclude(&mut self, outcome: Option<Outcome>) {
        // A plan that has not been carried out is not reported.
        if let Some(Passed { mut report, is_carried_out: true, .. }) = self.passed.take() {
            report.realised = outcome.map(|outcome| outcome.realised);
            self.reports.push_back(report);
        }
    }
}
