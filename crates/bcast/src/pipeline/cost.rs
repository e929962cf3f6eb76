//! Estimates the time of a pipelined broadcast over a tree of clusters. An estimate takes about a
//! microsecond to compute.
//!
//! Capacities are divided evenly between the edges that cross them. The first segment reaches a
//! cluster after all hops before it; from then on a segment arrives in each period of the slowest
//! edge on the way. Inside a cluster, nodes form a chain, and a node that also sends to another
//! cluster sends each segment twice.

use crate::model::Network;

/// The costs that the search needs, cluster by cluster.
#[derive(Clone, Debug)]
pub(super) struct ClusterCosts<'a> {
    network: &'a Network,
    /// Seconds of a hop of one segment inside each cluster.
    hop_s: Vec<f64>,
    /// Number of nodes of each cluster.
    sizes: Vec<f64>,
    /// For each cluster, the least bytes per second that a node can send.
    out: Vec<f64>,
    /// For each cluster, the least bytes per second that a node can receive.
    into: Vec<f64>,
    /// For each cluster, the longest time in seconds to begin a segment.
    initiation_s: Vec<f64>,
    segment_bytes: f64,
    segments: f64,
}

/// Reusable memory of an evaluation.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    users: Vec<u32>,
    /// Arrival time of the first segment at each cluster and the period of those that follow, in
    /// seconds.
    reached: Vec<(f64, f64)>,
    /// Number of edges from each cluster to other clusters.
    sends: Vec<u32>,
}

impl<'a> ClusterCosts<'a> {
    pub(super) fn new(network: &'a Network, bytes: u64, segment_bytes: u64) -> Self {
        let segment = segment_bytes.min(bytes).max(1) as f64;
        let mut costs = Self {
            network,
            hop_s: Vec::new(),
            sizes: Vec::new(),
            out: Vec::new(),
            into: Vec::new(),
            initiation_s: Vec::new(),
            segment_bytes: segment,
            segments: (bytes as f64 / segment).ceil().max(1.0),
        };
        for cluster in 0..network.clusters() {
            let members = network.members(cluster);
            let least = |of: &dyn Fn(u32) -> f64| {
                members.iter().map(|&node| of(node)).fold(f64::INFINITY, f64::min)
            };
            let out = least(&|node| network.node(node).out);
            let into = least(&|node| network.node(node).into);
            let initiation_s =
                members.iter().map(|&node| network.node(node).initiation_s).fold(0.0, f64::max);
            let inside = out.min(into).min(network.route_bandwidth(cluster, cluster));
            let latency_s = network.latency_between_s(cluster, cluster);
            costs.hop_s.push(initiation_s + segment / inside + latency_s);
            costs.sizes.push(members.len() as f64);
            costs.out.push(out);
            costs.into.push(into);
            costs.initiation_s.push(initiation_s);
        }
        costs
    }

    /// Seconds until all nodes have the whole message. `order` lists the clusters of the tree,
    /// parents first and the root's first of all; `parents` gives the cluster from which each
    /// receives.
    pub(super) fn completion_s(&self, order: &[u32], parents: &[u32], memory: &mut Memory) -> f64 {
        let Some((&root, others)) = order.split_first() else { return 0.0 };
        let clusters = self.network.clusters();
        let Memory { users, reached, sends } = memory;
        users.clear();
        users.resize(self.network.capacities().len(), 0);
        sends.clear();
        sends.resize(clusters, 0);
        reached.resize(clusters, (0.0, 0.0));
        for &to in others {
            for &shared in self.network.route(parents[to as usize] as usize, to as usize) {
                users[shared as usize] += 1;
            }
        }
        reached[root as usize] = (0.0, 0.0);
        let mut last_s = self.inside_s(root as usize, 0.0, 0.0);
        for &to in others {
            let to = to as usize;
            let from = parents[to] as usize;
            let rank = f64::from(sends[from]);
            sends[from] += 1;
            let size = self.sizes[from];
            // Each member sends to one other cluster before any sends to two.
            let (position, copies) = (rank % size, 1.0 + (rank / size).floor());
            let chain = if size > 1.0 { 1.0 } else { 0.0 };
            let share = self.network.route(from, to).iter().map(|&shared| {
                self.network.capacities()[shared as usize] / f64::from(users[shared as usize])
            });
            let own = (self.out[from] / (copies + chain)).min(self.into[to]);
            let rate = share.fold(own, f64::min);
            let initiation_s = self.initiation_s[from];
            let send_s = initiation_s + self.segment_bytes / rate;
            let period_s = send_s.max(initiation_s * (copies + chain));
            let (first_s, before_s) = reached[from];
            let latency_s = self.network.latency_between_s(from, to);
            let there_s = first_s + position * self.hop_s[from] + send_s + latency_s;
            let period_s = before_s.max(period_s);
            reached[to] = (there_s, period_s);
            last_s = last_s.max(self.inside_s(to, there_s, period_s));
        }
        last_s
    }

    /// Seconds until all nodes of a cluster have the whole message.
    fn inside_s(&self, cluster: usize, first_s: f64, period_s: f64) -> f64 {
        let hops = self.sizes[cluster] - 1.0;
        let period_s = if hops > 0.0 { period_s.max(self.hop_s[cluster]) } else { period_s };
        first_s + hops * self.hop_s[cluster] + (self.segments - 1.0) * period_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeLink;

    #[test]
    fn the_time_of_a_chain_of_single_nodes_agrees_with_the_formula() {
        // k hops of s segments, each of time t, take (k + s - 1) t plus the latencies.
        let node = |cluster| NodeLink { cluster, out: 1e6, into: 1e6, initiation_s: 0.01 };
        let mut network = Network::new((0..4).map(node).collect());
        for (from, to) in [(0, 1), (1, 2), (2, 3)] {
            network.connect(from, to, 0.05, Vec::new());
        }
        let costs = ClusterCosts::new(&network, 1_000_000, 100_000);

        let cost_s = costs.completion_s(&[0, 1, 2, 3], &[9, 0, 1, 2], &mut Memory::default());

        assert!((cost_s - (12.0 * 0.11 + 0.15)).abs() < 1e-9, "{cost_s}");
    }

    #[test]
    fn edges_over_one_capacity_divide_it() {
        let node = |cluster| NodeLink { cluster, out: 1e9, into: 1e9, initiation_s: 0.0 };
        let mut network = Network::new((0..3).map(node).collect());
        let uplink = network.share(1e6);
        network.connect(0, 1, 0.0, vec![uplink]);
        network.connect(0, 2, 0.0, vec![uplink]);
        let costs = ClusterCosts::new(&network, 1_000_000, 1_000_000);

        let cost_s = costs.completion_s(&[0, 1, 2], &[9, 0, 0], &mut Memory::default());

        assert!((cost_s - 2.0).abs() < 1e-9);
    }
}
