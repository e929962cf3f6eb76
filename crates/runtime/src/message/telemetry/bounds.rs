//! Limits on the detail of a job's samples, which bound their size. They follow from the layout and
//! the number of actor types alone, so that all nodes of a job agree.

use super::sample::{OTHER_TYPES, SEVERAL_SITES};
use gridspan_topology::{Layout, SiteId};

/// Up to this number of nodes, samples list all of them: 80 bytes each.
const NODES_MAX: u32 = 128;
/// Up to this number of PEs, samples list all of them: 60 bytes each.
const PES_MAX: u32 = 256;
/// Largest number of PEs that are listed for the node in focus.
const FOCUS_PES_MAX: usize = 128;
/// If not all nodes are listed, a sample lists the nodes that compute most (one end) and those that
/// compute least (the other end). This is the number of nodes at each end, which the sites share
/// equally.
const EXTREMES: u32 = 32;
/// Largest number of nodes at each end of one site. The root may receive four samples of its
/// site, each with this number of nodes at each end.
const SITE_EXTREMES_MAX: u32 = 8;
/// Largest number of nodes at each end if sites are too many for a list by site.
const JOB_EXTREMES: usize = 16;
/// Largest number of sites that are counted one by one: 85 bytes each.
const SITES_MAX: u32 = 128;
/// Largest number of sites for which each link is counted: its square is the number of links.
const LINKED_SITES_MAX: u32 = 20;
/// Largest product of sites and actor types for which types are counted by site.
const TYPED_SITES_MAX: usize = 256;
/// Largest number of actor types that are counted one by one.
const TYPES_MAX: u16 = 64;

/// The bounds of the samples of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TelemetryBounds {
    sites: u32,
    /// Number of nodes that are listed at each end; `None` if all are listed.
    pub(super) extremes: Option<usize>,
    /// Whether these are the extremes of each site, and not of the whole job.
    pub(super) are_by_site: bool,
    are_pes_kept: bool,
    are_types_by_site: bool,
}

impl TelemetryBounds {
    /// The bounds for a job with this number of actor types.
    pub(crate) fn new(layout: &Layout, types: usize) -> Self {
        let (nodes, sites) = (layout.node_count(), layout.site_count());
        let are_by_site = sites <= EXTREMES;
        let each = match are_by_site {
            true => (EXTREMES / sites.max(1)).clamp(1, SITE_EXTREMES_MAX) as usize,
            false => JOB_EXTREMES,
        };
        Self {
            sites,
            extremes: (nodes > NODES_MAX).then_some(each),
            are_by_site,
            are_pes_kept: layout.pe_count() <= PES_MAX,
            are_types_by_site: sites as usize * types.min(usize::from(TYPES_MAX))
                <= TYPED_SITES_MAX,
        }
    }

    /// Number of a node's PEs that are listed. `is_focus` says whether the node is the focus of the
    /// [lease](super::TelemetryLease).
    pub(crate) fn pes_listed(self, is_focus: bool) -> usize {
        match (self.are_pes_kept, is_focus) {
            (true, _) => PES_MAX as usize,
            (false, true) => FOCUS_PES_MAX,
            (false, false) => 0,
        }
    }

    /// Largest number of PEs in a valid sample.
    pub(super) fn pes_max(self) -> usize {
        PES_MAX as usize
    }

    /// The site under which a node of `site` is counted.
    pub(crate) fn site(self, site: SiteId) -> SiteId {
        let is_listed = self.sites <= SITES_MAX || site.0 < SITES_MAX - 1;
        if is_listed { site } else { SEVERAL_SITES }
    }

    /// The site under which traffic to `site` is counted.
    pub(crate) fn link_to(self, site: SiteId) -> SiteId {
        if self.sites <= LINKED_SITES_MAX { site } else { SEVERAL_SITES }
    }

    /// The site under which actors of a type at `site` are counted.
    pub(crate) fn type_site(self, site: SiteId) -> SiteId {
        if self.are_types_by_site { site } else { SEVERAL_SITES }
    }

    /// The number under which actors of the type at this position are counted.
    pub(crate) fn type_number(self, position: usize) -> u16 {
        u16::try_from(position).ok().filter(|&number| number < TYPES_MAX).unwrap_or(OTHER_TYPES)
    }
}
