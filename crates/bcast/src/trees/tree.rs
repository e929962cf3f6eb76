//! A tree over nodes: the parent of each node, and its children in the order of sending.

use gridspan_topology::{Layout, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use thiserror::Error;

/// A broadcast tree. A lookup takes time logarithmic in the number of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Tree {
    root: NodeId,
    /// All nodes of the tree, ascending.
    nodes: Vec<Place>,
    /// The children of all nodes, those of one node side by side and in the order of sending.
    children: Vec<NodeId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    node: NodeId,
    /// The parent; for the root, the root itself.
    parent: NodeId,
    depth: u32,
    children: Range<u32>,
}

/// Why a list of edges is not a tree. No tree was created; correct the edges of the named node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// A node receives more than once, or the root receives.
    #[error("{node} is reached twice; leave out all edges to it but one")]
    ReachedTwice {
        /// The node.
        node: NodeId,
    },
    /// A node sends before an edge has reached it.
    #[error("{node} sends before it is reached; put the edge to it first")]
    NotReached {
        /// The node.
        node: NodeId,
    },
}

impl Tree {
    /// A tree of `(parent, child)` edges. Each edge comes after the one that reaches its parent; a
    /// parent sends to its children in the order of their edges.
    ///
    /// # Errors
    ///
    /// [`TreeError`] if a node is reached twice, or sends before an edge has reached it.
    pub fn from_edges(root: NodeId, edges: &[(NodeId, NodeId)]) -> Result<Self, TreeError> {
        let mut nodes: Vec<NodeId> = edges.iter().map(|&(_, child)| child).collect();
        nodes.push(root);
        nodes.sort_unstable();
        if let Some(pair) = nodes.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(TreeError::ReachedTwice { node: pair[0] });
        }

        const UNREACHED: u32 = u32::MAX;
        let mut depths = vec![UNREACHED; nodes.len()];
        let mut parents = nodes.clone();
        let mut counts = vec![0_u32; nodes.len()];
        let position = |node| nodes.binary_search(&node).ok();
        if let Some(at) = position(root) {
            depths[at] = 0;
        }
        for &(parent, child) in edges {
            let reached = position(parent).filter(|&at| depths[at] != UNREACHED);
            let (Some(at), Some(child)) = (reached, position(child)) else {
                return Err(TreeError::NotReached { node: parent });
            };
            depths[child] = depths[at] + 1;
            parents[child] = parent;
            counts[at] += 1;
        }
        Ok(Self::assemble(root, &nodes, &parents, &depths, &counts, edges))
    }

    /// Groups the children by parent. All slices except `edges` have one entry for each node, in
    /// the order of `nodes`.
    fn assemble(
        root: NodeId,
        nodes: &[NodeId],
        parents: &[NodeId],
        depths: &[u32],
        counts: &[u32],
        edges: &[(NodeId, NodeId)],
    ) -> Self {
        let mut next = 0;
        let place = |at: usize| {
            let first = next;
            next += counts[at];
            Place { node: nodes[at], parent: parents[at], depth: depths[at], children: first..next }
        };
        let nodes: Vec<Place> = (0..nodes.len()).map(place).collect();
        let mut by_parent = edges.to_vec();
        by_parent.sort_by_key(|&(parent, _)| parent);
        Self { root, nodes, children: by_parent.into_iter().map(|(_, child)| child).collect() }
    }

    /// The root, from which every message comes.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Number of nodes in the tree, including the root.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes in the tree, ascending.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator {
        self.nodes.iter().map(|place| place.node)
    }

    /// Whether `node` is in the tree.
    pub fn contains(&self, node: NodeId) -> bool {
        self.place(node).is_some()
    }

    /// The node from which `node` receives; `None` if it is the root or not in the tree.
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        self.place(node).filter(|place| place.node != self.root).map(|place| place.parent)
    }

    /// The nodes to which `node` passes on, in the order of sending; empty if it is not in the
    /// tree.
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        self.place(node).map_or(&[], |place| {
            &self.children[place.children.start as usize..place.children.end as usize]
        })
    }

    /// Number of edges between the root and `node`, if it is in the tree.
    pub fn depth_of(&self, node: NodeId) -> Option<u32> {
        self.place(node).map(|place| place.depth)
    }

    /// The largest depth of any node.
    pub fn depth(&self) -> u32 {
        self.nodes.iter().map(|place| place.depth).max().unwrap_or(0)
    }

    /// All `(parent, child)` edges, by ascending parent and in the order of sending.
    pub fn edges(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.nodes.iter().flat_map(|place| {
            let children = place.children.start as usize..place.children.end as usize;
            self.children[children].iter().map(|&child| (place.node, child))
        })
    }

    /// All edges in the order of sending, each after the one that reaches its parent.
    pub fn edges_from_root(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        let mut order = vec![self.root];
        let mut at = 0;
        while let Some(&node) = order.get(at) {
            order.extend_from_slice(self.children(node));
            at += 1;
        }
        let edges = |node| self.children(node).iter().map(move |&child| (node, child));
        order.into_iter().flat_map(edges)
    }

    /// The part of the tree that leads to these nodes: the root, the targets that are in the tree,
    /// and the nodes between.
    pub fn pruned(&self, targets: &BTreeSet<NodeId>) -> Self {
        let mut needed = BTreeSet::from([self.root]);
        for &target in targets {
            let mut node = target;
            while self.contains(node) && needed.insert(node) {
                node = self.parent(node).unwrap_or(self.root);
            }
        }
        let (mut nodes, mut children): (Vec<Place>, Vec<NodeId>) = (Vec::new(), Vec::new());
        for place in self.nodes.iter().filter(|place| needed.contains(&place.node)) {
            let first = children.len() as u32;
            let below = self.children(place.node).iter().copied();
            children.extend(below.filter(|child| needed.contains(child)));
            nodes.push(Place { children: first..children.len() as u32, ..place.clone() });
        }
        Self { root: self.root, nodes, children }
    }

    /// The edges that lead from one site to another.
    pub fn wide_area_edges(&self, layout: &Layout) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.edges().filter(|&(from, to)| layout.site_of_node(from) != layout.site_of_node(to))
    }

    fn place(&self, node: NodeId) -> Option<&Place> {
        self.nodes.binary_search_by_key(&node, |place| place.node).ok().map(|at| &self.nodes[at])
    }
}

/// A tree as it is stored: its edges in an order from which it can be built.
#[derive(Serialize, Deserialize)]
struct Stored {
    root: NodeId,
    edges: Vec<(NodeId, NodeId)>,
}

impl TryFrom<Stored> for Tree {
    type Error = TreeError;

    fn try_from(stored: Stored) -> Result<Self, TreeError> {
        Self::from_edges(stored.root, &stored.edges)
    }
}

impl From<Tree> for Stored {
    fn from(tree: Tree) -> Self {
        Self { root: tree.root, edges: tree.edges_from_root().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(u32, u32)]) -> Vec<(NodeId, NodeId)> {
        pairs.iter().map(|&(parent, child)| (NodeId(parent), NodeId(child))).collect()
    }

    #[test]
    fn edges_become_parents_children_and_depths() {
        let tree = Tree::from_edges(NodeId(5), &edges(&[(5, 9), (9, 0), (5, 2), (9, 7)])).unwrap();

        assert_eq!(tree.root(), NodeId(5));
        assert_eq!(tree.nodes().collect::<Vec<_>>(), [0, 2, 5, 7, 9].map(NodeId));
        assert_eq!(tree.children(NodeId(5)), [9, 2].map(NodeId));
        assert_eq!(tree.children(NodeId(9)), [0, 7].map(NodeId));
        assert_eq!(tree.parent(NodeId(7)), Some(NodeId(9)));
        assert_eq!(tree.parent(NodeId(5)), None);
        assert_eq!(tree.depth_of(NodeId(0)), Some(2));
        assert_eq!(tree.depth(), 2);
        assert_eq!(tree.edges().collect::<Vec<_>>(), edges(&[(5, 9), (5, 2), (9, 0), (9, 7)]));
    }

    #[test]
    fn the_part_that_leads_to_some_nodes_is_a_tree() {
        let tree = Tree::from_edges(NodeId(5), &edges(&[(5, 9), (9, 0), (5, 2), (9, 7)])).unwrap();

        let pruned = tree.pruned(&[NodeId(7), NodeId(2), NodeId(99)].into());

        let same = Tree::from_edges(NodeId(5), &edges(&[(5, 9), (5, 2), (9, 7)])).unwrap();
        assert_eq!(pruned, same);
        assert_eq!(tree.pruned(&BTreeSet::new()).node_count(), 1);
    }

    #[test]
    fn a_root_alone_is_a_tree() {
        let tree = Tree::from_edges(NodeId(3), &[]).unwrap();

        assert_eq!((tree.node_count(), tree.depth()), (1, 0));
        assert!(tree.children(NodeId(3)).is_empty());
    }

    #[test]
    fn a_node_that_is_not_in_the_tree_has_no_parent_and_no_children() {
        let tree = Tree::from_edges(NodeId(0), &edges(&[(0, 1)])).unwrap();

        assert!(!tree.contains(NodeId(2)));
        assert_eq!(tree.parent(NodeId(2)), None);
        assert!(tree.children(NodeId(2)).is_empty());
        assert_eq!(tree.depth_of(NodeId(2)), None);
    }

    #[test]
    fn edges_that_form_no_tree_are_refused() {
        let from = |pairs: &[(u32, u32)]| Tree::from_edges(NodeId(0), &edges(pairs));
        let twice = |node| Err(TreeError::ReachedTwice { node: NodeId(node) });
        let early = |node| Err(TreeError::NotReached { node: NodeId(node) });

        assert_eq!(from(&[(0, 1), (0, 2), (1, 2)]), twice(2));
        assert_eq!(from(&[(0, 1), (1, 0)]), twice(0));
        assert_eq!(from(&[(0, 1), (2, 3), (3, 2)]), early(2));
        assert_eq!(from(&[(1, 2), (0, 1)]), early(1));
        assert_eq!(from(&[(7, 1)]), early(7));
    }
}
