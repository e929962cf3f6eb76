//! The nodes that get copies of the parts of another node.

use super::settings::Checkpoints;
use gridspan_topology::{GridSpec, Layout, NodeId, SiteId};
use std::collections::BTreeMap;
use std::time::Duration;

impl Checkpoints {
    /// Returns the nodes that get copies of the parts of node `here` in a checkpoint: one fewer than
    /// the number of copies, or fewer if the job has not enough nodes. They are none of the nodes
    /// `leaving`, which will leave. The parts of these are copied even if the job otherwise keeps
    /// one copy only.
    ///
    /// Each copy goes to the first of these nodes that exists and has no other copy of the part: one
    /// on the next host of the same site without a copy, the next node of the site, a node of
    /// another site. With protection of sites, it goes to a node of another site, if there is one
    /// without a copy, and on a host without a copy, if that site has one.
    ///
    /// `hosts`: for each node, the first one on the same host; empty if each has its own.
    pub(crate) fn partners(
        &self,
        layout: &Layout,
        hosts: &[NodeId],
        here: NodeId,
        leaving: &[NodeId],
    ) -> Vec<NodeId> {
        let copies = if leaving.contains(&here) { self.copies.max(2) } else { self.copies };
        self.further_partners((layout, hosts), vec![here], copies, leaving)
    }

    /// Returns the nodes to which node `reader` copies a part of the checkpoint from which the job
    /// continues, since only the nodes `holders` have it in memory. If `holders` is empty, the
    /// reader has the part from the place of the checkpoint, and copies it to no node.
    pub(crate) fn partners_again(
        &self,
        grid: (&Layout, &[NodeId]),
        reader: NodeId,
        holders: &[NodeId],
    ) -> Vec<NodeId> {
        if holders.is_empty() || self.every.is_none() {
            return Vec::new();
        }
        let others = holders.iter().copied().filter(|&node| node != reader);
        let all = std::iter::once(reader).chain(others).collect();
        self.further_partners(grid, all, self.copies, &[])
    }

    /// The nodes that get copies of a part if `holders` have it, so that all together are `copies`.
    fn further_partners(
        &self,
        (layout, hosts): (&Layout, &[NodeId]),
        mut holders: Vec<NodeId>,
        copies: u32,
        leaving: &[NodeId],
    ) -> Vec<NodeId> {
        let had = holders.len();
        while holders.len() < copies as usize
            && let Some(partner) = self.next_partner(layout, hosts, &holders, leaving)
        {
            holders.push(partner);
        }
        holders.split_off(had)
    }

    /// The node that gets the next copy of the parts of the first of `holders`. All of these have
    /// the parts.
    fn next_partner(
        &self,
        layout: &Layout,
        hosts: &[NodeId],
        holders: &[NodeId],
        leaving: &[NodeId],
    ) -> Option<NodeId> {
        let here = *holders.first()?;
        let stays = |node: &NodeId| !holders.contains(node) && !leaving.contains(node);
        let own = layout.site_of_node(here);
        let host = |node: NodeId| hosts.get(node.index()).copied().unwrap_or(node);
        let is_new_host = |other: NodeId| holders.iter().all(|&holder| host(holder) != other);
        let after_here = |nodes: Vec<NodeId>| {
            let after = nodes.iter().position(|&node| node == here).map_or(0, |at| at + 1);
            let mut others =
                nodes.iter().cycle().skip(after).take(nodes.len()).copied().filter(stays);
            let next = others.clone().map(host).find(|&other| is_new_host(other));
            // The nodes of a host give their copies to different nodes of the next one.
            let before = nodes.iter().filter(|&&node| node < here && host(node) == host(here));
            let position = before.count();
            let of_next = nodes.iter().copied().filter(stays);
            let of_next: Vec<NodeId> = of_next.filter(|&node| Some(host(node)) == next).collect();
            let apart = of_next.get(position % of_next.len().max(1)).copied();
            apart.or_else(|| others.next())
        };
        let anywhere = || after_here(layout.nodes().collect());
        if !self.protects_site {
            return after_here(layout.nodes_in(own).collect()).or_else(anywhere);
        }
        let position = layout.nodes_in(own).position(|node| node == here).unwrap_or(0);
        let at_site = |site| {
            let nodes: Vec<NodeId> = layout.nodes_in(site).filter(stays).collect();
            // Several sites may share hosts.
            let apart = nodes.iter().copied().filter(|&node| is_new_host(host(node)));
            let apart: Vec<NodeId> = apart.collect();
            let nodes = if apart.is_empty() { nodes } else { apart };
            nodes.get(position % nodes.len().max(1)).copied()
        };
        let sites: Vec<_> = layout.sites().collect();
        let others = sites.iter().cycle().skip(own.index() + 1).take(sites.len() - 1);
        let has_none = |site: &SiteId| holders.iter().all(|&it| layout.site_of_node(it) != *site);
        others.copied().filter(has_none).find_map(at_site).or_else(anywhere)
    }

    /// The nodes that get copies of the parts of node `of`, while no node of the job leaves. None if
    /// the job keeps one copy only, or has no other node. `grid`: the nodes of the job at the
    /// checkpoint.
    ///
    /// ```
    /// use gridspan_runtime::{Checkpoints, NodeId};
    /// use gridspan_topology::GridSpec;
    ///
    /// let grid = GridSpec::from_emulate("2x2,wan=8ms")?;
    /// let settings = Checkpoints::default();
    /// assert_eq!(settings.partners_in(&grid, NodeId(2)), [NodeId(3)]);
    /// assert_eq!(settings.with_copies(1).partners_in(&grid, NodeId(2)), []);
    /// assert_eq!(settings.with_copies(3).partners_in(&grid, NodeId(2)), [3, 0].map(NodeId));
    /// # Ok::<(), gridspan_topology::EmulateError>(())
    /// ```
    pub fn partners_in(&self, grid: &GridSpec, of: NodeId) -> Vec<NodeId> {
        self.partners(grid.layout(), &Self::first_on_hosts(grid), of, &[])
    }

    /// Returns for each node the first one on the same host.
    pub(crate) fn first_on_hosts(grid: &GridSpec) -> Vec<NodeId> {
        let mut first = BTreeMap::new();
        grid.hosts().map(|(node, host)| *first.entry(name_of(host)).or_insert(node)).collect()
    }

    /// The bytes that these nodes keep of a checkpoint: their own parts, and copies of those of
    /// others. `bytes`: the size of the parts of a node.
    pub(crate) fn kept_bytes(
        &self,
        layout: &Layout,
        hosts: &[NodeId],
        nodes: &[NodeId],
        bytes: impl Fn(NodeId) -> u64,
    ) -> u64 {
        let kept = |node: NodeId| {
            let partners = self.partners(layout, hosts, node, &[]);
            let keepers = std::iter::once(node).chain(partners);
            let copies = keepers.filter(|keeper| nodes.contains(keeper)).count() as u64;
            bytes(node).saturating_mul(copies)
        };
        layout.nodes().map(kept).fold(0, u64::saturating_add)
    }

    /// The time to send a copy of `bytes` of a PE on node `from`, at its share of the bandwidth for
    /// copies to other sites, which all PEs of its site share equally. Zero if the bandwidth is
    /// unlimited, or `to` is at the same site.
    pub(crate) fn copy_time(
        &self,
        layout: &Layout,
        [from, to]: [NodeId; 2],
        bytes: u64,
    ) -> Duration {
        let site = layout.site_of_node(from);
        let rate = self.copy_rate.filter(|_| layout.site_of_node(to) != site);
        let Some(rate) = rate else { return Duration::ZERO };
        let pes: u64 = layout.nodes_in(site).map(|node| layout.place(node).pes.len() as u64).sum();
        rate.time_for(bytes.saturating_mul(pes))
    }
}

/// Returns the name of a host without the user for `ssh` that may precede it.
fn name_of(host: &str) -> &str {
    host.rsplit_once('@').map_or(host, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pe::CheckpointEvery;
    use gridspan_topology::Bandwidth;

    fn partners(checkpoints: Checkpoints, leaving: &[u32]) -> Vec<Option<u32>> {
        let sites = vec![("a".to_owned(), vec![1, 1]), ("b".to_owned(), vec![1])];
        let layout = Layout::new(sites);
        let leaving: Vec<NodeId> = leaving.iter().copied().map(NodeId).collect();
        let partner = |here| Some(checkpoints.partners(&layout, &[], here, &leaving).first()?.0);
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
    fn copies_are_on_other_hosts_and_spread_over_their_nodes() {
        let layout = Layout::new(vec![("a".to_owned(), vec![1; 5]), ("b".to_owned(), vec![1; 2])]);
        let partners = |checkpoints: Checkpoints, hosts: [u32; 7], leaving: &[NodeId]| {
            let hosts = hosts.map(NodeId);
            let partner =
                |here| Some(checkpoints.partners(&layout, &hosts, here, leaving).first()?.0);
            layout.nodes().map(partner).collect::<Vec<Option<u32>>>()
        };
        let near = Checkpoints::default();
        // Nodes 0 and 1 share a host, and so do 2 and 3, and both nodes of the other site.
        let hosts = [0, 0, 2, 2, 4, 5, 5];
        assert_eq!(partners(near, hosts, &[]), [2, 3, 4, 4, 0, 6, 5].map(Some));
        assert_eq!(
            partners(near, hosts, &[NodeId(2)]),
            [3, 3, 4, 4, 0, 6, 5].map(Some),
            "node 2 gives a copy, and gets none"
        );
        let mixed = [0, 1, 0, 1, 0, 5, 6];
        assert_eq!(partners(near, mixed, &[]), [1, 0, 3, 2, 1, 6, 5].map(Some));
        let apart = near.protecting_sites(true);
        assert_eq!(partners(apart, hosts, &[]), [5, 6, 5, 6, 5, 0, 1].map(Some));
    }

    #[test]
    fn nodes_keep_their_parts_and_those_of_which_they_have_copies() {
        let layout = Layout::new(vec![("a".to_owned(), vec![1; 4])]);
        let hosts = [0, 0, 2, 2].map(NodeId);
        let kept = |checkpoints: Checkpoints, nodes: &[u32]| {
            let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
            checkpoints.kept_bytes(&layout, &hosts, &nodes, |node| 10_u64.pow(node.0))
        };
        let two = Checkpoints::default();
        assert_eq!(kept(two, &[0, 1]), 1_111, "the copies are on the other host");
        assert_eq!(kept(two, &[0, 1, 2, 3]), 2_222);
        assert_eq!(kept(two.with_copies(1), &[0, 1]), 11);
        assert_eq!(kept(two.with_copies(3), &[0, 1, 2, 3]), 3_333);
        let alone = two.kept_bytes(&Layout::single(4), &[], &[NodeId(0)], |_| 7);
        assert_eq!(alone, 7, "no other node has a copy");
    }

    #[test]
    fn the_pes_of_a_site_share_the_bandwidth_for_copies_to_others() {
        let layout = Layout::new(vec![("a".to_owned(), vec![2, 2]), ("b".to_owned(), vec![1])]);
        let rate = Bandwidth::from_bits_per_second(8_000_000);
        let limited = Checkpoints::default().with_copy_rate(rate);
        let time = |checkpoints: Checkpoints, ends: [u32; 2]| {
            checkpoints.copy_time(&layout, ends.map(NodeId), 1_000_000)
        };
        assert_eq!(time(limited, [0, 2]), Duration::from_secs(4));
        assert_eq!(time(limited, [2, 1]), Duration::from_secs(1));
        assert_eq!(time(limited, [0, 1]), Duration::ZERO, "within the site");
        assert_eq!(time(Checkpoints::default(), [0, 2]), Duration::ZERO);
    }

    #[test]
    fn copies_at_other_sites_are_on_other_hosts_if_sites_share_hosts() {
        let layout = Layout::new(vec![("a".to_owned(), vec![1; 2]), ("b".to_owned(), vec![1; 2])]);
        let partners = |hosts: [u32; 4]| {
            let (apart, hosts) = (Checkpoints::default().protecting_sites(true), hosts.map(NodeId));
            let partner = |here| Some(apart.partners(&layout, &hosts, here, &[]).first()?.0);
            layout.nodes().map(partner).collect::<Vec<Option<u32>>>()
        };
        assert_eq!(partners([0, 1, 0, 1]), [3, 2, 1, 0].map(Some));
        assert_eq!(partners([0, 0, 0, 0]), [2, 3, 0, 1].map(Some), "there is one host only");
    }

    #[test]
    fn further_copies_are_on_hosts_and_sites_without_one() {
        let layout = Layout::new(vec![("a".to_owned(), vec![1; 4]), ("b".to_owned(), vec![1; 2])]);
        let partners = |checkpoints: Checkpoints, hosts: [u32; 6], here: u32| {
            let hosts = hosts.map(NodeId);
            let partners = checkpoints.partners(&layout, &hosts, NodeId(here), &[]);
            partners.into_iter().map(|node| node.0).collect::<Vec<u32>>()
        };
        let three = Checkpoints::default().with_copies(3);
        let own = [0, 1, 2, 3, 4, 5];
        assert_eq!([0, 2, 3].map(|here| partners(three, own, here)), [[1, 2], [3, 0], [0, 1]]);
        assert_eq!(partners(three, own, 4), [5, 0], "its site has two nodes");
        // Nodes 0 and 1 share a host, and so do 2 and 3.
        assert_eq!(partners(three, [0, 0, 2, 2, 4, 5], 0), [2, 1]);
        let apart = three.protecting_sites(true);
        assert_eq!(partners(apart, own, 0), [4, 1], "another site, and then another host");
        assert_eq!(partners(apart.with_copies(99), own, 0), [4, 1, 2, 3, 5], "all other nodes");
    }

    #[test]
    fn parts_that_too_few_nodes_have_are_copied_again_to_other_hosts() {
        let layout = Layout::new(vec![("a".to_owned(), vec![1; 4]), ("b".to_owned(), vec![1])]);
        // Nodes 1 and 2 share a host.
        let hosts = [0, 1, 1, 3, 4].map(NodeId);
        let every = Checkpoints::every(CheckpointEvery::Auto);
        let again = |checkpoints: Checkpoints, holders: &[u32]| {
            let holders: Vec<NodeId> = holders.iter().copied().map(NodeId).collect();
            let nodes = checkpoints.partners_again((&layout, &hosts), NodeId(0), &holders);
            nodes.into_iter().map(|node| node.0).collect::<Vec<u32>>()
        };
        let three = every.with_copies(3);
        assert_eq!(again(three, &[0, 2]), [3], "node 1 is on the host of node 2");
        assert_eq!(again(three, &[0]), [1, 3]);
        assert_eq!(again(every.with_copies(2), &[0]), [1]);
        assert_eq!(again(three.protecting_sites(true), &[0, 2]), [4]);
        assert_eq!(again(three, &[0, 1, 3]), [0; 0], "they are enough");
        assert_eq!(again(three, &[]), [0; 0], "no node has it in memory");
        assert_eq!(again(Checkpoints::default(), &[0]), [0; 0], "there are no checkpoints");
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
