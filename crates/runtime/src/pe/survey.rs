//! The hierarchy of places, found by measuring.
//!
//! **Start.** Once every node has greeted the root, or when main asks, the root has the nodes measure round trips, each
//! pair once, and infers the hierarchy from them. Nobody waits for it but who asks for it.
//!
//! **Steady state.** See `monitor`.
//!
//! **Failure.** A node that does not answer a probe leaves a gap, which inference tolerates. A node
//! that is lost ends the job.

use super::core::Core;
use super::state::Purpose;
use crate::probe::{ProbeKind, ProbeOrder, Probed};
use crate::wire::Control;
use gridspan_topology::{Hierarchy, NodeId, PeId, RttMatrix, infer};
use std::sync::Arc;

impl Core {
    /// A node is there. Once all are, their distances are measured.
    pub(super) fn note_greeting(&mut self, node: NodeId) {
        let nodes = self.common.layout.node_count() as usize;
        let Some(root) = &mut self.root else { return };
        root.survey.greeted.insert(node);
        if root.survey.greeted.len() == nodes {
            self.begin_survey();
        }
    }

    /// Calls `done` with the hierarchy once it is known. Runs on the root.
    pub(crate) fn await_hierarchy(
        &mut self,
        done: impl FnOnce(&mut Self, Arc<Hierarchy>) + Send + 'static,
    ) {
        let Some(root) = &mut self.root else { return };
        if let Some(hierarchy) = root.survey.hierarchy.clone() {
            return done(self, hierarchy);
        }
        root.survey.waiting.push(Box::new(done));
        self.begin_survey();
    }

    fn begin_survey(&mut self) {
        let layout = self.common.layout.clone();
        let Some(root) = &mut self.root else { return };
        let survey = &mut root.survey;
        if survey.matrix.is_some() || survey.hierarchy.is_some() {
            return;
        }
        let nodes = layout.node_count() as usize;
        survey.matrix = Some((RttMatrix::new(nodes), layout.nodes().collect()));
        let mut orders = Vec::new();
        for node in layout.nodes() {
            let targets = layout.nodes().filter(|&other| measures(node, other)).collect();
            orders.push((node, survey.order(Purpose::Survey, ProbeKind::RoundTrip, targets)));
        }
        for (node, order) in orders {
            self.post(layout.leader(node), Control::Probe(order));
        }
    }

    /// Has this node measure.
    pub(super) fn handle_probe(&mut self, order: ProbeOrder) {
        let layout = &self.common.layout;
        let me = layout.node_of(self.me);
        let is_other = |node: &NodeId| *node != me && node.0 < layout.node_count();
        if order.targets.iter().all(is_other) && !order.targets.is_empty() {
            return self.probe_orders.push(order);
        }
        self.probed(order.id, Vec::new());
    }

    /// This node has measured.
    pub fn probed(&mut self, id: u64, found: Vec<Probed>) {
        self.post(Self::ROOT, Control::Probed { id, found });
    }

    pub(super) fn handle_probed(&mut self, from: PeId, id: u64, found: &[Probed]) {
        let node = self.common.layout.node_of(from);
        let Some(root) = &mut self.root else { return };
        match root.survey.purposes.remove(&id) {
            Some(Purpose::Survey) => self.note_round_trips(node, found),
            Some(Purpose::Link) => self.note_links(node, found),
            Some(Purpose::Uplink(group)) => self.note_uplink(group, node, found),
            None => {}
        }
    }

    fn note_round_trips(&mut self, node: NodeId, found: &[Probed]) {
        let nodes = self.common.layout.node_count();
        let Some(root) = &mut self.root else { return };
        let Some((matrix, missing)) = &mut root.survey.matrix else { return };
        for probed in found.iter().filter(|probed| probed.target.0 < nodes) {
            if let Some(round_trip) = probed.round_trip {
                matrix.record(node, probed.target, round_trip);
            }
        }
        missing.remove(&node);
        if !missing.is_empty() {
            return;
        }
        let hierarchy = Arc::new(infer(matrix));
        root.survey.matrix = None;
        root.survey.hierarchy = Some(hierarchy.clone());
        let waiting = std::mem::take(&mut root.survey.waiting);
        tracing::info!(levels = hierarchy.depth(), "the hierarchy of places is known");
        for done in waiting {
            done(self, hierarchy.clone());
        }
        self.begin_watch();
    }
}

/// Whether `node` is the one of the two that measures, so that all measure about as many.
fn measures(node: NodeId, other: NodeId) -> bool {
    node != other && ((node.0 + other.0).is_multiple_of(2) == (node < other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_measured_once_and_all_nodes_measure_about_as_many() {
        let nodes = || (0..33).map(NodeId);
        for a in nodes() {
            let measured = nodes().filter(|&b| measures(a, b)).count();
            assert!((15..=17).contains(&measured), "{a} measures {measured}");
            assert!(nodes().all(|b| a == b || measures(a, b) != measures(b, a)));
        }
    }
}
