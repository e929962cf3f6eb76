//! The platform for a mapping to the servers of a registry: sites inferred from round trips, and
//! measured links. The module performs no I/O.

use crate::wire::messages::ListedServer;
use gridspan_rpc::group::AssumedLinks;
use gridspan_topology::{
    Bandwidth, Hierarchy, Latency, Link, LinkSample, NodeId, RttMatrix, infer,
};
use gridspan_workflow::{ClientSpec, Platform, ServerSpec, Site};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of servers for which sites are inferred; for more, the matrix of round trips
/// would be too large.
const SERVERS_MAX: usize = 1024;
/// Maximum latency of a link, which replaces larger ones that servers report.
const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Returns the platform of these servers, by their positions, and of a client that has measured its
/// own links to them. `observed_speed` returns the speed of a server, by its position, relative to
/// its listed speed.
pub(crate) fn platform(
    servers: &[ListedServer],
    of_client: &[LinkSample],
    assumed: &AssumedLinks,
    observed_speed: &dyn Fn(usize) -> f64,
) -> Platform {
    let links = LinkBeliefs::new(servers, of_client);
    let sites = links.sites();
    let count = sites.iter().max().map_or(1, |last| last + 1);
    let between = links.between(&sites);
    let link = |from, to, believed| link(&between, (from, to), believed);
    let site = |site| {
        let (lan, uplink) = (link(site, site, assumed.lan), Link::perfect());
        Site::new(format!("site {}", site + 1), lan, uplink.with_latency(Latency::ZERO))
    };
    let server = |(position, listed): (usize, &ListedServer)| {
        let speed = listed.card.speed / f64::from(listed.cores.max(1)) * observed_speed(position);
        ServerSpec::new(&listed.card.name, sites[position], speed).with_cores(listed.cores)
    };
    let own = sites[servers.len()];
    let client = ClientSpec::at_site(own, links.of_client(assumed.lan));
    let all = servers.iter().enumerate().map(server).collect();
    let mut platform = Platform::new(all, (0..count).map(site).collect(), client);
    for from in 0..count {
        for to in (0..count).filter(|&to| to != from) {
            platform = platform.with_link(from, to, link(from, to, assumed.wan));
        }
    }
    platform
}

/// Measurements of all links from one site to another.
#[derive(Default)]
struct Between {
    latencies: Vec<Duration>,
    widest: Option<Bandwidth>,
}

/// Returns the link between two sites, or inside one: with the median latency of its pairs, and
/// with the largest measured bandwidth, because no measurement exceeds the bandwidth of the link.
fn link(
    between: &BTreeMap<(usize, usize), Between>,
    (from, to): (usize, usize),
    believed: Link,
) -> Link {
    let [there, back] = [(from, to), (to, from)].map(|link| between.get(&link));
    let latencies = there.map_or(&[][..], |there| &there.latencies);
    let latency = latencies.get(latencies.len() / 2).copied().map(Latency);
    let widest = |between: Option<&Between>| between.and_then(|between| between.widest);
    // A bandwidth that was measured in the other direction only is used for both.
    let bandwidth = widest(there).or_else(|| widest(back));
    Link::new(latency.unwrap_or(believed.latency), bandwidth.unwrap_or(believed.bandwidth))
}

/// Measurements by the positions of servers; the client's position follows the last one.
struct LinkBeliefs {
    count: usize,
    latencies: BTreeMap<(usize, usize), Duration>,
    bandwidths: BTreeMap<(usize, usize), Bandwidth>,
}

impl LinkBeliefs {
    fn new(servers: &[ListedServer], of_client: &[LinkSample]) -> Self {
        let places: BTreeMap<u32, usize> =
            servers.iter().enumerate().map(|(at, listed)| (listed.card.number, at)).collect();
        let client = servers.len();
        let (mut latencies, mut bandwidths) = (BTreeMap::new(), BTreeMap::new());
        for (to, listed) in servers.iter().enumerate() {
            for (from, estimate) in &listed.links {
                let Some(&from) = places.get(from) else { continue };
                latencies.insert((from, to), estimate.latency.duration().min(LATENCY_MAX));
                bandwidths.extend(estimate.bandwidth.map(|bandwidth| ((from, to), bandwidth)));
            }
        }
        for (server, sample) in of_client.iter().enumerate() {
            let half = sample.round_trip.map(|round_trip| round_trip / 2);
            for link in [(server, client), (client, server)] {
                latencies.extend(half.map(|half| (link, half)));
                bandwidths.extend(sample.rate.map(|rate| (link, rate)));
            }
        }
        Self { count: servers.len() + 1, latencies, bandwidths }
    }

    /// Returns the site of each server and, last, of the client: the smallest groups that are
    /// inferred from round trips. Without round trips, or with too many servers, there is one site.
    fn sites(&self) -> Vec<usize> {
        if self.count > SERVERS_MAX || self.latencies.is_empty() {
            return vec![0; self.count];
        }
        let rtt = |from: NodeId, to: NodeId| {
            let link = (from.index(), to.index());
            self.latencies.get(&link).map(|latency| latency.saturating_mul(2))
        };
        let hierarchy: Hierarchy = infer(&RttMatrix::from_fn(self.count, rtt));
        let level = hierarchy.depth().saturating_sub(1);
        let mut sites = BTreeMap::new();
        let nodes = (0..self.count).map(NodeId::from);
        let site = |node| {
            let next = sites.len();
            *sites.entry(hierarchy.group_of(node, level)).or_insert(next)
        };
        nodes.map(site).collect()
    }

    /// Returns the measurements between each pair of sites, and inside each site.
    fn between(&self, sites: &[usize]) -> BTreeMap<(usize, usize), Between> {
        let mut between: BTreeMap<(usize, usize), Between> = BTreeMap::new();
        for (&(from, to), &latency) in &self.latencies {
            between.entry((sites[from], sites[to])).or_default().latencies.push(latency);
        }
        for (&(from, to), &bandwidth) in &self.bandwidths {
            let between = between.entry((sites[from], sites[to])).or_default();
            between.widest = between.widest.max(Some(bandwidth));
        }
        between.values_mut().for_each(|between| between.latencies.sort());
        between
    }

    /// Returns the client's link, with its largest measured bandwidth and its smallest latency.
    fn of_client(&self, believed: Link) -> Link {
        let client = self.count - 1;
        let own = self.bandwidths.iter().filter(|((from, _), _)| *from == client);
        let bandwidth = own.map(|(_, bandwidth)| *bandwidth).max();
        let nearest = self.latencies.iter().filter(|((from, _), _)| *from == client);
        let nearest = nearest.map(|(_, latency)| Latency(*latency)).min();
        Link::new(nearest.unwrap_or(believed.latency), bandwidth.unwrap_or(believed.bandwidth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_rpc::calls::ServerCard;
    use gridspan_topology::{LinkEstimate, Time};
    use gridspan_workflow::{Endpoint, ServerId};

    const ASSUMED: AssumedLinks =
        AssumedLinks { lan: Link::lan(), wan: Link::wan(), measures: true };

    fn estimate(latency: Duration, mbit: u64) -> LinkEstimate {
        let mut estimate = LinkEstimate::new(Latency(latency), Time::ZERO);
        estimate.bandwidth = Some(Bandwidth::from_bits_per_second(mbit * 1_000_000));
        estimate
    }

    /// Servers with even numbers are near each other, as are those with odd numbers. Links between
    /// the two groups have a latency of 20 ms and 80 Mbit/s. The client is near the even numbers.
    fn servers(count: u32) -> (Vec<ListedServer>, Vec<LinkSample>) {
        let near = Duration::from_micros(100);
        let link = |from: u32, to: u32| match from % 2 == to % 2 {
            true => estimate(near, 8000),
            false => estimate(Duration::from_millis(20), 80),
        };
        let server = |number: u32| {
            let mut card = ServerCard::new(format!("s{number}"), Default::default());
            (card.number, card.speed) = (number, 2.0);
            let others = (0..count).filter(|&from| from != number);
            let links = others.map(|from| (from, link(from, number))).collect();
            ListedServer { card, calls: 0, load_s: 0.0, cores: 2, address: None, links }
        };
        let sample = |number: u32| LinkSample {
            round_trip: Some(link(0, number).latency.duration() * 2),
            rate: link(0, number).bandwidth,
            ..LinkSample::default()
        };
        ((0..count).map(server).collect(), (0..count).map(sample).collect())
    }

    #[test]
    fn sites_and_links_follow_from_measurements() {
        let (servers, of_client) = servers(6);

        let platform = platform(&servers, &of_client, &ASSUMED, &|_| 1.0);

        let end = |server| Endpoint::Server(ServerId(server));
        assert_eq!(platform.sites().len(), 2);
        assert!(platform.is_near(end(0), end(4)) && !platform.is_near(end(0), end(1)));
        assert!(platform.is_near(Endpoint::Client, end(2)));
        // 10 MB at 80 Mbit/s.
        assert!((platform.transfer_s(10_000_000, end(0), end(1)) - 1.02).abs() < 1e-6);
        assert!((platform.transfer_s(10_000_000, end(0), end(2)) - 0.0101).abs() < 1e-6);
        assert!((platform.server(ServerId(0)).speed - 1.0).abs() < 1e-12, "speed of one core");
    }

    #[test]
    fn unmeasured_links_have_the_believed_values() {
        let (mut servers, _) = servers(2);
        servers.iter_mut().for_each(|listed| listed.links.clear());

        let platform = platform(&servers, &[], &ASSUMED, &|_| 1.0);

        let [one, other] = [0, 1].map(|server| Endpoint::Server(ServerId(server)));
        assert_eq!(platform.latency_s(one, other), Link::lan().latency.duration().as_secs_f64());
    }
}
