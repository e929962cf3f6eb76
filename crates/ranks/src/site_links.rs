//! The links between the sites of a job and inside them, as all ranks of a run know them.
//!
//! Main reads the measurements before each run, and sends them with the places of the ranks. So all
//! ranks of a run decide from the same numbers, and none measures. Main waits for no measurement:
//! in the first run of a job that has just begun, links count as ordinary ones. Later runs get the
//! round trips and the bandwidths that are known by then.
//!
//! The uplinks that a grid file describes are known from the begin on. Where it describes none, a
//! measured one counts; nodes measure uplinks only if the job or its broadcasts ask for that.

use gridspan_runtime::{Layout, NodeId};
use gridspan_topology::{Bandwidth, GroupId, Hierarchy, Link, LinkEstimate, Pipes, SiteId, Uplink};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest number of sites for which main sends a link for each pair. With more, each link between
/// sites counts as an ordinary one.
const SITES_MAX: u32 = 64;
/// Processor time of a message between nodes, at both ends together, in seconds: that of an
/// ordinary machine, because measurements of links do not show it.
pub(crate) const MESSAGE_S: f64 = 5e-6;

/// The cost of messages on a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LinkCost {
    latency_ns: u64,
    bits_per_s: u64,
}

impl LinkCost {
    fn of(link: &Link) -> Self {
        let latency_ns = u64::try_from(link.latency.duration().as_nanos()).unwrap_or(u64::MAX);
        Self { latency_ns, bits_per_s: link.bandwidth.bits_per_second() }
    }

    /// The cost of a link with this latency and bandwidth.
    #[cfg(test)]
    pub(crate) fn new(latency_ns: u64, bits_per_s: u64) -> Self {
        Self { latency_ns, bits_per_s }
    }

    /// The latency in seconds.
    pub(crate) fn latency_s(self) -> f64 {
        self.latency_ns as f64 * 1e-9
    }

    /// The time in seconds to send a number of bytes.
    pub(crate) fn seconds_for(self, bytes: f64) -> f64 {
        8.0 * bytes / self.bits_per_s.max(1) as f64
    }
}

/// The links of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SiteLinks {
    /// Whether the job has several nodes.
    has_network: bool,
    /// Number of sites whose links are known.
    sites: u32,
    /// From each of these sites to each, row by row; on the diagonal those between two nodes of a
    /// site. If any uplink is known, those of the sites follow, with zero bits per second where it
    /// is not. So jobs without uplinks send no byte for them.
    links: Vec<LinkCost>,
}

impl SiteLinks {
    /// The links of a job with these measurements. A link without a known bandwidth counts as an
    /// ordinary one of its kind, and so does one that was not measured.
    pub(crate) fn new(
        layout: &Layout,
        hierarchy: &Hierarchy,
        estimates: &[((GroupId, GroupId), LinkEstimate)],
    ) -> Self {
        let bandwidths: BTreeMap<(GroupId, GroupId), Bandwidth> = estimates
            .iter()
            .filter_map(|(pair, estimate)| Some((*pair, estimate.bandwidth?)))
            .collect();
        let mut nodes: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        for node in layout.nodes() {
            nodes.entry(layout.site_of_node(node).0).or_default().push(node);
        }
        let sites = if layout.site_count() > SITES_MAX { 0 } else { layout.site_count() };
        let ends = |from: u32, to: u32| {
            let last = usize::from(from == to);
            Some((*nodes.get(&from)?.first()?, *nodes.get(&to)?.get(last)?))
        };
        let cost = |from: u32, to: u32| {
            let usual = usual(from == to);
            let Some((one, other)) = ends(from, to) else { return usual };
            let latency_ns = hierarchy.rtt(one, other).map_or(usual.latency_ns, |rtt| {
                u64::try_from(rtt.as_nanos() / 2).unwrap_or(u64::MAX)
            });
            let known = hierarchy.ends(one, other).and_then(|pair| bandwidths.get(&pair));
            let bits_per_s = known.map_or(usual.bits_per_s, |known| known.bits_per_second());
            LinkCost { latency_ns, bits_per_s }
        };
        let links = pairs(sites).map(|(from, to)| cost(from, to)).collect();
        Self { has_network: layout.node_count() > 1, sites, links }
    }

    /// The links of a job of which nothing was measured.
    pub(crate) fn not_measured(layout: &Layout) -> Self {
        Self { has_network: layout.node_count() > 1, ..Self::default() }
    }

    /// The same links of a job with this layout, with the uplinks of sites where they are known.
    pub(crate) fn with_uplinks(
        mut self,
        layout: &Layout,
        known: &BTreeMap<SiteId, Bandwidth>,
    ) -> Self {
        let sites = layout.site_count();
        if known.is_empty() || sites > SITES_MAX {
            return self;
        }
        self.links = pairs(sites).map(|(from, to)| self.between(from, to)).collect();
        let bits_per_s = |site| known.get(&SiteId(site)).map_or(0, |rate| rate.bits_per_second());
        let uplink = |site| LinkCost { latency_ns: 0, bits_per_s: bits_per_s(site) };
        self.links.extend((0..sites).map(uplink));
        self.sites = sites;
        self
    }

    /// Whether messages between ranks may cross a network.
    pub(crate) fn has_network(&self) -> bool {
        self.has_network
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of_val(&self.links[..])
    }

    /// The link from one site to another, or between two nodes of a site.
    pub(crate) fn between(&self, from: u32, to: u32) -> LinkCost {
        let is_known = from < self.sites && to < self.sites;
        let at = from as usize * self.sites as usize + to as usize;
        let known = self.links.get(at).copied().filter(|_| is_known);
        known.unwrap_or_else(|| usual(from == to))
    }

    /// The uplink of a site, each direction of which carries its traffic with all other sites;
    /// `None` if only the links between pairs of sites are known to limit it.
    pub(crate) fn uplink(&self, site: u32) -> Option<LinkCost> {
        let at = self.sites as usize * self.sites as usize + site as usize;
        let known = self.links.get(at).copied().filter(|_| site < self.sites);
        known.filter(|uplink| uplink.bits_per_s > 0)
    }

    /// Whether the links into a site from these others together carry at most as much as one node
    /// there can receive.
    pub(crate) fn is_narrow(&self, to: u32, from: impl Iterator<Item = u32>) -> bool {
        let limit = |site| self.uplink(site).map_or(u64::MAX, |uplink| uplink.bits_per_s);
        let rates = from.map(|site| self.between(site, to).bits_per_s.min(limit(site)));
        let into = rates.fold(0, u64::saturating_add).min(limit(to));
        into <= self.between(to, to).bits_per_s
    }
}

/// The uplinks that measurements have shown: those of groups that are whole sites, and whose nodes
/// share one pipe.
pub(crate) fn measured_uplinks(
    layout: &Layout,
    hierarchy: &Hierarchy,
    uplinks: &[(GroupId, Uplink)],
) -> BTreeMap<SiteId, Bandwidth> {
    let shared = uplinks.iter().filter(|(_, uplink)| uplink.pipes == Pipes::Shared);
    let shared: BTreeMap<GroupId, Bandwidth> =
        shared.map(|(group, uplink)| (*group, uplink.bandwidth)).collect();
    let of_site = |group: GroupId| {
        let rate = *shared.get(&group)?;
        let members = hierarchy.group(group).members().iter().copied();
        let founders: Vec<NodeId> = members.filter(|node| !layout.is_guest(*node)).collect();
        let site = layout.site_of_node(*founders.first()?);
        layout.nodes_in(site).eq(founders).then_some((site, rate))
    };
    hierarchy.groups_at(1).filter_map(of_site).collect()
}

/// All pairs of this number of sites, ordered by the first and then by the second.
fn pairs(sites: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..sites).flat_map(move |from| (0..sites).map(move |to| (from, to)))
}

/// An ordinary link inside a site, or between two.
fn usual(is_inside: bool) -> LinkCost {
    LinkCost::of(&if is_inside { Link::lan() } else { Link::wan() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{GridSpec, Latency, Time};

    fn rate(mbit: u64) -> Bandwidth {
        Bandwidth::from_bits_per_second(mbit * 1_000_000)
    }

    #[test]
    fn links_have_the_measured_latencies_and_the_known_bandwidths() {
        let spec = GridSpec::from_emulate("3x2,wan=16ms").unwrap();
        let (layout, hierarchy) = (spec.layout(), Hierarchy::from_grid(&spec));
        let pair = hierarchy.ends(NodeId(0), NodeId(4)).unwrap();
        let mut estimate = LinkEstimate::new(Latency::from_millis(16), Time::ZERO);
        estimate.bandwidth = Some(Bandwidth::from_bits_per_second(8_000_000));
        let links = SiteLinks::new(layout, &hierarchy, &[(pair, estimate)]);
        assert!(links.has_network());
        let slow = links.between(0, 2);
        assert!((slow.latency_s() - 0.016).abs() < 1e-3, "{slow:?}");
        assert!((slow.seconds_for(1e6) - 1.0).abs() < 1e-9, "{slow:?}");
        // Nothing is known of the bandwidth of the others, nor of a site that the job does not
        // have.
        assert_eq!(links.between(2, 0).bits_per_s, 1_000_000_000);
        assert_eq!(links.between(7, 0), usual(false));
        assert!(links.is_narrow(2, [0, 1].into_iter()));
    }

    #[test]
    fn a_job_on_one_node_has_no_network() {
        let layout = Layout::single(4);
        let spec = GridSpec::from_layout(&layout).unwrap();
        let links = SiteLinks::new(&layout, &Hierarchy::from_grid(&spec), &[]);
        assert!(!links.has_network());
        assert!(!SiteLinks::default().has_network());
    }

    #[test]
    fn links_that_were_not_measured_are_ordinary_ones() {
        let spec = GridSpec::from_emulate("2x2,wan=90ms").unwrap();
        let links = SiteLinks::not_measured(spec.layout());
        assert!(links.has_network());
        assert_eq!([links.between(0, 1), links.between(1, 1)], [usual(false), usual(true)]);
    }

    #[test]
    fn a_site_has_an_uplink_where_it_is_known_and_all_links_stay_as_they_are() {
        let spec = GridSpec::from_emulate("3x2,wan=16ms").unwrap();
        let (layout, hierarchy) = (spec.layout(), Hierarchy::from_grid(&spec));
        for links in [SiteLinks::not_measured(layout), SiteLinks::new(layout, &hierarchy, &[])] {
            assert_eq!(links.clone().with_uplinks(layout, &BTreeMap::new()), links);
            assert_eq!([0, 1, 2, 7].map(|site| links.uplink(site)), [None; 4]);
            let known = BTreeMap::from([(SiteId(1), rate(100))]);
            let limited = links.clone().with_uplinks(layout, &known);
            assert_eq!([0, 2, 7].map(|site| limited.uplink(site)), [None; 3]);
            assert_eq!(limited.uplink(1), Some(LinkCost::new(0, 100_000_000)));
            for (from, to) in pairs(4) {
                assert_eq!(limited.between(from, to), links.between(from, to));
            }
        }
    }

    #[test]
    fn a_slow_uplink_makes_a_site_narrow() {
        let spec = GridSpec::from_emulate("12x2,wan=20ms").unwrap();
        let links = SiteLinks::not_measured(spec.layout());
        // Eleven links of 1 Gbit/s are faster than a node.
        assert!(!links.is_narrow(0, 1..12));
        let limited = |sites: std::ops::Range<u32>| {
            let known = sites.map(|site| (SiteId(site), rate(500))).collect();
            links.clone().with_uplinks(spec.layout(), &known)
        };
        assert!(limited(0..1).is_narrow(0, 1..12));
        assert!(!limited(0..1).is_narrow(1, (0..1).chain(2..12)));
        // Those of the senders together carry 5.5 Gbit/s.
        assert!(limited(1..12).is_narrow(0, 1..12));
    }

    #[test]
    fn only_a_shared_pipe_of_a_whole_site_is_its_uplink() {
        let spec = GridSpec::from_emulate("3x2,wan=16ms").unwrap();
        let (layout, hierarchy) = (spec.layout(), Hierarchy::from_grid(&spec));
        let judged = |shared: u64| {
            let together = [(rate(100), rate(shared)), (rate(100), rate(shared))];
            Uplink::judge(Time::ZERO, &[rate(100), rate(100)], &together).unwrap()
        };
        let group = |site: u32| hierarchy.group_of(NodeId(2 * site), 1).unwrap();
        let all = [(group(0), judged(100)), (group(2), judged(50)), (hierarchy.root(), judged(50))];
        let found = measured_uplinks(layout, &hierarchy, &all);
        assert_eq!(found, BTreeMap::from([(SiteId(2), rate(100))]));
    }
}
