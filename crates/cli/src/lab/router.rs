//! Routes packets between the hosts of a lab, and delays, drops and orders them like the links of
//! the grid.
//!
//! A packet passes the [`Shaper`] of its link, as in the simulator. In each direction, all hosts of
//! two sites share the link between the sites, and each two hosts of one site have their own link.
//! Packets between sites also pass the uplinks of both sites ([`GridUplinks`]), which drop nothing.
//! A packet that is not lost is held until it is due. Packets that are not IPv4, and packets to
//! addresses outside of the lab, are dropped.
//!
//! The size of a packet is that of the whole IP packet. The same seed draws the same losses and
//! delays for the same packets in the same order, link by link.
//!
//! Time is an argument, and packets come and go as bytes.

use super::lab_host::LabHost;
use gridspan_topology::dice::GOLDEN_GAMMA;
use gridspan_topology::{Fate, GridSpec, GridUplinks, Shaper, SiteId, Time};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Maximum size of an IP packet between hosts in bytes, as on Ethernet.
pub(super) const MTU: usize = 1500;
/// Maximum number of bytes under way, as in an emulated job: 20 Gbit/s at 100 ms. Packets beyond it
/// are dropped.
const HELD_BYTES_MAX: u64 = 256 << 20;
/// Memory of a held packet in bytes, besides its content.
const HELD_OVERHEAD_BYTES: u64 = 128;
/// Minimum delay of a late packet after it was due.
const LATE: Duration = Duration::from_millis(1);

/// The links of a lab, and the packets that are under way.
pub(super) struct Router {
    spec: GridSpec,
    hosts: Vec<LabHost>,
    by_address: BTreeMap<Ipv4Addr, usize>,
    seed: u64,
    links: BTreeMap<LinkEnds, Shaper>,
    uplinks: GridUplinks,
    /// Packets by the time at which they are due, and by their number.
    held: BTreeMap<(Time, u64), DuePacket>,
    held_bytes: u64,
    held_bytes_max: u64,
    number: u64,
    counts: RouterCounts,
}

/// A packet and its receiver.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DuePacket {
    /// Position of the receiving host.
    pub(super) to: usize,
    pub(super) bytes: Box<[u8]>,
}

/// Counts of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RouterCounts {
    /// Packets to hosts of the lab.
    pub(super) packets: u64,
    /// Packets that were lost on their link, did not fit the queue of the link, or exceeded the
    /// memory for held packets.
    pub(super) dropped: u64,
    /// Packets of other kinds, and to other addresses.
    pub(super) foreign: u64,
    /// Packets that left more than a millisecond after they were due. The router does not know how
    /// long a packet waited before it came; that wait shifts the time at which the packet is due.
    pub(super) late: u64,
    /// Longest delay of a packet after it was due.
    pub(super) late_max: Duration,
}

/// The ends of a link, in its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LinkEnds {
    /// Positions of two hosts of one site.
    Hosts(usize, usize),
    Sites(SiteId, SiteId),
}

impl Router {
    pub(super) fn new(spec: GridSpec, hosts: Vec<LabHost>, seed: u64) -> Self {
        let addresses = hosts.iter().enumerate().map(|(at, host)| (host.address, at));
        Self {
            by_address: addresses.collect(),
            uplinks: GridUplinks::of(&spec),
            spec,
            hosts,
            seed,
            links: BTreeMap::new(),
            held: BTreeMap::new(),
            held_bytes: 0,
            held_bytes_max: HELD_BYTES_MAX,
            number: 0,
            counts: RouterCounts::default(),
        }
    }

    /// Takes a packet that a host sends, given the position of the host.
    pub(super) fn handle_packet(&mut self, now: Time, from: usize, packet: &[u8]) {
        let to = destination(packet).and_then(|address| self.by_address.get(&address).copied());
        let Some(to) = to.filter(|&to| to != from) else {
            self.counts.foreign += 1;
            return;
        };
        self.counts.packets += 1;
        let bytes = packet.len() as u64;
        let (held_bytes, limit) = (self.held_bytes + cost(packet), self.held_bytes_max);
        let sites = (self.hosts[from].site, self.hosts[to].site);
        let (shaper, uplinks) = self.link(from, to);
        // On a slow link, packets that the link will lose wait in the queue, too.
        if held_bytes > limit || shaper.waiting_bytes(now) > limit {
            self.counts.dropped += 1;
            return;
        }
        match uplinks.send(shaper, sites, now, bytes) {
            Fate::Deliver { at } => {
                self.held.insert((at, self.number), DuePacket { to, bytes: packet.into() });
                self.held_bytes = held_bytes;
                self.number += 1;
            }
            Fate::Drop(_) => self.counts.dropped += 1,
        }
    }

    /// Removes and returns the next packet that is due.
    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<DuePacket> {
        let due = self.poll_timeout().filter(|&due| due <= now)?;
        let (_, packet) = self.held.pop_first()?;
        self.held_bytes -= cost(&packet.bytes);
        let late = now.since(due);
        self.counts.late += u64::from(late > LATE);
        self.counts.late_max = self.counts.late_max.max(late);
        Some(packet)
    }

    /// Returns the time at which the next packet is due.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.held.first_key_value().map(|(&(due, _), _)| due)
    }

    pub(super) fn counts(&self) -> RouterCounts {
        self.counts
    }

    /// The link between two hosts, and the uplinks of all sites.
    fn link(&mut self, from: usize, to: usize) -> (&mut Shaper, &mut GridUplinks) {
        let (one, other) = (&self.hosts[from], &self.hosts[to]);
        let seed = |a: usize, b: usize| {
            self.seed ^ ((a as u64) << 32 | b as u64).wrapping_mul(GOLDEN_GAMMA)
        };
        let (ends, seed) = match one.site == other.site {
            true => (LinkEnds::Hosts(from, to), seed(from, to)),
            false => {
                let ends = LinkEnds::Sites(one.site, other.site);
                (ends, !seed(one.site.index(), other.site.index()))
            }
        };
        let (spec, nodes) = (&self.spec, (one.node, other.node));
        let shaper = self.links.entry(ends).or_insert_with(|| spec.shaper(nodes.0, nodes.1, seed));
        (shaper, &mut self.uplinks)
    }
}

/// Memory of a packet while it is held, in bytes.
fn cost(packet: &[u8]) -> u64 {
    packet.len() as u64 + HELD_OVERHEAD_BYTES
}

/// Returns the destination of an IPv4 packet.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let version = packet.first()? >> 4;
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (version == 4).then(|| Ipv4Addr::from(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn router(text: &str) -> Router {
        seeded(text, 1)
    }

    fn seeded(text: &str, seed: u64) -> Router {
        let spec = GridSpec::from_emulate(text).unwrap();
        let hosts = LabHost::all_of(&spec).unwrap();
        Router::new(spec, hosts, seed)
    }

    /// An IPv4 packet of this size, in which only the fields that the router reads are set.
    fn packet(to: [u8; 4], bytes: usize) -> Vec<u8> {
        let mut packet = vec![0; bytes];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&to);
        packet
    }

    const A2: [u8; 4] = [10, 1, 0, 2];
    const B1: [u8; 4] = [10, 2, 0, 1];
    const B2: [u8; 4] = [10, 2, 0, 2];

    /// The times at which all held packets are due, and their hosts.
    fn drain(router: &mut Router) -> Vec<(Time, usize)> {
        let mut due = vec![];
        while let Some(at) = router.poll_timeout() {
            due.push((at, router.poll_transmit(at).unwrap().to));
        }
        due
    }

    #[test]
    fn a_packet_arrives_after_the_latency_and_the_time_to_send_it() {
        let mut router = router("2x2,wan=20ms,rate=8mbit");
        // 1000 bytes take a millisecond.
        router.handle_packet(Time(5), 0, &packet(B1, 1000));

        let due = Time(21 * MS + 5);
        assert_eq!(router.poll_timeout(), Some(due));
        assert_eq!(router.poll_transmit(Time(due.0 - 1)), None);
        let arrived = router.poll_transmit(due).unwrap();
        assert_eq!(arrived, DuePacket { to: 2, bytes: packet(B1, 1000).into() });
        assert_eq!((router.poll_timeout(), router.held_bytes), (None, 0));
    }

    #[test]
    fn hosts_of_two_sites_share_their_link_and_those_of_one_site_do_not() {
        let mut router = router("2x2,wan=20ms,rate=8mbit,lan=1ms,lanrate=8mbit");
        router.handle_packet(Time::ZERO, 0, &packet(B1, 1000));
        router.handle_packet(Time::ZERO, 1, &packet(B2, 1000));
        router.handle_packet(Time::ZERO, 2, &packet(A2, 1000));
        router.handle_packet(Time::ZERO, 0, &packet(A2, 1000));
        router.handle_packet(Time::ZERO, 3, &packet(B1, 1000));

        let at = |ms: u64, to: usize| (Time(ms * MS), to);
        let expected = [at(2, 1), at(2, 2), at(21, 2), at(21, 1), at(22, 3)];
        assert_eq!(drain(&mut router), expected);
    }

    #[test]
    fn hosts_of_one_site_share_its_uplink() {
        let mut router = router("3x2,wan=20ms,rate=8mbit,uplink=8mbit");
        let c1 = [10, 3, 0, 1];
        router.handle_packet(Time::ZERO, 0, &packet(B1, 1000));
        router.handle_packet(Time::ZERO, 1, &packet(c1, 1000));
        router.handle_packet(Time::ZERO, 2, &packet(A2, 1000));
        // Another site sends to the same one.
        router.handle_packet(Time::ZERO, 4, &packet(B2, 1000));

        let mut arrived = drain(&mut router);
        arrived.sort();
        let at = |ms: u64, to: usize| (Time(ms * MS), to);
        assert_eq!(arrived, [at(21, 1), at(21, 2), at(22, 3), at(22, 4)]);
    }

    #[test]
    fn losses_follow_the_probability_and_the_seed() {
        let lost = |seed| {
            let mut router = seeded("2x1,loss=10%", seed);
            let arrived: Vec<bool> = (0..2000)
                .map(|n| {
                    router.handle_packet(Time(n), 0, &packet(B1, 100));
                    !drain(&mut router).is_empty()
                })
                .collect();
            let count = arrived.iter().filter(|&&arrived| !arrived).count();
            assert_eq!(router.counts().dropped, count as u64);
            (count, arrived)
        };
        let (count, arrived) = lost(7);
        // Five standard deviations: sqrt(2000 * 0.1 * 0.9) = 13.4.
        assert!((133..=267).contains(&count), "{count} lost");
        assert_eq!(lost(7).1, arrived);
        assert_ne!(lost(8).1, arrived);
    }

    #[test]
    fn only_ipv4_packets_to_other_hosts_of_the_lab_are_forwarded() {
        let mut router = router("2x2");
        let mut other_version = packet(B1, 40);
        other_version[0] = 0x60;
        let itself = packet([10, 1, 0, 1], 40);
        let all = [10, 255, 255, 255];
        for packet in [&other_version, &itself, &packet(all, 40), &packet([8, 8, 8, 8], 40)] {
            router.handle_packet(Time::ZERO, 0, packet);
        }
        for bytes in 0..20 {
            router.handle_packet(Time::ZERO, 0, &packet(B1, 20)[..bytes]);
        }
        assert_eq!((router.poll_timeout(), router.counts().foreign), (None, 24));
    }

    #[test]
    fn memory_for_packets_under_way_is_bounded() {
        let mut router = router("2x1,wan=1h,rate=1kbit");
        router.held_bytes_max = 10 * (1000 + HELD_OVERHEAD_BYTES);
        for n in 0..100 {
            router.handle_packet(Time(n), 0, &packet(B1, 1000));
        }
        assert_eq!((router.held.len(), router.counts().dropped), (10, 90));
        assert_eq!(drain(&mut router).len(), 10);
        assert_eq!(router.held_bytes, 0);

        // A link that loses everything holds nothing, and counts what waits to leave.
        let mut cut = self::router("2x1,loss=100%,rate=1kbit");
        cut.held_bytes_max = 20_000;
        for n in 0..100 {
            cut.handle_packet(Time(n), 0, &packet(B1, 1000));
        }
        let waiting = cut.link(0, 1).0.waiting_bytes(Time(100));
        assert!((20_000..=21_000).contains(&waiting), "{waiting} bytes");
    }

    #[test]
    fn links_change_as_the_grid_says() {
        let mut router = router("2x1,wan=8ms,rate=unlimited; at 1s link a-b latency=40ms");
        router.handle_packet(Time(999 * MS), 0, &packet(B1, 100));
        router.handle_packet(Time(1000 * MS), 1, &packet([10, 1, 0, 1], 100));
        let expected = [(Time(1007 * MS), 1), (Time(1040 * MS), 0)];
        assert_eq!(drain(&mut router), expected);
    }

    #[test]
    fn packets_that_leave_late_are_counted() {
        let mut router = router("2x1,wan=8ms,rate=unlimited");
        for (sent, left) in [(0, 8 * MS), (10 * MS, 19 * MS), (20 * MS, 30 * MS)] {
            router.handle_packet(Time(sent), 0, &packet(B1, 100));
            assert!(router.poll_transmit(Time(left)).is_some());
        }
        let counts = router.counts();
        assert_eq!((counts.late, counts.late_max), (1, Duration::from_millis(2)));
    }
}
