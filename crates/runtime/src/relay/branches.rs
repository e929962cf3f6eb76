//! The next hops of a multicast from one node.

use crate::message::MulticastTarget;
use gridspan_topology::{Layout, NodeId, SiteId};
use std::collections::BTreeMap;

/// The next hops of a multicast.
pub(super) struct Branches {
    /// Other nodes, each with the targets to which it passes the multicast on.
    pub(super) nodes: Vec<(NodeId, Vec<MulticastTarget>)>,
    /// The targets of this node.
    pub(super) here: Vec<MulticastTarget>,
}

/// Maximum number of nodes of its site that a node serves one by one: sending this many frames
/// takes about as long as the arrival of one. While more are left, the node sends the targets of
/// half of them to one node of that half, as in a binomial tree.
const STAR_MAX: usize = 8;

/// Divides the targets of a multicast that is at `here`: one part for each other site, sent first,
/// and parts for nodes of this site.
pub(super) fn branches(layout: &Layout, here: NodeId, targets: &[MulticastTarget]) -> Branches {
    let site = layout.site_of_node(here);
    let mut sites: BTreeMap<SiteId, Vec<MulticastTarget>> = BTreeMap::new();
    let mut near: BTreeMap<NodeId, Vec<MulticastTarget>> = BTreeMap::new();
    let mut own = Vec::new();
    for target in targets {
        let node = layout.node_of(target.pe);
        if layout.site_of_node(node) != site {
            sites.entry(layout.site_of_node(node)).or_default().push(target.clone());
        } else if node != here {
            near.entry(node).or_default().push(target.clone());
        } else {
            own.push(target.clone());
        }
    }
    let to_site = |targets: Vec<MulticastTarget>| (layout.node_of(targets[0].pe), targets);
    let mut nodes: Vec<_> = sites.into_values().map(to_site).collect();
    let mut near: Vec<(NodeId, Vec<MulticastTarget>)> = near.into_iter().collect();
    while near.len() > STAR_MAX {
        let half = near.split_off(near.len() / 2);
        let to = half[0].0;
        nodes.push((to, half.into_iter().flat_map(|(_, targets)| targets).collect()));
    }
    nodes.append(&mut near);
    Branches { nodes, here: own }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::PeId;
    use std::collections::BTreeSet;

    fn target(pe: u32) -> MulticastTarget {
        MulticastTarget { pe: PeId(pe), members: Vec::new() }
    }

    /// Creates sites with the given numbers of nodes, each with two PEs.
    fn layout(sites: &[usize]) -> Layout {
        let site = |(n, &nodes): (usize, &usize)| (format!("s{n}"), vec![2; nodes]);
        Layout::new(sites.iter().enumerate().map(site).collect())
    }

    /// Follows a multicast over all nodes. Returns the frames between sites, the steps until the
    /// last node has the multicast, and the PEs reached.
    fn follow(layout: &Layout, from: u32, pes: &[u32]) -> (usize, usize, BTreeSet<u32>) {
        let (mut crossings, mut rounds, mut reached) = (0, 0, BTreeSet::new());
        let mut at = vec![(NodeId(from), pes.iter().copied().map(target).collect::<Vec<_>>())];
        while !at.is_empty() {
            let mut next = Vec::new();
            for (node, targets) in at {
                let branches = branches(layout, node, &targets);
                for own in branches.here {
                    assert_eq!(layout.node_of(own.pe), node);
                    assert!(reached.insert(own.pe.0), "{} was reached twice", own.pe);
                }
                let is_other = |to: &NodeId| layout.site_of_node(*to) != layout.site_of_node(node);
                crossings += branches.nodes.iter().filter(|(to, _)| is_other(to)).count();
                next.extend(branches.nodes);
            }
            rounds += usize::from(!next.is_empty());
            at = next;
        }
        (crossings, rounds, reached)
    }

    #[test]
    fn a_multicast_reaches_every_target_and_every_other_site_once() {
        let layout = layout(&[3, 4, 2]);
        let pes: Vec<u32> = (0..18).filter(|pe| pe % 5 != 1).collect();

        let (crossings, rounds, reached) = follow(&layout, 1, &pes);

        assert_eq!(reached, pes.iter().copied().collect());
        assert_eq!(crossings, 2);
        assert_eq!(rounds, 2, "one step between sites, one inside");
    }

    #[test]
    fn nodes_of_a_large_site_pass_a_multicast_on() {
        let layout = layout(&[1, 256]);
        let pes: Vec<u32> = (2..514).collect();

        let (crossings, rounds, reached) = follow(&layout, 0, &pes);

        assert_eq!((crossings, reached.len()), (1, 512));
        assert!(rounds <= 7, "{rounds} rounds");
        assert!(branches(&layout, NodeId(1), &[target(4), target(6)]).nodes.len() == 2);
    }
}
