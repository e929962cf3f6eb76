//! Estimates of the links between clusters, where the links between two larger groups differ from
//! each other.

use gridspan_topology::{
    Distances, GroupId, Hierarchy, LinkEstimate, LinkMonitor, LinkSample, NodeId, Probe, ProbePlan,
    Time,
};
use serde::{Deserialize, Serialize};

/// Estimates of the links between the clusters of a hierarchy, pair by pair. Empty if the groups of
/// the hierarchy describe the distances well enough ([`Distances::is_even`]).
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Clusters {
    distances: Distances,
    monitor: LinkMonitor,
    plan: ProbePlan,
}

impl Clusters {
    /// Creates the estimates from the measurements so far.
    pub(crate) fn new(now: Time, hierarchy: &Hierarchy, distances: Distances) -> Self {
        let mut monitor = LinkMonitor::new();
        let leader = |group: GroupId| hierarchy.group(group).leader();
        if !distances.is_even() {
            for ((one, other), rtt) in distances.medians() {
                let sample = LinkSample { round_trip: Some(rtt), ..LinkSample::default() };
                monitor.observe(now, (one.0, other.0), (leader(one), leader(other)), sample);
            }
            monitor.changes(now);
        }
        Self { distances, monitor, plan: ProbePlan::of_round_trips() }
    }

    pub(crate) fn observe(
        &mut self,
        now: Time,
        hierarchy: &Hierarchy,
        (from, to): (NodeId, NodeId),
        sample: LinkSample,
    ) {
        if !self.distances.are_even(hierarchy, from, to)
            && let Some((one, other)) = clusters_of(hierarchy, from, to)
        {
            self.monitor.observe(now, (one.0, other.0), (from, to), sample);
        }
    }

    /// Returns the estimate of the link between the clusters of two nodes, or `None` if the
    /// estimates of larger groups hold for them.
    pub(crate) fn estimate(
        &self,
        now: Time,
        hierarchy: &Hierarchy,
        (from, to): (NodeId, NodeId),
    ) -> Option<Option<LinkEstimate>> {
        if self.distances.are_even(hierarchy, from, to) {
            return None;
        }
        let (one, other) = clusters_of(hierarchy, from, to)?;
        Some(self.monitor.estimate(now, one.0, other.0))
    }

    /// Returns the pairs of clusters to ping now. Call it about twice a second.
    pub(crate) fn due(&mut self, now: Time, hierarchy: &Hierarchy) -> Vec<Probe> {
        if self.distances.is_even() {
            return Vec::new();
        }
        self.monitor.changes(now);
        let last = hierarchy.depth() - 1;
        let groups: Vec<u32> = hierarchy.groups_at(last).map(|group| group.0).collect();
        let leader = |group: u32| hierarchy.group(GroupId(group)).leader();
        let mut probes = self.plan.due(now, &groups, &self.monitor);
        probes.retain(|probe| {
            !self.distances.are_even(hierarchy, leader(probe.from), leader(probe.to))
        });
        probes
    }
}

fn clusters_of(hierarchy: &Hierarchy, a: NodeId, b: NodeId) -> Option<(GroupId, GroupId)> {
    let last = hierarchy.depth() - 1;
    hierarchy.group_of(a, last).zip(hierarchy.group_of(b, last))
}
