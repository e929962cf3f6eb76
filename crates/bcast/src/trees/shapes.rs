//! The trees that follow from the places of nodes alone: star, binomial and hierarchical. The
//! runtime builds them over the nodes of its layout, planners over the numbered nodes of a network.
//!
//! Each returns `(parent, child)` edges, every one after the edge that reaches its parent; a parent
//! sends to its children in the order of their edges.

use std::collections::BTreeMap;

/// The root sends to every other node itself. Best for few nodes or tiny messages.
pub(crate) fn star<N: Copy + Eq>(nodes: &[N], root: N) -> Vec<(N, N)> {
    let others = nodes.iter().filter(|&&node| node != root);
    others.map(|&node| (root, node)).collect()
}

/// A binomial tree, as MPI implementations use it: in each round, every node that has the message
/// sends it to one that does not, so that `n` nodes are reached in `log2 n` rounds. Ranks count
/// from the root, which has to be one of the nodes, and wrap around, so that a subtree is a run of
/// neighbouring nodes.
pub(crate) fn binomial<N: Copy + Eq>(nodes: &[N], root: N) -> Vec<(N, N)> {
    let start = nodes.iter().position(|&node| node == root).unwrap_or(0);
    let node = |rank: usize| nodes[(start + rank) % nodes.len()];
    let mut edges = Vec::with_capacity(nodes.len());
    let mut step = nodes.len().next_power_of_two() / 2;
    while step > 0 {
        for rank in (0..nodes.len()).step_by(2 * step) {
            if rank + step < nodes.len() {
                edges.push((node(rank), node(rank + step)));
            }
        }
        step /= 2;
    }
    edges
}

/// The multi-level tree of MPICH-G2. `groups_of` gives the group of a node at each level, the
/// largest groups first: the root sends to one node of each other site, those nodes send to one of
/// each other cluster of their site, and a binomial tree serves each cluster. Sends that cross a
/// higher level leave first. The first node of a group receives for the group, except in the root's
/// group. The root has to be one of the nodes.
///
/// Source: N. Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
/// collective operation performance", IPDPS 2000.
pub(crate) fn hierarchical<N: Copy + Eq, const LEVELS: usize>(
    nodes: &[N],
    root: N,
    groups_of: impl Fn(N) -> [u32; LEVELS],
) -> Vec<(N, N)> {
    let mut edges = Vec::with_capacity(nodes.len());
    serve(nodes, root, &groups_of, 0, &mut edges);
    edges
}

/// Adds the edges from `leader` to all other `nodes`, which are in one group of the level above.
fn serve<N: Copy + Eq, const LEVELS: usize>(
    nodes: &[N],
    leader: N,
    groups_of: &impl Fn(N) -> [u32; LEVELS],
    level: usize,
    edges: &mut Vec<(N, N)>,
) {
    if level == LEVELS {
        edges.append(&mut binomial(nodes, leader));
        return;
    }
    // Groups in the order of their first nodes.
    let (mut groups, mut places): (Vec<Vec<N>>, _) = (Vec::new(), BTreeMap::new());
    for &node in nodes {
        let place = *places.entry(groups_of(node)[level]).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(node);
    }
    let entry = |group: &[N]| if group.contains(&leader) { leader } else { group[0] };
    let entries = groups.iter().map(|group| entry(group));
    edges.extend(entries.filter(|&to| to != leader).map(|to| (leader, to)));
    for group in &groups {
        serve(group, entry(group), groups_of, level + 1, edges);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_star_the_root_sends_to_all() {
        assert_eq!(star(&[0, 1, 2, 3], 1), [(1, 0), (1, 2), (1, 3)]);
    }

    #[test]
    fn a_binomial_tree_of_eight_is_the_one_in_the_textbooks() {
        let edges = binomial(&[0, 1, 2, 3, 4, 5, 6, 7], 0);

        assert_eq!(edges, [(0, 4), (0, 2), (4, 6), (0, 1), (2, 3), (4, 5), (6, 7)]);
    }

    #[test]
    fn ranks_of_a_binomial_tree_count_from_its_root_and_wrap_around() {
        // Ranks 0 to 4 are nodes 3, 4, 0, 1, 2.
        assert_eq!(binomial(&[0, 1, 2, 3, 4], 3), [(3, 2), (3, 0), (3, 4), (0, 1)]);
    }

    #[test]
    fn a_hierarchical_tree_crosses_between_sites_then_clusters_then_nodes() {
        // x1, x2 and y1 to y4 at one site, b1 and b2 at another.
        let names = ["x1", "x2", "y1", "y2", "y3", "y4", "b1", "b2"];
        let groups = [[0, 0], [0, 0], [0, 1], [0, 1], [0, 1], [0, 1], [1, 0], [1, 0]];
        let named = |root: usize| -> Vec<String> {
            let nodes: Vec<usize> = (0..names.len()).collect();
            let edges = hierarchical(&nodes, root, |node| groups[node]);
            edges.into_iter().map(|(from, to)| format!("{}>{}", names[from], names[to])).collect()
        };

        assert_eq!(named(0), ["x1>b1", "x1>y1", "x1>x2", "y1>y3", "y1>y2", "y3>y4", "b1>b2"]);
        // The root is the entry of its site and its cluster, wherever it is in them.
        assert_eq!(named(4), ["y3>b1", "y3>x1", "x1>x2", "y3>y1", "y3>y4", "y1>y2", "b1>b2"]);
        assert_eq!(named(7), ["b2>x1", "x1>y1", "x1>x2", "y1>y3", "y1>y2", "y3>y4", "b2>b1"]);
    }

    #[test]
    fn any_number_of_levels_works() {
        let nodes = [0, 1, 2, 3];

        assert_eq!(hierarchical(&nodes, 0, |_| []), binomial(&nodes, 0));
        let edges = hierarchical(&nodes, 0, |node| [node / 2, node, 0]);
        assert_eq!(edges, [(0, 2), (0, 1), (2, 3)]);
    }
}
