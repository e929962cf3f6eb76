//! Plans that are to be taken back, unless something else has made steps longer.

use super::window::Window;
use crate::cost::{CostModel, Traffic};
use crate::gate::Appraisal;
use crate::plan::Plan;
use std::time::Duration;

/// A plan that is to be taken back.
pub(super) enum Undo {
    /// By carrying out another one.
    Plan(UndoPlan),
    /// By those who keep what has moved; this crossed sites in a step before.
    Led(Traffic),
}

/// How to take a plan back, and what was known when it was found to be a mistake.
pub(super) struct UndoPlan {
    pub(super) plan: Plan,
    /// Seconds of work for each message before the plan.
    pub(super) work: f64,
    /// What a step takes after it.
    pub(super) step: Duration,
}

/// Messages cost the same if they cost at most so many times what they did.
const SAME_WORK: f64 = 1.25;
/// The model explains steps if it predicts this part of them.
const EXPLAINED: f64 = 0.75;

impl UndoPlan {
    /// The plan for those that are still where they were moved to, unless it is excused; and
    /// whether it is.
    ///
    /// It is if steps are longer because the work of actors has shifted among them, and not because
    /// of where they are: messages cost what they did, where actors are explains how long steps
    /// are, and to take the plan back would not help.
    pub(super) fn unless_excused(
        self,
        window: &Window<'_>,
        model: &CostModel,
    ) -> (Option<Plan>, bool) {
        let plan = self.plan.still_fitting(window.snapshot);
        let is_excused = Appraisal::of(window.snapshot, &plan, model).is_ok_and(|appraisal| {
            let (now, then) = (appraisal.before.step, appraisal.after.step);
            work_of_message(window) <= self.work * SAME_WORK
                && now >= self.step.mul_f64(EXPLAINED)
                && then >= now
        });
        ((!is_excused).then_some(plan), is_excused)
    }
}

/// Seconds of work for each message.
pub(super) fn work_of_message(window: &Window<'_>) -> f64 {
    let work: Duration = window.snapshot.actors.iter().map(|actor| actor.load).sum();
    work.as_secs_f64() / window.handled.max(1) as f64
}
