//! Plans for broadcasts from a PE to all nodes. The coordinator's advisor makes them and sends them
//! to the PEs of the node. A broadcast carries the trees of its plan, so that no other node has to
//! know the plan.

pub(in crate::pe) mod state;

use crate::message::PlanNews;
use crate::pe::core::Core;
use gridspan_bcast::SubPlan;
use std::sync::Arc;

impl Core {
    /// The plan for a message of `bytes` from here to all nodes.
    pub(in crate::pe) fn own_sub_plan(&mut self, bytes: u64) -> Arc<SubPlan> {
        if let Some(sub_plan) = self.own_plans.choose(bytes) {
            return sub_plan;
        }
        if let Some(sub_plan) = &self.own_plans.default_plan {
            return sub_plan.clone();
        }
        let node = self.common.layout.node_of(self.me);
        let sub_plan = Arc::new(SubPlan::whole(&self.common.default_plan_from(node)));
        self.own_plans.default_plan = Some(sub_plan.clone());
        sub_plan
    }

    /// Handles a message from the coordinator about the plans of this node.
    pub(in crate::pe) fn handle_own_plan(&mut self, news: PlanNews) {
        let layout = &self.common.layout;
        let me = layout.node_of(self.me);
        match news {
            PlanNews::New { plan, bytes } => {
                let tree = plan.stripes().first().map(|stripe| &stripe.tree);
                let is_whole = tree.is_some_and(|tree| tree.nodes().eq(layout.nodes()));
                if plan.id().root == me && is_whole {
                    self.own_plans.learn(&plan, bytes);
                }
            }
            PlanNews::Take { plan, bytes } => self.own_plans.take(plan, bytes),
            PlanNews::Retire(plan) => self.own_plans.retire(plan),
        }
    }
}
