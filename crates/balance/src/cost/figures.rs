//! Totals of a plan's gain and cost, for the gate and for reports.

use crate::cost::replicas::predict_with;
use crate::cost::{CostModel, Traffic, least_step};
use crate::gate::Appraisal;
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use gridspan_topology::{PeId, SiteId};
use std::collections::BTreeMap;
use std::time::Duration;

/// Totals of a plan compared with no change.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Number of actors.
    pub actors: u64,
    /// Number of moves, and of replicas that would begin or end.
    pub moves: u64,
    /// Number of actors that would have a replica.
    pub replicas: u64,
    /// Number of steps in the window.
    pub steps: u64,
    /// Predicted time of a step with the present placement.
    pub step_before: Duration,
    /// Predicted time of a step after the plan.
    pub step_after: Duration,
    /// Traffic between sites in the window with the present placement.
    pub traffic_before: Traffic,
    /// Traffic between sites in the window after the plan.
    pub traffic_after: Traffic,
    /// Bytes of state that would move inside sites.
    pub bytes_inside: u64,
    /// For each site, the part of `bytes_inside` that its busiest node would send or receive; for
    /// plans of leaders, which do not know the bytes of nodes, all bytes of the site.
    pub bytes_busiest: BTreeMap<SiteId, u64>,
    /// Bytes of state that would move between sites.
    pub bytes_between_sites: u64,
    /// Whether most of the gain is due to other users' work, which is likely to pass.
    pub is_passing: bool,
}

impl Figures {
    /// Returns the figures of an ideal plan: it moves nothing, and a step takes the least time that
    /// the work allows.
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
            bytes_busiest: BTreeMap::new(),
            bytes_between_sites: 0,
            is_passing: false,
        }
    }

    /// Returns the part of a step that would be saved.
    pub(crate) fn gain(&self) -> f64 {
        let [before, after] = [self.step_before, self.step_after].map(|step| step.as_secs_f64());
        if before > 0.0 { 1.0 - after / before } else { 0.0 }
    }

    /// Returns the figures of a plan for a snapshot of all actors.
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
            bytes_busiest: appraisal.bytes_busiest.clone(),
            bytes_between_sites: appraisal.bytes_between_sites,
            is_passing: appraisal.is_passing,
        }
    }
}
