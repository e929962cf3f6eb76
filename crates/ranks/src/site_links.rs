//! The links between the sites of a job and inside them, as all ranks of a run know them.
//!
//! Main reads the measurements before each run, and sends them with the places of the ranks. So all
//! ranks of a run decide from the same numbers, and none measures. Main waits for no measurement:
//! in the first run of a job that has just begun, links count as ordinary ones. Later runs get the
//! round trips and the bandwidths that are known by then.

use gridspan_runtime::{Layout, NodeId};
use gridspan_topology::{Bandwidth, GroupId, Hierarchy, Link, LinkEstimate};
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
    /// site.
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
        let pairs = (0..sites).flat_map(|from| (0..sites).map(move |to| (from, to)));
        let links = pairs.map(|(from, to)| cost(from, to)).collect();
        Self { has_network: layout.node_count() > 1, sites, links }
    }

    /// The links of a job of which nothing was measured.
    pub(crate) fn not_measured(layout: &Layout) -> Self {
        Self { has_network: layout.node_count() > 1, ..Self::default() }
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

    /// Whether the links into a site from these others together carry at most as much as one node
    /// there can receive.
    pub(crate) fn is_narrow(&self, to: u32, from: impl Iterator<Item = u32>) -> bool {
        let rates = from.map(|site| self.between(site, to).bits_per_s);
        rates.fold(0, u64::saturating_add) <= self.between(to, to).bits_per_s
    }
}

/// An ordinary link inside a site, or between two.
fn usual(is_inside: bool) -> LinkCost {
    LinkCost::of(&if is_inside { Link::lan() } else { Link::wan() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{GridSpec, Latency, Time};

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
}
