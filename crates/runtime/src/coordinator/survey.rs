//! Survey: measures the distances between nodes, and infers the hierarchy of the job's places.
//!
//! **Start.** Once every node has greeted the coordinator, or when places are requested in a job
//! without greetings, the coordinator orders the nodes to measure round trips: of each pair once in
//! small jobs, in rounds of samples in large ones. It infers the hierarchy from the round trips. It
//! keeps the sites that the user named, and warns if the measurements contradict them. Only the
//! askers wait for the result.
//!
//! **Steady state.** See `monitor`.
//!
//! **Failure.** A node that does not answer a probe leaves a gap, which inference tolerates. A node
//! that is lost during the survey ends the job, since the survey waits for its measurements
//! (`losses`). A job that has gone on without a node begins no survey.

use super::event::{Asker, FollowUp};
use super::machine::Coordinator;
use super::state::clusters::Clusters;
use super::state::survey::Purpose;
use crate::message::probe::{ProbeKind, Probed};
use crate::pe::links::Locality;
use gridspan_topology::{Distances, Hierarchy, Inference, Labelled, Layout, NodeId, SiteNames};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Coordinator {
    /// Notes the greeting of a node. Once all nodes have greeted, their distances are measured.
    pub(in crate::coordinator) fn note_greeting(&mut self, node: NodeId) {
        let nodes = self.common.layout.node_count() as usize;
        self.survey.greeted.insert(node);
        if self.survey.greeted.len() == nodes {
            self.begin_survey();
        }
    }

    /// Answers with the places once they are known.
    pub(in crate::coordinator) fn await_places(&mut self, asker: Asker) {
        match self.survey.places.clone() {
            Some(places) => self.answer(asker, places),
            None => {
                self.survey.place_askers.push(asker);
                self.want_places();
            }
        }
    }

    /// Ensures that the places are measured.
    pub(in crate::coordinator) fn want_places(&mut self) {
        // If nodes greet, the survey begins with the last greeting, because a node cannot answer
        // before its own.
        if self.survey.greeted.is_empty() {
            self.begin_survey();
        }
    }

    fn begin_survey(&mut self) {
        let nodes = self.common.layout.node_count() as usize;
        let seed = self.common.seed;
        let survey = &mut self.survey;
        // A survey with a lost node would not end.
        let is_lacking = self.losses.is_any();
        if is_lacking || survey.inference.is_some() || survey.places.is_some() {
            return;
        }
        if nodes > Inference::MAX_NODES {
            tracing::warn!(nodes, "too many nodes to measure their distances; sites are as given");
            let given = Hierarchy::from_layout(&self.common.layout);
            let (measured, contradictions) = (given.clone(), Vec::new());
            let places = Locality { hierarchy: given, measured, contradictions };
            return self.settle(places, Distances::default());
        }
        survey.inference = Some((Inference::new(nodes, seed), 0));
        self.next_round();
    }

    /// Orders the measurements that inference needs next, or settles its result.
    fn next_round(&mut self) {
        let survey = &mut self.survey;
        let Some((inference, missing)) = &mut survey.inference else { return };
        let mut targets: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
        for (a, b) in inference.next_probes() {
            let (from, to) = if measures(a, b) { (a, b) } else { (b, a) };
            targets.entry(from).or_default().push(to);
        }
        *missing = targets.len();
        if targets.is_empty() {
            let Some((inference, _)) = survey.inference.take() else { return };
            let names = site_names(&self.common.layout);
            let Labelled { hierarchy, contradictions } = inference.clone().finish_labelled(&names);
            let distances = Distances::new(&hierarchy, inference.measured());
            let measured = inference.finish();
            return self.settle(Locality { hierarchy, measured, contradictions }, distances);
        }
        let mut orders = Vec::new();
        for (node, targets) in targets {
            orders.push((node, survey.order(Purpose::Survey, ProbeKind::RoundTrip, targets)));
        }
        self.send_orders(orders);
    }

    /// Records the places and answers the requests for them.
    fn settle(&mut self, places: Locality, distances: Distances) {
        // Listeners to links receive the contradictions with them.
        if self.common.on_links.is_empty() {
            places.contradictions.iter().for_each(|found| tracing::warn!("{found}"));
        }
        tracing::info!(levels = places.hierarchy.depth(), "the hierarchy of places is known");
        let (now, places) = (self.now, Arc::new(places));
        self.survey.clusters = Clusters::new(now, &places.hierarchy, distances);
        self.survey.places = Some(places.clone());
        for asker in std::mem::take(&mut self.survey.place_askers) {
            self.answer(asker, places.clone());
        }
        self.follow_ups.push_back(FollowUp::PlacesKnown);
    }

    /// Handles round trips that a node has measured for inference.
    pub(in crate::coordinator) fn note_round_trips(&mut self, node: NodeId, found: &[Probed]) {
        let nodes = self.common.layout.node_count();
        let Some((inference, missing)) = &mut self.survey.inference else { return };
        for probed in found.iter().filter(|probed| probed.target.0 < nodes) {
            inference.answer(node, probed.target, probed.round_trip);
        }
        *missing = missing.saturating_sub(1);
        if *missing == 0 {
            self.next_round();
        }
    }
}

/// Returns the sites that the user named. With one site only, returns no names, because they would
/// say nothing about places.
fn site_names(layout: &Layout) -> SiteNames {
    if layout.site_count() < 2 {
        return SiteNames::new();
    }
    let name = |node| layout.site_name(layout.site_of_node(node)).to_owned();
    layout.nodes().map(|node| (node, name(node))).collect()
}

/// Whether `node`, and not `other`, measures the pair. All nodes measure about equally many pairs.
fn measures(node: NodeId, other: NodeId) -> bool {
    node != other && ((node.0 + other.0).is_multiple_of(2) == (node < other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_measured_once_and_nodes_measure_about_equally_many() {
        let nodes = || (0..33).map(NodeId);
        for a in nodes() {
            let measured = nodes().filter(|&b| measures(a, b)).count();
            assert!((15..=17).contains(&measured), "{a} measures {measured}");
            assert!(nodes().all(|b| a == b || measures(a, b) != measures(b, a)));
        }
    }
}
