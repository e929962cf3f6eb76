//! One site of a grid and the limits that keep every description small.

use crate::link::Link;
use crate::speed::Speed;
use crate::units::Bandwidth;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Maximum number of sites. A grid may have a link for each pair of sites.
pub const MAX_SITES: usize = 4096;
/// Maximum number of hosts, far beyond the size of any job so far.
pub const MAX_HOSTS: usize = 65_536;
/// Maximum number of PEs: a layout holds four bytes for each, on every node.
pub const MAX_PES: u32 = 1 << 20;
/// Maximum length of a host's name in bytes, as in the DNS.
const MAX_HOST_NAME_BYTES: usize = 253;
/// Maximum length of a site's name in bytes, so that it fits a line of a report.
const MAX_SITE_NAME_BYTES: usize = 64;

/// One site: its hosts and the network that connects them.
///
/// ```
/// use gridspan_topology::{GridSpec, HostSpec, Link, SiteSpec};
///
/// let site = |name: &str| {
///     let hosts = (1..=2).map(|n| HostSpec::new(format!("{name}{n}"), 4)).collect();
///     SiteSpec::new(name, hosts, Link::lan()).with_port(7000)
/// };
/// let grid = GridSpec::new(vec![site("delft"), site("urbana")])?;
/// assert_eq!(grid.layout().pe_count(), 16);
/// # Ok::<(), gridspan_topology::SiteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SiteSpec {
    /// Name of the site: 1 to 64 letters, digits, `.`, `-` and `_`; unique in the grid.
    pub name: String,
    /// The hosts. One node runs on each; a host that is listed twice runs two.
    pub hosts: Vec<HostSpec>,
    /// The link between any two nodes of the site that are not in one cluster.
    pub lan: Link,
    /// The clusters, which contain some of the hosts.
    pub clusters: Vec<ClusterSpec>,
    /// The UDP port on which the first node of each host listens; further nodes of the host take
    /// the next ones. With `None`, nodes take any free port.
    pub port: Option<u16>,
    /// The host through which `ssh` reaches the others.
    pub gateway: Option<String>,
    /// The rate at which the site sends to all other sites together, and the rate at which it
    /// receives from them; with `None`, only the links between sites limit it.
    #[serde(default)]
    pub uplink: Option<Bandwidth>,
}

impl SiteSpec {
    /// Creates a site without clusters, on any ports, reached directly.
    pub fn new(name: impl Into<String>, hosts: Vec<HostSpec>, lan: Link) -> Self {
        let (clusters, port, gateway, uplink) = (vec![], None, None, None);
        Self { name: name.into(), hosts, lan, clusters, port, gateway, uplink }
    }

    /// Adds a cluster. Hosts refer to it by its position, counted from zero.
    pub fn with_cluster(mut self, cluster: ClusterSpec) -> Self {
        self.clusters.push(cluster);
        self
    }

    /// Sets the UDP port on which the first node of each host listens.
    pub fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Sets the host through which `ssh` reaches the others.
    pub fn with_gateway(mut self, gateway: impl Into<String>) -> Self {
        self.gateway = Some(gateway.into());
        self
    }

    /// Sets the rate, each way, that all traffic between the site and other sites shares.
    pub fn with_uplink(mut self, rate: Bandwidth) -> Self {
        self.uplink = Some(rate);
        self
    }
}

/// Some hosts of a site with a separate network.
///
/// ```
/// use gridspan_topology::{ClusterSpec, GridSpec, HostSpec, Link, NodeId, SiteSpec};
///
/// let hosts = vec![HostSpec::new("d1", 2), HostSpec::new("d2", 2).with_cluster(0)];
/// let das = ClusterSpec::new("das", Link::loopback());
/// let grid = GridSpec::new(vec![SiteSpec::new("delft", hosts, Link::lan()).with_cluster(das)])?;
/// assert_eq!(grid.layout().cluster_of(NodeId(1)), Some(0));
/// # Ok::<(), gridspan_topology::SiteError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClusterSpec {
    /// Name of the cluster: 1 to 64 letters, digits, `.`, `-` and `_`; unique in the site.
    pub name: String,
    /// The link between any two nodes of the cluster.
    pub lan: Link,
}

impl ClusterSpec {
    /// Creates a cluster with the link between any two of its nodes.
    pub fn new(name: impl Into<String>, lan: Link) -> Self {
        Self { name: name.into(), lan }
    }
}

/// A host and the node on it.
///
/// ```
/// use gridspan_topology::{HostSpec, Speed};
///
/// let slow = HostSpec::new("old-host", 4).with_speed("0.5".parse()?);
/// assert!(slow.speed < Speed::ORDINARY);
/// # Ok::<(), gridspan_topology::QuantityError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostSpec {
    /// The name or address by which the launcher reaches the host, perhaps `user@host`.
    pub name: String,
    /// Number of PEs of its node, at least one.
    pub pes: u32,
    /// The cluster of the site that contains it, counted from zero.
    pub cluster: Option<u32>,
    /// The speed of its processors in simulations and where the grid is emulated; real processors
    /// are measured.
    pub speed: Speed,
}

impl HostSpec {
    /// Creates a host of ordinary speed that is in no cluster.
    pub fn new(name: impl Into<String>, pes: u32) -> Self {
        Self { name: name.into(), pes, cluster: None, speed: Speed::ORDINARY }
    }

    /// Puts the host into the cluster of its site at this position, counted from zero.
    pub fn with_cluster(mut self, cluster: u32) -> Self {
        self.cluster = Some(cluster);
        self
    }

    /// Sets the speed of its processors in simulations and where the grid is emulated.
    pub fn with_speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }
}

/// Error of a site that cannot be part of a grid. Nothing was added; correct the site named.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The name is empty, too long or has invalid characters.
    #[error("`{}` is not a site name; write at most {MAX_SITE_NAME_BYTES} letters, digits, `.`, `-` and `_`", shorten(.name))]
    Name {
        /// The rejected name.
        name: String,
    },
    /// Another site has the name.
    #[error("there are two sites named `{name}`; rename one of them")]
    Duplicate {
        /// The name of both.
        name: String,
    },
    /// The site has no hosts.
    #[error("site `{site}` has no hosts; list at least one")]
    NoHosts {
        /// The site's name.
        site: String,
    },
    /// The name of a host is empty, too long or has invalid characters.
    #[error("`{}` is not a host name; write at most {MAX_HOST_NAME_BYTES} letters, digits, `.`, `-`, `_`, `:` and `@`, not starting with `-`", shorten(.name))]
    HostName {
        /// The rejected name.
        name: String,
    },
    /// A host has no PEs.
    #[error("host `{host}` has 0 PEs; write at least 1")]
    NoPes {
        /// The host's name.
        host: String,
    },
    /// The name of a cluster is empty, too long, has invalid characters, or is already in use.
    #[error("`{}` cannot name a cluster of site `{site}`; write at most {MAX_SITE_NAME_BYTES} letters, digits, `.`, `-` and `_` that no other cluster of the site has", shorten(.name))]
    ClusterName {
        /// The site's name.
        site: String,
        /// The rejected name.
        name: String,
    },
    /// A host is in a cluster that the site does not have.
    #[error(
        "host `{host}` is in cluster {cluster}, but its site has {clusters}; count them from 0"
    )]
    NoCluster {
        /// The host's name.
        host: String,
        /// The number of the cluster.
        cluster: u32,
        /// Number of clusters of the site.
        clusters: usize,
    },
    /// A host has more nodes than there are port numbers from the site's port up to 65535.
    #[error(
        "host `{host}` has more nodes than there are ports from {port} on; write a lower `port`"
    )]
    Ports {
        /// The host's name.
        host: String,
        /// The port of its first node.
        port: u16,
    },
    /// A host is in two sites whose ports overlap there.
    #[error(
        "port {port} of host `{host}` is that of two nodes, at different sites; write another `port` for site `{site}`"
    )]
    SamePort {
        /// The later site's name.
        site: String,
        /// The host's name.
        host: String,
        /// The port.
        port: u16,
    },
    /// The grid has more than [`MAX_SITES`] sites.
    #[error("there are more than {MAX_SITES} sites; write fewer")]
    TooManySites,
    /// The grid has more than [`MAX_HOSTS`] hosts.
    #[error("there are more than {MAX_HOSTS} hosts; write fewer")]
    TooManyHosts,
    /// The grid has more than [`MAX_PES`] PEs.
    #[error("there are more than {MAX_PES} PEs; write fewer hosts or fewer PEs per host")]
    TooManyPes,
}

/// The sites accepted so far, within the limits of a grid.
#[derive(Debug, Default)]
pub(super) struct Sites {
    accepted: Vec<SiteSpec>,
    names: BTreeSet<String>,
    /// The host and port of each node whose site sets ports.
    ports: BTreeSet<(String, u16)>,
    hosts: usize,
    pes: u64,
}

impl Sites {
    /// Returns the number of hosts that the grid may still have.
    pub(super) fn room_for_hosts(&self) -> usize {
        MAX_HOSTS - self.hosts
    }

    /// Accepts one more site, or returns its error.
    pub(super) fn push(&mut self, site: SiteSpec) -> Result<(), SiteError> {
        if !is_name(&site.name, MAX_SITE_NAME_BYTES, "") {
            return Err(SiteError::Name { name: site.name });
        }
        if self.names.contains(&site.name) {
            return Err(SiteError::Duplicate { name: site.name });
        }
        if self.accepted.len() == MAX_SITES {
            return Err(SiteError::TooManySites);
        }
        if site.hosts.is_empty() {
            return Err(SiteError::NoHosts { site: site.name });
        }
        if site.hosts.len() > self.room_for_hosts() {
            return Err(SiteError::TooManyHosts);
        }
        check_clusters(&site)?;
        for host in &site.hosts {
            check_host_name(&host.name)?;
            if host.pes == 0 {
                return Err(SiteError::NoPes { host: host.name.clone() });
            }
        }
        let ports = ports(&site)?;
        if let Some((host, port)) = ports.iter().find(|&port| self.ports.contains(port)) {
            return Err(SiteError::SamePort { site: site.name, host: host.clone(), port: *port });
        }
        let pes = self.pes + site.hosts.iter().map(|host| u64::from(host.pes)).sum::<u64>();
        if pes > u64::from(MAX_PES) {
            return Err(SiteError::TooManyPes);
        }
        self.pes = pes;
        self.ports.extend(ports);
        self.hosts += site.hosts.len();
        self.names.insert(site.name.clone());
        self.accepted.push(site);
        Ok(())
    }

    /// Returns the accepted sites in their order.
    pub(super) fn into_vec(self) -> Vec<SiteSpec> {
        self.accepted
    }
}

fn check_clusters(site: &SiteSpec) -> Result<(), SiteError> {
    let mut names = BTreeSet::new();
    for cluster in &site.clusters {
        if !is_name(&cluster.name, MAX_SITE_NAME_BYTES, "") || !names.insert(&cluster.name) {
            let name = cluster.name.clone();
            return Err(SiteError::ClusterName { site: site.name.clone(), name });
        }
    }
    let clusters = site.clusters.len();
    let is_stray = |host: &&HostSpec| host.cluster.is_some_and(|at| at as usize >= clusters);
    if let Some(host) = site.hosts.iter().find(is_stray) {
        let cluster = host.cluster.unwrap_or_default();
        return Err(SiteError::NoCluster { host: host.name.clone(), cluster, clusters });
    }
    if let Some(gateway) = &site.gateway {
        check_host_name(gateway)?;
    }
    Ok(())
}

/// Returns the port of each node, with the name of its host, if the site sets them.
fn ports(site: &SiteSpec) -> Result<Vec<(String, u16)>, SiteError> {
    let Some(port) = site.port else { return Ok(vec![]) };
    let (mut all, mut last) = (vec![], BTreeMap::<&str, u16>::new());
    for HostSpec { name, .. } in &site.hosts {
        let next = match last.get(name.as_str()) {
            None => Some(port),
            Some(last) => last.checked_add(1),
        };
        let Some(next) = next else { return Err(SiteError::Ports { host: name.clone(), port }) };
        last.insert(name, next);
        all.push((name.clone(), next));
    }
    Ok(all)
}

/// Checks that a name may be passed to a launcher. `ssh` would read a leading `-` as an option.
pub(super) fn check_host_name(name: &str) -> Result<(), SiteError> {
    if is_name(name, MAX_HOST_NAME_BYTES, ":@") && !name.starts_with('-') {
        return Ok(());
    }
    Err(SiteError::HostName { name: name.to_owned() })
}

fn is_name(name: &str, max_bytes: usize, also: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c) || also.contains(c);
    !name.is_empty() && name.len() <= max_bytes && name.chars().all(fits)
}

/// Returns the start of a text that may be long, for a message.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN_CHARS: usize = 40;
    let mut shown: String = text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, hosts: &[(&str, u32)]) -> SiteSpec {
        let hosts = hosts.iter().map(|&(name, pes)| HostSpec::new(name, pes)).collect();
        SiteSpec::new(name, hosts, Link::lan())
    }

    #[test]
    fn a_site_with_hosts_is_accepted() {
        let mut sites = Sites::default();

        let accepted = sites.push(site("delft-1", &[("ann@d1.example", 2), ("10.0.0.1", 1)]));

        assert_eq!(accepted, Ok(()));
        assert_eq!(sites.room_for_hosts(), 65_534);
    }

    #[test]
    fn invalid_names_of_sites_and_hosts_are_refused() {
        let long = "x".repeat(65);
        for name in ["", "a b", "a/b", "ä", "a\n", &long] {
            let refused = Sites::default().push(site(name, &[("h", 1)]));
            assert_eq!(refused, Err(SiteError::Name { name: name.to_owned() }));
        }
        for host in ["", "-oProxyCommand=x", "a b", "h[1]"] {
            let refused = Sites::default().push(site("a", &[(host, 1)]));
            assert_eq!(refused, Err(SiteError::HostName { name: host.to_owned() }));
        }
    }

    #[test]
    fn missing_hosts_missing_pes_and_duplicate_names_are_refused() {
        let mut sites = Sites::default();
        assert_eq!(sites.push(site("a", &[])), Err(SiteError::NoHosts { site: "a".to_owned() }));
        let no_pes = Err(SiteError::NoPes { host: "h".to_owned() });
        assert_eq!(sites.push(site("a", &[("h", 0)])), no_pes);
        assert_eq!(sites.push(site("a", &[("h", 1)])), Ok(()));
        let duplicate = Err(SiteError::Duplicate { name: "a".to_owned() });
        assert_eq!(sites.push(site("a", &[("h", 1)])), duplicate);
        assert_eq!(sites.into_vec().len(), 1);
    }

    #[test]
    fn every_node_has_a_port_if_its_site_sets_them() {
        let two = site("a", &[("h", 1), ("i", 1), ("h", 1)]);
        assert_eq!(Sites::default().push(two.clone().with_port(u16::MAX - 1)), Ok(()));
        let refused = Sites::default().push(two.with_port(u16::MAX));
        assert_eq!(refused, Err(SiteError::Ports { host: "h".to_owned(), port: u16::MAX }));
    }

    #[test]
    fn nodes_of_one_host_at_different_sites_have_different_ports() {
        let mut sites = Sites::default();
        let one = site("a", &[("h", 1), ("i", 1), ("h", 1)]).with_port(7000);
        assert_eq!(sites.push(one), Ok(()));
        let other = |port| site("b", &[("i", 1), ("h", 1)]).with_port(port);
        let refused = |host: &str, port| -> Result<(), SiteError> {
            Err(SiteError::SamePort { site: "b".to_owned(), host: host.to_owned(), port })
        };
        assert_eq!(sites.push(other(7000)), refused("i", 7000));
        assert_eq!(sites.push(other(7001)), refused("h", 7001));
        assert_eq!(sites.push(site("any", &[("h", 1)])), Ok(()));

        assert_eq!(sites.push(other(7002)), Ok(()));
    }

    #[test]
    fn the_limits_apply_to_all_sites_together() {
        let mut sites = Sites::default();
        assert_eq!(sites.push(site("a", &[("h", MAX_PES)])), Ok(()));
        assert_eq!(sites.push(site("b", &[("h", 1)])), Err(SiteError::TooManyPes));

        let mut sites = Sites::default();
        assert_eq!(sites.push(site("a", &vec![("h", 1); MAX_HOSTS])), Ok(()));
        assert_eq!(sites.push(site("b", &[("h", 1)])), Err(SiteError::TooManyHosts));
    }

    #[test]
    fn a_message_shows_the_beginning_of_a_long_name_only() {
        let message = SiteError::Name { name: "\u{7}".repeat(100) }.to_string();
        assert!(message.len() < 400 && !message.contains('\u{7}'), "{message}");
    }
}
