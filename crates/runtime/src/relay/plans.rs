//! The plans that a relay knows, and the removal of retired ones.

use crate::message::codec::DecodeError;
use gridspan_bcast::{BroadcastPlan, PlanId};
use gridspan_topology::{Layout, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of known plans, those of all roots together.
const PLANS_MAX: usize = 1024;
/// Maximum number of retired plans that are kept although they are not known. A large plan may
/// arrive after its retirement; a plan that was never sent is retired too, and never arrives.
const UNKNOWN_MAX: usize = 64;

/// Plans by identifier.
#[derive(Default)]
pub(super) struct Plans {
    known: BTreeMap<PlanId, Arc<BroadcastPlan>>,
    /// Retired plans; each is removed once it is known and all tree broadcasts below its number are
    /// complete.
    retired: BTreeMap<PlanId, u64>,
    complete: BTreeMap<NodeId, Complete>,
}

/// Numbers of the complete tree broadcasts of a root, all of which reach every node.
#[derive(Default)]
struct Complete {
    /// All below this number are complete.
    below: u64,
    /// Complete broadcasts after a gap, as runs of consecutive numbers: the first number of each
    /// run, and the first number behind it. An incomplete broadcast is before each run, so there
    /// are no more runs than incomplete broadcasts.
    beyond: BTreeMap<u64, u64>,
}

impl Complete {
    fn note(&mut self, flow: u64) {
        // No root reaches the largest number.
        let Some(next) = flow.checked_add(1) else { return };
        let end = self.beyond.remove(&next).unwrap_or(next);
        if flow == self.below {
            self.below = end;
            return;
        }
        match self.beyond.range_mut(..flow).next_back() {
            Some((_, before)) if *before == flow => *before = end,
            _ => {
                self.beyond.insert(flow, end);
            }
        }
    }

    fn contains(&self, flow: u64) -> bool {
        let run = self.beyond.range(..=flow).next_back();
        flow < self.below || run.is_some_and(|(_, &end)| flow < end)
    }
}

impl Plans {
    pub(super) fn get(&self, plan: PlanId) -> Option<&Arc<BroadcastPlan>> {
        self.known.get(&plan)
    }

    /// Adds a plan, if given, and notes retired ones, each with the number from which on no tree
    /// broadcast uses it.
    pub(super) fn learn(
        &mut self,
        layout: &Layout,
        plan: Option<BroadcastPlan>,
        retired: &[(PlanId, u64)],
    ) -> Result<(), DecodeError> {
        if let Some(plan) = plan {
            self.add(layout, plan)?;
        }
        self.retired.extend(retired.iter().copied());
        self.forget();
        Ok(())
    }

    fn add(&mut self, layout: &Layout, plan: BroadcastPlan) -> Result<(), DecodeError> {
        let refuse = |reason: String| Err(DecodeError::new("a plan for broadcasts", reason));
        let nodes = layout.node_count();
        // All trees of a plan are over the same nodes, each once.
        let tree = plan.stripes().first().map(|stripe| &stripe.tree);
        let is_whole = tree.is_some_and(|tree| tree.nodes().eq((0..nodes).map(NodeId)));
        if !is_whole {
            return refuse(format!("{} does not cover the {nodes} nodes of the job", plan.id()));
        }
        if self.known.len() >= PLANS_MAX {
            return refuse(format!("{} exceeds the limit of {PLANS_MAX} plans", plan.id()));
        }
        self.known.insert(plan.id(), Arc::new(plan));
        Ok(())
    }

    /// Notes that a tree broadcast was received and passed on completely.
    pub(super) fn note_complete(&mut self, root: NodeId, flow: u64) {
        self.complete.entry(root).or_default().note(flow);
        self.forget();
    }

    /// Whether a tree broadcast is complete.
    pub(super) fn is_complete(&self, root: NodeId, flow: u64) -> bool {
        self.complete.get(&root).is_some_and(|complete| complete.contains(flow))
    }

    fn forget(&mut self) {
        let Self { known, retired, complete } = self;
        retired.retain(|plan, flows| {
            let below = complete.get(&plan.root).map_or(0, |complete| complete.below);
            below < *flows || known.remove(plan).is_none()
        });
        let unknown = retired.keys().filter(|&plan| !known.contains_key(plan));
        let unknown: Vec<PlanId> = unknown.copied().collect();
        let excess = unknown.len().saturating_sub(UNKNOWN_MAX);
        for plan in &unknown[..excess] {
            retired.remove(plan);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_bcast::Tree;
    use gridspan_bcast::{Draft, Mode};
    use std::time::Duration;

    fn layout() -> Layout {
        Layout::new(vec![("a".to_owned(), vec![1, 1]), ("b".to_owned(), vec![1])])
    }

    fn plan(version: u64, edges: &[(u32, u32)]) -> BroadcastPlan {
        let id = PlanId { root: NodeId(0), version };
        let nodes: Vec<NodeId> = (0..9).map(NodeId).collect();
        BroadcastPlan::from_draft(id, &Draft::whole(edges.to_vec()), &nodes, Duration::ZERO)
            .unwrap()
    }

    #[test]
    fn a_retired_plan_is_forgotten_after_the_last_broadcast_that_may_use_it() {
        let (layout, mut plans) = (layout(), Plans::default());
        let [one, two] = [1, 2].map(|version| plan(version, &[(0, 1), (0, 2)]));
        plans.learn(&layout, Some(one.clone()), &[]).unwrap();
        plans.note_complete(NodeId(0), 0);
        plans.note_complete(NodeId(0), 2);

        plans.learn(&layout, Some(two), &[(one.id(), 3)]).unwrap();

        assert!(plans.get(one.id()).is_some(), "broadcast 1 may be on its way");
        plans.note_complete(NodeId(0), 1);
        assert!(plans.get(one.id()).is_none());
        assert!(plans.get(PlanId { root: NodeId(0), version: 2 }).is_some());
    }

    #[test]
    fn a_plan_that_arrives_after_its_retirement_is_forgotten_at_once() {
        let (layout, mut plans) = (layout(), Plans::default());
        let [one, two] = [1, 2].map(|version| plan(version, &[(0, 1), (0, 2)]));
        plans.learn(&layout, Some(two), &[(one.id(), 0)]).unwrap();

        plans.learn(&layout, Some(one.clone()), &[]).unwrap();

        assert!(plans.get(one.id()).is_none());
        assert_eq!((plans.known.len(), plans.retired.len()), (1, 0));
        for version in 3..1_000 {
            let never_sent = PlanId { root: NodeId(0), version };
            plans.learn(&layout, None, &[(never_sent, 0)]).unwrap();
        }
        assert_eq!(plans.retired.len(), UNKNOWN_MAX);
    }

    #[test]
    fn broadcasts_that_are_complete_are_kept_as_runs() {
        let mut complete = Complete::default();
        for flow in [0, 3, 5, 4, 9, 1] {
            complete.note(flow);
        }
        let contained: Vec<u64> = (0..12).filter(|&flow| complete.contains(flow)).collect();
        assert_eq!(contained, [0, 1, 3, 4, 5, 9]);
        assert_eq!((complete.below, complete.beyond.len()), (2, 2));

        complete.note(2);

        assert_eq!((complete.below, complete.beyond.len()), (6, 1));
    }

    #[test]
    fn a_plan_over_other_nodes_is_refused() {
        let mut plans = Plans::default();
        for edges in [&[(0, 1)][..], &[(0, 1), (0, 2), (2, 3)]] {
            assert!(plans.learn(&layout(), Some(plan(1, edges)), &[]).is_err());
        }
        let tree: Tree = Mode::Layout.tree(&layout(), NodeId(0));
        let plan = BroadcastPlan::known_to_all(tree, 1);
        assert!(plans.learn(&layout(), Some(plan), &[]).is_ok());
    }
}
