//! State of the survey: the places of the job, its links, and probes in progress.

use super::clusters::Clusters;
use crate::coordinator::event::Asker;
use crate::message::pending_work::counted;
use crate::message::probe::{ProbeKind, ProbeOrder};
use crate::pe::links::Locality;
use gridspan_balance::SiteLink;
use gridspan_topology::{
    Bandwidth, GroupId, Hierarchy, Inference, Layout, LinkChange, LinkEstimate, LinkMonitor,
    LinkSample, NodeId, ProbePlan, SiteId, Time, Uplink,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of changes of links kept until main asks for them.
pub(crate) const CHANGES_MAX: usize = 1024;

/// Maximum number of sites for which strategies receive the links between sites pair by pair; with
/// more, strategies use the hierarchy.
const SITES_MAX: u32 = 256;

/// Purpose of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Infers the hierarchy.
    Survey,
    /// Measures the round trip of a silent link.
    RoundTrip,
    /// Measures the unknown bandwidth of a link; ordered at this time.
    Bandwidth(Time),
    /// Measures the uplink rate of a node of a group, alone or together with others.
    Uplink(GroupId),
    /// Measures the rate of one transfer between two clusters for the advisor; ordered at this
    /// time.
    Broadcast((usize, usize), Time),
}

/// A test whether nodes of a group share their uplink. First each node finds the rate at which a
/// burst of its packets arrives, then each sends a train at that rate, alone and with the others.
#[derive(Default)]
pub(crate) struct UplinkProbe {
    /// The sending nodes, each with its target.
    pub(crate) ways: Vec<(NodeId, NodeId)>,
    pub(crate) bursts: Vec<Bandwidth>,
    /// Arrival rate of each node alone.
    pub(crate) alone: Vec<Bandwidth>,
    /// Sending and arrival rates of the nodes together, in this attempt.
    pub(crate) together: Vec<(Bandwidth, Bandwidth)>,
    /// The same rates in the best of the previous attempts.
    pub(crate) best: Vec<(Bandwidth, Bandwidth)>,
    pub(crate) tries: u32,
}

impl UplinkProbe {
    /// Notes the rates at which the next node's packets left, if they were paced, and arrived.
    pub(crate) fn note(&mut self, sent: Option<Bandwidth>, rate: Bandwidth) {
        let nodes = self.ways.len();
        if self.bursts.len() < nodes {
            self.bursts.push(rate);
        } else if self.alone.len() < nodes {
            self.alone.push(rate);
        } else {
            self.together.push((sent.unwrap_or(rate), rate));
        }
    }

    /// Ends this attempt, and keeps its rates if the sum of the arrival rates is larger than in all
    /// previous attempts.
    pub(crate) fn end_try(&mut self) {
        let arrived = |all: &[(Bandwidth, Bandwidth)]| -> u64 {
            all.iter().map(|(_, rate)| rate.bits_per_second()).fold(0, u64::saturating_add)
        };
        let together = std::mem::take(&mut self.together);
        if arrived(&together) > arrived(&self.best) {
            self.best = together;
        }
        self.tries += 1;
    }

    /// Returns the next probes as sender, target and kind: one node alone, or all nodes; none while
    /// results of this attempt are missing.
    pub(crate) fn next(&self) -> Vec<(NodeId, NodeId, ProbeKind)> {
        let way = |at: usize, kind| (self.ways[at].0, self.ways[at].1, kind);
        let train = |at: usize| way(at, ProbeKind::train_at(self.bursts[at]));
        let nodes = self.ways.len();
        match (self.bursts.len(), self.alone.len(), self.together.len()) {
            (bursts, ..) if bursts < nodes => vec![way(bursts, ProbeKind::BURST)],
            (_, alone, _) if alone < nodes => vec![train(alone)],
            // Bursts would pass a shared pipe one after the other.
            (_, _, 0) => (0..nodes).map(train).collect(),
            _ => Vec::new(),
        }
    }
}

/// Places, link estimates, and probes in progress.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Survey {
    /// Nodes found to run the same program.
    pub(crate) greeted: BTreeSet<NodeId>,
    /// The inference in progress, and the number of nodes that still measure.
    #[serde(skip)]
    pub(crate) inference: Option<(Inference, usize)>,
    pub(crate) places: Option<Arc<Locality>>,
    /// Askers to answer with the places once they are known.
    pub(crate) place_askers: Vec<Asker>,
    /// Askers to answer with the links once the places are known.
    pub(crate) link_askers: Vec<Asker>,
    pub(crate) orders: u64,
    pub(crate) purposes: BTreeMap<u64, Purpose>,
    pub(crate) monitor: LinkMonitor,
    pub(crate) plan: ProbePlan,
    pub(crate) clusters: Clusters,
    pub(crate) is_watching: bool,
    /// Cost of a datagram at each node, as last reported.
    pub(crate) send_costs: BTreeMap<NodeId, Duration>,
    /// Whether a test for shared uplinks was ordered.
    pub(crate) wants_uplinks: bool,
    /// Time of the last report of links to listeners.
    pub(crate) told: Option<Time>,
    pub(crate) changes: VecDeque<LinkChange>,
    pub(crate) change_waits: VecDeque<Asker>,
    #[serde(skip)]
    pub(crate) asking: BTreeMap<GroupId, UplinkProbe>,
    pub(crate) uplinks: BTreeMap<GroupId, Uplink>,
}

impl Survey {
    /// Whether neither inference nor an uplink test is in progress. The state of these does not
    /// move with the coordinator.
    pub(crate) fn is_settled(&self) -> bool {
        self.inference.is_none() && self.asking.is_empty()
    }

    /// Returns the median cost of a datagram.
    pub(crate) fn usual_send_cost(&self) -> Option<Duration> {
        let mut costs: Vec<Duration> = self.send_costs.values().copied().collect();
        costs.sort_unstable();
        costs.get(costs.len() / 2).copied()
    }

    /// Creates a probe order with a new id.
    pub(crate) fn order(
        &mut self,
        purpose: Purpose,
        kind: crate::message::probe::ProbeKind,
        targets: Vec<NodeId>,
    ) -> ProbeOrder {
        self.orders += 1;
        self.purposes.insert(self.orders, purpose);
        ProbeOrder { id: self.orders, kind, targets }
    }

    /// Adds a node's sample of the path to another node.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        hierarchy: &Hierarchy,
        (from, to): (NodeId, NodeId),
        sample: LinkSample,
    ) {
        if let Some((here, there)) = hierarchy.ends(from, to) {
            self.monitor.observe(now, (here.0, there.0), (from, to), sample);
        }
        self.clusters.observe(now, hierarchy, (from, to), sample);
    }

    /// Returns the estimate of the link between two nodes. It is the estimate for the two groups at
    /// which the nodes' paths in the hierarchy diverge. If distances between these groups vary, it
    /// is the estimate for the nodes' clusters.
    pub(crate) fn link(
        &self,
        now: Time,
        hierarchy: &Hierarchy,
        (from, to): (NodeId, NodeId),
    ) -> Option<LinkEstimate> {
        self.clusters.estimate(now, hierarchy, (from, to)).unwrap_or_else(|| {
            let (here, there) = hierarchy.ends(from, to)?;
            self.monitor.estimate(now, here.0, there.0)
        })
    }

    /// Returns the estimates of the links between sites; empty if the places are unknown or there
    /// are too many sites to list all pairs.
    pub(crate) fn site_links(&self, now: Time, layout: &Layout) -> Vec<SiteLink> {
        let Some(places) = self.places.as_ref().filter(|_| layout.site_count() <= SITES_MAX) else {
            return Vec::new();
        };
        let first = |site| layout.nodes_in(site).next();
        let pairs = layout.sites().flat_map(|from| layout.sites().map(move |to| (from, to)));
        let link = |(from, to): (SiteId, SiteId)| {
            let (here, there) = places.hierarchy.ends(first(from)?, first(to)?)?;
            let known = self.link(now, &places.hierarchy, (first(from)?, first(to)?))?;
            let between_groups = || self.monitor.estimate(now, here.0, there.0)?.bandwidth;
            let bandwidth = known.bandwidth.or_else(between_groups);
            let bandwidth = bandwidth.unwrap_or(Bandwidth::UNLIMITED);
            Some(SiteLink::new(from, to, known.latency, bandwidth))
        };
        pairs.filter(|(from, to)| from != to).filter_map(link).collect()
    }

    /// Returns the rate between nodes of a site, for the sites where it is known.
    pub(crate) fn rates_inside(&self, now: Time, layout: &Layout) -> BTreeMap<SiteId, Bandwidth> {
        let Some(places) = &self.places else { return BTreeMap::new() };
        let rate = |site| {
            let mut nodes = layout.nodes_in(site);
            let pair = (nodes.next()?, nodes.next()?);
            Some((site, self.link(now, &places.hierarchy, pair)?.bandwidth?))
        };
        layout.sites().filter_map(rate).collect()
    }

    /// Describes, in readable text, the measurements that main waits for.
    pub(crate) fn waits(&self) -> Option<String> {
        let (_, missing) = self.inference.as_ref()?;
        let nodes = counted(*missing as u64, "node measures", "nodes measure");
        let is_asked = !self.place_askers.is_empty() || !self.link_askers.is_empty();
        is_asked.then(|| format!("the round trips that {nodes}"))
    }
}
