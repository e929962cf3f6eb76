//! The plans for a PE's own broadcasts, which the coordinator's advisor has made for its node.

use gridspan_bcast::{BroadcastPlan, PlanId, SubPlan};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of plans, more than an advisor keeps for one node. Further plans are ignored.
const PLANS_MAX: usize = 1024;

/// The plans of one PE.
#[derive(Default)]
pub(crate) struct OwnPlans {
    /// The default plan from this node, once it has been used.
    pub(crate) default_plan: Option<Arc<SubPlan>>,
    known: BTreeMap<PlanId, Arc<SubPlan>>,
    /// The plans in use, by message size in bytes.
    choices: BTreeMap<u64, PlanId>,
    /// Plans up to this version were made before the coordinator's last move.
    after: u64,
    /// Number of broadcasts that this PE has begun with a plan.
    begun: u64,
}

impl OwnPlans {
    /// Returns the number of a broadcast that begins now.
    pub(crate) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    /// Drops all plans up to this version, and ignores them from now on.
    pub(crate) fn forget_up_to(&mut self, version: u64) {
        self.after = version;
        self.known.retain(|plan, _| plan.version > version);
        self.choices.retain(|_, plan| plan.version > version);
    }

    /// Adds a plan, and uses it for messages of about `bytes`.
    pub(crate) fn learn(&mut self, plan: &BroadcastPlan, bytes: u64) {
        if self.known.len() < PLANS_MAX && plan.id().version > self.after {
            self.known.insert(plan.id(), Arc::new(SubPlan::whole(plan)));
            self.take(plan.id(), bytes);
        }
    }

    /// Uses a plan for messages of about `bytes`. If the plan is not known here, the default plan
    /// is used.
    pub(crate) fn take(&mut self, plan: PlanId, bytes: u64) {
        if plan.version == 0 || plan.version > self.after {
            self.choices.insert(bytes, plan);
        }
    }

    /// Stops the use of a plan.
    pub(crate) fn retire(&mut self, plan: PlanId) {
        self.known.remove(&plan);
        self.choices.retain(|_, chosen| *chosen != plan);
    }

    /// The plan for a message of `bytes`, or `None` for the default plan.
    pub(crate) fn choose(&self, bytes: u64) -> Option<Arc<SubPlan>> {
        self.known.get(&nearest(&self.choices, bytes)?).cloned()
    }
}

/// The plan for the nearest size within a factor of two.
pub(crate) fn nearest(choices: &BTreeMap<u64, PlanId>, bytes: u64) -> Option<PlanId> {
    let below = choices.range(..=bytes).next_back();
    let above = choices.range(bytes..).next();
    let ratio = |size: u64| bytes.max(size) as f64 / bytes.min(size).max(1) as f64;
    let near = below.into_iter().chain(above).map(|(&size, &plan)| (ratio(size), plan));
    let nearest = near.min_by(|one, other| one.0.total_cmp(&other.0));
    nearest.filter(|&(ratio, _)| ratio <= 2.0).map(|(_, plan)| plan)
}
