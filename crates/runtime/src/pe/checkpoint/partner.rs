//! The node that gets copies of the parts of another node.

use super::settings::Checkpoints;
use gridspan_topology::{Layout, NodeId};

impl Checkpoints {
    /// Returns the node that gets copies of the parts of node `here` in a checkpoint, before nodes
    /// `leaving` leave: the next node of its site, or of the job if its site has no other. With
    /// protection of sites, it is a node of another site, if there is one. Parts of nodes that
    /// leave are copied even if one copy is enough otherwise. `None`: the parts are not copied.
    pub(crate) fn partner(
        &self,
        layout: &Layout,
        here: NodeId,
        leaving: &[NodeId],
    ) -> Option<NodeId> {
        if self.copies < 2 && !leaving.contains(&here) {
            return None;
        }
        let stays = |node: &NodeId| *node != here && !leaving.contains(node);
        let own = layout.site_of_node(here);
        let after_here = |nodes: Vec<NodeId>| {
            let after = nodes.iter().position(|&node| node == here).map_or(0, |at| at + 1);
            nodes.iter().cycle().skip(after).take(nodes.len()).copied().find(stays)
        };
        let anywhere = || after_here(layout.nodes().collect());
        if !self.protects_site {
            return after_here(layout.nodes_in(own).collect()).or_else(anywhere);
        }
        let position = layout.nodes_in(own).position(|node| node == here).unwrap_or(0);
        let at_site = |site| {
            let nodes: Vec<NodeId> = layout.nodes_in(site).filter(stays).collect();
            nodes.get(position % nodes.len().max(1)).copied()
        };
        let sites: Vec<_> = layout.sites().collect();
        let others = sites.iter().cycle().skip(own.index() + 1).take(sites.len() - 1);
        others.copied().find_map(at_site).or_else(anywhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partners(checkpoints: Checkpoints, leaving: &[u32]) -> Vec<Option<u32>> {
        let sites = vec![("a".to_owned(), vec![1, 1]), ("b".to_owned(), vec![1])];
        let layout = Layout::new(sites);
        let leaving: Vec<NodeId> = leaving.iter().copied().map(NodeId).collect();
        let partner = |here| Some(checkpoints.partner(&layout, here, &leaving)?.0);
        layout.nodes().map(partner).collect()
    }

    #[test]
    fn copies_are_near_unless_sites_are_protected() {
        let near = Checkpoints::default();
        assert_eq!(partners(near, &[]), [Some(1), Some(0), Some(0)]);
        assert_eq!(partners(near.protecting_sites(true), &[]), [Some(2), Some(2), Some(0)]);
        assert_eq!(partners(near.with_copies(1), &[]), [None; 3]);
    }

    #[test]
    fn nodes_that_leave_get_no_copies_and_theirs_go_to_those_that_stay() {
        let one = Checkpoints::default().with_copies(1);
        assert_eq!(partners(one, &[1]), [None, Some(0), None]);
        assert_eq!(partners(one, &[0, 1]), [Some(2), Some(2), None]);
        let apart = Checkpoints::default().protecting_sites(true);
        assert_eq!(partners(apart, &[2]), [Some(1), Some(0), Some(0)]);
    }
}
