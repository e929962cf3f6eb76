//! The tree of nodes over which samples are merged.
//!
//! The leaders of sites, which are their first nodes, form a tree of [`FANOUT`] children each, with
//! the site of main on top. Inside a site the other nodes form a tree below the leader. So a sample
//! crosses each pair of sites at most once, and no node gets samples from more than eight others.
//!
//! A job may go on without nodes that were lost. The nodes below a lost one then report to the node
//! above it, so the tree follows from the layout and the nodes that are left. All other places stay
//! the same: nodes learn of a loss at different times, and none may count twice meanwhile.

use gridspan_topology::{Layout, NodeId, SiteId};
use std::collections::BTreeSet;

/// Largest number of children inside a site, and of sites below a site.
const FANOUT: u32 = 4;

/// The place of one node in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TelemetryTree {
    /// The node to which its samples go; `None` for the root.
    pub(crate) parent: Option<NodeId>,
    /// The nodes whose samples it gets.
    pub(crate) children: Vec<NodeId>,
    /// Number of nodes above it, including the root.
    pub(crate) depth: u32,
}

impl TelemetryTree {
    /// The place of a founder in the tree of the founders that are not lost.
    pub(crate) fn of(layout: &Layout, node: NodeId, lost: &BTreeSet<NodeId>) -> Self {
        let whole = Self::whole(layout, node);
        if lost.is_empty() {
            return whole;
        }
        let above = |parent: &NodeId| Self::whole(layout, *parent).parent;
        let above = std::iter::successors(whole.parent, above).filter(|node| !lost.contains(node));
        let above: Vec<NodeId> = above.collect();
        let (mut children, mut below) = (Vec::new(), whole.children);
        while let Some(child) = below.pop() {
            match lost.contains(&child) {
                true => below.extend(Self::whole(layout, child).children),
                false => children.push(child),
            }
        }
        children.sort_unstable();
        Self { parent: above.first().copied(), children, depth: above.len() as u32 }
    }

    /// The place of a founder in the tree of all founders.
    fn whole(layout: &Layout, node: NodeId) -> Self {
        // A site may have guests only.
        let has_nodes = |site: &SiteId| layout.nodes_in(*site).next().is_some();
        let sites: Vec<SiteId> = layout.sites().filter(has_nodes).collect();
        let leader = |position: u32| -> Option<NodeId> {
            layout.nodes_in(*sites.get(position as usize)?).next()
        };
        let own = layout.site_of_node(node);
        let site = sites.iter().position(|&site| site == own).unwrap_or_default() as u32;
        let first = leader(site).unwrap_or(node);
        let (place, places) = (node.0 - first.0, layout.nodes_in(own).count() as u32);
        let below = children(place).filter(|&place| place < places);
        let mut all: Vec<NodeId> = below.map(|place| NodeId(first.0 + place)).collect();
        if place == 0 {
            all.extend(children(site).filter_map(leader));
        }
        let parent = match (above(place), above(site)) {
            (Some(place), _) => Some(NodeId(first.0 + place)),
            (None, Some(site)) => leader(site),
            (None, None) => None,
        };
        Self { parent, children: all, depth: level(place) + level(site) }
    }
}

fn children(place: u32) -> impl Iterator<Item = u32> {
    let first = place.saturating_mul(FANOUT).saturating_add(1);
    first..first.saturating_add(FANOUT)
}

fn above(place: u32) -> Option<u32> {
    place.checked_sub(1).map(|place| place / FANOUT)
}

fn level(place: u32) -> u32 {
    std::iter::successors(Some(place), |&place| above(place)).count() as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(sites: &[usize]) -> Layout {
        let site = |(n, &nodes): (usize, &usize)| (format!("s{n}"), vec![1; nodes]);
        Layout::new(sites.iter().enumerate().map(site).collect())
    }

    #[test]
    fn every_node_but_the_first_is_the_child_of_its_parent() {
        for sites in [&[1][..], &[9], &[3, 1, 40], &[2; 30], &[250; 4], &[5, 0, 7]] {
            let layout = layout(sites);
            let places: Vec<TelemetryTree> =
                layout.nodes().map(|node| TelemetryTree::whole(&layout, node)).collect();

            assert_eq!(places[0].parent, None);
            for (node, place) in layout.nodes().zip(&places) {
                for child in &place.children {
                    let below = &places[child.index()];
                    assert_eq!((below.parent, below.depth), (Some(node), place.depth + 1));
                }
                assert!(place.children.len() <= 8, "{sites:?}");
            }
            let children: usize = places.iter().map(|place| place.children.len()).sum();
            assert_eq!(children as u32, layout.node_count() - 1, "{sites:?}");
        }
    }

    #[test]
    fn the_nodes_below_lost_ones_report_to_the_nodes_above_them() {
        // Inner nodes of a site, one below the other; a leader; all nodes of a site.
        for lost in [&[1, 5][..], &[30], &[40, 41, 42], &[1, 2, 3, 4, 30, 31]] {
            let layout = layout(&[30, 10, 3]);
            let lost: BTreeSet<NodeId> = lost.iter().copied().map(NodeId).collect();
            let left: Vec<NodeId> = layout.nodes().filter(|node| !lost.contains(node)).collect();
            let mut reached = BTreeSet::from([NodeId(0)]);
            for &node in &left {
                let place = TelemetryTree::of(&layout, node, &lost);
                assert_eq!(place.parent.is_none(), node == NodeId(0));
                for &child in &place.children {
                    let below = TelemetryTree::of(&layout, child, &lost);
                    assert_eq!((below.parent, below.depth), (Some(node), place.depth + 1));
                    assert!(reached.insert(child), "{child} reports twice");
                }
            }
            assert_eq!(reached.into_iter().collect::<Vec<_>>(), left, "{lost:?}");
        }
    }

    #[test]
    fn samples_of_a_site_leave_it_once() {
        let layout = layout(&[30, 30, 30]);
        let leaves = |node: &NodeId| {
            let parent = TelemetryTree::whole(&layout, *node).parent;
            parent.is_some_and(|to| layout.site_of_node(to) != layout.site_of_node(*node))
        };
        assert_eq!(layout.nodes().filter(leaves).collect::<Vec<_>>(), [NodeId(30), NodeId(60)]);
    }
}
