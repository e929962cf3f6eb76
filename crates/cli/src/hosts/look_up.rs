//! Looks up hosts: which of them are this machine, and the addresses of the others.

use gridspan_topology::GridSpec;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::thread;

/// Port of a destination to find a route to. Nothing is sent there.
const ANY_PORT: u16 = 9;
/// Maximum number of look-ups at the same time. Several run, because a name that no server knows
/// may take seconds.
const LOOK_UPS_MAX: usize = 16;

/// A host whose address cannot be found, and the reason.
pub(crate) type UnknownHost = (String, io::Error);

/// Whether all hosts of a grid are this machine.
pub(crate) fn all_here(spec: &GridSpec) -> bool {
    spec.hosts().all(|(_, host)| is_here(host))
}

pub(super) fn is_here(host: &str) -> bool {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy();
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    // Either name may lack its domain.
    let is_short = !host.contains('.') || !own.contains('.');
    let is_own_name = host == own || (is_short && first(host) == first(&own));
    is_own_name || is_loopback(host) || host.parse().is_ok_and(is_own)
}

/// Whether a host with this name and address is this machine. A name with a user counts as another
/// host, because only `ssh` runs programs as another user of this machine.
pub(super) fn is_own_name(name: &str, address: Option<IpAddr>) -> bool {
    !name.contains('@') && address.is_some_and(is_own)
}

/// Looks up a host: `None` if it is this machine.
pub(crate) fn locate(name: &str) -> io::Result<Option<IpAddr>> {
    if is_here(name) {
        return Ok(None);
    }
    let address = resolve(name)?;
    Ok((!is_own_name(name, Some(address))).then_some(address))
}

/// Whether a host is a name of the loopback interface, which every machine has.
pub(crate) fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "::1"].contains(&host)
}

/// Whether an address belongs to this machine, so that it can be bound, and other hosts can reach
/// it: it is neither a loopback address nor unspecified.
fn is_own(address: IpAddr) -> bool {
    !address.is_loopback() && !address.is_unspecified() && UdpSocket::bind((address, 0)).is_ok()
}

/// Looks up the addresses of hosts. Also returns the hosts whose address is not found.
pub(super) fn resolve_all<'a>(
    names: &BTreeSet<&'a str>,
) -> (BTreeMap<&'a str, IpAddr>, Vec<UnknownHost>) {
    let (mut addresses, mut unknown) = (BTreeMap::new(), vec![]);
    let names: Vec<&str> = names.iter().copied().collect();
    for some in names.chunks(LOOK_UPS_MAX) {
        thread::scope(|scope| {
            let look_up = |&name: &&'a str| (name, scope.spawn(move || resolve(name)));
            let all: Vec<_> = some.iter().map(look_up).collect();
            for (name, found) in all {
                match found.join() {
                    Ok(Ok(address)) => {
                        addresses.insert(name, address);
                    }
                    Ok(Err(error)) => unknown.push((name.to_owned(), error)),
                    Err(_) => {
                        let error = io::Error::other("the look-up failed");
                        unknown.push((name.to_owned(), error));
                    }
                }
            }
        });
    }
    (addresses, unknown)
}

/// Looks up the address of a host, whose name may begin with a user for ssh.
fn resolve(host: &str) -> io::Result<IpAddr> {
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    let found: Vec<SocketAddr> = (name, ANY_PORT).to_socket_addrs()?.collect();
    // All nodes of a job use one IP version; most grids have IPv4.
    let best = found.iter().find(|address| address.is_ipv4()).or(found.first());
    best.map(SocketAddr::ip).ok_or_else(|| io::Error::other("it has no address"))
}

/// Returns the source address of this machine's packets to `host`, at which `host` can reach it.
pub(super) fn own_address(host: IpAddr) -> io::Result<IpAddr> {
    let unspecified: IpAddr = match host {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect((host, ANY_PORT))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> GridSpec {
        GridSpec::from_toml(text).unwrap()
    }

    #[test]
    fn this_machine_is_recognised_by_its_names() {
        assert!(all_here(&spec("[site.a]\nhosts = [\"localhost\", \"127.0.0.1\"]")));
        let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(is_here(&own));
        assert!(!all_here(&spec("[site.a]\nhosts = [\"localhost\", \"nowhere.invalid\"]")));
        assert!(!is_here("user@localhost"), "another user is reached by ssh");
        assert!(!is_here("127.0.0.2"), "tests use such addresses as other hosts");
        // Addresses for documentation belong to no machine (RFC 5737). Nothing is sent.
        assert!(!is_here("192.0.2.1"));
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let way_out = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
        match way_out {
            Ok(own) if !own.ip().is_loopback() => assert!(is_here(&own.ip().to_string())),
            _ => println!("skipped a part: this machine has no address but the loopback one"),
        }
    }
}
