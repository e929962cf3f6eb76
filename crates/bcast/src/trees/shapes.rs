//! The trees that follow from the layout alone: star, binomial and hierarchical.
//!
//! Each has a form over all nodes and one `_over` the targets of a multicast. Targets may come in
//! any order and repeat; the root is part of the tree whether it is a target or not.

use super::tree::Tree;
use gridspan_topology::{Layout, NodeId};
use std::collections::BTreeMap;

/// `(parent, child)` edges, each after the one that reaches its parent.
type Edges = Vec<(NodeId, NodeId)>;

/// The root sends to every other node itself. Best for few nodes or tiny messages.
/// Panics if the job has no node `root`.
pub fn star(layout: &Layout, root: NodeId) -> Tree {
    star_over(layout, root, &all(layout))
}

/// [`star`] over the root and `targets`. Panics if the job has no such node.
pub fn star_over(layout: &Layout, root: NodeId, targets: &[NodeId]) -> Tree {
    let members = members(layout, root, targets);
    let edges: Edges =
        members.into_iter().filter(|&node| node != root).map(|node| (root, node)).collect();
    plant(root, &edges)
}

/// A binomial tree, as MPI implementations use it: in each round, every node that has the message
/// sends it to one that has not, so that `n` nodes are reached in `log2 n` rounds. It knows of no
/// sites. Panics if the job has no node `root`.
pub fn binomial(layout: &Layout, root: NodeId) -> Tree {
    binomial_over(layout, root, &all(layout))
}

/// [`binomial`] over the root and `targets`. Panics if the job has no such node.
pub fn binomial_over(layout: &Layout, root: NodeId, targets: &[NodeId]) -> Tree {
    let members = members(layout, root, targets);
    let mut edges = Edges::with_capacity(members.len());
    grow_binomial(&members, root, &mut edges);
    plant(root, &edges)
}

/// Like the topology-aware trees of MPICH-G2: the root sends one copy straight to a leader in each
/// other site, then each site is served by a binomial tree from its leader. The leader is the
/// site's first node, the root in its own site. One wide-area edge leads to each other site.
/// Panics if the job has no node `root`.
///
/// Source: N. Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
/// collective operation performance", IPDPS 2000.
pub fn hierarchical(layout: &Layout, root: NodeId) -> Tree {
    hierarchical_over(layout, root, &all(layout))
}

/// [`hierarchical`] over the root and `targets`: one wide-area edge leads to each other site that
/// has a target, to the first target in it. Panics if the job has no such node.
pub fn hierarchical_over(layout: &Layout, root: NodeId, targets: &[NodeId]) -> Tree {
    let members = members(layout, root, targets);
    let mut sites: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
    for &node in &members {
        sites.entry(layout.site_of_node(node)).or_default().push(node);
    }
    let home = sites.remove(&layout.site_of_node(root)).unwrap_or_default();
    let mut edges = Edges::with_capacity(members.len());
    // What crosses the wide area takes longest, so that it leaves first.
    edges.extend(sites.values().map(|nodes| (root, nodes[0])));
    grow_binomial(&home, root, &mut edges);
    for nodes in sites.values() {
        grow_binomial(nodes, nodes[0], &mut edges);
    }
    plant(root, &edges)
}

fn all(layout: &Layout) -> Vec<NodeId> {
    layout.nodes().collect()
}

/// The root and the targets, each once and ascending.
fn members(layout: &Layout, root: NodeId, targets: &[NodeId]) -> Vec<NodeId> {
    let mut members = targets.to_vec();
    members.push(root);
    members.sort_unstable();
    members.dedup();
    let count = layout.node_count();
    assert!(members.iter().all(|node| node.0 < count), "the job has {count} nodes");
    members
}

/// Adds the edges of a binomial tree over the ascending `members`, from `root` among them. Ranks
/// count on from the root and wrap around, so that a subtree is a run of neighbouring nodes.
fn grow_binomial(members: &[NodeId], root: NodeId, edges: &mut Edges) {
    let start = members.partition_point(|&node| node < root);
    let node = |rank: usize| members[(start + rank) % members.len()];
    for rank in 0..members.len() {
        // The rank passes on to rank + 2^k for each 2^k below its own lowest bit, the largest
        // subtree first.
        let lowest =
            if rank == 0 { members.len().next_power_of_two() } else { rank & rank.wrapping_neg() };
        let mut step = lowest / 2;
        while step > 0 {
            if rank + step < members.len() {
                edges.push((node(rank), node(rank + step)));
            }
            step /= 2;
        }
    }
}

fn plant(root: NodeId, edges: &[(NodeId, NodeId)]) -> Tree {
    Tree::from_edges(root, edges).expect("each member but the root is given one parent")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::SiteId;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn layout(nodes_per_site: &[usize]) -> Layout {
        let site = |(n, &nodes): (usize, &usize)| (format!("s{n}"), vec![1; nodes]);
        Layout::new(nodes_per_site.iter().enumerate().map(site).collect())
    }

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn in_a_star_the_root_sends_to_everyone() {
        let tree = star(&layout(&[2, 2]), NodeId(1));

        assert_eq!(tree.children(NodeId(1)), nodes(&[0, 2, 3]));
        assert_eq!(tree.depth(), 1);
    }

    #[test]
    fn a_binomial_tree_of_eight_is_the_one_in_the_textbooks() {
        let tree = binomial(&layout(&[8]), NodeId(0));

        assert_eq!(tree.children(NodeId(0)), nodes(&[4, 2, 1]));
        assert_eq!(tree.children(NodeId(4)), nodes(&[6, 5]));
        assert_eq!(tree.children(NodeId(2)), nodes(&[3]));
        assert_eq!(tree.children(NodeId(6)), nodes(&[7]));
        assert_eq!(tree.depth(), 3);
    }

    #[test]
    fn a_binomial_tree_counts_on_from_its_root() {
        let tree = binomial(&layout(&[5]), NodeId(3));

        // Ranks 0 to 4 are nodes 3, 4, 0, 1, 2.
        assert_eq!(tree.children(NodeId(3)), nodes(&[2, 0, 4]));
        assert_eq!(tree.children(NodeId(0)), nodes(&[1]));
    }

    #[test]
    fn a_hierarchical_tree_reaches_each_leader_first() {
        // Nodes 0 to 2, 3 to 6 and 7 are the sites.
        let tree = hierarchical(&layout(&[3, 4, 1]), NodeId(4));

        assert_eq!(tree.children(NodeId(4)), nodes(&[0, 7, 6, 5]));
        assert_eq!(tree.children(NodeId(0)), nodes(&[2, 1]));
        assert_eq!(tree.children(NodeId(6)), nodes(&[3]));
        assert_eq!(tree.depth(), 2);
    }

    #[test]
    fn a_multicast_crosses_to_the_first_target_of_a_site() {
        let targets = nodes(&[6, 2, 5, 6]);

        let tree = hierarchical_over(&layout(&[3, 4, 1]), NodeId(1), &targets);

        assert_eq!(tree.nodes().collect::<Vec<_>>(), nodes(&[1, 2, 5, 6]));
        assert_eq!(tree.children(NodeId(1)), nodes(&[5, 2]));
        assert_eq!(tree.children(NodeId(5)), nodes(&[6]));
    }

    #[test]
    fn a_multicast_to_nobody_is_the_root_alone() {
        assert_eq!(hierarchical_over(&layout(&[3, 4]), NodeId(1), &[]).node_count(), 1);
    }

    #[test]
    #[should_panic(expected = "the job has 2 nodes")]
    fn a_target_beyond_the_job_panics() {
        star_over(&layout(&[2]), NodeId(0), &[NodeId(2)]);
    }

    /// Follows the children from the root and counts how often each node is reached.
    fn reached(tree: &Tree) -> BTreeMap<NodeId, u32> {
        let mut counts = BTreeMap::new();
        let mut queue = vec![tree.root()];
        while let Some(node) = queue.pop() {
            *counts.entry(node).or_insert(0) += 1;
            queue.extend(tree.children(node));
        }
        counts
    }

    prop_compose! {
        /// Sites, a root and some targets.
        fn any_multicast()(shape in prop::collection::vec(1..9_usize, 1..7))(
            root in 0..shape.iter().sum::<usize>(),
            targets in prop::collection::vec(0..shape.iter().sum::<usize>(), 0..30),
            shape in Just(shape),
        ) -> (Layout, NodeId, Vec<NodeId>) {
            (layout(&shape), NodeId::from(root), targets.into_iter().map(NodeId::from).collect())
        }
    }

    proptest! {
        #[test]
        fn every_member_is_reached_exactly_once((layout, root, targets) in any_multicast()) {
            let everyone: BTreeMap<NodeId, u32> = layout.nodes().map(|node| (node, 1)).collect();
            for tree in [star(&layout, root), binomial(&layout, root), hierarchical(&layout, root)] {
                prop_assert_eq!(reached(&tree), everyone.clone());
            }
            let some: BTreeMap<NodeId, u32> =
                targets.iter().chain([&root]).map(|&node| (node, 1)).collect();
            for over in [star_over, binomial_over, hierarchical_over] {
                prop_assert_eq!(reached(&over(&layout, root, &targets)), some.clone());
            }
        }

        #[test]
        fn a_hierarchical_tree_crosses_once_to_each_other_site_and_straight_from_the_root(
            (layout, root, targets) in any_multicast(),
        ) {
            let tree = hierarchical_over(&layout, root, &targets);
            let sites: BTreeSet<SiteId> = targets
                .iter()
                .map(|&node| layout.site_of_node(node))
                .filter(|&site| site != layout.site_of_node(root))
                .collect();
            let crossed: Vec<SiteId> =
                tree.wide_area_edges(&layout).map(|(_, to)| layout.site_of_node(to)).collect();
            prop_assert_eq!(crossed, sites.into_iter().collect::<Vec<_>>());
            prop_assert!(tree.wide_area_edges(&layout).all(|(from, _)| from == root));
        }

        #[test]
        fn no_tree_is_deeper_than_its_rounds((layout, root, _) in any_multicast()) {
            let largest = layout.sites().map(|site| layout.nodes_in(site).count()).max().unwrap();
            let count = layout.node_count() as usize;
            prop_assert!(star(&layout, root).depth() <= 1);
            prop_assert!(binomial(&layout, root).depth() <= count.ilog2());
            prop_assert!(hierarchical(&layout, root).depth() <= 1 + largest.ilog2());
        }

        #[test]
        fn the_order_and_number_of_the_targets_do_not_matter(
            (layout, root, targets) in any_multicast(),
        ) {
            let mut other = targets.clone();
            other.reverse();
            other.extend(&targets);
            for over in [star_over, binomial_over, hierarchical_over] {
                prop_assert_eq!(over(&layout, root, &targets), over(&layout, root, &other));
            }
        }
    }
}
