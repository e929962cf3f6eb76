//! Emulates wide-area links below QUIC, in real time: packets between sites are held until they are
//! due, or dropped.
//!
//! The sender's side emulates: each packet to another site or cluster passes the [`Shaper`] of the
//! link and waits in a heap until its time of arrival; then it is sent over the real network, where
//! it arrives at once. Packets inside a cluster, or inside a site without clusters, are not
//! emulated. QUIC observes the delay, rate, jitter and loss of the link as on a real network. How
//! late packets leave depends on how often the caller polls; a busy machine adds its own delay.
//!
//! Each node emulates the links that begin at it, and does not know what other nodes send. So each
//! pair of nodes has the rate of the link, and each node has the uplink of its site alone, which
//! its links to other sites share. The uplink of the receiving site is not emulated.
//!
//! The kernel's emulator (netem) is not used because it needs root, and because the simulator needs
//! this code anyway.

use bytes::Bytes;
use gridspan_topology::dice::GOLDEN_GAMMA;
use gridspan_topology::{Fate, GridSpec, GridUplinks, NodeId, Shaper, Time};
use quinn_proto::EcnCodepoint;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Bytes that the headers of IPv4 and UDP add to each packet.
const PACKET_OVERHEAD_BYTES: u64 = 28;
/// Largest number of bytes under way, 20 Gbit/s at 100 ms; beyond it packets are dropped.
const HELD_BYTES_MAX: u64 = 256 << 20;
/// Largest number of bytes of due packets that share one send.
const BATCH_BYTES_MAX: usize = 65_000;

/// The emulated links from one node to other sites and clusters.
pub struct Emulator {
    spec: GridSpec,
    node: NodeId,
    seed: u64,
    shapers: BTreeMap<NodeId, Shaper>,
    /// The direction out of the node's site.
    uplink: GridUplinks,
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: u64,
    sequence: u64,
    began: Instant,
    stats: EmulatorStats,
}

/// Counters of an emulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulatorStats {
    /// Packets that passed an emulated link.
    pub packets: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Largest time by which a packet left too late: if it is large, measurements reflect the
    /// machine and not the link.
    pub late_max: Duration,
}

/// A packet under way. Ordered by the time at which it is due.
#[derive(Debug)]
struct Held {
    due: Instant,
    sequence: u64,
    destination: SocketAddr,
    ecn: Option<EcnCodepoint>,
    bytes: Bytes,
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.sequence == other.sequence
    }
}
impl Eq for Held {}
impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}

/// Due packets to one address, of equal size except for the last, which may be smaller. Their bytes
/// are in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueBatch {
    /// The address to send to.
    pub destination: SocketAddr,
    /// The congestion mark.
    pub ecn: Option<EcnCodepoint>,
    /// The size of each packet, if there are several.
    pub segment_size: Option<usize>,
}

impl Emulator {
    /// Creates the links of `spec` that begin at `node`. The same seed gives the same random draws.
    pub fn new(spec: GridSpec, node: NodeId, seed: u64, now: Instant) -> Self {
        Self {
            uplink: GridUplinks::out_of(&spec, spec.layout().site_of_node(node)),
            spec,
            node,
            seed,
            shapers: BTreeMap::new(),
            held: BinaryHeap::new(),
            held_bytes: 0,
            sequence: 0,
            began: now,
            stats: EmulatorStats::default(),
        }
    }

    /// Whether packets to `node` pass an emulated link.
    pub fn covers(&self, node: NodeId) -> bool {
        self.spec.is_emulated(self.node, node)
    }

    /// Sends `contents` to `to`, as packets of `segment_size` bytes; the last may be shorter. If
    /// `segment_size` is 0, sends one packet.
    pub fn send(
        &mut self,
        now: Instant,
        to: NodeId,
        destination: SocketAddr,
        ecn: Option<EcnCodepoint>,
        (contents, segment_size): (&[u8], usize),
    ) {
        let time = Time::ZERO + now.saturating_duration_since(self.began);
        let shaper = self.shapers.entry(to).or_insert_with(|| {
            let pair = u64::from(self.node.0) << 32 | u64::from(to.0);
            let seed = self.seed ^ pair.wrapping_mul(GOLDEN_GAMMA);
            self.spec.shaper(self.node, to, seed)
        });
        let layout = self.spec.layout();
        let sites = (layout.site_of_node(self.node), layout.site_of_node(to));
        let all = Bytes::copy_from_slice(contents);
        let segment_size = if segment_size == 0 { all.len() } else { segment_size };
        let mut at = 0;
        while at < all.len() {
            let bytes = all.slice(at..all.len().min(at + segment_size));
            at += bytes.len();
            self.stats.packets += 1;
            let size = bytes.len() as u64 + PACKET_OVERHEAD_BYTES;
            match self.uplink.send(shaper, sites, time, size) {
                Fate::Deliver { at } if self.held_bytes < HELD_BYTES_MAX => {
                    let due = self.began + at.since(Time::ZERO);
                    let sequence = self.sequence;
                    self.sequence += 1;
                    self.held_bytes += bytes.len() as u64;
                    self.held.push(Reverse(Held { due, sequence, destination, ecn, bytes }));
                }
                Fate::Deliver { .. } | Fate::Drop(_) => self.stats.dropped += 1,
            }
        }
    }

    /// Appends due packets to one address, at most `segments`, to the empty `buffer`.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        segments: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<DueBatch> {
        let first = self.pop(now)?;
        buffer.extend_from_slice(&first.bytes);
        let (size, mut last) = (first.bytes.len(), first.bytes.len());
        let mut count = 1;
        while count < segments
            && last == size
            && buffer.len() + size <= BATCH_BYTES_MAX
            && self.held.peek().is_some_and(|Reverse(next)| {
                next.destination == first.destination
                    && next.ecn == first.ecn
                    && next.bytes.len() <= size
            })
            && let Some(next) = self.pop(now)
        {
            buffer.extend_from_slice(&next.bytes);
            last = next.bytes.len();
            count += 1;
        }
        let segment_size = (count > 1).then_some(size);
        Some(DueBatch { destination: first.destination, ecn: first.ecn, segment_size })
    }

    /// Returns the time at which the next packet is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held.peek().map(|Reverse(held)| held.due)
    }

    /// Returns the counters.
    pub fn stats(&self) -> EmulatorStats {
        self.stats
    }

    fn pop(&mut self, now: Instant) -> Option<Held> {
        if self.held.peek()?.0.due > now {
            return None;
        }
        let Reverse(held) = self.held.pop()?;
        self.held_bytes -= held.bytes.len() as u64;
        self.stats.late_max = self.stats.late_max.max(now.saturating_duration_since(held.due));
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_topology::{Bandwidth, Latency, Layout, Link};

    fn emulator(link: Link, now: Instant) -> Emulator {
        let layout = Layout::new(vec![("a".to_owned(), vec![1, 1]), ("b".to_owned(), vec![1])]);
        let spec = GridSpec::from_layout(&layout).unwrap().with_wan(link);
        Emulator::new(spec, NodeId(0), 1, now)
    }

    const ADDRESS: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    #[test]
    fn packets_between_sites_are_due_after_the_links_delay() {
        let now = Instant::now();
        let link = Link::new(Latency::from_millis(10), Bandwidth::UNLIMITED);
        let mut emulator = emulator(link, now);
        assert!(emulator.covers(NodeId(2)) && !emulator.covers(NodeId(1)));
        emulator.send(now, NodeId(2), ADDRESS, None, (&[7; 2_500], 1_000));
        assert_eq!(emulator.poll_timeout(), Some(now + Duration::from_millis(10)));
        let mut buffer = vec![];
        assert_eq!(emulator.poll_transmit(now, 10, &mut buffer), None);
        let batch = emulator.poll_transmit(now + Duration::from_millis(10), 10, &mut buffer);
        let segment_size = Some(1_000);
        assert_eq!(batch, Some(DueBatch { destination: ADDRESS, ecn: None, segment_size }));
        assert_eq!(buffer.len(), 2_500);
        assert_eq!(emulator.poll_timeout(), None);
    }

    #[test]
    fn the_links_of_a_node_to_other_sites_share_the_uplink() {
        let now = Instant::now();
        let spec = GridSpec::from_emulate("3x1,wan=10ms,rate=8mbit,uplink=8mbit").unwrap();
        let mut emulator = Emulator::new(spec, NodeId(0), 1, now);
        // With its headers a packet has 1000 bytes, which take a millisecond.
        let contents = [7; 1_000 - PACKET_OVERHEAD_BYTES as usize];
        for to in [1, 2] {
            emulator.send(now, NodeId(to), ADDRESS, None, (&contents, 0));
        }
        let mut buffer = vec![];
        for due in [11, 12] {
            let due = now + Duration::from_millis(due);
            assert_eq!(emulator.poll_timeout(), Some(due));
            assert!(emulator.poll_transmit(due, 1, &mut buffer).is_some());
        }
    }

    #[test]
    fn contents_without_a_segment_size_are_one_packet() {
        let now = Instant::now();
        let mut emulator = emulator(Link::perfect(), now);
        emulator.send(now, NodeId(2), ADDRESS, None, (&[7; 2_500], 0));
        assert_eq!(emulator.stats().packets, 1);
        let mut buffer = vec![];
        let batch = emulator.poll_transmit(now, 10, &mut buffer);
        assert_eq!(batch.map(|batch| (batch.segment_size, buffer.len())), Some((None, 2_500)));
    }

    #[test]
    fn only_the_last_packet_of_a_send_may_be_smaller() {
        let now = Instant::now();
        let mut emulator = emulator(Link::perfect(), now);
        for bytes in [500, 1_000, 1_000, 400, 1_000] {
            emulator.send(now, NodeId(2), ADDRESS, None, (&vec![0; bytes], bytes));
        }
        let mut sizes = vec![];
        let mut buffer = vec![];
        while emulator.poll_transmit(now, 10, &mut buffer).is_some() {
            sizes.push(buffer.len());
            buffer.clear();
        }
        assert_eq!(sizes, [500, 2_400, 1_000]);
    }
}
