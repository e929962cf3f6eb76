//! The PEs, nodes and sites of a job, and how they contain each other.

use crate::id::{NodeId, PeId, SiteId};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use thiserror::Error;

/// Maximum number of PEs of a guest, which is the distance between the first PEs of two guests.
pub const GUEST_PES_MAX: u32 = 4096;

/// The last PE number of guests: PE numbers are also indices in groups of actors, which are signed.
const LAST_PE: u32 = i32::MAX as u32;

/// The places of one job, known in full to every PE. PEs are numbered node by node and nodes site
/// by site, so that consecutive numbers are neighbours in the network. The stored form is the input
/// of the constructor, so that a stored layout cannot contradict itself.
///
/// The nodes here are the founders of the job. *Guests* are nodes that join the job while it runs.
/// Their numbers follow those of the founders and encode their site, so that every node can compute
/// the site of a guest without any message about it. A number is never used again. Counts and lists
/// here cover founders only.
///
/// ```
/// use gridspan_topology::{Layout, NodeId, PeId, SiteId};
///
/// // Two nodes of two PEs at one site, one node of four PEs at another.
/// let sites = [("delft", vec![2, 2]), ("urbana", vec![4])];
/// let layout = Layout::new(sites.map(|(name, pes)| (name.to_owned(), pes)).to_vec());
/// assert_eq!(layout.pe_count(), 8);
/// assert_eq!(layout.node_of(PeId(5)), NodeId(2));
/// assert_eq!(layout.site_of(PeId(5)), SiteId(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<StoredSite>", into = "Vec<StoredSite>")]
pub struct Layout {
    sites: Vec<String>,
    nodes: Vec<NodePlace>,
    node_of_pe: Vec<NodeId>,
    nodes_of_site: Vec<Range<u32>>,
    /// In the layout for a guest, that guest and its place.
    guest: Option<(NodeId, NodePlace)>,
}

/// The place of one node and its PEs.
///
/// ```
/// use gridspan_topology::{Layout, NodeId, SiteId};
///
/// let layout = Layout::new(vec![("delft".to_owned(), vec![2, 2])]);
/// let second = layout.place(NodeId(1));
/// assert_eq!((second.site, second.pes.clone()), (SiteId(0), 2..4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodePlace {
    /// The site that contains the node.
    pub site: SiteId,
    /// The cluster of the site that contains the node: a number that is unique in the job.
    pub cluster: Option<u32>,
    /// The node's PEs.
    pub pes: Range<u32>,
}

impl Layout {
    /// Creates a layout of one site with one node of `pes` PEs (at least one).
    pub fn single(pes: u32) -> Self {
        Self::new(vec![("local".to_owned(), vec![pes])])
    }

    /// Creates a layout from the name of each site and the number of PEs of each of its nodes.
    /// Nodes without PEs get one.
    pub fn new(sites: Vec<(String, Vec<u32>)>) -> Self {
        let mut layout = Self {
            sites: vec![],
            nodes: vec![],
            node_of_pe: vec![],
            nodes_of_site: vec![],
            guest: None,
        };
        for (site, (name, nodes)) in sites.into_iter().enumerate() {
            let first_node = layout.nodes.len() as u32;
            for pes in nodes {
                let node = NodeId::from(layout.nodes.len());
                let first = layout.node_of_pe.len() as u32;
                let pes = first..first + pes.max(1);
                layout.node_of_pe.extend(pes.clone().map(|_| node));
                layout.nodes.push(NodePlace { site: SiteId::from(site), cluster: None, pes });
            }
            layout.sites.push(name);
            layout.nodes_of_site.push(first_node..layout.nodes.len() as u32);
        }
        layout
    }

    /// Sets the cluster of each node, in the order of nodes, to a number that is unique in the job.
    /// Nodes beyond the end are in no cluster.
    pub fn with_clusters(mut self, clusters: &[Option<u32>]) -> Self {
        let clusters = clusters.iter().copied().chain(std::iter::repeat(None));
        for (node, cluster) in self.nodes.iter_mut().zip(clusters) {
            node.cluster = cluster;
        }
        self
    }

    /// Returns the number of PEs of the job.
    pub fn pe_count(&self) -> u32 {
        self.node_of_pe.len() as u32
    }

    /// Returns the number of nodes of the job.
    pub fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Returns the number of sites of the job.
    pub fn site_count(&self) -> u32 {
        self.sites.len() as u32
    }

    /// Returns all PEs in order.
    pub fn pes(&self) -> impl DoubleEndedIterator<Item = PeId> + ExactSizeIterator + use<> {
        (0..self.pe_count()).map(PeId)
    }

    /// Returns all nodes in order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + use<> {
        (0..self.node_count()).map(NodeId)
    }

    /// Returns all sites in order.
    pub fn sites(&self) -> impl DoubleEndedIterator<Item = SiteId> + ExactSizeIterator + use<> {
        (0..self.site_count()).map(SiteId)
    }

    /// Returns the place of `node`. Panics if the job has no such founder, unless this is the
    /// layout of that guest.
    pub fn place(&self, node: NodeId) -> &NodePlace {
        match &self.guest {
            Some((guest, place)) if *guest == node => place,
            _ => &self.nodes[node.index()],
        }
    }

    /// Whether a founder of the job has this PE.
    pub fn contains(&self, pe: PeId) -> bool {
        pe.0 < self.pe_count()
    }

    /// Whether a founder has this PE, or a guest could have it.
    pub fn may_contain(&self, pe: PeId) -> bool {
        self.contains(pe) || self.site_count() > 0 && pe.0 <= LAST_PE
    }

    /// Whether this layout contains the PE: on a founder, or on the guest whose layout this is.
    pub fn knows(&self, pe: PeId) -> bool {
        let is_own = |(_, place): &(NodeId, NodePlace)| place.pes.contains(&pe.0);
        self.contains(pe) || self.guest.as_ref().is_some_and(is_own)
    }

    /// Returns the node that runs `pe`.
    #[inline]
    pub fn node_of(&self, pe: PeId) -> NodeId {
        match self.node_of_pe.get(pe.index()) {
            Some(&node) => node,
            None => NodeId(self.node_count() + (pe.0 - self.pe_count()) / GUEST_PES_MAX),
        }
    }

    /// Returns the site that contains `pe`.
    pub fn site_of(&self, pe: PeId) -> SiteId {
        self.site_of_node(self.node_of(pe))
    }

    /// Returns the site that contains `node`.
    pub fn site_of_node(&self, node: NodeId) -> SiteId {
        match self.nodes.get(node.index()) {
            Some(place) => place.site,
            None => SiteId((node.0 - self.node_count()) % self.site_count().max(1)),
        }
    }

    /// Returns the cluster that contains `node`. Guests are in no cluster.
    pub fn cluster_of(&self, node: NodeId) -> Option<u32> {
        self.nodes.get(node.index()).and_then(|place| place.cluster)
    }

    /// Whether this is the number of a guest.
    #[inline]
    pub fn is_guest(&self, node: NodeId) -> bool {
        node.0 >= self.node_count()
    }

    /// Returns the guest of a site with this number, from 0, or `None` if there is no such site or
    /// the range of PE numbers is exhausted.
    pub fn guest(&self, site: SiteId, number: u32) -> Option<NodeId> {
        let before = number.checked_mul(self.site_count())?.checked_add(site.0)?;
        let last =
            (before.checked_add(1)?).checked_mul(GUEST_PES_MAX)?.checked_add(self.pe_count())?;
        let is_place = site.0 < self.site_count() && last <= LAST_PE;
        is_place.then(|| NodeId(self.node_count() + before))
    }

    /// Returns the layout for a guest with `pes` PEs, clamped to at least one and at most
    /// [`GUEST_PES_MAX`].
    pub fn for_guest(mut self, guest: NodeId, pes: u32) -> Self {
        let first = self.leader(guest).0;
        let pes = first..first + pes.clamp(1, GUEST_PES_MAX);
        let site = self.site_of_node(guest);
        self.guest = Some((guest, NodePlace { site, cluster: None, pes }));
        self
    }

    /// Returns the user's name of `site`. Panics if the job has no such site.
    pub fn site_name(&self, site: SiteId) -> &str {
        &self.sites[site.index()]
    }

    /// Returns the nodes in `site`. Panics if the job has no such site.
    pub fn nodes_in(&self, site: SiteId) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        self.nodes_of_site[site.index()].clone().map(NodeId)
    }

    /// Returns the PEs in `site`. Panics if the job has no such site.
    pub fn pes_in(&self, site: SiteId) -> Range<u32> {
        let nodes = &self.nodes_of_site[site.index()];
        if nodes.is_empty() {
            return 0..0;
        }
        self.nodes[nodes.start as usize].pes.start..self.nodes[nodes.end as usize - 1].pes.end
    }

    /// Returns the first PE of `node`, which represents the node.
    pub fn leader(&self, node: NodeId) -> PeId {
        match self.nodes.get(node.index()) {
            Some(place) => PeId(place.pes.start),
            None => {
                let before = (node.0 - self.node_count()).saturating_mul(GUEST_PES_MAX);
                PeId(self.pe_count().saturating_add(before))
            }
        }
    }
}

/// Error of a stored layout. Nothing was read; write fewer PEs.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The layout has more PEs than the limit, which bounds memory.
    #[error("the layout has {pes} PEs; write at most {MAX_STORED_PES}")]
    TooManyPes {
        /// Number of PEs in the stored layout.
        pes: u64,
    },
}

/// Maximum number of PEs of a stored layout; each takes four bytes.
const MAX_STORED_PES: u64 = 1 << 26;

/// The stored form of a site: its name, the PEs of its nodes, and the clusters of its nodes if any
/// node is in one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct StoredSite(String, Vec<u32>, #[serde(default)] Vec<Option<u32>>);

impl TryFrom<Vec<StoredSite>> for Layout {
    type Error = LayoutError;

    fn try_from(sites: Vec<StoredSite>) -> Result<Self, LayoutError> {
        let all_pes = sites.iter().flat_map(|StoredSite(_, pes, _)| pes);
        let pes = all_pes.map(|&pes| u64::from(pes.max(1))).sum();
        if pes > MAX_STORED_PES {
            return Err(LayoutError::TooManyPes { pes });
        }
        let mut clusters = Vec::new();
        for StoredSite(_, pes, of_site) in &sites {
            let known = of_site.iter().copied().chain(std::iter::repeat(None));
            clusters.extend(known.take(pes.len()));
        }
        let sites = sites.into_iter().map(|StoredSite(name, pes, _)| (name, pes)).collect();
        Ok(Self::new(sites).with_clusters(&clusters))
    }
}

impl From<Layout> for Vec<StoredSite> {
    fn from(layout: Layout) -> Self {
        let pes_of = |node| layout.place(node).pes.len() as u32;
        let site_of = |site| {
            let nodes = || layout.nodes_in(site);
            let mut clusters: Vec<_> = nodes().map(|node| layout.cluster_of(node)).collect();
            if clusters.iter().all(Option::is_none) {
                clusters.clear();
            }
            let name = layout.site_name(site).to_owned();
            StoredSite(name, nodes().map(pes_of).collect(), clusters)
        };
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
    fn the_number_of_a_guest_gives_its_site_and_pes() {
        let layout = Layout::new(two_sites());

        let guests =
            [(0, 0), (1, 0), (0, 1)].map(|(site, number)| layout.guest(SiteId(site), number));

        // Three founders with four PEs in two sites.
        assert_eq!(guests, [3, 4, 5].map(|node| Some(NodeId(node))));
        assert_eq!(layout.site_of_node(NodeId(4)), SiteId(1));
        assert_eq!((layout.leader(NodeId(5)), layout.node_of(PeId(8200))), (PeId(8196), NodeId(5)));
        assert!(layout.is_guest(NodeId(3)) && !layout.is_guest(NodeId(2)));
        assert_eq!(layout.guest(SiteId(2), 0), None, "there is no such site");
        assert_eq!(layout.guest(SiteId(0), 1 << 20), None, "a PE has 31 bits");
    }

    #[test]
    fn a_guest_knows_its_own_place() {
        let layout = Layout::new(two_sites()).for_guest(NodeId(4), 2);

        assert_eq!(layout.place(NodeId(4)).pes, 4100..4102);
        assert!(layout.knows(PeId(4101)) && !layout.knows(PeId(4)) && layout.knows(PeId(3)));
        assert_eq!((layout.pe_count(), layout.node_count()), (4, 3), "guests are not counted");
    }

    #[test]
    fn a_stored_layout_is_read_back_unchanged() {
        let layout = Layout::new(two_sites()).with_clusters(&[None, None, Some(4)]);

        let stored: Vec<StoredSite> = layout.clone().into();

        assert_eq!(stored[1], StoredSite("b".to_owned(), vec![1], vec![Some(4)]));
        assert_eq!(Layout::try_from(stored), Ok(layout));
    }

    #[test]
    fn a_stored_layout_of_too_many_pes_is_refused() {
        let stored = vec![StoredSite("a".to_owned(), vec![u32::MAX, 1], vec![])];

        assert_eq!(Layout::try_from(stored), Err(LayoutError::TooManyPes { pes: 1 << 32 }));
    }
}
