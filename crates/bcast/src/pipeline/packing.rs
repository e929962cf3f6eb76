//! Several trees over clusters that fill the network together.
//!
//! A broadcast reaches its greatest rate with a packing of trees (J. Edmonds, 1973): each tree
//! carries a part of the message, and together they respect every capacity. Capacities have prices
//! that grow with their use, and the search takes the cheapest tree again and again (N. Garg, J.
//! Könemann, 1998). [`Packing::restricted`] weights a few of these trees again in the same way.

use super::arborescence::cheapest;
use super::search::ClusterTree;
use crate::model::Network;
use std::collections::BTreeMap;

/// Trees with their parts of the message, greatest part first, and their joint bytes per second.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packing {
    pub(super) trees: Vec<(ClusterTree, f64)>,
    pub(super) rate: f64,
}

/// Number of clusters beyond which finding the cheapest trees takes too long.
pub(super) const CLUSTERS_MAX: usize = 48;
const ROUNDS: u32 = 80;
const STEP: f64 = 0.15;
const POLISH_ROUNDS: u32 = 400;
const POLISH_STEP: f64 = 0.05;
/// Trees that carry less than this part are left out.
const SHARE_MIN: f64 = 0.02;

/// Packs trees. Returns `None` for less than three clusters, where there is no choice, and for more
/// than [`CLUSTERS_MAX`].
pub(super) fn pack(network: &Network, root: u32) -> Option<Packing> {
    let used: Vec<usize> =
        (0..network.clusters()).filter(|&cluster| !network.members(cluster).is_empty()).collect();
    if used.len() < 3 || used.len() > CLUSTERS_MAX {
        return None;
    }
    let limits = Limits::new(network, root);
    let start = used.iter().position(|&cluster| cluster == root as usize)?;
    let mut prices: Vec<f64> = limits.capacities.iter().map(|capacity| 1.0 / capacity).collect();
    let mut flows: BTreeMap<Vec<u32>, f64> = BTreeMap::new();
    for _ in 0..ROUNDS {
        let cost = |from: usize, to: usize| limits.price(&prices, used[from], used[to]);
        let found = cheapest(used.len(), start, &cost)?;
        let mut parents = vec![u32::MAX; network.clusters()];
        for (place, &parent) in found.iter().enumerate() {
            if place != start {
                parents[used[place]] = used[parent] as u32;
            }
        }
        let uses = limits.uses(&parents);
        let flow = limits.charge(&uses, &mut prices, STEP);
        *flows.entry(parents).or_default() += flow;
    }
    let mut trees: Vec<(Vec<u32>, f64)> = flows.into_iter().collect();
    trees.sort_by(|one, other| other.1.total_cmp(&one.1));
    Some(limits.finish(&trees, root))
}

impl Packing {
    /// Returns a packing of the first `count` trees alone, weighted again.
    pub(super) fn restricted(&self, network: &Network, root: u32, count: usize) -> Self {
        let limits = Limits::new(network, root);
        let chosen: Vec<Vec<u32>> =
            self.trees.iter().take(count).map(|(tree, _)| tree.parents.clone()).collect();
        let uses: Vec<Vec<f64>> = chosen.iter().map(|parents| limits.uses(parents)).collect();
        let mut prices: Vec<f64> =
            limits.capacities.iter().map(|capacity| 1.0 / capacity).collect();
        let mut flows = vec![0.0; chosen.len()];
        for _ in 0..POLISH_ROUNDS {
            let price = |tree: usize| -> f64 {
                uses[tree].iter().zip(&prices).map(|(use_, price)| use_ * price).sum()
            };
            let cheapest =
                (0..chosen.len()).min_by(|&one, &other| price(one).total_cmp(&price(other)));
            let Some(tree) = cheapest else { break };
            flows[tree] += limits.charge(&uses[tree], &mut prices, POLISH_STEP);
        }
        let mut trees: Vec<(Vec<u32>, f64)> = chosen.into_iter().zip(flows).collect();
        trees.sort_by(|one, other| other.1.total_cmp(&one.1));
        limits.finish(&trees, root)
    }
}

/// The capacities of a network and of its clusters.
struct Limits<'a> {
    network: &'a Network,
    root: u32,
    /// The capacities of the network, followed for each cluster by the sum of the sending
    /// capacities of its nodes and by the least of their receiving capacities.
    capacities: Vec<f64>,
}

impl<'a> Limits<'a> {
    fn new(network: &'a Network, root: u32) -> Self {
        let mut capacities = network.capacities().to_vec();
        for cluster in 0..network.clusters() {
            let members = network.members(cluster).iter().map(|&node| network.node(node));
            capacities.push(members.clone().map(|node| node.out).sum::<f64>().max(1.0));
            capacities.push(members.map(|node| node.into).fold(f64::INFINITY, f64::min).max(1.0));
        }
        Self { network, root, capacities }
    }

    fn sending(&self, cluster: usize) -> usize {
        self.network.capacities().len() + 2 * cluster
    }

    fn price(&self, prices: &[f64], from: usize, to: usize) -> f64 {
        let shared = self.network.route(from, to).iter().map(|&place| prices[place as usize]);
        shared.sum::<f64>() + prices[self.sending(from)]
    }

    /// Number of times that a tree uses each capacity.
    fn uses(&self, parents: &[u32]) -> Vec<f64> {
        let mut uses = vec![0.0; self.capacities.len()];
        for (to, &from) in parents.iter().enumerate() {
            let is_root = to == self.root as usize;
            let size = self.network.members(to).len();
            if from == u32::MAX && !is_root {
                continue;
            }
            // Inside a cluster, each node but the first receives from another.
            uses[self.sending(to)] += size.saturating_sub(1) as f64;
            if !is_root || size > 1 {
                uses[self.sending(to) + 1] += 1.0;
            }
            if !is_root {
                uses[self.sending(from as usize)] += 1.0;
                for &shared in self.network.route(from as usize, to) {
                    uses[shared as usize] += 1.0;
                }
            }
        }
        uses
    }

    /// Returns the flow that the tightest capacity allows, and raises the prices of the capacities
    /// used.
    fn charge(&self, uses: &[f64], prices: &mut [f64], step: f64) -> f64 {
        let all = uses.iter().zip(&self.capacities);
        let limits = all.filter(|(use_, _)| **use_ > 0.0).map(|(use_, capacity)| capacity / use_);
        let flow = limits.fold(f64::INFINITY, f64::min);
        for ((price, use_), capacity) in prices.iter_mut().zip(uses).zip(&self.capacities) {
            *price *= 1.0 + step * flow * use_ / capacity;
        }
        flow
    }

    /// Turns flows into parts of the message and a rate.
    fn finish(&self, trees: &[(Vec<u32>, f64)], root: u32) -> Packing {
        let all: f64 = trees.iter().map(|(_, flow)| flow).sum();
        let kept: Vec<_> = trees.iter().filter(|(_, flow)| *flow >= SHARE_MIN * all).collect();
        let sum: f64 = kept.iter().map(|(_, flow)| flow).sum();
        let mut loads = vec![0.0; self.capacities.len()];
        for (parents, flow) in &kept {
            let uses = self.uses(parents);
            loads.iter_mut().zip(uses).for_each(|(load, use_)| *load += use_ * flow / sum);
        }
        let limits = loads.iter().zip(&self.capacities).map(|(load, capacity)| capacity / load);
        let rate = limits.fold(f64::INFINITY, f64::min);
        let tree = |parents: &Vec<u32>| ClusterTree {
            order: order(parents, root),
            parents: parents.clone(),
            cost_s: f64::NAN,
        };
        let trees = kept.into_iter().map(|(parents, flow)| (tree(parents), flow / sum)).collect();
        Packing { trees, rate }
    }
}

/// The clusters of a tree, parents first.
fn order(parents: &[u32], root: u32) -> Vec<u32> {
    let mut order = vec![root];
    let mut at = 0;
    while let Some(&cluster) = order.get(at) {
        let below = (0..parents.len() as u32).filter(|&to| parents[to as usize] == cluster);
        order.extend(below);
        at += 1;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeLink;

    #[test]
    fn two_trees_carry_what_one_cannot() {
        // A triangle of pipes of 1 MB/s: the root can send 2 MB/s, half to each of the other two,
        // which exchange their halves. One tree carries 1 MB/s.
        let node = |cluster| NodeLink { cluster, out: 1e7, into: 1e7, initiation_s: 0.0 };
        let mut network = Network::new((0..3).map(node).collect());
        for from in 0..3 {
            for to in (0..3).filter(|&to| to != from) {
                let pipe = network.share(1e6);
                network.connect(from, to, 0.0, vec![pipe]);
            }
        }

        let packing = pack(&network, 0).unwrap().restricted(&network, 0, 2);

        assert_eq!(packing.trees.len(), 2);
        assert!((packing.rate / 2e6 - 1.0).abs() < 0.05, "{packing:?}");
    }

    #[test]
    fn the_parts_of_trees_to_a_node_without_bandwidth_are_numbers() {
        let into = |cluster: u32| if cluster == 2 { 0.0 } else { 1e7 };
        let node = |cluster| NodeLink { cluster, out: 1e7, into: into(cluster), initiation_s: 0.0 };
        let network = Network::new((0..3).map(node).collect());

        let packing = pack(&network, 0).unwrap();

        assert!(packing.rate.is_finite() && packing.rate > 0.0, "{packing:?}");
        assert!(packing.trees.iter().all(|(_, share)| *share > 0.0), "{packing:?}");
    }
}
