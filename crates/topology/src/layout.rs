//! Which PEs, nodes, hosts and sites a job has, and what is part of what.

use crate::id::{HostId, NodeId, PeId, SiteId};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use thiserror::Error;

/// The places of one job, known in full to every PE. PEs are numbered node by node and nodes site
/// by site, so that neighbouring numbers are neighbours in the network. It is stored as what
/// [`Layout::new`] takes, so that a stored layout cannot contradict itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(String, Vec<u32>)>", into = "Vec<(String, Vec<u32>)>")]
pub struct Layout {
    sites: Vec<String>,
    nodes: Vec<NodePlace>,
    /// The node of each PE.
    node_of_pe: Vec<NodeId>,
    /// The nodes of each site.
    nodes_of_site: Vec<Range<u32>>,
}

/// Where one node is and which PEs it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlace {
    /// The site the node is in.
    pub site: SiteId,
    /// The host the node runs on.
    pub host: HostId,
    /// The node's PEs.
    pub pes: Range<u32>,
}

impl Layout {
    /// One site with one node of `pes` PEs (at least one).
    pub fn single(pes: u32) -> Self {
        Self::new(vec![("local".to_owned(), vec![pes])])
    }

    /// A layout from each site's name and the number of PEs of each of its nodes, one node a host.
    /// Nodes without PEs get one.
    pub fn new(sites: Vec<(String, Vec<u32>)>) -> Self {
        let mut layout =
            Self { sites: vec![], nodes: vec![], node_of_pe: vec![], nodes_of_site: vec![] };
        for (site, (name, nodes)) in sites.into_iter().enumerate() {
            let first_node = layout.nodes.len() as u32;
            for pes in nodes {
                let node = NodeId::from(layout.nodes.len());
                let first = layout.node_of_pe.len() as u32;
                let pes = first..first + pes.max(1);
                layout.node_of_pe.extend(pes.clone().map(|_| node));
                layout.nodes.push(NodePlace {
                    site: SiteId::from(site),
                    host: HostId(node.0),
                    pes,
                });
            }
            layout.sites.push(name);
            layout.nodes_of_site.push(first_node..layout.nodes.len() as u32);
        }
        layout
    }

    /// How many PEs the job has.
    pub fn pe_count(&self) -> u32 {
        self.node_of_pe.len() as u32
    }

    /// How many nodes the job has.
    pub fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// How many sites the job has.
    pub fn site_count(&self) -> u32 {
        self.sites.len() as u32
    }

    /// All PEs in order.
    pub fn pes(&self) -> impl DoubleEndedIterator<Item = PeId> + ExactSizeIterator + use<> {
        (0..self.pe_count()).map(PeId)
    }

    /// All nodes in order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.node_count()).map(NodeId)
    }

    /// All sites in order.
    pub fn sites(&self) -> impl DoubleEndedIterator<Item = SiteId> + ExactSizeIterator + use<> {
        (0..self.site_count()).map(SiteId)
    }

    /// Where `node` is. Panics if the job has no such node.
    pub fn place(&self, node: NodeId) -> &NodePlace {
        &self.nodes[node.index()]
    }

    /// Whether the job has such a PE.
    pub fn contains(&self, pe: PeId) -> bool {
        pe.0 < self.pe_count()
    }

    /// The node that runs `pe`. Panics if the job has no such PE.
    #[inline]
    pub fn node_of(&self, pe: PeId) -> NodeId {
        self.node_of_pe[pe.index()]
    }

    /// The site that `pe` is in. Panics if the job has no such PE.
    pub fn site_of(&self, pe: PeId) -> SiteId {
        self.place(self.node_of(pe)).site
    }

    /// The site that `node` is in. Panics if the job has no such node.
    pub fn site_of_node(&self, node: NodeId) -> SiteId {
        self.place(node).site
    }

    /// The user's name of `site`. Panics if the job has no such site.
    pub fn site_name(&self, site: SiteId) -> &str {
        &self.sites[site.index()]
    }

    /// The nodes in `site`. Panics if the job has no such site.
    pub fn nodes_in(&self, site: SiteId) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        self.nodes_of_site[site.index()].clone().map(NodeId)
    }

    /// The PEs in `site`. Panics if the job has no such site.
    pub fn pes_in(&self, site: SiteId) -> Range<u32> {
        let nodes = &self.nodes_of_site[site.index()];
        if nodes.is_empty() {
            return 0..0;
        }
        self.nodes[nodes.start as usize].pes.start..self.nodes[nodes.end as usize - 1].pes.end
    }

    /// The PE of `node` that speaks for it in trees.
    pub fn leader(&self, node: NodeId) -> PeId {
        PeId(self.place(node).pes.start)
    }
}

/// Why a stored layout is none. Nothing was read; write fewer PEs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The layout has more PEs than memory should be spent on.
    #[error("the layout has {pes} PEs; write at most {MAX_STORED_PES}")]
    TooManyPes {
        /// How many PEs there would be.
        pes: u64,
    },
}

/// A layout that is read has at most this many PEs: each takes four bytes.
const MAX_STORED_PES: u64 = 1 << 26;

impl TryFrom<Vec<(String, Vec<u32>)>> for Layout {
    type Error = LayoutError;

    fn try_from(sites: Vec<(String, Vec<u32>)>) -> Result<Self, LayoutError> {
        let pes = sites.iter().flat_map(|(_, nodes)| nodes).map(|&pes| u64::from(pes.max(1))).sum();
        if pes > MAX_STORED_PES {
            return Err(LayoutError::TooManyPes { pes });
        }
        Ok(Self::new(sites))
    }
}

impl From<Layout> for Vec<(String, Vec<u32>)> {
    fn from(layout: Layout) -> Self {
        let pes_of = |node| layout.place(node).pes.len() as u32;
        let site_of =
            |site| (layout.site_name(site).to_owned(), layout.nodes_in(site).map(pes_of).collect());
        layout.sites().map(site_of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_sites() -> Vec<(String, Vec<u32>)> {
        vec![("a".to_owned(), vec![2, 1]), ("b".to_owned(), vec![0])]
    }

    #[test]
    fn pes_are_numbered_node_by_node_and_site_by_site() {
        let layout = Layout::new(two_sites());

        assert_eq!((layout.pe_count(), layout.node_count(), layout.site_count()), (4, 3, 2));
        assert_eq!(layout.node_of(PeId(2)), NodeId(1));
        assert_eq!(layout.site_of(PeId(3)), SiteId(1));
        assert_eq!(layout.pes_in(SiteId(0)), 0..3);
        assert_eq!(layout.leader(NodeId(1)), PeId(2));
        assert_eq!(layout.place(NodeId(2)).pes, 3..4, "a node without PEs gets one");
    }

    #[test]
    fn a_layout_survives_being_stored() {
        let layout = Layout::new(two_sites());

        let stored = Vec::from(layout.clone());

        assert_eq!(stored[1], ("b".to_owned(), vec![1]));
        assert_eq!(Layout::try_from(stored), Ok(layout));
    }

    #[test]
    fn a_stored_layout_of_too_many_pes_is_refused() {
        let stored = vec![("a".to_owned(), vec![u32::MAX, 1])];

        assert_eq!(Layout::try_from(stored), Err(LayoutError::TooManyPes { pes: 1 << 32 }));
    }
}
