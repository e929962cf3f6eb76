//! The modes in which a job broadcasts, by name, and their trees over its nodes.

use super::shapes::{binomial, hierarchical, star};
use super::tree::Tree;
use gridspan_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The names of all modes. `planned` is the default.
pub const MODES: &[&str] = &["planned", "layout", "binomial", "star"];

/// The mode in which broadcasts travel.
///
/// ```
/// use gridspan_bcast::Mode;
/// use gridspan_topology::{Layout, NodeId};
///
/// let mode: Mode = "layout".parse()?;
/// let layout = Layout::new(vec![("a".to_owned(), vec![1; 4]), ("b".to_owned(), vec![1; 4])]);
/// let tree = mode.tree(&layout, NodeId(0));
/// let far = |node: &NodeId| layout.site_of_node(*node) != layout.site_of_node(NodeId(0));
/// assert_eq!(tree.children(NodeId(0)).iter().filter(|node| far(node)).count(), 1);
/// # Ok::<(), gridspan_bcast::UnknownMode>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Mode {
    /// Over a plan of the advisor if it has a better one than the tree of [`Mode::Layout`];
    /// otherwise over that tree.
    #[default]
    Planned,
    /// Over the hierarchical tree, which follows from the layout. The message goes once to each
    /// other site, there once to each other cluster, and over a binomial tree inside each cluster
    /// (N. Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize
    /// collective operation performance", IPDPS 2000).
    Layout,
    /// Over a binomial tree, which ignores sites.
    Binomial,
    /// From the root to each other node. Best for few nodes or tiny messages.
    Star,
}

/// No mode has this name. Use one of the names listed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{}` is not a broadcast mode; write one of {}", .name.escape_debug(), MODES.join(", "))]
#[non_exhaustive]
pub struct UnknownMode {
    /// The unknown name.
    pub name: String,
}

impl Mode {
    /// The tree that broadcasts take without a plan. Panics if the job has no node `root`.
    pub fn tree(self, layout: &Layout, root: NodeId) -> Tree {
        let nodes: Vec<NodeId> = layout.nodes().collect();
        assert!(nodes.contains(&root), "the job has {} nodes", nodes.len());
        let edges = match self {
            Self::Planned | Self::Layout => return hierarchical_over(layout, root, nodes),
            Self::Binomial => binomial(&nodes, root),
            Self::Star => star(&nodes, root),
        };
        tree_of(root, &edges)
    }
}

/// The tree of [`Mode::Layout`] over the root and some nodes, which may come in any order and
/// repeat. Panics if the job does not have one of these nodes.
pub(crate) fn hierarchical_over(
    layout: &Layout,
    root: NodeId,
    nodes: impl IntoIterator<Item = NodeId>,
) -> Tree {
    let mut members: BTreeSet<NodeId> = nodes.into_iter().collect();
    members.insert(root);
    let members: Vec<NodeId> = members.into_iter().collect();
    let groups_of = |node| {
        let place = layout.place(node);
        // The nodes of a site outside all clusters form one cluster.
        [place.site.0, place.cluster.map_or(0, |cluster| cluster + 1)]
    };
    tree_of(root, &hierarchical(&members, root, groups_of))
}

fn tree_of(root: NodeId, edges: &[(NodeId, NodeId)]) -> Tree {
    Tree::from_edges(root, edges).expect("a shape gives each node but the root one parent")
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Planned => "planned",
            Self::Layout => "layout",
            Self::Binomial => "binomial",
            Self::Star => "star",
        })
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let all = [Self::Planned, Self::Layout, Self::Binomial, Self::Star];
        let found = all.into_iter().find(|mode| mode.to_string() == name);
        found.ok_or_else(|| UnknownMode { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::SiteId;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const TREES: [Mode; 3] = [Mode::Layout, Mode::Binomial, Mode::Star];

    fn layout(nodes_per_site: &[usize]) -> Layout {
        let site = |(n, &nodes): (usize, &usize)| (format!("s{n}"), vec![1; nodes]);
        Layout::new(nodes_per_site.iter().enumerate().map(site).collect())
    }

    fn nodes(numbers: &[u32]) -> Vec<NodeId> {
        numbers.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn every_name_is_a_mode_and_the_error_for_another_name_lists_them() {
        for &name in MODES {
            assert_eq!(name.parse::<Mode>().unwrap().to_string(), name);
        }
        let error = "fast".parse::<Mode>().unwrap_err().to_string();
        assert!(error.ends_with("write one of planned, layout, binomial, star"), "{error}");
    }

    #[test]
    fn each_mode_has_its_tree() {
        let layout = layout(&[3, 3]);
        let from_root = |mode: Mode| mode.tree(&layout, NodeId(0)).children(NodeId(0)).len();
        // Layout: the other site's first node and two at its own site. Binomial: 1, 2 and 4 ranks
        // further. Star: all five.
        assert_eq!(TREES.map(from_root), [3, 3, 5]);
        let crosses = |mode: Mode| mode.tree(&layout, NodeId(0)).wide_area_edges(&layout).count();
        assert_eq!(crosses(Mode::Planned), 1);
        assert!(crosses(Mode::Binomial) > 1);
    }

    #[test]
    fn a_hierarchical_tree_reaches_each_leader_first() {
        // Nodes 0 to 2, 3 to 6 and 7 are the sites.
        let tree = Mode::Layout.tree(&layout(&[3, 4, 1]), NodeId(4));

        assert_eq!(tree.children(NodeId(4)), nodes(&[0, 7, 6, 5]));
        assert_eq!(tree.children(NodeId(0)), nodes(&[2, 1]));
        assert_eq!(tree.children(NodeId(6)), nodes(&[3]));
        assert_eq!(tree.depth(), 2);
    }

    #[test]
    fn a_tree_crosses_once_to_each_other_site_and_cluster() {
        // Clusters {0, 1} and {3, 4}, and node 2 outside clusters, at the first site; 5 and 6 at
        // the second.
        let clusters = [Some(0), Some(0), None, Some(1), Some(1), Some(2), Some(2)];
        let layout = layout(&[5, 2]).with_clusters(&clusters);

        let tree = Mode::Layout.tree(&layout, NodeId(6));

        assert_eq!(tree.children(NodeId(6)), nodes(&[0, 5]));
        assert_eq!(tree.children(NodeId(0)), nodes(&[2, 3, 1]));
        assert_eq!(tree.children(NodeId(3)), nodes(&[4]));
    }

    #[test]
    fn a_multicast_crosses_to_the_first_target_of_a_site() {
        let targets = nodes(&[6, 2, 5, 6]);

        let tree = hierarchical_over(&layout(&[3, 4, 1]), NodeId(1), targets);

        assert_eq!(tree.nodes().collect::<Vec<_>>(), nodes(&[1, 2, 5, 6]));
        assert_eq!(tree.children(NodeId(1)), nodes(&[5, 2]));
        assert_eq!(tree.children(NodeId(5)), nodes(&[6]));
    }

    #[test]
    fn a_multicast_without_targets_is_the_root_alone() {
        assert_eq!(hierarchical_over(&layout(&[3, 4]), NodeId(1), []).node_count(), 1);
    }

    #[test]
    #[should_panic(expected = "the job has 2 nodes")]
    fn a_root_beyond_the_job_panics() {
        Mode::Star.tree(&layout(&[2]), NodeId(2));
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
        /// Sites with up to three clusters, a root and some targets.
        fn any_multicast()(shape in prop::collection::vec(1..9_usize, 1..7))(
            root in 0..shape.iter().sum::<usize>(),
            targets in prop::collection::vec(0..shape.iter().sum::<usize>(), 0..30),
            clusters in prop::collection::vec(prop::option::of(0..3_u32), shape.iter().sum::<usize>()),
            shape in Just(shape),
        ) -> (Layout, NodeId, Vec<NodeId>) {
            let layout = layout(&shape);
            let places = layout.nodes().zip(&clusters);
            let unique = places.map(|(node, cluster)| {
                cluster.map(|cluster| 3 * layout.site_of_node(node).0 + cluster)
            });
            let unique: Vec<_> = unique.collect();
            let targets = targets.into_iter().map(NodeId::from).collect();
            (layout.with_clusters(&unique), NodeId::from(root), targets)
        }
    }

    proptest! {
        #[test]
        fn every_member_is_reached_exactly_once((layout, root, targets) in any_multicast()) {
            let all: BTreeMap<NodeId, u32> = layout.nodes().map(|node| (node, 1)).collect();
            for mode in TREES {
                prop_assert_eq!(reached(&mode.tree(&layout, root)), all.clone());
            }
            let some: BTreeMap<NodeId, u32> =
                targets.iter().chain([&root]).map(|&node| (node, 1)).collect();
            prop_assert_eq!(reached(&hierarchical_over(&layout, root, targets)), some);
        }

        #[test]
        fn a_hierarchical_tree_crosses_once_to_each_other_site_and_cluster(
            (layout, root, targets) in any_multicast(),
        ) {
            let tree = hierarchical_over(&layout, root, targets.clone());
            let home = layout.site_of_node(root);
            let place = |node: NodeId| (layout.place(node).site, layout.place(node).cluster);
            let sites: BTreeSet<SiteId> = targets.iter().map(|&node| place(node).0).collect();
            let crossed: Vec<SiteId> = tree.wide_area_edges(&layout).map(|(_, to)| place(to).0).collect();
            prop_assert_eq!(crossed, sites.into_iter().filter(|&site| site != home).collect::<Vec<_>>());
            prop_assert!(tree.wide_area_edges(&layout).all(|(from, _)| from == root));
            let entered: Vec<_> = tree
                .edges()
                .filter(|&(from, to)| place(from) != place(to))
                .map(|(_, to)| place(to))
                .collect();
            let clusters: BTreeSet<_> = targets.iter().map(|&node| place(node)).collect();
            let clusters: BTreeSet<_> = clusters.into_iter().filter(|&to| to != place(root)).collect();
            prop_assert_eq!(entered.len(), clusters.len());
            prop_assert_eq!(entered.into_iter().collect::<BTreeSet<_>>(), clusters);
        }

        #[test]
        fn no_tree_is_deeper_than_its_rounds((layout, root, _) in any_multicast()) {
            let largest = layout.sites().map(|site| layout.nodes_in(site).count()).max().unwrap();
            let count = layout.node_count() as usize;
            let depth = |mode: Mode| mode.tree(&layout, root).depth();
            prop_assert!(depth(Mode::Star) <= 1);
            prop_assert!(depth(Mode::Binomial) <= count.ilog2());
            prop_assert!(depth(Mode::Layout) <= 2 + largest.ilog2());
        }

        #[test]
        fn the_order_and_number_of_the_targets_do_not_matter(
            (layout, root, targets) in any_multicast(),
        ) {
            let mut other = targets.clone();
            other.reverse();
            other.extend(&targets);
            let over = |targets| hierarchical_over(&layout, root, targets);
            prop_assert_eq!(over(targets), over(other));
        }
    }
}
