//! MPICH-G2's tree: a flat wide-area level, clusters below sites, binomial trees inside clusters.
//!
//! N. Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective
//! operation performance", IPDPS 2000, with the levels of paper 2's figure 7: the root sends to one
//! node of each other site, those to one node of each other cluster of theirs.

use crate::model::NONE;
use std::collections::BTreeMap;

/// The `(parent, child)` edges over nodes that lie in these clusters of these sites, in the order
/// of sending: what is farther goes first. The first node of a cluster or site stands for it, the
/// root for its own.
pub fn mpich_g2(site_of: &[u32], cluster_of: &[u32], root: u32) -> Vec<(u32, u32)> {
    let mut sites: BTreeMap<u32, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    for (node, (&site, &cluster)) in (0u32..).zip(site_of.iter().zip(cluster_of)) {
        sites.entry(site).or_default().entry(cluster).or_default().push(node);
    }
    let first = |nodes: &[u32]| if nodes.contains(&root) { root } else { nodes[0] };
    let speaker = |clusters: &BTreeMap<u32, Vec<u32>>| {
        let all = clusters.values().map(|nodes| first(nodes));
        let mut all = all.collect::<Vec<_>>();
        all.sort_by_key(|&node| node != root);
        all.first().copied().unwrap_or(NONE)
    };
    let mut edges = Vec::with_capacity(site_of.len());
    edges.extend(sites.values().map(speaker).filter(|&to| to != root).map(|to| (root, to)));
    for clusters in sites.values() {
        let from = speaker(clusters);
        let leaders = clusters.values().map(|nodes| first(nodes)).filter(|&to| to != from);
        edges.extend(leaders.map(|to| (from, to)));
    }
    for nodes in sites.values().flat_map(BTreeMap::values) {
        binomial(nodes, first(nodes), &mut edges);
    }
    edges
}

/// Adds a binomial tree over `nodes` from the one of them that is the root.
pub(crate) fn binomial(nodes: &[u32], root: u32, edges: &mut Vec<(u32, u32)>) {
    let start = nodes.iter().position(|&node| node == root).unwrap_or(0);
    let node = |rank: usize| nodes[(start + rank) % nodes.len()];
    let mut step = nodes.len().next_power_of_two() / 2;
    // Parents first: rounds from the longest step to the shortest.
    while step > 0 {
        for rank in (0..nodes.len()).step_by(2 * step) {
            if rank + step < nodes.len() {
                edges.push((node(rank), node(rank + step)));
            }
        }
        step /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_then_clusters_then_nodes() {
        // Sites a (clusters 0, 1) and b (cluster 2) of two nodes each.
        let edges = mpich_g2(&[0, 0, 0, 0, 1, 1], &[0, 0, 1, 1, 2, 2], 3);

        assert_eq!(edges, [(3, 4), (3, 0), (0, 1), (3, 2), (4, 5)]);
    }

    #[test]
    fn eight_nodes_take_three_rounds() {
        let mut edges = Vec::new();
        binomial(&[0, 1, 2, 3, 4, 5, 6, 7], 0, &mut edges);

        assert_eq!(edges, [(0, 4), (0, 2), (4, 6), (0, 1), (2, 3), (4, 5), (6, 7)]);
    }
}
