//! The description of a grid from which every driver starts: places and the links between them.

use crate::id::{NodeId, SiteId};
use crate::layout::Layout;
use crate::link::Link;
use crate::shaper::Shaper;
use crate::spec::site::{ClusterSpec, HostSpec, MAX_PES, SiteError, SiteSpec, Sites};
use crate::spec::timeline::{self, Change, Entry, ForeignLoad, TimelineError};
use crate::speed::Speed;
use crate::units::{Bandwidth, Latency, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sites, hosts, nodes and PEs, and the link between any two nodes.
///
/// ```
/// use gridspan_topology::{GridSpec, NodeId};
///
/// // Two sites with four hosts each, of one PE.
/// let grid = GridSpec::from_emulate("2x4,wan=32ms")?;
/// assert_eq!(grid.layout().node_count(), 8);
/// assert_eq!(grid.link(NodeId(0), NodeId(7)).latency.to_string(), "32ms");
/// # Ok::<(), gridspan_topology::EmulateError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct GridSpec {
    pub(super) layout: Layout,
    /// The name of each node's host.
    pub(super) hosts: Vec<String>,
    /// The speed of the processors of each node.
    pub(super) speeds: Vec<Speed>,
    /// The link inside each site.
    pub(super) lans: Vec<Link>,
    /// The clusters, by their numbers in the layout.
    pub(super) clusters: Vec<Cluster>,
    pub(super) ports: Vec<Option<u16>>,
    pub(super) gateways: Vec<Option<String>>,
    /// The rate that all traffic between a site and other sites shares, each way.
    pub(super) uplinks: Vec<Option<Bandwidth>>,
    /// The link between two sites without a link in `links`.
    pub(super) wan: Link,
    /// The links that differ from `wan`, by direction.
    pub(super) links: BTreeMap<(SiteId, SiteId), Link>,
    pub(super) loopback: Latency,
    /// Changes of links, ordered by time.
    pub(super) timeline: Vec<Change>,
    /// Foreign loads, ordered by time.
    pub(super) foreign_loads: Vec<ForeignLoad>,
}

/// A cluster and its site.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cluster {
    pub(super) site: SiteId,
    pub(super) spec: ClusterSpec,
}

impl GridSpec {
    /// Default latency of a message between PEs of one node: half a microsecond.
    pub const LOOPBACK: Latency = Latency(Duration::from_nanos(500));

    /// Creates a grid of one site `local` with one node of `pes` PEs on `localhost`. `pes` is
    /// clamped to the range from 1 to about a million (2^20).
    pub fn single(pes: u32) -> Self {
        let pes = pes.clamp(1, MAX_PES);
        let host = HostSpec::new("localhost", pes);
        Self::from_checked(vec![SiteSpec::new("local", vec![host], Link::lan())])
    }

    /// Creates a grid of these sites, numbered in this order, with [`Link::wan`] between any two.
    /// Fails if a site is invalid, or there are too many sites, hosts or PEs.
    pub fn new(sites: Vec<SiteSpec>) -> Result<Self, SiteError> {
        let mut checked = Sites::default();
        for site in sites {
            checked.push(site)?;
        }
        Ok(Self::from_checked(checked.into_vec()))
    }

    /// Creates a grid of the same shape as `layout`, with hosts named after their site (`delft1`,
    /// `delft2`, …), [`Link::lan`] inside each site and [`Link::wan`] between any two, without
    /// clusters. Fails if the name of a site is invalid or not unique.
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

    /// Creates a grid of sites that [`Sites`] has checked.
    pub(super) fn from_checked(sites: Vec<SiteSpec>) -> Self {
        let lans = sites.iter().map(|site| site.lan).collect();
        let shape =
            |site: &SiteSpec| (site.name.clone(), site.hosts.iter().map(|host| host.pes).collect());
        let layout = Layout::new(sites.iter().map(shape).collect());
        let ports = sites.iter().map(|site| site.port).collect();
        let gateways = sites.iter().map(|site| site.gateway.clone()).collect();
        let uplinks = sites.iter().map(|site| site.uplink).collect();
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
            uplinks,
            wan: Link::wan(),
            links: BTreeMap::new(),
            loopback: Self::LOOPBACK,
            timeline: vec![],
            foreign_loads: vec![],
        }
    }

    /// Returns the grid without the nodes `lost`, and without sites that have no node left. Nodes,
    /// PEs, sites and their clusters are numbered from 0 again, in the same order. `None` if no
    /// node is left.
    pub fn without(&self, lost: &[NodeId]) -> Option<Self> {
        let layout = &self.layout;
        let nodes: Vec<NodeId> = layout.nodes().filter(|node| !lost.contains(node)).collect();
        let is_left = |site: &SiteId| nodes.iter().any(|&node| layout.site_of_node(node) == *site);
        let sites: Vec<SiteId> = layout.sites().filter(is_left).collect();
        if nodes.is_empty() {
            return None;
        }
        let pes_of = |site| {
            let here = nodes.iter().filter(|&&node| layout.site_of_node(node) == site);
            here.map(|&node| layout.place(node).pes.len() as u32).collect()
        };
        let shape = sites.iter().map(|&site| (layout.site_name(site).to_owned(), pes_of(site)));
        let now = |site: SiteId| sites.iter().position(|&left| left == site).map(SiteId::from);
        let kept: Vec<(usize, Cluster)> = (self.clusters.iter().enumerate())
            .filter_map(|(old, Cluster { site, spec })| {
                Some((old, Cluster { site: now(*site)?, spec: spec.clone() }))
            })
            .collect();
        let number = |old: u32| kept.binary_search_by_key(&(old as usize), |(at, _)| *at).ok();
        let cluster_of = |&node: &NodeId| Some(number(layout.cluster_of(node)?)? as u32);
        let clusters: Vec<_> = nodes.iter().map(cluster_of).collect();
        let link =
            |(&(from, to), link): (&(SiteId, SiteId), &Link)| Some(((now(from)?, now(to)?), *link));
        let change = |change: &Change| {
            let (from, to) = (now(change.from)?, now(change.to)?);
            Some(Change { from, to, ..*change })
        };
        let load = |load: &ForeignLoad| {
            let node = nodes.iter().position(|&left| left == load.node).map(NodeId::from)?;
            Some(ForeignLoad { node, ..*load })
        };
        Some(Self {
            layout: Layout::new(shape.collect()).with_clusters(&clusters),
            hosts: nodes.iter().map(|node| self.hosts[node.index()].clone()).collect(),
            speeds: nodes.iter().map(|node| self.speeds[node.index()]).collect(),
            lans: sites.iter().map(|site| self.lans[site.index()]).collect(),
            clusters: kept.into_iter().map(|(_, cluster)| cluster).collect(),
            ports: sites.iter().map(|site| self.ports[site.index()]).collect(),
            gateways: sites.iter().map(|site| self.gateways[site.index()].clone()).collect(),
            uplinks: sites.iter().map(|site| self.uplinks[site.index()]).collect(),
            wan: self.wan,
            links: self.links.iter().filter_map(link).collect(),
            loopback: self.loopback,
            timeline: self.timeline.iter().filter_map(change).collect(),
            foreign_loads: self.foreign_loads.iter().filter_map(load).collect(),
        })
    }

    /// Sets the link inside every site.
    pub fn with_lan(mut self, link: Link) -> Self {
        self.lans.fill(link);
        self
    }

    /// Sets the link between any two sites, and removes all links set before.
    pub fn with_wan(mut self, link: Link) -> Self {
        self.wan = link;
        self.links.clear();
        self
    }

    /// Sets the link from one site to another, in this direction only; from a site to itself, the
    /// link inside the site. Panics if the grid has no such site.
    pub fn with_link(mut self, from: SiteId, to: SiteId, link: Link) -> Self {
        self.set_link(from, to, link);
        self
    }

    /// Adds a change that takes effect while a job runs: `at 60s link a-b rate=10mbit`, where `a>b`
    /// is one direction and `a-a` is the inside of a site. Settings are `latency`, `rate`,
    /// `jitter`, `loss`, `queue` and `reorder`; other parameters do not change. A change inside a
    /// site does not apply to links inside its clusters.
    ///
    /// The text `at 60s node d01 load=1` adds a foreign load: from then on, one process of other
    /// users computes on each node of that host. Only the simulator creates such load; on a real
    /// machine it is measured.
    ///
    /// # Errors
    ///
    /// [`TimelineError`] if the text is not a change, has a setting or value that cannot be read,
    /// or names a site or host that the grid does not have, and if the grid has too many changes.
    /// The grid is consumed.
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

    /// Sets the latency between PEs of one node.
    pub fn with_loopback(mut self, loopback: Latency) -> Self {
        self.loopback = loopback;
        self
    }

    /// Sets a link in place; see [`GridSpec::with_link`].
    pub fn set_link(&mut self, from: SiteId, to: SiteId, link: Link) {
        let count = self.layout.site_count();
        assert!(from.0 < count && to.0 < count, "the grid has {count} sites");
        if from == to {
            self.lans[from.index()] = link;
        } else {
            self.links.insert((from, to), link);
        }
    }

    /// Sets the uplink of a site in place, or removes it; see [`GridSpec::uplink`]. Panics if the
    /// grid has no such site.
    pub fn set_uplink(&mut self, site: SiteId, rate: Option<Bandwidth>) {
        self.uplinks[site.index()] = rate;
    }

    /// Returns the grid with other names of its hosts, each made from the present one.
    pub fn with_hosts_named(mut self, name: impl Fn(&str) -> String) -> Self {
        self.hosts.iter_mut().for_each(|host| *host = name(host));
        self
    }

    /// Returns the places without the links.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the host on which `node` runs. Panics if the grid has no such node.
    pub fn host(&self, node: NodeId) -> &str {
        &self.hosts[node.index()]
    }

    /// Returns the host of every node, in the order of the nodes.
    pub fn hosts(&self) -> impl ExactSizeIterator<Item = (NodeId, &str)> {
        self.hosts.iter().enumerate().map(|(n, host)| (NodeId::from(n), host.as_str()))
    }

    /// Returns the speed of the processors of `node` in simulations and where the grid is emulated.
    /// Guests (nodes that join a running job) have the ordinary speed.
    pub fn speed(&self, node: NodeId) -> Speed {
        self.speeds.get(node.index()).copied().unwrap_or_default()
    }

    /// Returns the site of this name.
    pub fn site_named(&self, name: &str) -> Option<SiteId> {
        self.layout.sites().find(|&site| self.layout.site_name(site) == name)
    }

    /// Returns the cluster that contains a node: a number that is unique in the grid. Guests are in
    /// no cluster.
    pub fn cluster_of(&self, node: NodeId) -> Option<u32> {
        self.layout.cluster_of(node)
    }

    /// Returns the name of a cluster. Panics if the grid has no such cluster.
    pub fn cluster_name(&self, cluster: u32) -> &str {
        &self.clusters[cluster as usize].spec.name
    }

    /// Returns the UDP port on which `node` listens, if the site's hosts have fixed ports. Panics
    /// if the grid has no such node.
    pub fn port(&self, node: NodeId) -> Option<u16> {
        let site = self.layout.site_of_node(node);
        let port = self.ports[site.index()]?;
        let is_same_host = |other: &NodeId| self.hosts[other.index()] == self.hosts[node.index()];
        let before = self.layout.nodes_in(site).take_while(|&other| other != node);
        port.checked_add(u16::try_from(before.filter(is_same_host).count()).ok()?)
    }

    /// Returns the host through which the hosts of `site` are reached. Panics if the grid has no
    /// such site.
    pub fn gateway(&self, site: SiteId) -> Option<&str> {
        self.gateways[site.index()].as_deref()
    }

    /// Returns the rate at which a site sends to all other sites together, and at which it receives
    /// from them; `None` if only the links between sites limit it. Panics if the grid has no such
    /// site.
    pub fn uplink(&self, site: SiteId) -> Option<Bandwidth> {
        self.uplinks[site.index()].filter(|rate| !rate.is_unlimited())
    }

    /// Returns the link from one node to another at the start of a job: the link of their cluster
    /// if they share one, else that of their site if they share one, else that between their sites.
    /// Panics if the grid has no such node.
    pub fn link(&self, from: NodeId, to: NodeId) -> &Link {
        if let (Some(one), Some(other)) = (self.cluster_of(from), self.cluster_of(to))
            && one == other
        {
            return &self.clusters[one as usize].spec.lan;
        }
        self.link_between(self.layout.site_of_node(from), self.layout.site_of_node(to))
    }

    /// Returns the link from one site to another, or inside a site. Panics if the grid has no such
    /// site.
    pub fn link_between(&self, from: SiteId, to: SiteId) -> &Link {
        if from == to {
            return &self.lans[from.index()];
        }
        self.links.get(&(from, to)).unwrap_or(&self.wan)
    }

    /// Returns the rate of one transfer from a site to a site at the start of a job, if there is no
    /// other: that of the link, or of the uplink of one of the sites if that is slower. Panics if
    /// the grid has no such site.
    pub fn bandwidth_between(&self, from: SiteId, to: SiteId) -> Bandwidth {
        let link = self.link_between(from, to).bandwidth;
        if from == to {
            return link;
        }
        [from, to].into_iter().filter_map(|site| self.uplink(site)).fold(link, Ord::min)
    }

    /// Returns the rate of one transfer from a node to a node at the start of a job, if there is no
    /// other; see [`GridSpec::bandwidth_between`]. Panics if the grid has no such node.
    pub fn bandwidth(&self, from: NodeId, to: NodeId) -> Bandwidth {
        let [one, other] = [from, to].map(|node| self.layout.site_of_node(node));
        match one == other {
            true => self.link(from, to).bandwidth,
            false => self.bandwidth_between(one, other),
        }
    }

    /// Returns a packet shaper for the link from one node to another, including its changes, with
    /// random numbers drawn from `seed`. Panics if the grid has no such node.
    pub fn shaper(&self, from: NodeId, to: NodeId, seed: u64) -> Shaper {
        Shaper::new(*self.link(from, to), seed).with_changes(self.changes_between(from, to))
    }

    /// Returns the link from one node to another at a time. Panics if the grid has no such node.
    pub fn link_at(&self, time: Time, from: NodeId, to: NodeId) -> Link {
        let changes = self.changes_between(from, to);
        let past = changes.iter().take_while(|&&(at, _)| at <= time);
        past.last().map_or(*self.link(from, to), |&(_, link)| link)
    }

    /// Returns the first time after `time` at which the link from one node to another changes.
    /// Panics if the grid has no such node.
    pub fn next_change(&self, time: Time, from: NodeId, to: NodeId) -> Option<Time> {
        self.changes_between(from, to).into_iter().map(|(at, _)| at).find(|&at| at > time)
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

    /// Returns the changes of the link from one site to another, or inside one, over time.
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

    /// Returns the foreign load of a node over time: pairs of a time and the number of processes of
    /// other users that compute on the node from then on. The load before the first time is 0.
    pub fn foreign_loads(&self, node: NodeId) -> impl Iterator<Item = (Time, u32)> {
        let loads = self.foreign_loads.iter().filter(move |load| load.node == node);
        loads.map(|load| (load.at, load.processes))
    }

    /// Whether the link between the two nodes is emulated when several nodes run on one machine. It
    /// is if the nodes are in different sites or clusters. Panics if the grid has no such node.
    pub fn is_emulated(&self, from: NodeId, to: NodeId) -> bool {
        self.is_wide_area(from, to) || self.cluster_of(from) != self.cluster_of(to)
    }

    /// Whether the two nodes are in different sites. Panics if the grid has no such node.
    pub fn is_wide_area(&self, from: NodeId, to: NodeId) -> bool {
        self.layout.site_of_node(from) != self.layout.site_of_node(to)
    }

    /// Returns the latency of a message between PEs of one node.
    pub fn loopback(&self) -> Latency {
        self.loopback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_grid_keeps_its_hosts_and_links() {
        let sites = [("a", vec![1, 1]), ("b", vec![1]), ("c", vec![3, 3])];
        let sites = sites.map(|(name, pes)| (name.to_owned(), pes)).to_vec();
        let far = Link { latency: Latency(Duration::from_millis(70)), ..Link::wan() };
        let grid = GridSpec::from_layout(&Layout::new(sites)).unwrap();
        let grid = grid.with_link(SiteId(0), SiteId(2), far);

        let left = grid.without(&[NodeId(0), NodeId(2)]).unwrap();

        let hosts: Vec<&str> = left.hosts().map(|(_, host)| host).collect();
        assert_eq!(hosts, ["a2", "c1", "c2"]);
        let layout = left.layout();
        assert_eq!((layout.site_count(), layout.pe_count()), (2, 7));
        assert_eq!(layout.site_name(SiteId(1)), "c", "a site without nodes is gone");
        assert_eq!(left.link(NodeId(0), NodeId(2)), grid.link(NodeId(1), NodeId(4)));
        assert_eq!(left.link(NodeId(1), NodeId(2)), grid.link(NodeId(3), NodeId(4)));
        assert_eq!(grid.without(&[]), Some(grid.clone()));
        assert_eq!(grid.without(&grid.layout().nodes().collect::<Vec<_>>()), None);
    }

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
    fn one_transfer_is_as_fast_as_the_slowest_of_the_link_and_the_uplinks() {
        let mbit = |n: u64| Bandwidth::from_bits_per_second(n * 1_000_000);
        let site = |name: &str| {
            SiteSpec::new(name, vec![HostSpec::new(format!("{name}1"), 1)], Link::lan())
        };
        let sites = vec![
            site("a").with_uplink(mbit(100)),
            site("b").with_uplink(mbit(2000)),
            site("c").with_uplink(Bandwidth::UNLIMITED),
        ];
        let spec = GridSpec::new(sites).unwrap();

        let rate = |from, to| spec.bandwidth_between(SiteId(from), SiteId(to));
        assert_eq!([rate(0, 1), rate(2, 0), rate(1, 2)], [mbit(100), mbit(100), mbit(1000)]);
        assert_eq!(rate(0, 0), Link::lan().bandwidth);
        assert_eq!([0, 2].map(|site| spec.uplink(SiteId(site))), [Some(mbit(100)), None]);
        let left = spec.without(&[NodeId(0)]).unwrap();
        assert_eq!(left.uplink(SiteId(0)), Some(mbit(2000)));
    }

    #[test]
    fn a_link_may_differ_by_direction() {
        let slow = Link::new(Latency::from_millis(99), Bandwidth::from_bits_per_second(1));
        let spec = two_sites().with_link(SiteId(1), SiteId(0), slow);

        assert_eq!(spec.link(NodeId(2), NodeId(0)), &slow);
        assert_eq!(spec.link(NodeId(0), NodeId(2)), &Link::wan());
    }
}
