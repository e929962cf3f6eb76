//! Reports of large broadcasts and multicasts, for listeners of the job.
//!
//! A report contains the trees of a message, and the time at which each node had all of it. Each
//! node confirms to the sender's relay that it has the message. The relay measures the time until
//! the confirmation arrives, and the coordinator subtracts the estimated latency of the
//! confirmation. Without listeners, the coordinator keeps nothing.

use super::machine::Coordinator;
use super::state::advice::Flow;
use crate::pe::{BroadcastEdge, BroadcastReport};
use gridspan_bcast::{AdvisorCommand, PlanId, SubPlan};
use gridspan_topology::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of plans whose trees are kept; each may have as many edges as the job has nodes.
/// At this number, the coordinator drops trees that follow from the layout alone; it can make them
/// again.
pub(super) const TREES_MAX: usize = 64;

impl Coordinator {
    /// Whether the job has listeners to broadcasts.
    pub(super) fn reports_broadcasts(&self) -> bool {
        !self.common.watch.on_broadcast.is_empty()
    }

    /// Keeps the trees of a new plan, and forgets those of a retired one.
    pub(super) fn note_trees(&mut self, command: &AdvisorCommand) {
        match command {
            AdvisorCommand::Publish { plan, .. } if self.reports_broadcasts() => {
                self.advice.trees.insert(plan.id(), Arc::new(SubPlan::whole(plan)));
            }
            AdvisorCommand::Retire(plan) => _ = self.advice.trees.remove(plan),
            _ => {}
        }
    }

    /// Returns the trees of a broadcast, if the job has listeners and the trees are known.
    pub(super) fn trees_of(&mut self, plan: PlanId) -> Option<Arc<SubPlan>> {
        let is_node = plan.root.0 < self.common.layout.node_count();
        if !is_node || !self.reports_broadcasts() {
            return None;
        }
        let known = self.advice.trees.get(&plan);
        if plan.version > 0 || known.is_some() {
            return known.cloned();
        }
        let made = Arc::new(SubPlan::whole(&self.common.default_plan_from(plan.root)));
        let trees = &mut self.advice.trees;
        if trees.len() >= TREES_MAX {
            trees.retain(|plan, _| plan.version > 0);
        }
        if trees.len() < TREES_MAX {
            trees.insert(plan, made.clone());
        }
        Some(made)
    }

    /// Reports to the listeners that all nodes of a message have received it.
    pub(super) fn report_broadcast(&self, flow: &Flow) {
        if !self.reports_broadcasts() {
            return;
        }
        let root = flow.plan.root;
        let latency = |node: NodeId| {
            let places = self.survey.places.as_ref()?;
            let estimate = self.survey.link(self.now, &places.hierarchy, (node, root))?;
            Some(estimate.latency.duration())
        };
        let had = |&(node, after): &(NodeId, Duration)| {
            (node, after.saturating_sub(latency(node).unwrap_or_default()))
        };
        let times: BTreeMap<NodeId, Duration> = flow.report_times.iter().map(had).collect();
        let mut edges = Vec::new();
        let trees = flow.trees.iter().flat_map(|sub_plan| sub_plan.trees());
        for (number, tree) in (0..).zip(trees) {
            edges.extend(tree.edges_from_root().map(|(from, to)| BroadcastEdge {
                from,
                to,
                tree: number,
                after: times.get(&to).copied(),
            }));
        }
        let report = BroadcastReport {
            at: flow.began,
            root,
            bytes: flow.bytes,
            reached: times.len() as u64,
            plan: flow.plan.version,
            took: times.values().copied().max().unwrap_or_default(),
            edges,
        };
        self.common.watch.on_broadcast.iter().for_each(|tell| tell(&report));
    }
}
