//! The description of a grid that every driver starts from: places and the links between them.

use crate::id::{NodeId, SiteId};
use crate::layout::Layout;
use crate::link::Link;
use crate::shaper::Shaper;
use crate::spec::site::{ClusterSpec, HostSpec, MAX_PES, SiteError, SiteSpec, Sites};
use crate::spec::timeline::{self, Change, Entry, ForeignLoad, TimelineError};
use crate::speed::Speed;
use crate::units::{Latency, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sites, hosts, nodes and PEs, and the link between any two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct GridSpec {
    pub(super) layout: Layout,
    /// The name of each node's host.
    pub(super) hosts: Vec<String>,
    /// How fast the processors of each node are.
    pub(super) speeds: Vec<Speed>,
    /// The link inside each site.
    pub(super) lans: Vec<Link>,
    /// By the number that the layout gives them.
    pub(super) clusters: Vec<Cluster>,
    pub(super) ports: Vec<Option<u16>>,
    pub(super) gateways: Vec<Option<String>>,
    /// The link between two sites that have no other.
    pub(super) wan: Link,
    /// The links that differ from `wan`, by direction.
    pub(super) links: BTreeMap<(SiteId, SiteId), Link>,
    pub(super) loopback: Latency,
    /// By time.
    pub(super) timeline: Vec<Change>,
    /// By time.
    pub(super) foreign_loads: Vec<ForeignLoad>,
}

/// A cluster and the site it is in.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cluster {
    pub(super) site: SiteId,
    pub(super) spec: ClusterSpec,
}

impl GridSpec {
    /// How long a message between PEs of one node takes, unless said otherwise: half a microsecond.
    pub const LOOPBACK: Latency = Latency(Duration::from_nanos(500));

    /// One site `local` with one node of `pes` PEs on `localhost`. `pes` is brought into the range
    /// from 1 to about a million (2^20).
    pub fn single(pes: u32) -> Self {
        let pes = pes.clamp(1, MAX_PES);
        let host = HostSpec::new("localhost", pes);
        Self::from_checked(vec![SiteSpec::new("local", vec![host], Link::lan())])
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
    /// `delft2`, …), [`Link::lan`] inside each site and [`Link::wan`] between any two, without
    /// clusters.
    pub fn from_layout(layout: &Layout) -> Result<Self, SiteError> {
        let site_of = |site| {
            let name = layout.site_name(site);
            let host_of = |(n, node)| {
                HostSpec::new(format!("{name}{}", n + 1), layout.place(node).pes.len() as u32)
            };
            let hosts = layout.nodes_in(site).enumerate().map(host_of).collect();
            SiteSpec::new(name, hosts, Link::lan())
        };
        Self::new(layout.sites().map(site_of).collect())
    }

    /// A grid of sites that went through [`Sites`].
    pub(super) fn from_checked(sites: Vec<SiteSpec>) -> Self {
        let lans = sites.iter().map(|site| site.lan).collect();
        let shape =
            |site: &SiteSpec| (site.name.clone(), site.hosts.iter().map(|host| host.pes).collect());
        let layout = Layout::new(sites.iter().map(shape).collect());
        let ports = sites.iter().map(|site| site.port).collect();
        let gateways = sites.iter().map(|site| site.gateway.clone()).collect();
        let (mut hosts, mut speeds, mut clusters, mut cluster_of) =
            (vec![], vec![], vec![], vec![]);
        for (at, site) in sites.into_iter().enumerate() {
            let first = clusters.len() as u32;
            let site_of = |spec| Cluster { site: SiteId::from(at), spec };
            clusters.extend(site.clusters.into_iter().map(site_of));
            for host in site.hosts {
                hosts.push(host.name);
                speeds.push(host.speed);
                cluster_of.push(host.cluster.map(|cluster| first + cluster));
            }
        }
        Self {
            layout: layout.with_clusters(&cluster_of),
            hosts,
            speeds,
            lans,
            clusters,
            ports,
            gateways,
            wan: Link::wan(),
            links: BTreeMap::new(),
            loopback: Self::LOOPBACK,
            timeline: vec![],
            foreign_loads: vec![],
        }
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

    /// The same grid, of which something changes while a job runs: `at 60s link a-b rate=10mbit`,
    /// where `a>b` stands for one direction and `a-a` for the inside of a site. Settings are
    /// `latency`, `rate`, `jitter`, `loss`, `queue` and `reorder`; what is not named stays.
    /// Clusters keep their links.
    ///
    /// Or `at 60s node d01 load=1`: from then on, one process of other users computes on each node
    /// of that host. Only the simulator makes such load; on a real machine it is measured.
    pub fn with_change(mut self, text: &str) -> Result<Self, TimelineError> {
        let names: Vec<_> = self.layout.sites().map(|site| self.layout.site_name(site)).collect();
        match timeline::parse(text, &names, &self.hosts)? {
            Entry::Link(change) => self.insert_change(change)?,
            Entry::Load(loads) => {
                loads.into_iter().try_for_each(|load| self.insert_load(load))?;
            }
        }
        Ok(self)
    }

    fn change_count(&self) -> usize {
        self.timeline.len() + self.foreign_loads.len()
    }

    pub(super) fn insert_load(&mut self, load: ForeignLoad) -> Result<(), TimelineError> {
        if self.change_count() >= timeline::CHANGES_MAX {
            return Err(TimelineError::TooMany);
        }
        let at = self.foreign_loads.partition_point(|earlier| earlier.at <= load.at);
        self.foreign_loads.insert(at, load);
        Ok(())
    }

    pub(super) fn insert_change(&mut self, change: Change) -> Result<(), TimelineError> {
        if self.change_count() >= timeline::CHANGES_MAX {
            return Err(TimelineError::TooMany);
        }
        let at = self.timeline.partition_point(|earlier| earlier.at <= change.at);
        self.timeline.insert(at, change);
        let mut links = self.changes(change.from, change.to);
        if change.both {
            links.append(&mut self.changes(change.to, change.from));
        }
        if let Some(error) = links.iter().find_map(|(_, link)| link.validate().err()) {
            self.timeline.remove(at);
            return Err(error.into());
        }
        Ok(())
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

    /// How fast the processors of `node` are in simulations and where the grid is emulated; those
    /// of guests are ordinary.
    pub fn speed(&self, node: NodeId) -> Speed {
        self.speeds.get(node.index()).copied().unwrap_or_default()
    }

    /// The site of this name.
    pub fn site_named(&self, name: &str) -> Option<SiteId> {
        self.layout.sites().find(|&site| self.layout.site_name(site) == name)
    }

    /// The cluster that a node is in: a number that is unique in the grid. Guests are in none.
    pub fn cluster_of(&self, node: NodeId) -> Option<u32> {
        self.layout.cluster_of(node)
    }

    /// The name of a cluster. Panics if the grid has no such cluster.
    pub fn cluster_name(&self, cluster: u32) -> &str {
        &self.clusters[cluster as usize].spec.name
    }

    /// The UDP port on which `node` listens, if the site's hosts have fixed ones. Panics if the
    /// grid has no such node.
    pub fn port(&self, node: NodeId) -> Option<u16> {
        let site = self.layout.site_of_node(node);
        let port = self.ports[site.index()]?;
        let is_same_host = |other: &NodeId| self.hosts[other.index()] == self.hosts[node.index()];
        let before = self.layout.nodes_in(site).take_while(|&other| other != node);
        port.checked_add(u16::try_from(before.filter(is_same_host).count()).ok()?)
    }

    /// The host through which the hosts of `site` are reached. Panics if the grid has no such site.
    pub fn gateway(&self, site: SiteId) -> Option<&str> {
        self.gateways[site.index()].as_deref()
    }

    /// The link that a packet from one node to another meets when a job begins: that of their
    /// cluster if they share one, that of the site if both are in it, else that between their
    /// sites. Panics if the grid has no such node.
    pub fn link(&self, from: NodeId, to: NodeId) -> &Link {
        if let (Some(one), Some(other)) = (self.cluster_of(from), self.cluster_of(to))
            && one == other
        {
            return &self.clusters[one as usize].spec.lan;
        }
        self.link_between(self.layout.site_of_node(from), self.layout.site_of_node(to))
    }

    /// The link from one site to another, or inside a site. Panics if the grid has no such site.
    pub fn link_between(&self, from: SiteId, to: SiteId) -> &Link {
        if from == to {
            return &self.lans[from.index()];
        }
        self.links.get(&(from, to)).unwrap_or(&self.wan)
    }

    /// A packet shaper for the link from one node to another, with the changes that come, all of it
    /// drawing its luck from `seed`. Panics if the grid has no such node.
    pub fn shaper(&self, from: NodeId, to: NodeId, seed: u64) -> Shaper {
        Shaper::new(*self.link(from, to), seed).with_changes(self.changes_between(from, to))
    }

    /// The link from one node to another at a time. Panics if the grid has no such node.
    pub fn link_at(&self, time: Time, from: NodeId, to: NodeId) -> Link {
        let changes = self.changes_between(from, to);
        let past = changes.iter().take_while(|&&(at, _)| at <= time);
        past.last().map_or(*self.link(from, to), |&(_, link)| link)
    }

    fn changes_between(&self, from: NodeId, to: NodeId) -> Vec<(Time, Link)> {
        if self.timeline.is_empty() {
            return vec![];
        }
        let site = |node| self.layout.site_of_node(node);
        let cluster = self.cluster_of(from);
        match cluster.is_some() && cluster == self.cluster_of(to) {
            true => vec![],
            false => self.changes(site(from), site(to)),
        }
    }

    /// What becomes of the link from one site to another, or inside one, in the course of time.
    fn changes(&self, from: SiteId, to: SiteId) -> Vec<(Time, Link)> {
        let mut link = *self.link_between(from, to);
        let concerned = self.timeline.iter().filter(|change| change.concerns(from, to));
        concerned
            .map(|change| {
                link = change.settings.apply(&link);
                (change.at, link)
            })
            .collect()
    }

    /// How many processes of other users compute on a node, from which times on; none before.
    pub fn foreign_loads(&self, node: NodeId) -> impl Iterator<Item = (Time, u32)> {
        let loads = self.foreign_loads.iter().filter(move |load| load.node == node);
        loads.map(|load| (load.at, load.processes))
    }

    /// Whether packets between the two nodes are emulated where several nodes run on one machine:
    /// they are in different sites or clusters. Panics if the grid has no such node.
    pub fn is_emulated(&self, from: NodeId, to: NodeId) -> bool {
        self.is_wide_area(from, to) || self.cluster_of(from) != self.cluster_of(to)
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
}
