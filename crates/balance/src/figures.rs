//! What a plan would bring and cost in all, without the plan: what a gate and people need to know
//! of it.

use crate::cost::Traffic;
use crate::gate::Appraisal;
use crate::plan::Plan;
use crate::snapshot::Snapshot;
use std::time::Duration;

/// A plan beside doing nothing, in sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// How many actors there are.
    pub actors: u64,
    /// How many would move, or get or lose a second seat.
    pub moves: u64,
    /// How many would have a second seat.
    pub twins: u64,
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
    /// Those of a plan that one place has appraised.
    pub fn of(snapshot: &Snapshot, appraisal: &Appraisal, plan: &Plan) -> Self {
        Self {
            actors: snapshot.actors.len() as u64,
            moves: plan.changes() as u64,
            twins: plan.twins(snapshot).len() as u64,
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
