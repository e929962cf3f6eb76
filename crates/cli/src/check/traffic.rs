//! Which datagrams have passed between which hosts, and at which addresses hosts see each other.

use super::protocol::{Arrival, SIZES, Sent};
use super::subject::Subject;
use super::survey::{Answers, Found};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// For two hosts, the size of the largest datagram that passed between them, if any did.
type Passed = BTreeMap<(usize, usize), Option<u16>>;

/// The datagrams between each two hosts whose agents have answered.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// The size of the largest datagram that came from a host to all ports of another; `None` if
    /// nothing came to one of them.
    sent: Passed,
    /// The same, with the receiving host first.
    received: Passed,
    /// Addresses at which other hosts see a host, except its own.
    seen: BTreeMap<usize, BTreeSet<IpAddr>>,
}

impl Traffic {
    /// Compares the datagrams that were sent with those that arrived.
    pub(super) fn of(subjects: &[Subject], found: &Found) -> Self {
        let mut traffic = Self::default();
        for (from, peers) in found.peers.iter().enumerate() {
            if datagrams(found, from).is_none() {
                continue;
            }
            for &to in peers {
                if let Some((answers, (_, arrivals))) = datagrams(found, to) {
                    let ports = answers.facts.ports.iter().enumerate();
                    let open = ports.filter(|(_, port)| port.error.is_none());
                    let passed = open.map(|(position, _)| largest(arrivals, from, position)).min();
                    traffic.sent.insert((from, to), passed.flatten());
                    traffic.received.insert((to, from), passed.flatten());
                    traffic.see(&subjects[from], from, arrivals);
                }
            }
        }
        traffic
    }

    /// Notes at which addresses a host was seen. A loopback address is that of the same machine.
    fn see(&mut self, subject: &Subject, host: usize, arrivals: &[Arrival]) {
        let of_host = arrivals.iter().filter(|arrival| is_from(arrival, host));
        let other = of_host.map(|arrival| arrival.address).filter(|address| {
            !address.is_loopback() && subject.address.as_ref().is_ok_and(|own| own != address)
        });
        for address in other {
            self.seen.entry(host).or_default().insert(address);
        }
    }

    /// Returns the hosts to which a host sent, and what passed.
    pub(super) fn sent_by(&self, host: usize) -> BTreeMap<usize, Option<u16>> {
        of_host(&self.sent, host)
    }

    /// Returns the hosts that sent to a host, and what passed.
    pub(super) fn received_by(&self, host: usize) -> BTreeMap<usize, Option<u16>> {
        of_host(&self.received, host)
    }

    /// Returns the addresses at which other hosts see a host, except its own.
    pub(super) fn seen(&self, host: usize) -> impl Iterator<Item = IpAddr> {
        self.seen.get(&host).into_iter().flatten().copied()
    }

    /// Number of directions between different hosts that were checked.
    pub(super) fn ways(&self) -> usize {
        self.sent.keys().filter(|(from, to)| from != to).count()
    }
}

fn of_host(passed: &Passed, host: usize) -> BTreeMap<usize, Option<u16>> {
    let of_host = passed.range((host, 0)..=(host, usize::MAX));
    of_host.map(|(&(_, other), &passed)| (other, passed)).collect()
}

fn datagrams(found: &Found, host: usize) -> Option<(&Answers, &(Sent, Vec<Arrival>))> {
    let answers = found.hosts.get(host)?.as_ref().ok()?;
    Some((answers, answers.datagrams.as_ref()?))
}

fn is_from(arrival: &Arrival, host: usize) -> bool {
    usize::try_from(arrival.from).is_ok_and(|from| from == host)
}

/// Returns the size of the largest datagram that came from a host to a port.
fn largest(arrivals: &[Arrival], from: usize, port: usize) -> Option<u16> {
    let is_meant = |arrival: &&Arrival| is_from(arrival, from) && usize::from(arrival.port) == port;
    let bytes = arrivals.iter().filter(is_meant).flat_map(|arrival| &arrival.bytes);
    bytes.copied().filter(|bytes| SIZES.contains(bytes)).max()
}
