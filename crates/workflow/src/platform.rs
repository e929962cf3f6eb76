//! What a group of calls is mapped to: servers, sites, the client, and the capacities of the links
//! between them.
//!
//! Every server and the client has a network interface that sends and receives at the same time.
//! What goes to another site also passes the uplink of both sites, and the link between the two if
//! it has limits of its own. A client outside of all sites has its own way into the wide area.

use crate::id::{Endpoint, ServerId};
use gridspan_topology::{Bandwidth, Link};
use std::collections::{BTreeMap, BTreeSet};

/// A server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSpec {
    /// What it is called.
    pub name: String,
    /// The position of its site.
    pub site: usize,
    /// How many calls it executes at the same time.
    pub cores: u32,
    /// How fast one core is: a task takes its work divided by it.
    pub speed: f64,
    /// Whether it passes data to other servers that do. One that does not speaks with the client
    /// only.
    pub is_direct: bool,
}

/// A site.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// What it is called.
    pub name: String,
    /// How each of its servers is attached.
    pub lan: Link,
    /// How the site is attached to the wide area.
    pub uplink: Link,
}

/// Where the client is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientSpec {
    /// The position of its site; `None` if it has a way into the wide area of its own.
    pub site: Option<usize>,
    /// How it is attached.
    pub link: Link,
}

/// Servers, sites and links.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    servers: Vec<ServerSpec>,
    sites: Vec<Site>,
    client: ClientSpec,
    /// Links between two sites with limits of their own, by direction, and their numbers.
    between: BTreeMap<(usize, usize), (usize, Link)>,
    /// Servers, the second of which does not reach the first.
    apart: BTreeSet<(ServerId, ServerId)>,
    capacities: Vec<f64>,
}

/// The most a link without a limit carries, in bytes per second: more than any that is built, and
/// still a number that can be divided.
const UNLIMITED: f64 = 1e14;

impl Platform {
    /// A platform without limits between sites but their uplinks. Servers without a core get one.
    /// Panics if a server, or the client, is in a site that does not exist, or a speed is not
    /// positive.
    pub fn new(mut servers: Vec<ServerSpec>, sites: Vec<Site>, client: ClientSpec) -> Self {
        for server in &mut servers {
            server.cores = server.cores.max(1);
            assert!(server.speed > 0.0 && server.speed.is_finite(), "speeds are positive");
        }
        let sites_used = servers.iter().map(|server| server.site).chain(client.site);
        assert!(sites_used.max().is_none_or(|site| site < sites.len()), "sites exist");
        let attached = servers.iter().map(|server| &sites[server.site].lan);
        let links = attached.chain([&client.link]).chain(sites.iter().map(|site| &site.uplink));
        let capacities = links.flat_map(|link| [bytes_per_s(link.bandwidth); 2]).collect();
        let (between, apart) = Default::default();
        Self { servers, sites, client, between, apart, capacities }
    }

    /// The same platform with a link from one site to another that all transfers between them
    /// share, in this direction.
    pub fn with_link(mut self, from: usize, to: usize, link: Link) -> Self {
        self.between.insert((from, to), (self.capacities.len(), link));
        self.capacities.push(bytes_per_s(link.bandwidth));
        self
    }

    /// The same platform where these servers, of which each second does not reach the first, send
    /// data by way of the client in this direction: the partially connected network of plain
    /// GridRPC.
    pub fn with_apart(mut self, pairs: impl IntoIterator<Item = (ServerId, ServerId)>) -> Self {
        self.apart.extend(pairs);
        self
    }

    /// The servers, of which each second does not reach the first.
    pub fn apart(&self) -> &BTreeSet<(ServerId, ServerId)> {
        &self.apart
    }

    /// The same platform with servers that speak with the client only: the star of plain GridRPC.
    pub fn star(mut self) -> Self {
        self.servers.iter_mut().for_each(|server| server.is_direct = false);
        self
    }

    /// All servers, by their identifiers.
    pub fn servers(&self) -> &[ServerSpec] {
        &self.servers
    }

    /// One server. Panics if there is no such server.
    pub fn server(&self, server: ServerId) -> &ServerSpec {
        &self.servers[server.index()]
    }

    /// The identifiers of all servers.
    pub fn server_ids(&self) -> impl DoubleEndedIterator<Item = ServerId> + use<> {
        (0..self.servers.len() as u32).map(ServerId)
    }

    /// All sites, by position.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The client.
    pub fn client(&self) -> &ClientSpec {
        &self.client
    }

    /// How many calls all servers execute at the same time.
    pub fn cores(&self) -> u32 {
        self.servers.iter().map(|server| server.cores).sum()
    }

    /// How long a task computes on a server, in seconds.
    pub fn time_s(&self, work_s: f64, server: ServerId) -> f64 {
        work_s / self.server(server).speed
    }

    /// How many endpoints there are: the servers, and the client.
    pub fn endpoints(&self) -> usize {
        self.servers.len() + 1
    }

    /// The position of an endpoint: servers by their identifiers, then the client.
    pub fn position(&self, endpoint: Endpoint) -> usize {
        match endpoint {
            Endpoint::Server(server) => server.index(),
            Endpoint::Client => self.servers.len(),
        }
    }

    /// The position of the site that an endpoint is in; `None` for a client outside of all.
    pub fn site_of(&self, endpoint: Endpoint) -> Option<usize> {
        match endpoint {
            Endpoint::Server(server) => Some(self.server(server).site),
            Endpoint::Client => self.client.site,
        }
    }

    /// Whether both are in one site.
    pub fn is_near(&self, from: Endpoint, to: Endpoint) -> bool {
        from == to || self.site_of(from).is_some() && self.site_of(from) == self.site_of(to)
    }

    /// Whether data goes from one to the other without the client between them.
    pub fn is_direct(&self, from: Endpoint, to: Endpoint) -> bool {
        let speaks = |endpoint| match endpoint {
            Endpoint::Server(server) => self.server(server).is_direct,
            Endpoint::Client => true,
        };
        let has_client = from == Endpoint::Client || to == Endpoint::Client;
        let reaches = match (from, to) {
            (Endpoint::Server(from), Endpoint::Server(to)) => !self.apart.contains(&(from, to)),
            _ => true,
        };
        from == to || has_client || speaks(from) && speaks(to) && reaches
    }

    /// All capacities, in bytes per second.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// The capacities on the way from one endpoint to another, each once; none to itself.
    pub fn path(&self, from: Endpoint, to: Endpoint) -> impl Iterator<Item = usize> + use<> {
        let mut path = [None; 5];
        if from != to {
            let uplinks = 2 * self.endpoints();
            path[0] = Some(2 * self.position(from));
            path[4] = Some(2 * self.position(to) + 1);
            if !self.is_near(from, to) {
                let [near, far] = [self.site_of(from), self.site_of(to)];
                path[1] = near.map(|site| uplinks + 2 * site);
                path[3] = far.map(|site| uplinks + 2 * site + 1);
                let between = near.zip(far).and_then(|pair| self.between.get(&pair));
                path[2] = between.map(|&(capacity, _)| capacity);
            }
        }
        path.into_iter().flatten()
    }

    /// How long the first byte takes from one endpoint to another, in seconds.
    pub fn latency_s(&self, from: Endpoint, to: Endpoint) -> f64 {
        let seconds = |link: &Link| link.latency.duration().as_secs_f64();
        let attached = |endpoint| match endpoint {
            Endpoint::Server(server) => seconds(&self.sites[self.server(server).site].lan),
            Endpoint::Client => seconds(&self.client.link),
        };
        if from == to {
            return 0.0;
        }
        if self.is_near(from, to) {
            return attached(from).max(attached(to));
        }
        let [near, far] = [from, to].map(|end| self.site_of(end));
        let uplink =
            |site: Option<usize>| site.map_or(0.0, |site| seconds(&self.sites[site].uplink));
        let pair = near.zip(far).and_then(|pair| self.between.get(&pair));
        let own = [from, to].map(|end| match self.site_of(end) {
            Some(_) => 0.0,
            None => attached(end),
        });
        uplink(near) + uplink(far) + pair.map_or(0.0, |(_, link)| seconds(link)) + own[0] + own[1]
    }

    /// What one transfer alone gets from one endpoint to another, in bytes per second.
    pub fn bandwidth(&self, from: Endpoint, to: Endpoint) -> f64 {
        let way = self.path(from, to).map(|capacity| self.capacities[capacity]);
        way.fold(UNLIMITED, f64::min)
    }

    /// How long so many bytes take from one endpoint to another while nothing else flows, in
    /// seconds. Between servers that are not direct, they go by way of the client.
    pub fn transfer_s(&self, bytes: u64, from: Endpoint, to: Endpoint) -> f64 {
        if from == to {
            return 0.0;
        }
        if !self.is_direct(from, to) {
            let client = Endpoint::Client;
            return self.transfer_s(bytes, from, client) + self.transfer_s(bytes, client, to);
        }
        self.latency_s(from, to) + bytes as f64 / self.bandwidth(from, to)
    }
}

fn bytes_per_s(bandwidth: Bandwidth) -> f64 {
    if bandwidth.is_unlimited() {
        return UNLIMITED;
    }
    (bandwidth.bits_per_second() as f64 / 8.0).clamp(1e-3, UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::Latency;

    fn link(millis: u64, megabytes_per_s: u64) -> Link {
        let bandwidth = Bandwidth::from_bits_per_second(megabytes_per_s * 8_000_000);
        Link::new(Latency::from_millis(millis), bandwidth)
    }

    fn two_sites() -> Platform {
        let server = |name: &str, site| ServerSpec {
            name: name.to_owned(),
            site,
            cores: 1,
            speed: 1.0,
            is_direct: true,
        };
        let site =
            |name: &str| Site { name: name.to_owned(), lan: link(1, 100), uplink: link(10, 20) };
        let servers = vec![server("a1", 0), server("a2", 0), server("b1", 1)];
        let client = ClientSpec { site: None, link: link(5, 4) };
        Platform::new(servers, vec![site("a"), site("b")], client)
    }

    #[test]
    fn the_narrowest_link_on_the_way_decides() {
        let platform = two_sites();
        let [a1, a2, b1] = [0, 1, 2].map(|server| Endpoint::Server(ServerId(server)));

        assert_eq!(platform.transfer_s(100_000_000, a1, a2), 0.001 + 1.0);
        assert_eq!(platform.transfer_s(100_000_000, a1, b1), 0.020 + 5.0);
        assert_eq!(platform.transfer_s(100_000_000, Endpoint::Client, b1), 0.015 + 25.0);
        assert_eq!(platform.transfer_s(100_000_000, a1, a1), 0.0);
    }

    #[test]
    fn a_link_between_two_sites_counts_in_its_direction() {
        let platform = two_sites().with_link(0, 1, link(100, 1));
        let [a1, b1] = [0, 2].map(|server| Endpoint::Server(ServerId(server)));

        assert_eq!(platform.transfer_s(1_000_000, a1, b1), 0.120 + 1.0);
        assert_eq!(platform.transfer_s(1_000_000, b1, a1), 0.020 + 0.05);
    }

    #[test]
    fn servers_of_a_star_are_reached_by_way_of_the_client() {
        let platform = two_sites().star();
        let [a1, a2] = [0, 1].map(|server| Endpoint::Server(ServerId(server)));

        assert!(!platform.is_direct(a1, a2));
        assert_eq!(platform.transfer_s(4_000_000, a1, a2), 2.0 * (0.015 + 1.0));
    }

    #[test]
    fn servers_of_which_one_does_not_reach_the_other_are_apart_in_that_direction_only() {
        let [one, other] = [0, 1].map(ServerId);
        let platform = two_sites().with_apart([(one, other)]);
        let [a1, a2] = [one, other].map(Endpoint::Server);

        assert!(!platform.is_direct(a1, a2) && platform.is_direct(a2, a1));
        assert_eq!(platform.transfer_s(4_000_000, a1, a2), 2.0 * (0.015 + 1.0));
        assert_eq!(platform.transfer_s(100_000_000, a2, a1), 0.001 + 1.0);
    }
}
