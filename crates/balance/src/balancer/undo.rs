//! Undoes a plan that has made steps longer, unless the longer steps have another cause.

use super::window::Window;
use crate::cost::{CostModel, Traffic};
use crate::gate::Appraisal;
use crate::plan::Plan;
use crate::snapshot::{ActorKey, Snapshot};
use gridspan_topology::PeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// How to undo a plan.
pub(super) enum Undo {
    /// By carrying out its inverse.
    Plan(UndoPlan),
    /// By the leaders, which remember the moves. The value is the traffic between sites in a step
    /// before the plan.
    Led(Traffic),
}

/// The inverse of a plan, and the measurements at the time when the plan proved a mistake.
pub(super) struct UndoPlan {
    pub(super) plan: Plan,
    /// Seconds of work for each message before the plan.
    pub(super) work: f64,
    /// Time of a step after the plan.
    pub(super) step: Duration,
}

/// Factor up to which a message's work counts as unchanged.
const SAME_WORK: f64 = 1.25;
/// The model explains a measured step time if it predicts at least this fraction of that time.
const EXPLAINED: f64 = 0.75;

impl UndoPlan {
    /// Returns whether an actor that the inverse plan would move back, or give a replica, cannot
    /// move now. The plan as a whole cannot be carried out then.
    pub(super) fn is_held_up(&self, snapshot: &Snapshot) -> bool {
        let fixed: BTreeMap<ActorKey, PeId> = (snapshot.actors.iter())
            .filter(|actor| !actor.migratable)
            .map(|actor| (actor.id, actor.pe))
            .collect();
        let Plan { moves, begin, .. } = &self.plan;
        moves.iter().any(|step| fixed.get(&step.actor) == Some(&step.from))
            || begin.iter().any(|replica| fixed.contains_key(&replica.actor))
    }

    /// Returns the inverse plan, which moves back the actors that are still where the plan moved
    /// them, or `None` if the plan is excused.
    ///
    /// A plan is excused if steps are longer because work has shifted among actors. Three signs of
    /// that are required: a message takes no more work than before, the model predicts about the
    /// measured time of a step from the present loads, and it predicts that the inverse plan would
    /// not shorten a step.
    pub(super) fn unless_excused(self, window: &Window<'_>, model: &CostModel) -> Option<Plan> {
        let plan = self.plan.still_fitting(window.snapshot);
        let is_excused = Appraisal::of(window.snapshot, &plan, model).is_ok_and(|appraisal| {
            let (now, then) = (appraisal.before.step, appraisal.after.step);
            work_of_message(window) <= self.work * SAME_WORK
                && now >= self.step.mul_f64(EXPLAINED)
                && then >= now
        });
        (!is_excused).then_some(plan)
    }
}

/// Seconds of work for each message.
pub(super) fn work_of_message(window: &Window<'_>) -> f64 {
    let loads = window.snapshot.actors.iter().map(|actor| actor.load);
    let work = loads.fold(Duration::ZERO, Duration::saturating_add);
    work.as_secs_f64() / window.handled.max(1) as f64
}
