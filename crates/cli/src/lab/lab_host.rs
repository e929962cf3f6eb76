//! The hosts of a lab: their names, addresses and slots, as the grid describes them.

use super::error::LabError;
use gridspan_topology::{GridSpec, NodeId, SiteId};
use std::net::{IpAddr, Ipv4Addr};

/// Maximum number of hosts. Each is a process with a TUN device, and the devices are polled one by
/// one.
const HOSTS_MAX: usize = 128;
/// Maximum length of a host name in bytes, by Linux.
const NAME_BYTES_MAX: usize = 64;
/// First byte of all addresses, which are not visible outside of the lab.
const NETWORK: u8 = 10;
/// Number of bits that the addresses have in common: for programs, all hosts are in one network.
/// Each has routes to the others only.
pub(super) const PREFIX_BITS: u8 = 8;

/// A host of a lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LabHost {
    /// Its name, without the user that `ssh` would log in as.
    pub(super) name: String,
    /// Its only address: `10.SITE.0.HOST`, both from 1.
    pub(super) address: Ipv4Addr,
    /// Number of PEs of its nodes.
    pub(super) slots: u32,
    pub(super) site: SiteId,
    /// The first of its nodes. The links of that node are those of the host.
    pub(super) node: NodeId,
}

impl LabHost {
    /// Returns the hosts of a grid, in the order of their first nodes. Several nodes may be on one
    /// host.
    pub(super) fn all_of(spec: &GridSpec) -> Result<Vec<Self>, LabError> {
        let layout = spec.layout();
        let mut hosts: Vec<Self> = Vec::new();
        for (node, full_name) in spec.hosts() {
            let (name, site) = (host_name(full_name)?, layout.site_of_node(node));
            let slots = layout.place(node).pes.len() as u32;
            // Resolvers ignore the case of names.
            match hosts.iter_mut().find(|host| host.name.eq_ignore_ascii_case(name)) {
                Some(known) if known.site == site => known.slots += slots,
                Some(known) => return Err(LabError::TwoSites { name: known.name.clone() }),
                None => {
                    let before = hosts.iter().filter(|host| host.site == site).count();
                    let address = address(site, before)
                        .filter(|_| hosts.len() < HOSTS_MAX)
                        .ok_or(LabError::TooManyHosts { limit: HOSTS_MAX })?;
                    hosts.push(Self { name: name.to_owned(), address, slots, site, node });
                }
            }
        }
        Ok(hosts)
    }
}

/// Returns the address of a host, given the number of hosts of its site before it.
fn address(site: SiteId, before: usize) -> Option<Ipv4Addr> {
    let from_one = |number: usize| u8::try_from(number + 1).ok();
    Some(Ipv4Addr::new(NETWORK, from_one(site.index())?, 0, from_one(before)?))
}

/// Returns the name of a host without the user before it, if a host of a lab can have it.
fn host_name(full_name: &str) -> Result<&str, LabError> {
    let name = full_name.rsplit_once('@').map_or(full_name, |(_, name)| name);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(fits)
        && !name.starts_with(['-', '.']);
    if !is_name || is_address(name) || name.eq_ignore_ascii_case("localhost") {
        return Err(LabError::HostName { name: full_name.to_owned() });
    }
    Ok(name)
}

/// Whether programs take a name for an address, and so do not resolve it. An address of IPv4 may
/// have fewer than four numbers, also hexadecimal ones: `12` is 0.0.0.12; see inet_aton(3).
fn is_address(name: &str) -> bool {
    let is_number = |part: &str| {
        let hexadecimal = part.strip_prefix("0x").or_else(|| part.strip_prefix("0X"));
        match hexadecimal {
            Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
            None => !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()),
        }
    };
    name.parse::<IpAddr>().is_ok() || name.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Result<Vec<LabHost>, LabError> {
        LabHost::all_of(&GridSpec::from_toml(text).unwrap())
    }

    #[test]
    fn addresses_name_the_site_and_the_host() {
        let hosts = LabHost::all_of(&GridSpec::from_emulate("2x2x4").unwrap()).unwrap();
        let shown = hosts.iter().map(|host| (host.name.as_str(), host.address.to_string()));
        let expected =
            [("a1", "10.1.0.1"), ("a2", "10.1.0.2"), ("b1", "10.2.0.1"), ("b2", "10.2.0.2")];
        assert!(shown.eq(expected.map(|(name, address)| (name, address.to_owned()))), "{hosts:?}");
        assert!(hosts.iter().all(|host| host.slots == 4));
        assert_eq!((hosts[3].site, hosts[3].node), (SiteId(1), NodeId(3)));
    }

    #[test]
    fn nodes_of_one_host_are_its_slots_and_users_are_no_part_of_names() {
        let text = "[site.a]\nhosts = [\"ann@d1.example\", \"D1.example\", \"d2\"]\npes = 3";
        let hosts = hosts(text).unwrap();
        let shown: Vec<_> = hosts.iter().map(|host| (host.name.as_str(), host.slots)).collect();
        assert_eq!(shown, [("d1.example", 6), ("d2", 3)]);
        assert_eq!(hosts[1].node, NodeId(2));
    }

    #[test]
    fn names_that_programs_would_take_for_something_else_are_refused() {
        for name in ["localhost", "127.0.0.2", "10.0.0.1", "fe80::1", "me@localhost", "a:7000"] {
            let refused = hosts(&format!("[site.a]\nhosts = [\"{name}\"]"));
            assert!(matches!(refused, Err(LabError::HostName { .. })), "{name}: {refused:?}");
        }
        for name in ["12", "0x7f", "0X10.3", "10.1", "ann@007"] {
            let refused = hosts(&format!("[site.a]\nhosts = [\"{name}\"]"));
            assert!(matches!(refused, Err(LabError::HostName { .. })), "{name}: {refused:?}");
        }
        for name in ["n12", "12a", "0xyz", "12.cluster", "x"] {
            let known = hosts(&format!("[site.a]\nhosts = [\"{name}\"]"));
            assert!(known.is_ok(), "{name}: {known:?}");
        }
        let long = "x".repeat(65);
        assert!(hosts(&format!("[site.a]\nhosts = [\"{long}\"]")).is_err());
        let twice = hosts("[site.a]\nhosts = [\"d1\"]\n[site.b]\nhosts = [\"d1\"]");
        assert!(matches!(twice, Err(LabError::TwoSites { .. })), "{twice:?}");
    }

    #[test]
    fn the_number_of_hosts_is_limited() {
        let count = |text: &str| LabHost::all_of(&GridSpec::from_emulate(text).unwrap());
        assert_eq!(count("128x1").unwrap().len(), 128);
        assert_eq!(count("1x128").unwrap()[127].address, Ipv4Addr::new(10, 1, 0, 128));
        for text in ["129x1", "1x129", "300x1", "1x300"] {
            let refused = count(text);
            assert!(matches!(refused, Err(LabError::TooManyHosts { limit: 128 })), "{text}");
        }
    }
}
