//! Lower bounds on the time of a broadcast: a node receives no sooner than over the shortest path,
//! relays included, and no faster than the maximum flow to it.
//!
//! The rate of any set of trees is at most the maximum flow from the root to the worst node (J.
//! Edmonds, 1973). In the flow graph each capacity is a pair of vertices joined by an edge, and the
//! routes are edges between the pairs.

use super::network::Network;
use std::collections::VecDeque;

/// Returns a lower bound in seconds on the time of any broadcast of `bytes` from `root`.
///
/// Each node has two bounds: the shortest path from the root; and the time of the message at the
/// maximum flow to the node, plus the shortest path to the node from the nodes on the root's side
/// of the minimum cut. The result is the maximum of both over all nodes. The length of a path is
/// the sum of its latencies: the time to begin a message is an assumption, so it is left out.
pub fn bound_s(network: &Network, root: u32, bytes: u64) -> f64 {
    let mut bound_s = 0.0_f64;
    let from_root_s = shortest_ways(network, &[root]);
    for (cluster, &way_s) in from_root_s.iter().enumerate() {
        // Nodes of a cluster differ in their own receiving bandwidth.
        let others = network.members(cluster).iter().filter(|&&node| node != root);
        let into = |node: &&u32| network.node(**node).into;
        let slowest = others.min_by(|one, other| into(one).total_cmp(&into(other)));
        if let Some(&node) = slowest {
            let (rate, before) = greatest_flow(network, root, node);
            let last_s = bytes as f64 / rate + shortest_ways(network, &before)[cluster];
            bound_s = bound_s.max(last_s).max(way_s);
        }
    }
    bound_s
}

/// Returns the time of the shortest path, in seconds, from any of these nodes to another node of
/// each cluster, over any relays (E. W. Dijkstra, "A note on two problems in connexion with
/// graphs", 1959). `from` has at least one node.
fn shortest_ways(network: &Network, from: &[u32]) -> Vec<f64> {
    let clusters = network.clusters();
    let mut starts: Vec<usize> = from.iter().map(|&node| network.cluster_of(node)).collect();
    starts.sort_unstable();
    starts.dedup();
    // The first step leaves one of the nodes, even to another of the same cluster.
    let first_s = |to: usize| {
        let steps = starts.iter().map(|&from| network.latency_between_s(from, to));
        steps.fold(f64::INFINITY, f64::min)
    };
    let mut ways_s: Vec<f64> = (0..clusters).map(first_s).collect();
    let mut open: Vec<usize> = (0..clusters).collect();
    while let Some(at) =
        (0..open.len()).min_by(|&a, &b| ways_s[open[a]].total_cmp(&ways_s[open[b]]))
    {
        let relay = open.swap_remove(at);
        for &to in &open {
            let by_relay_s = ways_s[relay] + network.latency_between_s(relay, to);
            ways_s[to] = ways_s[to].min(by_relay_s);
        }
    }
    ways_s
}

/// Returns the maximum flow between two nodes over all paths, including through other nodes, in
/// bytes per second, and the nodes on the root's side of the minimum cut. Uses shortest
/// augmenting paths (J. Edmonds, R. Karp, 1972).
fn greatest_flow(network: &Network, from: u32, to: u32) -> (f64, Vec<u32>) {
    let mut graph = Graph::new(network);
    let (start, end) = (graph.node(from), graph.node(to));
    let mut flow = 0.0;
    loop {
        let by = graph.search(start);
        if by[end].is_none() {
            let is_before = |&node: &u32| node == from || by[graph.node(node)].is_some();
            return (flow, (0..network.len() as u32).filter(is_before).collect());
        }
        flow += graph.augment(start, end, &by);
    }
}

/// A flow graph. An edge and its opposite have the indices `n` and `n ^ 1`.
struct Graph {
    first_node: usize,
    ends: Vec<usize>,
    left: Vec<f64>,
    out: Vec<Vec<usize>>,
}

/// Residual capacities below this part of the capacity are rounding errors.
const ROUNDING: f64 = 1e-9;

impl Graph {
    /// Capacity `n` is the edge from vertex `2 n` to `2 n + 1`; nodes follow.
    fn new(network: &Network) -> Self {
        let capacities = network.capacities();
        let (count, nodes) = (capacities.len(), network.len());
        let vertices = 2 * count + nodes;
        let mut graph = Self {
            first_node: 2 * count,
            ends: Vec::new(),
            left: Vec::new(),
            out: vec![Vec::new(); vertices],
        };
        for (place, &capacity) in capacities.iter().enumerate() {
            graph.connect(2 * place, 2 * place + 1, capacity);
        }
        let mut links: Vec<(usize, usize)> = Vec::new();
        for node in 0..nodes {
            links.push((graph.first_node + node, 2 * node));
            links.push((2 * (nodes + node) + 1, graph.first_node + node));
        }
        for from in 0..network.clusters() {
            for to in 0..network.clusters() {
                let route = network.route(from, to);
                for pair in route.windows(2) {
                    links.push((2 * pair[0] as usize + 1, 2 * pair[1] as usize));
                }
                let (one, other) = (network.members(from), network.members(to));
                match (route.first(), route.last()) {
                    (Some(&first), Some(&last)) => {
                        let first = 2 * first as usize;
                        links.extend(one.iter().map(|&node| (2 * node as usize + 1, first)));
                        let last = 2 * last as usize + 1;
                        links.extend(other.iter().map(|&node| (last, 2 * (nodes + node as usize))));
                    }
                    _ => links.extend(one.iter().flat_map(|&a| {
                        let ends = other.iter().filter(move |&&b| b != a);
                        ends.map(move |&b| (2 * a as usize + 1, 2 * (nodes + b as usize)))
                    })),
                }
            }
        }
        links.sort_unstable();
        links.dedup();
        // A link gets the smaller of the capacities that it joins; a node is not a capacity. So its
        // rounding errors are in proportion to that, not to the fastest capacity of the network.
        let at = |vertex: usize| capacities.get(vertex / 2).copied().unwrap_or(f64::INFINITY);
        for (from, to) in links {
            graph.connect(from, to, at(from).min(at(to)));
        }
        graph
    }

    fn node(&self, node: u32) -> usize {
        self.first_node + node as usize
    }

    fn connect(&mut self, from: usize, to: usize, capacity: f64) {
        for (one, other, capacity) in [(from, to, capacity), (to, from, 0.0)] {
            self.out[one].push(self.ends.len());
            self.ends.push(other);
            self.left.push(capacity);
        }
    }

    /// Returns the edge over which each vertex is reached through residual capacity, over as few
    /// edges as possible.
    fn search(&self, from: usize) -> Vec<Option<usize>> {
        let mut by: Vec<Option<usize>> = vec![None; self.out.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(vertex) = queue.pop_front() {
            for &edge in &self.out[vertex] {
                let end = self.ends[edge];
                let is_open = self.left[edge] > ROUNDING * (self.left[edge] + self.left[edge ^ 1]);
                if end != from && by[end].is_none() && is_open {
                    by[end] = Some(edge);
                    queue.push_back(end);
                }
            }
        }
        by
    }

    /// Sends as much as fits over the path found, and returns that flow.
    fn augment(&mut self, from: usize, to: usize, by: &[Option<usize>]) -> f64 {
        let mut path = Vec::new();
        let mut vertex = to;
        while let Some(edge) = by[vertex].filter(|_| vertex != from) {
            path.push(edge);
            vertex = self.ends[edge ^ 1];
        }
        let flow = path.iter().map(|&edge| self.left[edge]).fold(f64::INFINITY, f64::min);
        for edge in path {
            self.left[edge] -= flow;
            self.left[edge ^ 1] += flow;
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeLink;

    #[test]
    fn a_relay_that_is_faster_than_the_direct_link_lowers_the_bound() {
        // Three sites 10 ms apart, but 100 ms between the first and the last.
        let node = |cluster| NodeLink { cluster, out: 1e9, into: 1e9, initiation_s: 0.0 };
        let mut network = Network::new(vec![node(0), node(1), node(2)]);
        for (from, to, latency_s) in [(0, 1, 0.01), (1, 2, 0.01), (0, 2, 0.1)] {
            let pipe = network.share(1e9);
            network.connect(from, to, latency_s, vec![pipe]);
            network.connect(to, from, latency_s, vec![pipe]);
        }

        // 20 ms over the second site, and 8 bytes at the root's 1 GB/s.
        assert!((bound_s(&network, 0, 8) - 0.02).abs() < 1e-6, "{}", bound_s(&network, 0, 8));
        assert!((bound_s(&network, 1, 8) - 0.01).abs() < 1e-6);
    }

    #[test]
    fn the_slowest_receiver_of_a_cluster_counts() {
        let node = |cluster, into| NodeLink { cluster, out: 100.0, into, initiation_s: 0.0 };
        let network = Network::new(vec![node(0, 100.0), node(1, 50.0), node(1, 10.0)]);

        assert!((bound_s(&network, 0, 100) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_fast_link_elsewhere_hides_no_route_of_slow_links() {
        // From node 0 over 1 and 2, which both send to 3, but only 1 also to 4; 3 and 4 send to 5.
        let node = |cluster| NodeLink { cluster, out: 1e14, into: 1e14, initiation_s: 0.0 };
        let mut network = Network::new((0..6).map(node).collect());
        let slow = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (3, 5), (4, 5)];
        for from in 0..6 {
            for to in (0..6).filter(|&to| to != from) {
                let pipe = network.share(if slow.contains(&(from, to)) { 1e4 } else { 1.0 });
                network.connect(from, to, 0.0, vec![pipe]);
            }
        }

        let (rate, _) = greatest_flow(&network, 0, 5);

        assert!((2e4..2e4 + 10.0).contains(&rate), "{rate}");
    }

    #[test]
    fn flows_take_all_routes() {
        // 1 directly and 2 more through node 1, but the root sends at most 2.5.
        let node = |cluster, out| NodeLink { cluster, out, into: 10.0, initiation_s: 0.0 };
        let mut network = Network::new(vec![node(0, 2.5), node(1, 10.0), node(2, 10.0)]);
        for (from, to, capacity) in [(0, 1, 4.0), (1, 2, 2.0), (0, 2, 1.0)] {
            let pipe = network.share(capacity);
            network.connect(from, to, 0.5, vec![pipe]);
        }

        let (rate, before) = greatest_flow(&network, 0, 2);
        assert!((rate - 2.5).abs() < 1e-6);
        assert_eq!(before, [0], "the root itself holds it back");
        assert!((bound_s(&network, 0, 10) - 4.5).abs() < 1e-6);
    }
}
