//! The links between nodes, as the users of a reliable transport see them.
//!
//! A frame passes the [`Shaper`] of its link. In each direction, a pair of nodes at one site has a
//! separate shaper, and all pairs between two sites share one, because that link is scarce. Between
//! sites it also passes the uplinks of both sites, if they have limited ones ([`GridUplinks`]).
//!
//! **Loss.** A reliable transport turns loss into delay. It cuts a frame into packets, and each
//! round in which some of them are lost adds a round trip. Retransmissions take no bandwidth in the
//! model, nor of an uplink. Data that exceeds the link's queue waits at the sender, which paces
//! itself. A link that loses everything delivers nothing.
//!
//! **Packets.** If the user runs a transport over the links ([`NodeLinks::of_packets`]), each of
//! its packets passes the link individually, and may be lost or overtaken. In an uplink packets
//! queue, and none is dropped.
//!
//! **Order.** Frames between two nodes arrive in the order sent, unless the link has
//! [`Link::reorder`].

use crate::dice::{Dice, GOLDEN_GAMMA};
use crate::id::{NodeId, SiteId};
use crate::link::Link;
use crate::shaper::{Fate, Shaper};
use crate::site_uplink::GridUplinks;
use crate::spec::GridSpec;
use crate::units::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes of a frame in one packet.
const PACKET_BYTES: u64 = 1200;
/// Bytes that IPv6 and UDP add to a packet.
const PACKET_OVERHEAD_BYTES: u64 = 48;
/// Number of round trips after which a frame counts as arrived. A link that still loses packets
/// then is so close to a cut that no job would survive it.
const ROUNDS_MAX: u32 = 1000;

/// All links of a grid, for the simulator and for replays of recordings.
///
/// ```
/// use gridspan_topology::{GridSpec, NodeId, NodeLinks, Time};
///
/// // One megabyte per second: a kilobyte takes a millisecond, and then the latency.
/// let grid = GridSpec::from_emulate("2x1,wan=10ms,rate=8mbit").unwrap();
/// let mut links = NodeLinks::new(grid, 1);
/// let arrives = links.carry(Time::ZERO, NodeId(0), NodeId(1), 1_000);
/// assert_eq!(arrives, Some(Time(11_000_000)));
/// ```
#[derive(Clone, Debug)]
pub struct NodeLinks {
    spec: GridSpec,
    /// Whether it carries packets rather than frames of a reliable transport.
    is_packets: bool,
    lans: BTreeMap<(NodeId, NodeId), Shaper>,
    wans: BTreeMap<(SiteId, SiteId), Shaper>,
    uplinks: GridUplinks,
    last_arrival: BTreeMap<(NodeId, NodeId), Time>,
    seed: u64,
    dice: Dice,
}

impl NodeLinks {
    /// Creates the idle links of a grid, which carry frames of a reliable transport. Losses and
    /// jitter are drawn from `seed`.
    pub fn new(spec: GridSpec, seed: u64) -> Self {
        Self {
            uplinks: GridUplinks::of(&spec),
            spec,
            is_packets: false,
            lans: BTreeMap::new(),
            wans: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            seed,
            dice: Dice::new(seed ^ 0x6e65_7477_6f72_6b00),
        }
    }

    /// Makes the links carry packets.
    #[must_use]
    pub fn of_packets(self) -> Self {
        Self { is_packets: true, ..self }
    }

    /// The grid.
    pub fn spec(&self) -> &GridSpec {
        &self.spec
    }

    /// The one-way latency from one node to another at the start of the job.
    pub fn latency(&self, from: NodeId, to: NodeId) -> Duration {
        self.spec.link(from, to).latency.duration()
    }

    /// Sends a frame or packet of `bytes` at `now`. Returns its time of arrival, or `None` if it is
    /// lost.
    pub fn carry(&mut self, now: Time, from: NodeId, to: NodeId, bytes: u64) -> Option<Time> {
        let link = self.spec.link_at(now, from, to);
        if self.is_packets {
            return match self.send(now, &link, (from, to), bytes + PACKET_OVERHEAD_BYTES) {
                Fate::Deliver { at } => Some(at),
                Fate::Drop(_) => None,
            };
        }
        if link.loss >= 1.0 {
            return None;
        }
        // The model accounts for loss and the queue separately.
        let smooth = link.with_loss(0.0).with_queue_bytes(Link::UNLIMITED_QUEUE);
        let Fate::Deliver { mut at } = self.send(now, &smooth, (from, to), bytes) else {
            return None;
        };
        if link.loss > 0.0 {
            let rounds = self.lossy_rounds(link.loss, bytes.div_ceil(PACKET_BYTES));
            let back = self.spec.link_at(now, to, from);
            at += (link.latency.duration() + back.latency.duration()) * rounds;
        }
        if !link.reorder {
            let last = self.last_arrival.entry((from, to)).or_default();
            at = at.max(*last);
            *last = at;
        }
        Some(at)
    }

    /// Resets the order of a link, so that later frames need not follow those sent before: a new
    /// connection has a new stream.
    pub fn forget_order(&mut self, from: NodeId, to: NodeId) {
        self.last_arrival.remove(&(from, to));
    }

    /// Sends over the shaper of a link with these current properties, and through the uplinks of
    /// both sites.
    fn send(&mut self, now: Time, link: &Link, (from, to): (NodeId, NodeId), bytes: u64) -> Fate {
        let layout = self.spec.layout();
        let sites = (layout.site_of_node(from), layout.site_of_node(to));
        let seed = |a: u32, b: u32| {
            self.seed ^ (u64::from(a) << 32 | u64::from(b)).wrapping_mul(GOLDEN_GAMMA)
        };
        let shaper = match sites.0 == sites.1 {
            true => {
                let seed = seed(from.0, to.0);
                self.lans.entry((from, to)).or_insert_with(|| Shaper::new(*link, seed))
            }
            false => {
                let seed = !seed(sites.0.0, sites.1.0);
                self.wans.entry(sites).or_insert_with(|| Shaper::new(*link, seed))
            }
        };
        if shaper.link() != link {
            shaper.set_link(*link);
        }
        self.uplinks.send(shaper, sites, now, bytes)
    }

    /// Draws the number of round trips until all packets of a frame have arrived.
    fn lossy_rounds(&mut self, loss: f64, mut packets: u64) -> u32 {
        for rounds in 0..ROUNDS_MAX {
            if self.dice.chance(power(1.0 - loss, packets)) {
                return rounds;
            }
            packets = ((packets as f64 * loss) as u64).max(1);
        }
        ROUNDS_MAX
    }
}

/// Raises `base` to an integer power by squaring, with the same result on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use crate::units::{Bandwidth, Latency};

    fn network(wan: Link) -> NodeLinks {
        let layout = Layout::new(vec![("a".into(), vec![1, 1]), ("b".into(), vec![1])]);
        NodeLinks::new(GridSpec::from_layout(&layout).unwrap().with_wan(wan), 1)
    }

    #[test]
    fn pairs_of_nodes_share_the_link_between_their_sites() {
        let wan = Link::new(Latency::from_millis(10), Bandwidth::from_bits_per_second(8_000_000));
        let mut network = network(wan);
        let first = network.carry(Time(0), NodeId(0), NodeId(2), 1000).unwrap();
        let second = network.carry(Time(0), NodeId(1), NodeId(2), 1000).unwrap();
        // One megabyte per second: each kilobyte takes a millisecond.
        assert_eq!((first.0, second.0), (11_000_000, 12_000_000));
    }

    #[test]
    fn loss_adds_round_trips_and_keeps_the_order() {
        let mut network = network(Link::wan().with_loss(0.3));
        let arrivals: Vec<Time> =
            (0..200).map(|i| network.carry(Time(i), NodeId(0), NodeId(2), 100).unwrap()).collect();
        assert!(arrivals.is_sorted());
        assert!(arrivals[199] >= Time(30_000_000), "at least one frame was lost once");
    }

    #[test]
    fn a_link_changes_at_the_planned_time() {
        let network = network(Link::wan());
        let spec = network.spec.with_change("at 1s link a-b latency=99ms").unwrap();
        let mut network = NodeLinks::new(spec, 1);
        let second = 1_000_000_000;
        let mut delay = |at| network.carry(Time(at), NodeId(0), NodeId(2), 1).unwrap().0 - at;
        assert!(delay(second - 1) < 11_000_000);
        assert!((99_000_000..100_000_000).contains(&delay(second)));
    }

    #[test]
    fn a_changed_latency_counts_in_both_directions_of_the_round_trips_of_a_loss() {
        let lossy = Link::wan().with_loss(0.3);
        let slow = network(lossy.with_latency(Latency::from_millis(99)));
        let changed = network(lossy).spec.with_change("at 0s link a-b latency=99ms").unwrap();
        let arrivals = |mut network: NodeLinks| -> Vec<Option<Time>> {
            (0..50).map(|at| network.carry(Time(at), NodeId(0), NodeId(2), 100)).collect()
        };

        assert_eq!(arrivals(NodeLinks::new(changed, 1)), arrivals(slow));
    }

    #[test]
    fn packets_are_lost_individually_and_may_be_overtaken() {
        let wan = Link::wan().with_loss(0.3).with_jitter(Duration::from_millis(5));
        let mut network = network(wan.with_reorder(true)).of_packets();
        let mut fate = |at| network.carry(Time(at), NodeId(0), NodeId(2), 100);
        let fates: Vec<_> = (0..1000).map(|at| fate(at * 1_000)).collect();
        let arrivals: Vec<Time> = fates.iter().copied().flatten().collect();
        assert!((600..800).contains(&arrivals.len()), "{} arrived", arrivals.len());
        assert!(!arrivals.is_sorted());
    }

    /// Three sites of one node, 10 ms apart.
    fn of_three(options: &str) -> NodeLinks {
        NodeLinks::new(GridSpec::from_emulate(&format!("3x1,wan=10ms,{options}")).unwrap(), 1)
    }

    const US: u64 = 1_000;

    #[test]
    fn without_an_uplink_a_frame_only_passes_its_link() {
        let wan = Link::wan().with_jitter(Duration::from_millis(5));
        let mut network = network(wan);
        let pair = 1_u64.wrapping_mul(GOLDEN_GAMMA);
        let mut shaper = Shaper::new(wan, !(1 ^ pair));
        for n in 0..200 {
            let (now, bytes) = (Time(n * US), 100 * n);
            let at = network.carry(now, NodeId(0), NodeId(2), bytes).unwrap();
            assert_eq!(shaper.send(now, bytes), Fate::Deliver { at });
        }
    }

    #[test]
    fn two_flows_from_one_site_take_twice_as_long_through_its_uplink() {
        let last = |options: &str| {
            let mut network = of_three(options);
            let mut last = Time::ZERO;
            for _ in 0..10 {
                for to in [1, 2] {
                    let at = network.carry(Time::ZERO, NodeId(0), NodeId(to), 1000).unwrap();
                    last = last.max(at);
                }
            }
            last
        };
        // Ten frames take 10 ms on each link, and twenty take 20 ms on the uplink.
        assert_eq!(last("rate=8mbit"), Time(20_000 * US));
        assert_eq!(last("rate=8mbit,uplink=8mbit"), Time(30_000 * US));
        assert_eq!(last("rate=8mbit,uplink=16mbit"), Time(20_000 * US));
    }

    #[test]
    fn the_directions_of_an_uplink_are_separate() {
        let mut network = of_three("rate=8mbit,uplink=8mbit");
        let mut carry = |from, to| network.carry(Time::ZERO, NodeId(from), NodeId(to), 1000);
        assert_eq!(carry(0, 1), Some(Time(11_000 * US)));
        assert_eq!(carry(1, 0), Some(Time(11_000 * US)));
        // Two sites send to one.
        assert_eq!(carry(2, 0), Some(Time(12_000 * US)));
    }

    #[test]
    fn idle_uplinks_delay_a_frame_as_long_as_the_slowest_part_of_its_way() {
        for options in ["rate=8mbit,uplink=80mbit", "rate=80mbit,uplink=8mbit"] {
            let arrives = of_three(options).carry(Time::ZERO, NodeId(0), NodeId(1), 1000);
            assert_eq!(arrives, Some(Time(11_000 * US)), "{options}");
        }
        // Frames that come in slowly use only a part of the receiver's uplink meanwhile.
        let mut network = of_three("rate=8mbit,uplink=80mbit");
        let carry = |from| network.carry(Time::ZERO, NodeId(from), NodeId(0), 1000);
        assert_eq!([1, 2].map(carry), [11_000, 11_100].map(|at| Some(Time(at * US))));
    }

    #[test]
    fn a_frame_from_far_away_does_not_delay_one_that_arrives_before_it() {
        let far = Link::wan().with_latency(Latency::from_millis(100));
        let far = far.with_bandwidth(Bandwidth::from_bits_per_second(8_000_000));
        let spec = of_three("rate=8mbit,uplink=8mbit").spec.with_link(SiteId(2), SiteId(0), far);
        let mut network = NodeLinks::new(spec, 1);
        let mut carry = |ms: u64, from| {
            let at = network.carry(Time(ms * 1000 * US), NodeId(from), NodeId(0), 1000);
            at.unwrap().as_nanos() / US
        };
        assert_eq!(carry(0, 2), 101_000);
        assert_eq!(carry(50, 1), 61_000);
        assert_eq!(carry(90, 1), 102_000, "both come in from 100 ms on");
    }

    #[test]
    fn packets_queue_for_an_uplink_and_lost_ones_have_used_it() {
        let slow = of_three("rate=8mbit,uplink=8mbit");
        let lossy = slow.spec.link_between(SiteId(0), SiteId(1)).with_loss(1.0);
        let cut = slow.spec.clone().with_link(SiteId(0), SiteId(1), lossy);
        let mut cut = NodeLinks::new(cut, 1).of_packets();
        // With its headers a packet has 1000 bytes.
        let sent = |network: &mut NodeLinks, to| {
            network.carry(Time::ZERO, NodeId(0), NodeId(to), 1000 - PACKET_OVERHEAD_BYTES)
        };
        let mut slow = slow.of_packets();
        let [first, second] = [1, 2].map(|to| sent(&mut slow, to));
        assert_eq!([first, second], [11_000, 12_000].map(|at| Some(Time(at * US))));
        let [lost, second] = [1, 2].map(|to| sent(&mut cut, to));
        assert_eq!([lost, second], [None, Some(Time(12_000 * US))]);
    }

    #[test]
    fn packets_that_have_waited_for_an_uplink_are_not_overtaken() {
        let mut network = of_three("rate=8mbit,uplink=8mbit,jitter=5ms").of_packets();
        let mut arrivals: Vec<Time> = Vec::new();
        for burst in 0..100 {
            let begin = burst * 20_000 * US;
            // The first packet to node 1 waits for four to node 2, and the second for none.
            for _ in 0..4 {
                assert!(network.carry(Time(begin), NodeId(0), NodeId(2), 1000).is_some());
            }
            for wait in [0, 5_000 * US] {
                arrivals.extend(network.carry(Time(begin + wait), NodeId(0), NodeId(1), 1000));
            }
        }
        assert_eq!(arrivals.len(), 200);
        assert!(arrivals.is_sorted(), "{arrivals:?}");
    }

    #[test]
    fn a_cut_link_delivers_nothing() {
        let mut network = network(Link::wan().with_loss(1.0));
        assert_eq!(network.carry(Time(0), NodeId(0), NodeId(2), 1), None);
    }
}
