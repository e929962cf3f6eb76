//! The trees of a message to some of the nodes, pruned to the branches that lead to them.

use super::draft::{Draft, DraftStripe};
use super::plan::{BroadcastPlan, Segment};
use crate::trees::{Tree, hierarchical_over};
use gridspan_topology::{Layout, NodeId};
use std::collections::BTreeSet;

/// The pruned trees of a plan: a node that is no target passes on only the segments that a target
/// below it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubPlan {
    /// Divides a message into segments and assigns them to trees.
    plan: BroadcastPlan,
    /// The pruned trees, in the order of the plan's stripes.
    trees: Vec<Tree>,
    relays: Vec<NodeId>,
}

impl SubPlan {
    /// The part of a plan that leads to these nodes. Takes time proportional to the size of the
    /// plan.
    pub fn over(plan: &BroadcastPlan, targets: &BTreeSet<NodeId>) -> Self {
        let trees: Vec<Tree> =
            plan.stripes().iter().map(|stripe| stripe.tree.pruned(targets)).collect();
        let nodes: BTreeSet<NodeId> = trees.iter().flat_map(Tree::nodes).collect();
        let is_relay = |node: &NodeId| *node != plan.id().root && !targets.contains(node);
        let relays = nodes.into_iter().filter(is_relay).collect();
        Self { plan: plan.clone(), trees, relays }
    }

    /// The whole plan.
    pub fn whole(plan: &BroadcastPlan) -> Self {
        let trees = plan.stripes().iter().map(|stripe| stripe.tree.clone()).collect();
        Self { plan: plan.clone(), trees, relays: Vec::new() }
    }

    /// The sub-plan without planning: the tree of [`Mode::Layout`](crate::Mode::Layout) over the
    /// targets, in segments of `segment_bytes` if any node passes data on. Panics if the layout
    /// does not contain the root or a target.
    pub fn by_sites(
        layout: &Layout,
        root: NodeId,
        targets: &BTreeSet<NodeId>,
        segment_bytes: u64,
    ) -> Self {
        let tree = hierarchical_over(layout, root, targets.iter().copied());
        let segment_bytes = if tree.depth() > 1 { segment_bytes } else { u64::MAX };
        let plan = BroadcastPlan::known_to_all(tree.clone(), segment_bytes);
        Self { plan, trees: vec![tree], relays: Vec::new() }
    }

    /// The plan that the trees belong to.
    pub fn plan(&self) -> &BroadcastPlan {
        &self.plan
    }

    /// A tree for each stripe of the plan.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Nodes that pass data on and are no targets, ascending.
    pub fn relays(&self) -> &[NodeId] {
        &self.relays
    }

    /// The segments of a message, in order.
    pub fn segments(&self, bytes: u64) -> impl Iterator<Item = Segment> + '_ {
        self.plan.segments(bytes)
    }

    /// The sub-plan over nodes with the numbers of `place`, for a simulation.
    pub fn draft(&self, place: impl Fn(NodeId) -> u32) -> Draft {
        let stripes = self.plan.stripes();
        let total: f64 = stripes.iter().map(|stripe| f64::from(stripe.weight)).sum();
        let stripe = |(tree, weight): (&Tree, u32)| DraftStripe {
            edges: tree.edges_from_root().map(|(from, to)| (place(from), place(to))).collect(),
            share: f64::from(weight) / total,
        };
        let weights = stripes.iter().map(|stripe| stripe.weight);
        let stripes = self.trees.iter().zip(weights).map(stripe).collect();
        Draft { stripes, segment_bytes: self.plan.segment_bytes(), sending: self.plan.sending() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PlanId, Sending};
    use std::time::Duration;

    fn nodes(numbers: &[u32]) -> BTreeSet<NodeId> {
        numbers.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn branches_without_a_target_are_cut_and_relays_are_named() {
        let edges = vec![(0, 1), (1, 2), (0, 3), (3, 4)];
        let draft = Draft {
            stripes: vec![
                DraftStripe { edges, share: 0.5 },
                DraftStripe { edges: vec![(0, 4), (4, 3), (4, 2), (2, 1)], share: 0.5 },
            ],
            segment_bytes: 10,
            sending: Sending::Concurrent,
        };
        let all: Vec<NodeId> = (0..5).map(NodeId).collect();
        let id = PlanId { root: NodeId(0), version: 1 };
        let plan = BroadcastPlan::from_draft(id, &draft, &all, Duration::ZERO).unwrap();

        let sub_plan = SubPlan::over(&plan, &nodes(&[2, 4]));

        let edges =
            |tree: &Tree| tree.edges_from_root().map(|(a, b)| (a.0, b.0)).collect::<Vec<_>>();
        assert_eq!(edges(&sub_plan.trees()[0]), [(0, 1), (0, 3), (1, 2), (3, 4)]);
        assert_eq!(edges(&sub_plan.trees()[1]), [(0, 4), (4, 2)]);
        assert_eq!(sub_plan.relays(), [NodeId(1), NodeId(3)]);
        assert_eq!(sub_plan.draft(|node| node.0).stripes[1].edges, [(0, 4), (4, 2)]);
    }

    #[test]
    fn a_sub_plan_by_sites_reaches_targets_only_and_is_whole_if_no_node_passes_it_on() {
        let sites = [("a", 2), ("b", 3)].map(|(name, nodes)| (name.to_owned(), vec![1; nodes]));
        let layout = Layout::new(sites.to_vec());

        let sub_plan = SubPlan::by_sites(&layout, NodeId(0), &nodes(&[3, 4]), 10);
        assert_eq!(sub_plan.trees()[0].nodes().collect::<Vec<_>>(), [0, 3, 4].map(NodeId));
        assert_eq!((sub_plan.segments(100).count(), sub_plan.relays().len()), (10, 0));

        let sub_plan = SubPlan::by_sites(&layout, NodeId(0), &nodes(&[1, 4]), 10);
        assert_eq!(sub_plan.segments(100).count(), 1);
    }
}
