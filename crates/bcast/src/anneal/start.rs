//! Builds a good tree without a search, by always adding the edge that completes first.
//!
//! Clusters are reached through one node each; then the nodes of a cluster, which have equal links,
//! are reached from each other. Where many clusters are left, a sender is compared with a sample of
//! them.

use crate::model::{NONE, TreeCostModel};
use gridspan_topology::dice::Dice;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// While more receivers than this wait, one sender is compared with a sample of the receivers;
/// after that, the senders of up to this number of clusters are compared with all receivers.
const SAMPLE: usize = 64;
/// Size of a sample: on average, its best is among the best 2 % of all. A larger sample would take
/// longer: where every node is a class, most of the time goes into fetching the compared costs.
const LOOKS: usize = 48;

/// Whether [`start_tree`] compares samples, so that another seed may lead to a better tree.
pub(super) fn is_sampled(model: &TreeCostModel) -> bool {
    // The root's own class does not wait for a sender.
    model.classes() > SAMPLE + 1
}

/// Returns the parents of all nodes in a tree from `root`. The seed matters only for more than 65
/// clusters.
///
/// Builds two trees and returns the better one. In the first, only the first node of a cluster
/// sends to other clusters, and does so before it serves its own; in the second, all nodes do,
/// after they have served their own.
pub fn start_tree(model: &TreeCostModel, root: u32, seed: u64) -> Vec<u32> {
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); model.classes()];
    for node in 0..model.len() as u32 {
        members[model.class_of(node)].push(node);
    }
    members[model.class_of(root)].sort_by_key(|&node| (node != root, node));
    let mut inside = vec![NONE; model.len()];
    let spreads: Vec<Spread> =
        members.iter().map(|nodes| spread(model, nodes, &mut inside)).collect();
    let entries: Vec<u32> = members.iter().filter_map(|nodes| nodes.first().copied()).collect();
    let tree = |all_send: bool| {
        let mut parents = inside.clone();
        let mut dice = Dice::new(seed);
        join(model, root, entries.clone(), (&spreads, all_send), &mut parents, &mut dice);
        parents
    };
    let first = tree(false);
    if spreads.iter().all(|spread| spread.done.len() < 2) {
        return first;
    }
    let second = tree(true);
    match model.completion_s(&second) < model.completion_s(&first) {
        true => second,
        false => first,
    }
}

/// The spread inside a cluster from its first node, in seconds after that node has the message.
struct Spread {
    /// Time until all have it.
    last_s: f64,
    /// Time at which each node has served the others, ascending.
    done: Vec<(f64, u32)>,
}

/// Time at which a sender is free, and its number: the earliest first, then the lowest number.
type Free = Reverse<(u64, u32)>;

fn free(at_s: f64, node: u32) -> Free {
    // Positive floats are ordered like their bits.
    Reverse((at_s.to_bits(), node))
}

/// Builds the tree inside a cluster from its first node.
fn spread(model: &TreeCostModel, nodes: &[u32], parents: &mut [u32]) -> Spread {
    let mut senders: BinaryHeap<Free> = BinaryHeap::new();
    let mut last_s = 0.0_f64;
    for &node in nodes {
        // The first node of the cluster has no sender.
        let Some(Reverse((bits, from))) = senders.pop() else {
            senders.push(free(0.0, node));
            continue;
        };
        let sent_s = f64::from_bits(bits) + model.busy_s(from, node);
        let at_s = sent_s + model.flight_s(from, node);
        parents[node as usize] = from;
        last_s = last_s.max(at_s);
        senders.push(free(sent_s, from));
        senders.push(free(at_s, node));
    }
    let done = senders.into_sorted_vec().into_iter().rev();
    Spread {
        last_s,
        done: done.map(|Reverse((bits, node))| (f64::from_bits(bits), node)).collect(),
    }
}

/// The nodes that have the message. Nodes of a cluster have the same links, so only the first of
/// each cluster to be free is compared.
struct Senders {
    /// The clusters, by the time at which the first of their senders is free.
    clusters: BinaryHeap<Free>,
    nodes: Vec<BinaryHeap<Free>>,
}

impl Senders {
    /// Adds all senders of a cluster.
    fn enter(&mut self, cluster: usize, nodes: BinaryHeap<Free>) {
        self.nodes[cluster] = nodes;
        self.put_back(cluster);
    }

    /// Removes the cluster with the sender that is free first. Returns that time, the sender and
    /// the cluster.
    fn take(&mut self) -> Option<(f64, u32, usize)> {
        let Reverse((_, cluster)) = self.clusters.pop()?;
        let &Reverse((bits, node)) = self.nodes[cluster as usize].peek()?;
        Some((f64::from_bits(bits), node, cluster as usize))
    }

    fn put_back(&mut self, cluster: usize) {
        if let Some(&Reverse((bits, _))) = self.nodes[cluster].peek() {
            self.clusters.push(Reverse((bits, cluster as u32)));
        }
    }

    /// Sets the time until which the first sender of a cluster is busy.
    fn send(&mut self, cluster: usize, until_s: f64) {
        if let Some(mut first) = self.nodes[cluster].peek_mut() {
            first.0.0 = until_s.to_bits();
        }
    }
}

/// Builds the tree over the entries of clusters. Of two clusters, it prefers the one that takes
/// longer inside, so that large clusters are not served last.
fn join(
    model: &TreeCostModel,
    root: u32,
    mut waiting: Vec<u32>,
    (spreads, all_send): (&[Spread], bool),
    parents: &mut [u32],
    dice: &mut Dice,
) {
    waiting.retain(|&node| node != root);
    let longest_s = spreads.iter().map(|spread| spread.last_s).fold(0.0, f64::max);
    let nodes = vec![BinaryHeap::new(); spreads.len()];
    let mut senders = Senders { clusters: BinaryHeap::new(), nodes };
    let enter = |entry: u32, at_s: f64, senders: &mut Senders| {
        let cluster = model.class_of(entry);
        let all = spreads[cluster].done.iter().map(|&(done_s, node)| free(at_s + done_s, node));
        let nodes = if all_send { all.collect() } else { [free(at_s, entry)].into() };
        senders.enter(cluster, nodes);
    };
    enter(root, 0.0, &mut senders);
    let mut tried: Vec<usize> = Vec::new();
    while !waiting.is_empty() {
        // Of the few clusters that are free first, find the pair that completes first.
        tried.clear();
        let mut best: Option<(f64, (f64, u32, usize), usize)> = None;
        while tried.len() < SAMPLE
            && let Some(sender) = senders.take()
        {
            let (free_s, from, cluster) = sender;
            tried.push(cluster);
            if best.is_some_and(|(at_s, ..)| free_s >= at_s + longest_s) {
                break;
            }
            let is_sampled = waiting.len() > SAMPLE;
            let looks = if is_sampled { LOOKS } else { waiting.len() };
            for look in 0..looks {
                let place = if is_sampled { dice.below(waiting.len()) } else { look };
                let to = waiting[place];
                let arrival_s = free_s + model.busy_s(from, to) + model.flight_s(from, to);
                // Clusters with a long spread inside go first, as if they were reached that much
                // earlier.
                let at_s = arrival_s - spreads[model.class_of(to)].last_s;
                if best.is_none_or(|(best_s, ..)| at_s < best_s) {
                    best = Some((at_s, sender, place));
                }
            }
            if is_sampled {
                break;
            }
        }
        let Some((_, (free_s, from, cluster), place)) = best else { return };
        let to = waiting.swap_remove(place);
        parents[to as usize] = from;
        let sent_s = free_s + model.busy_s(from, to);
        senders.send(cluster, sent_s);
        tried.iter().for_each(|&cluster| senders.put_back(cluster));
        enter(to, sent_s + model.flight_s(from, to), &mut senders);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{grid_links, uniform_links};
    use crate::model::{LinkMatrix, Serialisation};

    #[test]
    fn equal_nodes_become_a_binomial_tree() {
        let links = LinkMatrix::new(vec![0; 16], vec![0.0; 16], |_, _| (0.0, 1e6));
        let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);

        let parents = start_tree(&model, 5, 1);

        assert!((model.completion_s(&parents) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn all_nodes_are_reached_for_any_number_of_clusters() {
        for links in [grid_links(1, 9, 1), grid_links(7, 5, 1), uniform_links(300, 1)] {
            let model = TreeCostModel::new(&links, 100_000, Serialisation::Transfer);

            let parents = start_tree(&model, 3, 1);

            assert_eq!(model.edges(&parents).len(), links.len() - 1);
            assert_eq!(parents[3], NONE);
        }
    }
}
