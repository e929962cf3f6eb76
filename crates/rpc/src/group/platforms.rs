//! The platform of a job's servers for mapping: links as declared, or as the runtime has measured
//! them.

use crate::calls::ServerCard;
use gridspan_runtime::{Layout, Links, NodeId, SiteId};
use gridspan_topology::{GroupId, Latency, Link, LinkEstimate};
use gridspan_workflow::{ClientSpec, Platform, ServerSpec, Site};
use std::collections::BTreeMap;

/// Links that are assumed where there is no measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Declared {
    /// Inside sites.
    pub(super) lan: Link,
    /// From each site to the others.
    pub(super) wan: Link,
}

/// The platform of these servers, by their positions. `observed_speed` returns the observed speed
/// of a server as a fraction of the speed that it declares.
pub(super) fn platform(
    layout: &Layout,
    cards: &[ServerCard],
    declared: Declared,
    links: Option<&Links>,
    observed_speed: &dyn Fn(u32) -> f64,
) -> Platform {
    let server = |card: &ServerCard| {
        let speed = card.speed * observed_speed(card.number);
        ServerSpec::new(&card.name, card.site as usize, speed).with_direct(card.is_direct)
    };
    let servers = cards.iter().map(server).collect();
    match links {
        None => by_uplinks(layout, servers, declared),
        Some(links) => by_pairs(layout, servers, &Measured::new(links), declared),
    }
}

fn by_uplinks(layout: &Layout, servers: Vec<ServerSpec>, declared: Declared) -> Platform {
    let Declared { lan, wan } = declared;
    let half = wan.with_latency(Latency(wan.latency.0 / 2));
    let site = |site| Site::new(layout.site_name(site), lan, half);
    let client = ClientSpec::at_site(0, lan);
    Platform::new(servers, layout.sites().map(site).collect(), client)
}

/// A platform in which all transfers between two sites share the link that was measured between
/// them.
fn by_pairs(
    layout: &Layout,
    servers: Vec<ServerSpec>,
    measured: &Measured<'_>,
    declared: Declared,
) -> Platform {
    let free = Link::perfect().with_latency(Latency::ZERO);
    let nodes = |site: SiteId| layout.nodes_in(site);
    let lan = |site| {
        let mut nodes = nodes(site);
        let pair = nodes.next().zip(nodes.next_back());
        pair.map_or(declared.lan, |(one, other)| measured.link(one, other, declared.lan))
    };
    let site = |site| Site::new(layout.site_name(site), lan(site), free);
    let client = ClientSpec::at_site(0, lan(SiteId(0)));
    let mut platform = Platform::new(servers, layout.sites().map(site).collect(), client);
    for from in layout.sites() {
        for to in layout.sites().filter(|&to| to != from) {
            let ends = nodes(from).next().zip(nodes(to).next());
            let link =
                ends.map_or(declared.wan, |(one, other)| measured.link(one, other, declared.wan));
            platform = platform.with_link(from.index(), to.index(), link);
        }
    }
    platform
}

struct Measured<'a> {
    links: &'a Links,
    estimates: BTreeMap<(GroupId, GroupId), LinkEstimate>,
}

impl<'a> Measured<'a> {
    fn new(links: &'a Links) -> Self {
        Self { links, estimates: links.estimates.iter().copied().collect() }
    }

    /// The measured link from one node to another; missing values are those declared.
    fn link(&self, from: NodeId, to: NodeId, declared: Link) -> Link {
        let hierarchy = &self.links.places.hierarchy;
        let estimate = hierarchy.ends(from, to).and_then(|ends| self.estimates.get(&ends));
        let by_rtt = || hierarchy.rtt(from, to).map(|rtt| Latency(rtt / 2));
        let latency = estimate.map(|estimate| estimate.latency).or_else(by_rtt);
        let bandwidth = estimate.and_then(|estimate| estimate.bandwidth);
        Link::new(latency.unwrap_or(declared.latency), bandwidth.unwrap_or(declared.bandwidth))
    }
}
