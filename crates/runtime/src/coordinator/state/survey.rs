//! What is known of the places of the job, and what is to be found out.

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

/// Changes that are kept for a main that does not look.
pub(crate) const CHANGES_MAX: usize = 1024;

/// Sites whose links are told to strategies pair by pair; beyond, the hierarchy has to do.
const SITES_MAX: u32 = 256;

/// What the result of an order is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// The hierarchy.
    Survey,
    /// A link of which nothing was heard.
    RoundTrip,
    /// A link whose bandwidth is not known; asked for at this time.
    Bandwidth(Time),
    /// What a node of a group carries to the outside, alone or together with the others.
    Uplink(GroupId),
    /// The advisor wishes to know what one transfer between two of its clusters gets; asked for at
    /// this time.
    Broadcast((usize, usize), Time),
}

/// The question whether nodes of a group share their way to the outside. First each finds the rate
/// at which a burst of its packets arrives, then each sends a train at that rate, alone and with
/// the others.
#[derive(Default)]
pub(crate) struct UplinkProbe {
    /// The nodes that send, and where each does.
    pub(crate) ways: Vec<(NodeId, NodeId)>,
    pub(crate) bursts: Vec<Bandwidth>,
    /// What arrived of each alone.
    pub(crate) alone: Vec<Bandwidth>,
    /// What was sent together, and what arrived, in this try.
    pub(crate) together: Vec<(Bandwidth, Bandwidth)>,
    /// The same in the best of those before.
    pub(crate) best: Vec<(Bandwidth, Bandwidth)>,
    pub(crate) tries: u32,
}

impl UplinkProbe {
    /// Takes the rate at which the next node's packets left, if they were paced, and arrived.
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

    /// Keeps this try, if more arrived than in those before, and begins another one.
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

    /// Who sends what to whom next: one node alone, or all; nobody while others of this try are
    /// missing.
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

/// What is known of the places.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Survey {
    /// Nodes whose program is known to be the same.
    pub(crate) greeted: BTreeSet<NodeId>,
    /// What measuring is for while it goes on, and how many nodes still measure.
    #[serde(skip)]
    pub(crate) inference: Option<(Inference, usize)>,
    pub(crate) places: Option<Arc<Locality>>,
    /// Whom to answer once the places are known, and whom with the links.
    pub(crate) place_askers: Vec<Asker>,
    pub(crate) link_askers: Vec<Asker>,
    pub(crate) orders: u64,
    pub(crate) purposes: BTreeMap<u64, Purpose>,
    pub(crate) monitor: LinkMonitor,
    pub(crate) plan: ProbePlan,
    pub(crate) clusters: Clusters,
    pub(crate) is_watching: bool,
    /// What a datagram costs each node, as it said last.
    pub(crate) send_costs: BTreeMap<NodeId, Duration>,
    /// Whether it was asked which nodes share their way out of their group.
    pub(crate) wants_uplinks: bool,
    /// When somebody was told of the links.
    pub(crate) told: Option<Time>,
    pub(crate) changes: VecDeque<LinkChange>,
    pub(crate) change_waits: VecDeque<Asker>,
    #[serde(skip)]
    pub(crate) asking: BTreeMap<GroupId, UplinkProbe>,
    pub(crate) uplinks: BTreeMap<GroupId, Uplink>,
}

impl Survey {
    /// Whether neither places are inferred nor uplinks probed: how far that is does not move with
    /// the coordinator.
    pub(crate) fn is_settled(&self) -> bool {
        self.inference.is_none() && self.asking.is_empty()
    }

    /// The median of what a datagram costs nodes.
    pub(crate) fn usual_send_cost(&self) -> Option<Duration> {
        let mut costs: Vec<Duration> = self.send_costs.values().copied().collect();
        costs.sort_unstable();
        costs.get(costs.len() / 2).copied()
    }

    /// An order with a name of its own.
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

    /// Takes what one node saw of the way to another.
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

    /// What is known of the link between two nodes: that between their clusters, where the groups
    /// in which they part are not everywhere as far from each other.
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

    /// What is known of the links between sites. Nothing where there are too many sites to list all
    /// pairs.
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
            Some(SiteLink { from, to, latency: known.latency, bandwidth })
        };
        pairs.filter(|(from, to)| from != to).filter_map(link).collect()
    }

    /// What main waits for here, for people.
    pub(crate) fn waits(&self) -> Option<String> {
        let (_, missing) = self.inference.as_ref()?;
        let nodes = counted(*missing as u64, "node measures", "nodes measure");
        let is_asked = !self.place_askers.is_empty() || !self.link_askers.is_empty();
        is_asked.then(|| format!("the round trips that {nodes}"))
    }
}
