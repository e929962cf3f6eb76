//! The estimate of a network: end-to-end measurements between clusters, and the shared capacities
//! that follow from them.
//!
//! A transfer between clusters is limited by the access link of either cluster, by the capacity
//! between the sites, or by a limit of this pair alone. Each shared capacity is estimated to be as
//! fast as the fastest transfer measured through it; a pair that is slower gets a separate limit.
//! Single transfers do not show how sites share the capacity between them; a joint probe does
//! ([`Uplink`](gridspan_topology::Uplink)), and [`Sharing`] states the result.

use super::fabric::{Network, NodeLink};
use gridspan_topology::{Bandwidth, Hierarchy, Link, NodeId, Time};
use std::collections::BTreeMap;

/// The place of a node: its cluster, numbered from 0 over the whole grid, and that cluster's site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The site.
    pub site: u32,
    /// The cluster.
    pub cluster: u32,
}

/// The capacities that transfers between sites share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each pair of clusters has a separate pipe.
    ClusterPairs,
    /// Each pair of sites has a pipe.
    SitePairs,
    /// Each site has one uplink to all others.
    SiteUplinks,
}

/// Measurements from one cluster to another.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair {
    latency_s: f64,
    /// Bytes per second of a single transfer.
    bandwidth: f64,
    measured: Time,
}

/// Measurements between clusters. Inside a cluster, all pairs of nodes count as equal.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkEstimate {
    nodes: Vec<NodeLink>,
    site_of: Vec<u32>,
    sharing: Sharing,
    /// Row by row, from cluster to cluster.
    pairs: Vec<Pair>,
    /// Bytes per second measured when all nodes of a cluster send together, and receive together.
    together: Vec<(f64, f64)>,
    /// Bytes per second that a site sends to all others together, and that it receives from them,
    /// for the sites whose uplinks are known.
    uplinks: BTreeMap<u32, f64>,
}

/// A pair slower than this part of the least capacity on its route gets a separate limit.
const OWN_LIMIT: f64 = 0.95;

impl NetworkEstimate {
    /// Creates an estimate for nodes at these places with these links. `link` gives the latency in
    /// seconds and the bandwidth in bytes per second from a cluster to a cluster, or inside one.
    pub fn new(
        places: &[Place],
        nodes: Vec<NodeLink>,
        sharing: Sharing,
        mut link: impl FnMut(usize, usize) -> (f64, f64),
    ) -> Self {
        let clusters = places.iter().map(|place| place.cluster as usize + 1).max().unwrap_or(0);
        let mut site_of = vec![0; clusters];
        places.iter().for_each(|place| site_of[place.cluster as usize] = place.site);
        let mut pairs = Vec::with_capacity(clusters * clusters);
        for from in 0..clusters {
            for to in 0..clusters {
                let (latency_s, bandwidth) = link(from, to);
                pairs.push(Pair { latency_s, bandwidth, measured: Time::ZERO });
            }
        }
        let together = vec![(0.0, 0.0); clusters];
        Self { nodes, site_of, sharing, pairs, together, uplinks: BTreeMap::new() }
    }

    /// Makes an estimate for `members` from a hierarchy. Members are numbered in the order given.
    ///
    /// Clusters are the hierarchy's groups of the last level, sites those of level 1. Where the
    /// hierarchy has no bandwidth or no round-trip time, the bandwidth or the latency of
    /// [`Link::lan`] or [`Link::wan`] counts. Nodes outside the hierarchy form one cluster. The
    /// access link of a cluster has the bandwidth to another cluster of its site, as in
    /// [`NetworkEstimate::from_grid`], or the sum over its nodes if the site has no other; only
    /// measurements show a tighter limit. `initiation_s` gives the seconds that a node needs to
    /// begin a message.
    pub fn from_hierarchy(
        hierarchy: &Hierarchy,
        members: &[NodeId],
        initiation_s: impl Fn(NodeId) -> f64,
        sharing: Sharing,
    ) -> Self {
        let leaf = hierarchy.depth() - 1;
        let groups = members.iter().map(|&node| hierarchy.group_of(node, leaf));
        let groups: Vec<_> = groups.collect();
        let mut known = groups.clone();
        known.sort_unstable();
        known.dedup();
        let places: Vec<Place> = members
            .iter()
            .zip(&groups)
            .map(|(&node, group)| Place {
                cluster: known.partition_point(|other| other < group) as u32,
                site: hierarchy.group_of(node, 1.min(leaf)).map_or(u32::MAX, |site| site.0),
            })
            .collect();
        let bandwidth_in = |group| {
            let group = hierarchy.group(group);
            let level = hierarchy.levels().nth(group.level());
            let range = group.bandwidth().or(level.and_then(|level| level.bandwidth));
            range.map(|range| range.median)
        };
        let bytes_per_second = |bandwidth: Bandwidth| bandwidth.bits_per_second() as f64 / 8.0;
        let link = |from: usize, to: usize| {
            let usual = if from == to { Link::lan() } else { Link::wan() };
            let (one, other) = (known[from], known[to]);
            let both = one.zip(other);
            let rtt = both.and_then(|(one, other)| hierarchy.rtt_between(one, other));
            let latency = rtt.map_or(usual.latency.duration(), |rtt| rtt / 2);
            let first = |group| hierarchy.group(group).leader();
            let common = match both {
                Some((one, other)) if one == other => Some(one),
                Some((one, other)) => hierarchy.common_group(first(one), first(other)),
                None => None,
            };
            let bandwidth = common.and_then(bandwidth_in).unwrap_or(usual.bandwidth);
            (latency.as_secs_f64(), bytes_per_second(bandwidth))
        };
        let nodes = members.iter().zip(&places).map(|(&node, place)| {
            let own = link(place.cluster as usize, place.cluster as usize).1;
            let initiation_s = initiation_s(node);
            NodeLink { cluster: place.cluster, out: own, into: own, initiation_s }
        });
        let mut estimate = Self::new(&places, nodes.collect(), sharing, link);
        let clusters = estimate.clusters();
        for cluster in 0..clusters {
            let is_near = |&other: &usize| {
                other != cluster && estimate.site_of[other] == estimate.site_of[cluster]
            };
            let beside =
                (0..clusters).filter(is_near).map(|other| estimate.bandwidth(cluster, other));
            let inside = estimate.bandwidth(cluster, cluster);
            let members = places.iter().filter(|place| place.cluster as usize == cluster).count();
            let access = beside.reduce(f64::max).unwrap_or(inside * members as f64);
            estimate.set_together(cluster, access, access);
        }
        estimate
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.site_of.len()
    }

    /// The cluster of a node.
    pub fn cluster_of(&self, node: u32) -> usize {
        self.nodes[node as usize].cluster as usize
    }

    /// The site of a cluster.
    pub fn site_of(&self, cluster: usize) -> u32 {
        self.site_of[cluster]
    }

    /// Estimated bytes per second of one transfer between two clusters.
    pub fn bandwidth(&self, from: usize, to: usize) -> f64 {
        self.pairs[from * self.clusters() + to].bandwidth
    }

    /// Time at which the bandwidth between two clusters was last measured.
    pub fn measured(&self, from: usize, to: usize) -> Time {
        self.pairs[from * self.clusters() + to].measured
    }

    /// Sets the measured bytes per second of one transfer between two clusters.
    pub fn set_bandwidth(&mut self, now: Time, from: usize, to: usize, bandwidth: f64) {
        let place = from * self.clusters() + to;
        (self.pairs[place].bandwidth, self.pairs[place].measured) = (bandwidth, now);
    }

    /// Sets the measured latency of one message between two clusters, in seconds.
    pub fn set_latency(&mut self, from: usize, to: usize, latency_s: f64) {
        let place = from * self.clusters() + to;
        self.pairs[place].latency_s = latency_s;
    }

    /// The capacities that transfers between sites are assumed to share.
    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Returns the estimate with another assumption about sharing.
    pub fn with_sharing(&self, sharing: Sharing) -> Self {
        Self { sharing, ..self.clone() }
    }

    /// Bytes per second measured when all nodes of a cluster send together, and receive together.
    pub fn together(&self, cluster: usize) -> (f64, f64) {
        self.together[cluster]
    }

    /// Sets the measured bytes per second that all nodes of a cluster together sent to and received
    /// from several others. Without it, a cluster has at most the bandwidth of its best single
    /// transfer.
    pub fn set_together(&mut self, cluster: usize, out: f64, into: f64) {
        self.together[cluster] = (out, into);
    }

    /// Sets the bytes per second that a site sends to all others together, and that it receives
    /// from them. Transfers share this in addition to what [`Sharing`] says.
    pub fn set_uplink(&mut self, site: u32, bytes_per_second: f64) {
        self.uplinks.insert(site, bytes_per_second);
    }

    /// The network that explains the measurements.
    pub fn network(&self) -> Network {
        let clusters = self.clusters();
        let mut network = Network::new(self.nodes.clone());
        let others = |one: usize| (0..clusters).filter(move |&other| other != one);
        let access: Vec<(u32, u32)> = (0..clusters)
            .map(|one| {
                let out = self.most(others(one).map(|other| (one, other)));
                let into = self.most(others(one).map(|other| (other, one)));
                let (sent, received) = self.together[one];
                (network.share(out.max(sent)), network.share(into.max(received)))
            })
            .collect();
        let mut uplinks: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        for (&site, &rate) in &self.uplinks {
            uplinks.insert(site, (network.share(rate), network.share(rate)));
        }
        let between = self.between_sites(&mut network);
        for from in 0..clusters {
            network.connect(from, from, self.pairs[from * clusters + from].latency_s, Vec::new());
            for to in others(from) {
                let mut route = vec![access[from].0];
                let (one, other) = (self.site_of[from], self.site_of[to]);
                let crossed = crossed(self.sharing, one, other);
                let uplink = |site: u32| uplinks.get(&site).filter(|_| one != other);
                route.extend(uplink(one).map(|(out, _)| *out));
                route.extend(crossed.filter_map(|link| between.get(&link).copied()));
                route.extend(uplink(other).map(|(_, into)| *into));
                route.push(access[to].1);
                let least = route.iter().map(|&shared| network.capacities()[shared as usize]);
                let pair = self.pairs[from * clusters + to];
                if pair.bandwidth < OWN_LIMIT * least.fold(f64::INFINITY, f64::min) {
                    route.push(network.share(pair.bandwidth));
                }
                network.connect(from, to, pair.latency_s, route);
            }
        }
        network
    }

    /// The greatest bandwidth of these pairs.
    fn most(&self, pairs: impl Iterator<Item = (usize, usize)>) -> f64 {
        pairs.map(|(from, to)| self.bandwidth(from, to)).fold(0.0, f64::max)
    }

    /// The capacities that transfers between sites share, each as fast as the fastest of its pairs.
    fn between_sites(&self, network: &mut Network) -> BTreeMap<SiteLink, u32> {
        let mut sites = self.site_of.clone();
        sites.sort_unstable();
        sites.dedup();
        let mut wanted: Vec<SiteLink> = Vec::new();
        match self.sharing {
            Sharing::ClusterPairs => {}
            Sharing::SitePairs => {
                let pairs = sites.iter().flat_map(|&from| sites.iter().map(move |&to| (from, to)));
                let pairs = pairs.filter(|(from, to)| from != to);
                wanted.extend(pairs.map(|(from, to)| (Some(from), Some(to))));
            }
            Sharing::SiteUplinks => {
                wanted.extend(sites.iter().map(|&site| (Some(site), None)));
                wanted.extend(sites.iter().map(|&site| (None, Some(site))));
            }
        }
        // One pass over all pairs of clusters: with a pass for each capacity, the time would grow
        // with the fourth power of the number of sites.
        let clusters = self.clusters();
        let mut fastest: BTreeMap<SiteLink, f64> = BTreeMap::new();
        for from in 0..clusters {
            for to in 0..clusters {
                for link in crossed(self.sharing, self.site_of[from], self.site_of[to]) {
                    let most = fastest.entry(link).or_insert(0.0);
                    *most = most.max(self.bandwidth(from, to));
                }
            }
        }
        let share =
            |link: SiteLink| (link, network.share(fastest.get(&link).copied().unwrap_or(0.0)));
        wanted.into_iter().map(share).collect()
    }
}

/// A capacity between sites: the site that sends, and the site that receives; `None` stands for all
/// other sites.
type SiteLink = (Option<u32>, Option<u32>);

/// Returns the capacities between sites that a transfer from a site to a site crosses, in order.
fn crossed(sharing: Sharing, from: u32, to: u32) -> impl Iterator<Item = SiteLink> {
    let links = match sharing {
        _ if from == to => [None, None],
        Sharing::ClusterPairs => [None, None],
        Sharing::SitePairs => [Some((Some(from), Some(to))), None],
        Sharing::SiteUplinks => [Some((Some(from), None)), Some((None, Some(to)))],
    };
    links.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::GridSpec;

    /// Three sites with the clusters {0, 1}, {2} and {3}, of one node each.
    fn estimate(sharing: Sharing, bandwidth: impl Fn(usize, usize) -> f64) -> NetworkEstimate {
        let places: Vec<Place> = [0, 0, 1, 2]
            .into_iter()
            .zip(0..)
            .map(|(site, cluster)| Place { site, cluster })
            .collect();
        let node = |cluster| NodeLink { cluster, out: 100.0, into: 100.0, initiation_s: 0.0 };
        let nodes = (0..4).map(node).collect();
        NetworkEstimate::new(&places, nodes, sharing, |from, to| (0.1, bandwidth(from, to)))
    }

    #[test]
    fn the_network_reproduces_the_measured_bandwidths() {
        for sharing in [Sharing::ClusterPairs, Sharing::SitePairs, Sharing::SiteUplinks] {
            let measured = |from: usize, to: usize| match (from, to) {
                (0, 1) | (1, 0) => 60.0,
                (0, 3) => 7.0,
                (2, _) => 12.0,
                _ => 30.0,
            };
            let network = estimate(sharing, measured).network();
            for from in 0..4_u32 {
                for to in (0..4).filter(|&to| to != from) {
                    let seen = network.bandwidth(from, to);
                    assert_eq!(seen, measured(from as usize, to as usize), "{sharing:?}");
                }
            }
        }
    }

    #[test]
    fn sharing_decides_which_transfers_share_a_capacity() {
        let shared = |sharing| {
            let network = estimate(sharing, |_, _| 30.0).network();
            let meet = |one: (usize, usize), other: (usize, usize)| {
                let other = network.route(other.0, other.1);
                network.route(one.0, one.1).iter().any(|capacity| other.contains(capacity))
            };
            (meet((0, 2), (1, 2)), meet((0, 2), (1, 3)))
        };

        // Transfers into the same cluster share its access link; transfers to different sites share
        // only a common uplink.
        assert_eq!(shared(Sharing::SitePairs), (true, false));
        assert_eq!(shared(Sharing::SiteUplinks), (true, true));
    }

    #[test]
    fn hundreds_of_sites_are_a_network_soon() {
        const SITES: u32 = 400;
        let places: Vec<Place> = (0..SITES).map(|at| Place { site: at, cluster: at }).collect();
        let node = |cluster| NodeLink { cluster, out: 1e3, into: 1e3, initiation_s: 0.0 };
        let bandwidth = |from: usize, to: usize| if (from, to) == (3, 399) { 90.0 } else { 30.0 };
        for sharing in [Sharing::SitePairs, Sharing::SiteUplinks] {
            let nodes = (0..SITES).map(node).collect();
            let estimate = NetworkEstimate::new(&places, nodes, sharing, |from, to| {
                (0.1, bandwidth(from, to))
            });

            let network = estimate.network();

            let seen = [(3, 399), (399, 3), (3, 4)].map(|(from, to)| network.bandwidth(from, to));
            assert_eq!(seen, [90.0, 30.0, 30.0], "{sharing:?}");
        }
    }

    #[test]
    fn a_joint_measurement_raises_the_access_of_a_cluster() {
        let mut estimate = estimate(Sharing::SitePairs, |_, _| 30.0);
        estimate.set_together(0, 60.0, 45.0);

        let network = estimate.network();

        assert_eq!(network.capacities()[network.route(0, 2)[0] as usize], 60.0);
        assert_eq!(network.bandwidth(0, 2), 30.0);
    }

    #[test]
    fn a_hierarchy_gives_clusters_latencies_and_bandwidths() {
        let grid = GridSpec::from_emulate("2x3,wan=32ms").unwrap();
        let nodes: Vec<NodeId> = (0..6).map(NodeId).collect();

        let hierarchy = Hierarchy::from_grid(&grid);
        let estimate =
            NetworkEstimate::from_hierarchy(&hierarchy, &nodes, |_| 2e-5, Sharing::SitePairs);

        assert_eq!(estimate.clusters(), 2);
        let network = estimate.network();
        assert_eq!(network.latency_s(0, 5), 0.032);
        assert!(network.latency_s(0, 1) < 0.001);
        // The access link of a cluster does not limit two transfers to different sites until it is
        // measured.
        let grid = GridSpec::from_emulate("3x2,wan=10ms").unwrap();
        let nodes: Vec<NodeId> = (0..6).map(NodeId).collect();
        let hierarchy = Hierarchy::from_grid(&grid);
        let network =
            NetworkEstimate::from_hierarchy(&hierarchy, &nodes, |_| 2e-5, Sharing::SitePairs)
                .network();
        let access = network.route(0, 1)[0];
        assert!(network.route(0, 2).contains(&access));
        assert!(network.capacities()[access as usize] >= 2.0 * network.bandwidth(0, 2));
    }
}
