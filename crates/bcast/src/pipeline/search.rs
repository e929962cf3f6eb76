//! Annealing of trees over clusters by the cost of a pipeline.

use super::cost::{ClusterCosts, Memory};
use crate::model::Network;
use crate::search_budget::SearchBudget;
use gridspan_topology::dice::Dice;

/// A tree over the clusters that have nodes: the parent of each, and an order with parents first.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ClusterTree {
    pub(super) parents: Vec<u32>,
    pub(super) order: Vec<u32>,
    pub(super) cost_s: f64,
}

/// The first temperature, as a share of the cost.
const HEAT: f64 = 0.15;
/// Factor by which the temperature falls in a run.
const COOLING: f64 = 1e-3;
/// Number of moves of a run for each cluster.
const MOVES_PER_CLUSTER: u64 = 200;
/// Maximum number of moves of a run.
const MOVES_MAX: u64 = 20_000;

const NONE: u32 = u32::MAX;

/// Returns the best tree found from any of the start trees.
pub(super) fn search(
    network: &Network,
    costs: &ClusterCosts<'_>,
    root: u32,
    seed: u64,
    budget: &SearchBudget<'_>,
) -> Option<ClusterTree> {
    let mut dice = Dice::new(seed);
    let starts = [star(network, root), nearest(network, root)];
    let count = starts.len();
    let mut best: Option<ClusterTree> = None;
    for (number, parents) in starts.into_iter().enumerate() {
        let part = budget.fraction(1.0 / (count - number) as f64);
        let found = Annealing::new(network, costs, root, parents).run(&mut dice, &part);
        if best.as_ref().is_none_or(|best| found.cost_s < best.cost_s) {
            best = Some(found);
        }
    }
    best
}

/// Parents in a tree in which the root's cluster sends to all others that have nodes.
fn star(network: &Network, root: u32) -> Vec<u32> {
    (0..network.clusters())
        .map(|cluster| match network.members(cluster).is_empty() || cluster == root as usize {
            true => NONE,
            false => root,
        })
        .collect()
}

/// Parents in a tree in which each cluster receives from the cluster with the most bandwidth to it.
/// Among clusters of about equal bandwidth, the nearest sends. The tree grows as in R. Prim (1957).
fn nearest(network: &Network, root: u32) -> Vec<u32> {
    let clusters = network.clusters();
    let mut parents = star(network, root);
    let mut waiting: Vec<usize> =
        (0..clusters).filter(|&cluster| parents[cluster] != NONE).collect();
    let is_better = |from: usize, other: usize, to: usize| {
        let (one, two) = (network.route_bandwidth(from, to), network.route_bandwidth(other, to));
        let is_nearer = network.latency_between_s(from, to) < network.latency_between_s(other, to);
        one > 1.05 * two || (one >= 0.95 * two && is_nearer)
    };
    while !waiting.is_empty() {
        let width = |to: usize| network.route_bandwidth(parents[to] as usize, to);
        let near = |to: usize| network.latency_between_s(parents[to] as usize, to);
        let place = (0..waiting.len()).min_by(|&one, &other| {
            let (one, other) = (waiting[one], waiting[other]);
            let by_width = width(other).total_cmp(&width(one));
            by_width.then(near(one).total_cmp(&near(other))).then(one.cmp(&other))
        });
        let reached = waiting.remove(place.unwrap_or(0));
        for &to in &waiting {
            if is_better(reached, parents[to] as usize, to) {
                parents[to] = reached as u32;
            }
        }
    }
    parents
}

struct Annealing<'a> {
    costs: &'a ClusterCosts<'a>,
    root: u32,
    parents: Vec<u32>,
    order: Vec<u32>,
    others: Vec<u32>,
    memory: Memory,
    /// The children of each cluster; memory that `evaluate` reuses.
    children: Vec<Vec<u32>>,
}

impl<'a> Annealing<'a> {
    fn new(network: &Network, costs: &'a ClusterCosts<'a>, root: u32, parents: Vec<u32>) -> Self {
        let others = (0..network.clusters() as u32)
            .filter(|&cluster| parents[cluster as usize] != NONE)
            .collect();
        Self {
            costs,
            root,
            children: vec![Vec::new(); parents.len()],
            parents,
            order: Vec::new(),
            others,
            memory: Memory::default(),
        }
    }

    fn run(mut self, dice: &mut Dice, budget: &SearchBudget<'_>) -> ClusterTree {
        let mut cost_s = self.evaluate();
        budget.spend();
        let mut best =
            ClusterTree { parents: self.parents.clone(), order: self.order.clone(), cost_s };
        let moves = (MOVES_PER_CLUSTER * self.others.len() as u64).min(MOVES_MAX);
        let mut temperature = HEAT * cost_s;
        let cooling = COOLING.powf(1.0 / moves.max(1) as f64);
        if self.others.len() < 2 {
            return best;
        }
        for at in 0..moves {
            if at % 16 == 0 && budget.is_over() {
                break;
            }
            temperature *= cooling;
            let moved = self.others[dice.below(self.others.len())];
            let before = self.parents[moved as usize];
            let choice = dice.below(self.others.len() + 1);
            let parent = self.others.get(choice).copied().unwrap_or(self.root);
            if parent == before || self.is_below(parent, moved) {
                continue;
            }
            self.parents[moved as usize] = parent;
            let new_s = self.evaluate();
            budget.spend();
            if new_s <= cost_s || dice.unit() < ((cost_s - new_s) / temperature).exp() {
                cost_s = new_s;
                if cost_s < best.cost_s {
                    best.cost_s = cost_s;
                    best.parents.copy_from_slice(&self.parents);
                    best.order.clone_from(&self.order);
                }
            } else {
                self.parents[moved as usize] = before;
            }
        }
        best
    }

    fn is_below(&self, mut cluster: u32, above: u32) -> bool {
        while cluster != above {
            if cluster == self.root {
                return false;
            }
            cluster = self.parents[cluster as usize];
        }
        true
    }

    fn evaluate(&mut self) -> f64 {
        self.children.iter_mut().for_each(Vec::clear);
        for &cluster in &self.others {
            self.children[self.parents[cluster as usize] as usize].push(cluster);
        }
        self.order.clear();
        self.order.push(self.root);
        let mut at = 0;
        while let Some(&cluster) = self.order.get(at) {
            self.order.extend_from_slice(&self.children[cluster as usize]);
            at += 1;
        }
        self.costs.completion_s(&self.order, &self.parents, &mut self.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeLink;

    #[test]
    fn a_shared_uplink_is_crossed_once() {
        // The root's site has one slow uplink; the two others reach each other fast.
        let node = |cluster| NodeLink { cluster, out: 1e8, into: 1e8, initiation_s: 1e-4 };
        let mut network = Network::new((0..9).map(|n| node(n / 3)).collect());
        let uplink = network.share(1e6);
        for (from, to) in [(0, 1), (0, 2)] {
            network.connect(from, to, 0.01, vec![uplink]);
        }
        for (from, to) in [(1, 2), (2, 1)] {
            network.connect(from, to, 0.01, Vec::new());
        }
        let costs = ClusterCosts::new(&network, 1_000_000, 16_384);

        let tree = search(&network, &costs, 0, 1, &SearchBudget::unlimited()).unwrap();

        assert!(tree.parents == [NONE, 0, 1] || tree.parents == [NONE, 2, 0], "{tree:?}");
        assert!(tree.cost_s < 1.1, "1 MB over 1 MB/s, and little more: {tree:?}");
    }
}
