//! The grid on which a job was recorded: latencies and speeds, as the recording's header has them.

use gridspan_record::{Header, RecordedLink};
use gridspan_topology::{GridSpec, Link};
use std::collections::BTreeMap;

/// Places and links of a recording.
#[derive(Clone, Debug)]
pub(crate) struct RecordedGrid {
    /// The node and the site of each PE.
    places: Vec<(u32, u32)>,
    /// By sending and receiving site: latency in nanoseconds, and bytes per nanosecond if limited.
    /// Holds only the links of the header, since one for each pair of sites may not fit into
    /// memory.
    links: BTreeMap<(u32, u32), (f64, Option<f64>)>,
}

impl RecordedGrid {
    /// Reads a header. A link that the header lacks takes no time. No latency is longer than
    /// [`Link::MAX_DELAY`].
    pub(crate) fn of(header: &Header) -> Self {
        let sites = header.sites.len();
        let latency_max = Link::MAX_DELAY.as_nanos() as f64;
        let is_site = |site: u32| (site as usize) < sites;
        let mut links = BTreeMap::new();
        for RecordedLink { from, to, latency_us, bytes_per_second, .. } in &header.links {
            let latency = if latency_us.is_finite() { latency_us.max(0.0) * 1e3 } else { 0.0 };
            let latency = latency.min(latency_max);
            let rate = bytes_per_second.filter(|rate| *rate > 0.0).map(|rate| rate * 1e-9);
            if is_site(*from) && is_site(*to) {
                links.insert((*from, *to), (latency, rate));
            }
        }
        let site = |node: u32| header.nodes.get(node as usize).map_or(0, |node| node.site);
        let places = header.pes.iter().map(|pe| (pe.node, site(pe.node))).collect();
        Self { places, links }
    }

    pub(crate) fn pes(&self) -> u32 {
        self.places.len() as u32
    }

    pub(crate) fn site(&self, pe: u32) -> u32 {
        self.places.get(pe as usize).map_or(0, |(_, site)| *site)
    }

    /// Whether two PEs are on one node.
    pub(crate) fn is_one_node(&self, from: u32, to: u32) -> bool {
        let node = |pe: u32| self.places.get(pe as usize).map(|(node, _)| *node);
        node(from) == node(to)
    }

    /// Latency from one PE to another, in nanoseconds.
    pub(crate) fn latency_ns(&self, from: u32, to: u32) -> f64 {
        match (from == to, self.is_one_node(from, to)) {
            (true, _) => 0.0,
            (_, true) => GridSpec::LOOPBACK.duration().as_nanos() as f64,
            _ => self.link(from, to).0,
        }
    }

    /// Time that a message takes from one PE to another if it does not queue, in nanoseconds.
    pub(crate) fn transfer_ns(&self, from: u32, to: u32, bytes: u32) -> f64 {
        let latency = self.latency_ns(from, to);
        if self.is_one_node(from, to) {
            return latency;
        }
        let (_, rate) = self.link(from, to);
        latency + rate.map_or(0.0, |rate| f64::from(bytes) / rate)
    }

    /// The link between the sites of two PEs.
    fn link(&self, from: u32, to: u32) -> (f64, Option<f64>) {
        self.links.get(&(self.site(from), self.site(to))).copied().unwrap_or_default()
    }

    /// Round trip between main's PE and a PE, in nanoseconds.
    pub(crate) fn round_trip_ns(&self, pe: u32) -> f64 {
        self.latency_ns(0, pe) + self.latency_ns(pe, 0)
    }

    /// The longest round trip between main's PE and any PE, in nanoseconds.
    pub(crate) fn longest_round_trip_ns(&self) -> f64 {
        (0..self.pes()).map(|pe| self.round_trip_ns(pe)).fold(0.0, f64::max)
    }

    /// The longest latency of a recorded link, in nanoseconds.
    pub(crate) fn longest_latency_ns(&self) -> f64 {
        self.links.values().map(|(latency, _)| *latency).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_record::{RecordedNode, RecordedPe};

    #[test]
    fn absurd_links_are_limited_and_links_to_nowhere_left_out() {
        let link = |to, latency_us| RecordedLink { to, latency_us, ..RecordedLink::default() };
        let mut header = Header {
            sites: vec!["a".to_owned()],
            nodes: vec![RecordedNode::default(); 2],
            pes: (0..2).map(|node| RecordedPe { node, speed: 1.0 }).collect(),
            links: vec![link(0, 1e306), link(7, 1.0)],
            ..Header::default()
        };
        let hour_ns = 3.6e12;
        assert_eq!(RecordedGrid::of(&header).longest_round_trip_ns(), 2.0 * hour_ns);
        header.links = vec![link(0, f64::NAN)];
        assert_eq!(RecordedGrid::of(&header).longest_round_trip_ns(), 0.0);
        header.sites.clear();
        assert_eq!(RecordedGrid::of(&header).transfer_ns(0, 1, 9), 0.0);
    }

    #[test]
    fn a_million_sites_take_no_memory_for_each_pair() {
        let link =
            RecordedLink { from: 7, to: 999_999, latency_us: 2.0, ..RecordedLink::default() };
        let sites = vec![String::new(); 1_000_000];
        let header = Header { sites, links: vec![link], ..Header::default() };
        assert_eq!(RecordedGrid::of(&header).longest_latency_ns(), 2e3);
    }
}
