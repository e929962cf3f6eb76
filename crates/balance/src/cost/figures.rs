//! What a plan would bring and cost in all, without the plan: what a gate and people need to know
//! of it.

use crate::cost::replicas::predict_with;
use crate::cost::{CostModel, Traffic, least_step};
use crate::gate::Appraisal;
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use gridspan_topology::PeId;
use std::time::Duration;

/// A plan beside doing nothing, in sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// How many actors there are.
    pub actors: u64,
    /// How many would move, or get or lose a replica.
    pub moves: u64,
    /// How many would have a replica.
    pub replicas: u64,
    /// How many steps the window had.
    pub steps: u64,
    /// The predicted time of a step as things are.
    pub step_before: Duration,
    /// The same as they would be.
    pub step_after: Duration,
    /// What crosses sites in the window as things are.
    pub traffic_before: Traffic,
    /// The same as they would be.
    pub traffic_after: Traffic,
    /// How many bytes of state would move inside sites.
    pub bytes_inside: u64,
    /// How many of these the busiest node would send or get, as far as that is known.
    pub bytes_busiest: u64,
    /// How many would move from one site to another.
    pub bytes_between_sites: u64,
    /// Whether most of the gain is due to other users' work, which is likely to pass.
    pub is_passing: bool,
}

impl Figures {
    /// Those of the best plan there could be: one that moves nothing and after which a step takes
    /// the least time that the work allows.
    pub(crate) fn of_best(snapshot: &Snapshot, model: &CostModel) -> Self {
        let now: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
        let now = predict_with(snapshot, &now, &snapshot.replicas, model);
        Self {
            actors: snapshot.actors.len() as u64,
            moves: 0,
            replicas: snapshot.replicas.len() as u64,
            steps: snapshot.step_count(),
            step_before: now.step,
            step_after: least_step(snapshot).min(now.step),
            traffic_before: now.wide_area,
            traffic_after: now.wide_area,
            bytes_inside: 0,
            bytes_busiest: 0,
            bytes_between_sites: 0,
            is_passing: false,
        }
    }

    /// The part of a step that would be saved.
    pub(crate) fn gain(&self) -> f64 {
        let [before, after] = [self.step_before, self.step_after].map(|step| step.as_secs_f64());
        if before > 0.0 { 1.0 - after / before } else { 0.0 }
    }

    /// Those of a plan that one place has appraised.
    pub fn of(snapshot: &Snapshot, appraisal: &Appraisal, plan: &Plan) -> Self {
        Self {
            actors: snapshot.actors.len() as u64,
            moves: plan.changes() as u64,
            replicas: plan.replicas(snapshot).len() as u64,
            steps: snapshot.step_count(),
            step_before: appraisal.before.step,
            step_after: appraisal.after.step,
            traffic_before: appraisal.before.wide_area,
            traffic_after: appraisal.after.wide_area,
            bytes_inside: appraisal.bytes_inside,
            bytes_busiest: appraisal.bytes_busiest,
            bytes_between_sites: appraisal.bytes_between_sites,
            is_passing: appraisal.is_passing,
        }
    }
}
