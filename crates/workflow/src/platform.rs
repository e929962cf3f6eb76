//! The platform to which a group of calls is mapped: servers, sites, the client, and the capacities
//! of the links between them.
//!
//! Every server and the client has a full-duplex network interface. Data to another site also
//! passes the uplinks of both sites, and the link between the two if it has separate limits. A
//! client outside all sites has its own link to the wide area.

use crate::id::{Endpoint, ServerId};
use gridspan_topology::{Bandwidth, Link};
use std::collections::{BTreeMap, BTreeSet};

/// A server.
///
/// ```
/// use gridspan_workflow::ServerSpec;
///
/// let server = ServerSpec::new("delft/1", 0, 2.0).with_cores(4);
/// let work_s = 10.0;
/// assert_eq!(work_s / server.speed, 5.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServerSpec {
    /// Name of the server.
    pub name: String,
    /// Position of its site.
    pub site: usize,
    /// Number of calls that it executes at the same time.
    pub cores: u32,
    /// Speed of one core: the time of a task is its work divided by the speed.
    pub speed: f64,
    /// Whether it exchanges data with other direct servers. A server that is not direct exchanges
    /// data only with the client.
    pub is_direct: bool,
}

impl ServerSpec {
    /// A direct server of one core, with this speed, at the site at this position.
    pub fn new(name: impl Into<String>, site: usize, speed: f64) -> Self {
        Self { name: name.into(), site, cores: 1, speed, is_direct: true }
    }

    /// Sets the number of calls that it executes at the same time.
    pub fn with_cores(mut self, cores: u32) -> Self {
        self.cores = cores;
        self
    }

    /// Sets whether it exchanges data with other direct servers.
    pub fn with_direct(mut self, is_direct: bool) -> Self {
        self.is_direct = is_direct;
        self
    }
}

/// A site.
///
/// ```
/// use gridspan_topology::{Bandwidth, Link};
/// use gridspan_workflow::Site;
///
/// let uplink = Link::wan().with_bandwidth(Bandwidth::from_bits_per_second(100_000_000));
/// let site = Site::new("delft", Link::lan(), uplink);
/// # assert_eq!(site.lan, Link::lan());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Site {
    /// Name of the site.
    pub name: String,
    /// Link of each of its servers.
    pub lan: Link,
    /// Link of the site to the wide area.
    pub uplink: Link,
}

impl Site {
    /// A site with the link of each of its servers, and its link to the wide area.
    pub fn new(name: impl Into<String>, lan: Link, uplink: Link) -> Self {
        Self { name: name.into(), lan, uplink }
    }
}

/// The site and the link of the client.
///
/// ```
/// use gridspan_topology::Link;
/// use gridspan_workflow::ClientSpec;
///
/// let near = ClientSpec::at_site(0, Link::lan());
/// let far = ClientSpec::outside(Link::wan());
/// # assert_ne!(near, far);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClientSpec {
    /// Position of its site; `None` if it has its own link to the wide area.
    pub site: Option<usize>,
    /// Link of the client.
    pub link: Link,
}

impl ClientSpec {
    /// A client at the site at this position.
    pub fn at_site(site: usize, link: Link) -> Self {
        Self { site: Some(site), link }
    }

    /// A client outside of all sites, with its own link to the wide area.
    pub fn outside(link: Link) -> Self {
        Self { site: None, link }
    }
}

/// Servers, sites and links.
///
/// ```
/// use gridspan_topology::Link;
/// use gridspan_workflow::{ClientSpec, Platform, ServerSpec, Site};
///
/// let site = Site::new("delft", Link::lan(), Link::wan());
/// let server = ServerSpec::new("delft/1", 0, 1.0).with_cores(4);
/// let client = ClientSpec::outside(Link::wan());
/// let platform = Platform::new(vec![server], vec![site], client);
/// assert_eq!(platform.servers().len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    servers: Vec<ServerSpec>,
    sites: Vec<Site>,
    client: ClientSpec,
    /// Links between two sites with separate limits, by direction, and the positions of their
    /// capacities.
    between: BTreeMap<(usize, usize), (usize, Link)>,
    /// The pairs of servers of which the second cannot receive data directly from the first.
    apart: BTreeSet<(ServerId, ServerId)>,
    capacities: Vec<f64>,
}

/// Capacity of a link without a limit, in bytes per second: more than any real link has, but
/// finite.
const UNLIMITED: f64 = 1e14;

impl Platform {
    /// Creates a platform without limits between sites except their uplinks. Servers without a core
    /// get one.
    ///
    /// # Panics
    ///
    /// If a server or the client is in a site that does not exist, or if a speed is not positive
    /// and finite.
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

    /// Adds a link from one site to another that all transfers in this direction share.
    pub fn with_link(mut self, from: usize, to: usize, link: Link) -> Self {
        self.between.insert((from, to), (self.capacities.len(), link));
        self.capacities.push(bytes_per_s(link.bandwidth));
        self
    }

    /// Adds pairs of servers of which the second cannot receive data directly from the first. The
    /// client relays this data: the partially connected network of plain GridRPC.
    pub fn with_apart(mut self, pairs: impl IntoIterator<Item = (ServerId, ServerId)>) -> Self {
        self.apart.extend(pairs);
        self
    }

    /// Returns the pairs of servers of which the second cannot receive data directly from the
    /// first.
    pub fn apart(&self) -> &BTreeSet<(ServerId, ServerId)> {
        &self.apart
    }

    /// Makes all servers exchange data only with the client: the star topology of plain GridRPC.
    pub fn star(mut self) -> Self {
        self.servers.iter_mut().for_each(|server| server.is_direct = false);
        self
    }

    /// Returns all servers, by identifier.
    pub fn servers(&self) -> &[ServerSpec] {
        &self.servers
    }

    /// Returns a server.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn server(&self, server: ServerId) -> &ServerSpec {
        &self.servers[server.index()]
    }

    /// Iterates over the identifiers of all servers.
    pub fn server_ids(&self) -> impl DoubleEndedIterator<Item = ServerId> + use<> {
        (0..self.servers.len() as u32).map(ServerId)
    }

    /// Returns all sites, by position.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Returns the client.
    pub fn client(&self) -> &ClientSpec {
        &self.client
    }

    /// Number of calls that all servers together execute at the same time.
    pub fn cores(&self) -> u32 {
        self.servers.iter().map(|server| server.cores).sum()
    }

    /// Returns the computing time of a task on a server, in seconds.
    pub fn time_s(&self, work_s: f64, server: ServerId) -> f64 {
        work_s / self.server(server).speed
    }

    /// Number of endpoints: the servers and the client.
    pub fn endpoints(&self) -> usize {
        self.servers.len() + 1
    }

    /// Returns the position of an endpoint: servers by identifier, then the client.
    pub fn position(&self, endpoint: Endpoint) -> usize {
        match endpoint {
            Endpoint::Server(server) => server.index(),
            Endpoint::Client => self.servers.len(),
        }
    }

    /// Returns the position of the site of an endpoint; `None` for a client outside all sites.
    pub fn site_of(&self, endpoint: Endpoint) -> Option<usize> {
        match endpoint {
            Endpoint::Server(server) => Some(self.server(server).site),
            Endpoint::Client => self.client.site,
        }
    }

    /// Whether both endpoints are in the same site.
    pub fn is_near(&self, from: Endpoint, to: Endpoint) -> bool {
        from == to || self.site_of(from).is_some() && self.site_of(from) == self.site_of(to)
    }

    /// Whether data travels from `from` to `to` without passing the client.
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

    /// Returns all capacities, in bytes per second.
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// Iterates over the positions of the capacities on the path from one endpoint to another, each
    /// once; none from an endpoint to itself.
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

    /// Returns the latency of the first byte from one endpoint to another, in seconds.
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

    /// Returns the bandwidth of a single transfer from one endpoint to another, in bytes per
    /// second.
    pub fn bandwidth(&self, from: Endpoint, to: Endpoint) -> f64 {
        let way = self.path(from, to).map(|capacity| self.capacities[capacity]);
        way.fold(UNLIMITED, f64::min)
    }

    /// Returns the time of a transfer of `bytes` bytes over idle links, in seconds. Transfers
    /// between endpoints that are not directly connected pass the client.
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
    fn the_narrowest_link_on_the_path_limits_a_transfer() {
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
    fn servers_of_a_star_are_reached_through_the_client() {
        let platform = two_sites().star();
        let [a1, a2] = [0, 1].map(|server| Endpoint::Server(ServerId(server)));

        assert!(!platform.is_direct(a1, a2));
        assert_eq!(platform.transfer_s(4_000_000, a1, a2), 2.0 * (0.015 + 1.0));
    }

    #[test]
    fn servers_can_be_apart_in_one_direction_only() {
        let [one, other] = [0, 1].map(ServerId);
        let platform = two_sites().with_apart([(one, other)]);
        let [a1, a2] = [one, other].map(Endpoint::Server);

        assert!(!platform.is_direct(a1, a2) && platform.is_direct(a2, a1));
        assert_eq!(platform.transfer_s(4_000_000, a1, a2), 2.0 * (0.015 + 1.0));
        assert_eq!(platform.transfer_s(100_000_000, a2, a1), 0.001 + 1.0);
    }
}
