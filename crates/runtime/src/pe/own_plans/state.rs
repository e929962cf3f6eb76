//! The plans by which a PE itself broadcasts: the coordinator's advisor has made them for its node.

use gridspan_bcast::{BroadcastPlan, PlanId, SubPlan};
use std::collections::BTreeMap;
use std::sync::Arc;

/// No advisor keeps so many plans for one node. What comes beyond is not kept.
const PLANS_MAX: usize = 1024;

/// The plans of one PE.
#[derive(Default)]
pub(crate) struct OwnPlans {
    /// The default plan from this node, once it was used.
    pub(crate) default_plan: Option<Arc<SubPlan>>,
    known: BTreeMap<PlanId, Arc<SubPlan>>,
    /// The plans that are taken, by the size that they are taken for.
    choices: BTreeMap<u64, PlanId>,
    /// Plans of these versions are of a coordinator before it has moved.
    after: u64,
    /// How many broadcasts went by plans.
    begun: u64,
}

impl OwnPlans {
    /// The number of a broadcast that begins now.
    pub(crate) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    /// No plan of these versions is taken any more, nor learned.
    pub(crate) fn forget_up_to(&mut self, version: u64) {
        self.after = version;
        self.known.retain(|plan, _| plan.version > version);
        self.choices.retain(|_, plan| plan.version > version);
    }

    /// Messages of about so many bytes take this plan from now on.
    pub(crate) fn learn(&mut self, plan: &BroadcastPlan, bytes: u64) {
        if self.known.len() < PLANS_MAX && plan.id().version > self.after {
            self.known.insert(plan.id(), Arc::new(SubPlan::whole(plan)));
            self.take(plan.id(), bytes);
        }
    }

    /// The same by a plan that was learned before; the default plan if it was not.
    pub(crate) fn take(&mut self, plan: PlanId, bytes: u64) {
        if plan.version == 0 || plan.version > self.after {
            self.choices.insert(bytes, plan);
        }
    }

    /// A plan is not taken any more.
    pub(crate) fn retire(&mut self, plan: PlanId) {
        self.known.remove(&plan);
        self.choices.retain(|_, chosen| *chosen != plan);
    }

    /// The plan for a message of so many bytes, unless that is the default plan.
    pub(crate) fn choose(&self, bytes: u64) -> Option<Arc<SubPlan>> {
        self.known.get(&nearest(&self.choices, bytes)?).cloned()
    }
}

/// The plan of the nearest size within a factor of two.
pub(crate) fn nearest(choices: &BTreeMap<u64, PlanId>, bytes: u64) -> Option<PlanId> {
    let below = choices.range(..=bytes).next_back();
    let above = choices.range(bytes..).next();
    let ratio = |size: u64| bytes.max(size) as f64 / bytes.min(size).max(1) as f64;
    let near = below.into_iter().chain(above).map(|(&size, &plan)| (ratio(size), plan));
    let nearest = near.min_by(|one, other| one.0.total_cmp(&other.0));
    nearest.filter(|&(ratio, _)| ratio <= 2.0).map(|(_, plan)| plan)
}
