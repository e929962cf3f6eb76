//! Expands a tree over clusters to one over nodes.

use super::search::ClusterTree;
use crate::model::Network;
use crate::trees::binomial;

/// The tree inside a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inner {
    /// From node to node: each sends once, which is best for many segments.
    Chain,
    /// Each node sends to two: fewer hops at half of the rate.
    Binary,
    /// In rounds, in which every node with the message sends: best for messages sent whole.
    Binomial,
}

/// How a tree over clusters is laid out over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) inner: Inner,
    /// Position of the node that sends to the first other cluster, counted from the entry of its
    /// cluster. The nodes after it send to the next clusters. With [`Inner::Binomial`] the entry
    /// sends to all.
    pub(super) offset: usize,
    /// The number of this tree, and the count of all trees: different trees enter a cluster at
    /// different nodes.
    pub(super) turn: (usize, usize),
}

/// Returns the `(parent, child)` edges from node `root`, parents first, and children in other
/// clusters before those inside.
pub(super) fn expand(
    network: &Network,
    tree: &ClusterTree,
    root: u32,
    layout: Layout,
) -> Vec<(u32, u32)> {
    let members: Vec<Vec<u32>> = (0..network.clusters())
        .map(|cluster| entered(network.members(cluster), root, layout.turn))
        .collect();
    let mut edges = Vec::with_capacity(network.len());
    for &cluster in &tree.order {
        let nodes = &members[cluster as usize];
        let below = tree.order.iter().filter(|&&to| tree.parents[to as usize] == cluster);
        let entries: Vec<u32> = below.map(|&to| members[to as usize][0]).collect();
        let is_whole = layout.inner == Inner::Binomial;
        // Position of the node that serves an entry.
        let server = |rank: usize| if is_whole { 0 } else { (layout.offset + rank) % nodes.len() };
        for (place, &node) in nodes.iter().enumerate() {
            let served = entries.iter().enumerate().filter(|(rank, _)| server(*rank) == place);
            edges.extend(served.map(|(_, &entry)| (node, entry)));
            let below = match layout.inner {
                Inner::Chain => place + 1..place + 2,
                Inner::Binary => 2 * place + 1..2 * place + 3,
                Inner::Binomial => 0..0,
            };
            edges.extend(below.filter_map(|to| nodes.get(to)).map(|&to| (node, to)));
        }
        if is_whole {
            edges.append(&mut binomial(nodes, nodes[0]));
        }
    }
    edges
}

/// The nodes of a cluster, in the order in which they receive.
fn entered(members: &[u32], root: u32, (turn, turns): (usize, usize)) -> Vec<u32> {
    let mut nodes = members.to_vec();
    let step = turn * nodes.len() / turns.max(1);
    if let Some(place) = nodes.iter().position(|&node| node == root) {
        nodes.remove(place);
        let rest = nodes.len().max(1);
        nodes.rotate_left((turn * rest / turns.max(1)) % rest);
        nodes.insert(0, root);
    } else if !nodes.is_empty() {
        let count = nodes.len();
        nodes.rotate_left(step % count);
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeLink;

    fn edges(inner: Inner, offset: usize, turn: (usize, usize)) -> Vec<(u32, u32)> {
        // Clusters {0, 1, 2} and {3, 4}; the root is node 1.
        let node = |cluster| NodeLink { cluster, out: 1.0, into: 1.0, initiation_s: 0.0 };
        let network = Network::new([0, 0, 0, 1, 1].map(node).to_vec());
        let tree = ClusterTree { parents: vec![u32::MAX, 0], order: vec![0, 1], cost_s: 0.0 };
        expand(&network, &tree, 1, Layout { inner, offset, turn })
    }

    #[test]
    fn nodes_of_a_chain_send_to_other_clusters_first() {
        assert_eq!(edges(Inner::Chain, 0, (0, 1)), [(1, 3), (1, 0), (0, 2), (3, 4)]);
    }

    #[test]
    fn another_node_may_send_to_the_other_cluster() {
        assert_eq!(edges(Inner::Chain, 1, (0, 1)), [(1, 0), (0, 3), (0, 2), (3, 4)]);
    }

    #[test]
    fn the_second_of_two_trees_enters_a_cluster_at_another_node() {
        assert_eq!(edges(Inner::Chain, 1, (1, 2)), [(1, 2), (2, 4), (2, 0), (4, 3)]);
    }

    #[test]
    fn clusters_can_have_binary_or_binomial_trees_inside() {
        assert_eq!(edges(Inner::Binary, 0, (0, 1)), [(1, 3), (1, 0), (1, 2), (3, 4)]);
        assert_eq!(edges(Inner::Binomial, 1, (0, 1)), [(1, 3), (1, 2), (1, 0), (3, 4)]);
    }
}
