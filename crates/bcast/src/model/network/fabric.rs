//! Nodes, clusters, and the capacities that transfers share.
//!
//! A transfer from node to node uses the sender's capacity, those on the route between the
//! clusters, and the receiver's. Each direction of a link is a separate capacity.

use super::super::links::LinkMatrix;

/// The connection of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeLink {
    /// The cluster it is in.
    pub cluster: u32,
    /// Bytes per second that it can send.
    pub out: f64,
    /// Bytes per second that it can receive.
    pub into: f64,
    /// Seconds to begin a message or a segment, in which it begins no other.
    pub initiation_s: f64,
}

/// A network. Nodes, clusters and capacities are numbered from 0; capacities in this order: the
/// sending capacity of each node, the receiving capacity of each node, the shared ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    nodes: Vec<NodeLink>,
    clusters: usize,
    members: Vec<Vec<u32>>,
    capacities: Vec<f64>,
    /// From cluster to cluster, row by row.
    latency_s: Vec<f64>,
    routes: Vec<Vec<u32>>,
}

/// Minimum capacity, in bytes per second: a transfer over a link without bandwidth would never end.
const BANDWIDTH_MIN: f64 = 1.0;

impl Network {
    /// A network in which clusters, and the nodes inside, reach each other without latency and
    /// without shared capacities until [`Network::connect`] sets them.
    pub fn new(nodes: Vec<NodeLink>) -> Self {
        let clusters = nodes.iter().map(|node| node.cluster as usize + 1).max().unwrap_or(0);
        let mut members = vec![Vec::new(); clusters];
        for (number, node) in (0u32..).zip(&nodes) {
            members[node.cluster as usize].push(number);
        }
        let out = nodes.iter().map(|node| node.out.max(BANDWIDTH_MIN));
        let capacities = out.chain(nodes.iter().map(|node| node.into.max(BANDWIDTH_MIN)));
        Self {
            capacities: capacities.collect(),
            clusters,
            members,
            latency_s: vec![0.0; clusters * clusters],
            routes: vec![Vec::new(); clusters * clusters],
            nodes,
        }
    }

    /// Adds a capacity that routes can share, and returns its number.
    pub fn share(&mut self, bytes_per_second: f64) -> u32 {
        self.capacities.push(bytes_per_second.max(BANDWIDTH_MIN));
        self.capacities.len() as u32 - 1
    }

    /// Sets the latency and the shared capacities between two clusters, or inside one. Panics if
    /// there are no such clusters.
    pub fn connect(&mut self, from: usize, to: usize, latency_s: f64, shared: Vec<u32>) {
        let place = from * self.clusters + to;
        self.latency_s[place] = latency_s;
        self.routes[place] = shared;
    }

    /// Changes a capacity. Panics if there is no such number.
    pub fn set_capacity(&mut self, capacity: u32, bytes_per_second: f64) {
        self.capacities[capacity as usize] = bytes_per_second.max(BANDWIDTH_MIN);
    }

    /// Multiplies the time to begin a message or segment by `factor`.
    pub fn scale_initiation(&mut self, factor: f64) {
        self.nodes.iter_mut().for_each(|node| node.initiation_s *= factor);
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// The nodes of a cluster, ascending.
    ///
    /// # Panics
    ///
    /// If there is no such cluster.
    pub fn members(&self, cluster: usize) -> &[u32] {
        &self.members[cluster]
    }

    /// The connection of a node.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn node(&self, node: u32) -> &NodeLink {
        &self.nodes[node as usize]
    }

    /// The cluster of a node.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn cluster_of(&self, node: u32) -> usize {
        self.nodes[node as usize].cluster as usize
    }

    /// Bytes per second of each capacity.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// The shared capacities from cluster to cluster.
    ///
    /// # Panics
    ///
    /// If there is no cluster `from`. With a `to` beyond the last cluster, this panics or returns
    /// the value of another pair.
    pub fn route(&self, from: usize, to: usize) -> &[u32] {
        &self.routes[from * self.clusters + to]
    }

    /// One-way latency from cluster to cluster, in seconds.
    ///
    /// # Panics
    ///
    /// If there is no cluster `from`. With a `to` beyond the last cluster, this panics or returns
    /// the value of another pair.
    pub fn latency_between_s(&self, from: usize, to: usize) -> f64 {
        self.latency_s[from * self.clusters + to]
    }

    /// One-way latency from node to node, in seconds.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn latency_s(&self, from: u32, to: u32) -> f64 {
        self.latency_between_s(self.cluster_of(from), self.cluster_of(to))
    }

    /// All capacities on the path from node to node.
    pub fn path(&self, from: u32, to: u32) -> impl Iterator<Item = u32> {
        let shared = self.route(self.cluster_of(from), self.cluster_of(to));
        let into = self.nodes.len() as u32 + to;
        [from].into_iter().chain(shared.iter().copied()).chain([into])
    }

    /// The smallest of the shared capacities between two clusters, in bytes per second; infinite
    /// without any.
    pub fn route_bandwidth(&self, from: usize, to: usize) -> f64 {
        let shared = self.route(from, to).iter();
        shared.map(|&capacity| self.capacities[capacity as usize]).fold(f64::INFINITY, f64::min)
    }

    /// Bytes per second of a single transfer from node to node.
    pub fn bandwidth(&self, from: u32, to: u32) -> f64 {
        let path = self.path(from, to);
        path.map(|capacity| self.capacities[capacity as usize]).fold(f64::INFINITY, f64::min)
    }

    /// The latency and bandwidth between nodes for one transfer at a time: the only view of the
    /// network that the system of Gupta and Vadhiyar (2006) uses.
    pub fn links(&self) -> LinkMatrix {
        let class_of = self.nodes.iter().map(|node| node.cluster).collect();
        let initiation_s = self.nodes.iter().map(|node| node.initiation_s).collect();
        LinkMatrix::new(class_of, initiation_s, |from, to| {
            let ends = (self.members[from].first(), self.members[to].last());
            let (Some(&one), Some(&other)) = ends else { return (0.0, BANDWIDTH_MIN) };
            (self.latency_between_s(from, to), self.bandwidth(one, other))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_alone_gets_the_least_capacity_on_its_way() {
        let node = |cluster| NodeLink { cluster, out: 100.0, into: 80.0, initiation_s: 0.0 };
        let mut network = Network::new(vec![node(0), node(0), node(1)]);
        let pipe = network.share(30.0);
        network.connect(0, 1, 0.5, vec![pipe]);

        assert_eq!(network.bandwidth(0, 1), 80.0);
        assert_eq!(network.bandwidth(1, 2), 30.0);
        assert_eq!(network.path(1, 2).collect::<Vec<_>>(), [1, pipe, 5]);
        assert_eq!(network.latency_s(1, 2), 0.5);
        let links = network.links();
        assert!((links.bandwidth(0, 2) - 30.0).abs() < 1e-9);
        assert!((links.bandwidth(2, 0) - 80.0).abs() < 1e-9, "the way back is not shared");
    }
}
