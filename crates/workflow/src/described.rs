//! The platform that a grid file describes.

use crate::platform::{ClientSpec, Platform, ServerSpec, Site};
use gridspan_topology::{Bandwidth, GridSpec, Latency, Link, SiteId};

/// Returns a platform with each node of a grid as a server of speed 1 that has a core for each PE
/// and the name of its host. Transfers between two sites share the link between them, and the
/// uplinks of both if the grid has them; transfers inside a site share only the interfaces of the
/// two nodes. Without `client`, the client is attached to the first site like a node.
pub fn described(spec: &GridSpec, client: Option<Link>) -> Platform {
    let layout = spec.layout();
    let free = Link::perfect().with_latency(Latency::ZERO);
    let site = |site: SiteId| Site {
        name: layout.site_name(site).to_owned(),
        lan: *spec.link_between(site, site),
        uplink: free.with_bandwidth(spec.uplink(site).unwrap_or(Bandwidth::UNLIMITED)),
    };
    let server = |node| ServerSpec {
        name: spec.host(node).to_owned(),
        site: layout.site_of_node(node).index(),
        cores: layout.place(node).pes.len() as u32,
        speed: 1.0,
        is_direct: true,
    };
    let client = match client {
        Some(link) => ClientSpec { site: None, link },
        None => ClientSpec { site: Some(0), link: *spec.link_between(SiteId(0), SiteId(0)) },
    };
    let servers = layout.nodes().map(server).collect();
    let mut platform = Platform::new(servers, layout.sites().map(site).collect(), client);
    for from in layout.sites() {
        for to in layout.sites().filter(|&to| to != from) {
            platform = platform.with_link(from.index(), to.index(), *spec.link_between(from, to));
        }
    }
    platform
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Endpoint, ServerId};

    #[test]
    fn servers_and_links_are_those_of_the_grid() {
        let spec = GridSpec::from_emulate("2x2x3,wan=32ms,rate=80mbit").unwrap();

        let platform = described(&spec, None);

        assert_eq!((platform.servers().len(), platform.cores()), (4, 12));
        let [near, far] = [1, 2].map(|server| Endpoint::Server(ServerId(server)));
        assert_eq!(platform.transfer_s(10_000_000, near, far), 0.032 + 1.0);
        assert_eq!(platform.transfer_s(10_000_000, Endpoint::Client, far), 0.032 + 1.0);
        assert!(platform.transfer_s(10_000_000, Endpoint::Client, near) < 0.1);
    }

    #[test]
    fn an_uplink_limits_transfers_between_sites() {
        let spec = GridSpec::from_emulate("2x2,wan=32ms,rate=80mbit,uplink=40mbit").unwrap();

        let platform = described(&spec, None);

        let [near, far] = [1, 2].map(|server| Endpoint::Server(ServerId(server)));
        assert_eq!(platform.transfer_s(10_000_000, near, far), 0.032 + 2.0);
        assert!(platform.transfer_s(10_000_000, Endpoint::Client, near) < 0.1);
    }
}
