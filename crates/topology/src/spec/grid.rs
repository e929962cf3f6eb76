//! The description of a grid that every driver starts from: places and the links between them.

use crate::id::{NodeId, SiteId};
use crate::layout::Layout;
use crate::link::Link;
use crate::spec::site::{HostSpec, MAX_PES, SiteError, SiteSpec, Sites};
use crate::units::Latency;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// Sites, hosts, nodes and PEs, and the link between any two nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct GridSpec {
    layout: Layout,
    /// The name of each node's host.
    hosts: Vec<String>,
    /// The link inside each site.
    lans: Vec<Link>,
    /// The link between two sites that have no other.
    wan: Link,
    /// The links that differ from `wan`, by direction.
    links: BTreeMap<(SiteId, SiteId), Link>,
    loopback: Latency,
}

impl GridSpec {
    /// How long a message between PEs of one node takes, unless said otherwise: half a microsecond.
    pub const LOOPBACK: Latency = Latency(Duration::from_nanos(500));

    /// One site `local` with one node of `pes` PEs on `localhost`. `pes` is brought into the range
    /// from 1 to about a million (2^20).
    pub fn single(pes: u32) -> Self {
        let pes = pes.clamp(1, MAX_PES);
        let host = HostSpec { name: "localhost".to_owned(), pes };
        Self::from_checked(vec![SiteSpec {
            name: "local".to_owned(),
            hosts: vec![host],
            lan: Link::lan(),
        }])
    }

    /// A grid of these sites, numbered in this order, with [`Link::wan`] between any two.
    pub fn new(sites: Vec<SiteSpec>) -> Result<Self, SiteError> {
        let mut checked = Sites::default();
        for site in sites {
            checked.push(site)?;
        }
        Ok(Self::from_checked(checked.into_vec()))
    }

    /// A grid of the same shape as `layout`, with hosts named after their site (`delft1`,
    /// `delft2`, …), [`Link::lan`] inside each site and [`Link::wan`] between any two.
    pub fn from_layout(layout: &Layout) -> Result<Self, SiteError> {
        let site_of = |site| {
            let name = layout.site_name(site);
            let host_of = |(n, node)| HostSpec {
                name: format!("{name}{}", n + 1),
                pes: layout.place(node).pes.len() as u32,
            };
            SiteSpec {
                name: name.to_owned(),
                hosts: layout.nodes_in(site).enumerate().map(host_of).collect(),
                lan: Link::lan(),
            }
        };
        Self::new(layout.sites().map(site_of).collect())
    }

    /// A grid of sites that went through [`Sites`].
    pub(super) fn from_checked(sites: Vec<SiteSpec>) -> Self {
        let lans = sites.iter().map(|site| site.lan).collect();
        let shape =
            |site: &SiteSpec| (site.name.clone(), site.hosts.iter().map(|host| host.pes).collect());
        let layout = Layout::new(sites.iter().map(shape).collect());
        let hosts = sites.into_iter().flat_map(|site| site.hosts).map(|host| host.name).collect();
        let (wan, links, loopback) = (Link::wan(), BTreeMap::new(), Self::LOOPBACK);
        Self { layout, hosts, lans, wan, links, loopback }
    }

    /// The same grid with another link inside every site.
    pub fn with_lan(mut self, link: Link) -> Self {
        self.lans.fill(link);
        self
    }

    /// The same grid with another link between any two sites, instead of all that were set before.
    pub fn with_wan(mut self, link: Link) -> Self {
        self.wan = link;
        self.links.clear();
        self
    }

    /// The same grid with another link from one site to another, in this direction only; from a
    /// site to itself it is the link inside the site. Panics if the grid has no such site.
    pub fn with_link(mut self, from: SiteId, to: SiteId, link: Link) -> Self {
        self.set_link(from, to, link);
        self
    }

    /// The same grid with another latency between PEs of one node.
    pub fn with_loopback(mut self, loopback: Latency) -> Self {
        self.loopback = loopback;
        self
    }

    /// Like [`GridSpec::with_link`], in place.
    pub fn set_link(&mut self, from: SiteId, to: SiteId, link: Link) {
        let count = self.layout.site_count();
        assert!(from.0 < count && to.0 < count, "the grid has {count} sites");
        if from == to {
            self.lans[from.index()] = link;
        } else {
            self.links.insert((from, to), link);
        }
    }

    /// The places without the links.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The host that `node` runs on. Panics if the grid has no such node.
    pub fn host(&self, node: NodeId) -> &str {
        &self.hosts[node.index()]
    }

    /// The host of every node, in the order of the nodes.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = (NodeId, &str)> {
        self.hosts.iter().enumerate().map(|(n, host)| (NodeId::from(n), host.as_str()))
    }

    /// The site of this name.
    pub fn site_named(&self, name: &str) -> Option<SiteId> {
        self.layout.sites().find(|&site| self.layout.site_name(site) == name)
    }

    /// The link that a packet from one node to another meets: that of the site if both are in it,
    /// else that between their sites. Panics if the grid has no such node.
    pub fn link(&self, from: NodeId, to: NodeId) -> &Link {
        self.link_between(self.layout.site_of_node(from), self.layout.site_of_node(to))
    }

    /// The link from one site to another, or inside a site. Panics if the grid has no such site.
    pub fn link_between(&self, from: SiteId, to: SiteId) -> &Link {
        if from == to {
            return &self.lans[from.index()];
        }
        self.links.get(&(from, to)).unwrap_or(&self.wan)
    }

    /// Whether the two nodes are in different sites. Panics if the grid has no such node.
    pub fn is_wide_area(&self, from: NodeId, to: NodeId) -> bool {
        self.layout.site_of_node(from) != self.layout.site_of_node(to)
    }

    /// How long a message between PEs of one node takes.
    pub fn loopback(&self) -> Latency {
        self.loopback
    }
}

/// Why a stored description is none. Nothing was read; correct the part named.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GridSpecError {
    /// A site is at fault.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// A link leads to nowhere or nowhere else.
    #[error(
        "a link leads from site {from} to site {to}; write two different numbers below {sites}"
    )]
    LinkEnds {
        /// The number of the first site.
        from: u32,
        /// The number of the second site.
        to: u32,
        /// How many sites there are.
        sites: u32,
    },
}

/// A grid as it is stored: only what cannot be computed from the rest.
#[derive(Serialize, Deserialize)]
struct Parts {
    sites: Vec<SiteSpec>,
    wan: Link,
    links: Vec<DirectedLink>,
    loopback: Latency,
}

#[derive(Serialize, Deserialize)]
struct DirectedLink {
    from: SiteId,
    to: SiteId,
    link: Link,
}

impl TryFrom<Parts> for GridSpec {
    type Error = GridSpecError;

    fn try_from(parts: Parts) -> Result<Self, GridSpecError> {
        let mut spec = Self::new(parts.sites)?.with_wan(parts.wan).with_loopback(parts.loopback);
        let sites = spec.layout.site_count();
        for DirectedLink { from, to, link } in parts.links {
            if from == to || from.0.max(to.0) >= sites {
                return Err(GridSpecError::LinkEnds { from: from.0, to: to.0, sites });
            }
            spec.set_link(from, to, link);
        }
        Ok(spec)
    }
}

impl From<GridSpec> for Parts {
    fn from(spec: GridSpec) -> Self {
        let GridSpec { layout, hosts, lans, wan, links, loopback } = spec;
        let host_of = |node: NodeId| HostSpec {
            name: hosts[node.index()].clone(),
            pes: layout.place(node).pes.len() as u32,
        };
        let site_of = |site: SiteId| SiteSpec {
            name: layout.site_name(site).to_owned(),
            hosts: layout.nodes_in(site).map(host_of).collect(),
            lan: lans[site.index()],
        };
        let sites = layout.sites().map(site_of).collect();
        let link_of = |((from, to), link)| DirectedLink { from, to, link };
        Self { sites, wan, links: links.into_iter().map(link_of).collect(), loopback }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bandwidth;

    fn two_sites() -> GridSpec {
        let sites = vec![("a".to_owned(), vec![2, 1]), ("b".to_owned(), vec![3])];
        GridSpec::from_layout(&Layout::new(sites)).unwrap()
    }

    #[test]
    fn a_single_node_has_its_pes_and_no_wide_area() {
        let spec = GridSpec::single(4);

        assert_eq!(spec.layout(), &Layout::single(4));
        assert_eq!(spec.host(NodeId(0)), "localhost");
        assert!(!spec.is_wide_area(NodeId(0), NodeId(0)));
        assert_eq!(spec.loopback(), Latency(Duration::from_nanos(500)));
        assert_eq!(GridSpec::single(0).layout().pe_count(), 1);
    }

    #[test]
    fn nodes_of_one_site_share_its_lan_and_others_the_wan() {
        let spec = two_sites().with_lan(Link::loopback());

        assert_eq!(spec.link(NodeId(0), NodeId(1)), &Link::loopback());
        assert_eq!(spec.link(NodeId(1), NodeId(2)), &Link::wan());
        assert!(spec.is_wide_area(NodeId(1), NodeId(2)));
        let hosts: Vec<&str> = spec.hosts().map(|(_, host)| host).collect();
        assert_eq!(hosts, ["a1", "a2", "b1"]);
        assert_eq!(spec.site_named("b"), Some(SiteId(1)));
    }

    #[test]
    fn a_link_may_differ_by_direction() {
        let slow = Link::new(Latency::from_millis(99), Bandwidth::from_bits_per_second(1));
        let spec = two_sites().with_link(SiteId(1), SiteId(0), slow);

        assert_eq!(spec.link(NodeId(2), NodeId(0)), &slow);
        assert_eq!(spec.link(NodeId(0), NodeId(2)), &Link::wan());
    }

    #[test]
    fn a_description_survives_being_stored() {
        let spec = two_sites()
            .with_lan(Link::perfect())
            .with_link(SiteId(0), SiteId(1), Link::wan().with_loss(0.01).with_queue_bytes(9))
            .with_loopback(Latency::from_micros(2));

        let stored = postcard::to_stdvec(&spec).unwrap();

        assert_eq!(postcard::from_bytes::<GridSpec>(&stored).unwrap(), spec);
    }

    #[test]
    fn a_stored_link_to_nowhere_is_refused() {
        for (from, to) in [(0, 2), (2, 0), (1, 1)] {
            let mut parts = Parts::from(two_sites());
            let (a, b) = (SiteId(from), SiteId(to));
            parts.links.push(DirectedLink { from: a, to: b, link: Link::wan() });

            let refused = GridSpec::try_from(parts);

            assert_eq!(refused, Err(GridSpecError::LinkEnds { from, to, sites: 2 }));
        }
    }
}
