//! A broadcast over a network, packet by packet. The experiment times broadcasts with this model so
//! that our planners do not plan with the model that judges them: they use the model of flows.
//!
//! Each capacity is a link that sends one packet at a time, taking turns between the edges that
//! have packets there (fair queueing, J. Nagle, 1987). A packet passes the links of its path one
//! after the other, takes the latency after the last one, and is acknowledged; an edge has a window
//! of bytes in flight. Queues, not a formula, share the bandwidth. Nothing is lost. Nodes work as
//! in [`simulate`](gridspan_bcast::simulate): with [`Sending::Concurrent`] a segment follows the
//! previous one on its edge when that has left the sender, as on a stream; with [`Sending::Serial`]
//! a send is over when the last packet has passed the last link.

use gridspan_bcast::{EdgeTiming, Network, Run, Sending, SimulatedBroadcast};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bytes of a packet: two Ethernet packets, which halves the number of events.
const PACKET: f64 = 3000.0;
/// Maximum bytes in flight on an edge: twice those in a round trip of 66 ms at 30 Mbit/s.
const WINDOW: f64 = 500_000.0;

/// Simulates trees from one root that carry their parts of a message at the same time.
pub fn simulate_packets(network: &Network, runs: &[Run], sending: Sending) -> SimulatedBroadcast {
    let mut packets = Packets::new(network, runs, sending);
    packets.start();
    while let Some(Reverse((at_ns, _, what))) = packets.events.pop() {
        packets.now_ns = at_ns;
        match what {
            What::Begun(edge) => packets.begun(edge),
            What::Sent(link) => packets.sent(link),
            What::There(edge) => packets.there(edge),
            What::Acknowledged(edge) => {
                packets.edges[edge].on_the_way -= 1;
                packets.push(edge);
            }
        }
    }
    SimulatedBroadcast {
        completion_s: packets.last_ns as f64 * 1e-9,
        edges: packets.edges.iter().map(|edge| edge.timing).collect(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Begun(usize),
    Sent(usize),
    There(usize),
    Acknowledged(usize),
}

struct Edge {
    from: usize,
    to: usize,
    path: Vec<usize>,
    latency_ns: u64,
    next: Vec<usize>,
    is_from_root: bool,
    segments: u32,
    packets_each: u32,
    packet_bytes: f64,
    /// Number of segments that the sender has.
    ready: u32,
    /// Number of segments whose sending has been queued.
    begun: u32,
    /// Number of segments that are being sent and have not passed the last link.
    flowing: u32,
    /// Number of segments that have passed the last link.
    left: u32,
    is_busy: bool,
    /// Number of packets of started segments that are not yet in flight.
    waiting: u32,
    /// Number of packets in flight: not yet acknowledged.
    on_the_way: u32,
    /// Number of packets that have passed the first link.
    sent: u32,
    /// Number of packets that have passed the last link.
    out: u32,
    /// Number of packets that have arrived.
    there: u32,
    timing: EdgeTiming,
}

/// A link, at which the edges with packets take turns.
struct Link {
    ns_per_byte: f64,
    /// Edges, the place of the link on their paths, and their numbers of packets here.
    queues: Vec<(usize, usize, u32)>,
    /// Index of the queue that is next.
    turn: usize,
    /// The edge of the packet that is being sent, and the place of the link on its path.
    sending: Option<(usize, usize)>,
}

struct Packets<'a> {
    network: &'a Network,
    sending: Sending,
    edges: Vec<Edge>,
    links: Vec<Link>,
    senders: Vec<(bool, VecDeque<usize>)>,
    events: BinaryHeap<Reverse<(u64, u64, What)>>,
    count: u64,
    now_ns: u64,
    last_ns: u64,
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl<'a> Packets<'a> {
    fn new(network: &'a Network, runs: &[Run], sending: Sending) -> Self {
        let mut edges: Vec<Edge> = Vec::new();
        for run in runs {
            let segments = run.segments.max(1);
            let segment_bytes = run.bytes / f64::from(segments);
            let packets_each = (segment_bytes / PACKET).ceil().max(1.0);
            let mut into: Vec<Option<usize>> = vec![None; network.len()];
            for &(from, to) in &run.edges {
                let place = edges.len();
                if let Some(above) = into[from as usize] {
                    edges[above].next.push(place);
                }
                let is_from_root = into[from as usize].is_none();
                into[to as usize] = Some(place);
                let timing = EdgeTiming {
                    from,
                    to,
                    bytes: run.bytes,
                    flowing_s: 0.0,
                    span_s: (0.0, 0.0),
                    later: (0.0, 0.0),
                };
                edges.push(Edge {
                    from: from as usize,
                    to: to as usize,
                    path: network.path(from, to).map(|link| link as usize).collect(),
                    latency_ns: nanos(network.latency_s(from, to)),
                    next: Vec::new(),
                    is_from_root,
                    segments,
                    packets_each: packets_each as u32,
                    packet_bytes: segment_bytes / packets_each,
                    ready: 0,
                    begun: 0,
                    flowing: 0,
                    left: 0,
                    is_busy: false,
                    waiting: 0,
                    on_the_way: 0,
                    sent: 0,
                    out: 0,
                    there: 0,
                    timing,
                });
            }
        }
        let link = |&capacity: &f64| Link {
            ns_per_byte: 1e9 / capacity,
            queues: Vec::new(),
            turn: 0,
            sending: None,
        };
        Self {
            sending,
            links: network.capacities().iter().map(link).collect(),
            senders: vec![(false, VecDeque::new()); network.len()],
            network,
            edges,
            events: BinaryHeap::new(),
            count: 0,
            now_ns: 0,
            last_ns: 0,
        }
    }

    fn start(&mut self) {
        for edge in 0..self.edges.len() {
            if self.edges[edge].is_from_root {
                self.edges[edge].ready = self.edges[edge].segments;
                self.enqueue(edge);
            }
        }
        (0..self.senders.len()).for_each(|node| self.begin_next(node));
    }

    fn at(&mut self, at_ns: u64, what: What) {
        self.count += 1;
        self.events.push(Reverse((at_ns, self.count, what)));
    }

    fn enqueue(&mut self, number: usize) {
        let edge = &mut self.edges[number];
        if !edge.is_busy && edge.begun < edge.ready {
            edge.is_busy = true;
            edge.begun += 1;
            self.senders[edge.from].1.push_back(number);
        }
    }

    fn begin_next(&mut self, node: usize) {
        if self.senders[node].0 {
            return;
        }
        if let Some(edge) = self.senders[node].1.pop_front() {
            self.senders[node].0 = true;
            let initiation_s = self.network.node(node as u32).initiation_s;
            self.at(self.now_ns + nanos(initiation_s), What::Begun(edge));
        }
    }

    fn begun(&mut self, number: usize) {
        let edge = &mut self.edges[number];
        edge.waiting += edge.packets_each;
        if edge.flowing == 0 {
            edge.timing.flowing_s -= self.now_ns as f64 * 1e-9;
        }
        edge.flowing += 1;
        if edge.begun == 1 {
            edge.timing.span_s.0 = self.now_ns as f64 * 1e-9;
        }
        let from = edge.from;
        self.push(number);
        if self.sending == Sending::Concurrent {
            self.senders[from].0 = false;
            self.begin_next(from);
        }
    }

    /// Puts packets of an edge into the queue of its first link, as many as the window allows.
    fn push(&mut self, number: usize) {
        let edge = &mut self.edges[number];
        let window = (WINDOW / edge.packet_bytes).max(2.0) as u32;
        let count = edge.waiting.min(window.saturating_sub(edge.on_the_way));
        if count > 0 {
            edge.waiting -= count;
            edge.on_the_way += count;
            self.arrive(number, 0, count);
        }
    }

    /// Adds packets of an edge to the queue of a link.
    fn arrive(&mut self, edge: usize, place: usize, count: u32) {
        let number = self.edges[edge].path[place];
        let link = &mut self.links[number];
        match link.queues.iter_mut().find(|queue| queue.0 == edge) {
            Some(queue) => queue.2 += count,
            None => link.queues.push((edge, place, count)),
        }
        self.send(number);
    }

    fn send(&mut self, number: usize) {
        let link = &mut self.links[number];
        if link.sending.is_some() || link.queues.is_empty() {
            return;
        }
        link.turn = if link.turn >= link.queues.len() { 0 } else { link.turn };
        let (edge, place, count) = link.queues[link.turn];
        if count > 1 {
            link.queues[link.turn].2 -= 1;
            link.turn += 1;
        } else {
            link.queues.remove(link.turn);
        }
        link.sending = Some((edge, place));
        let takes_ns = (self.edges[edge].packet_bytes * link.ns_per_byte).round() as u64;
        self.at(self.now_ns + takes_ns.max(1), What::Sent(number));
    }

    fn sent(&mut self, number: usize) {
        let Some((edge, place)) = self.links[number].sending.take() else { return };
        if place == 0 {
            self.left_sender(edge);
        }
        if place + 1 < self.edges[edge].path.len() {
            self.arrive(edge, place + 1, 1);
        } else {
            self.passed(edge);
        }
        self.send(number);
    }

    /// Handles a packet that has passed the first link.
    fn left_sender(&mut self, number: usize) {
        let edge = &mut self.edges[number];
        edge.sent += 1;
        if self.sending == Sending::Concurrent && edge.sent == edge.begun * edge.packets_each {
            let from = edge.from;
            edge.is_busy = false;
            self.enqueue(number);
            self.begin_next(from);
        }
    }

    /// Handles a packet that has passed the last link.
    fn passed(&mut self, number: usize) {
        let edge = &mut self.edges[number];
        edge.out += 1;
        let there_ns = self.now_ns + edge.latency_ns;
        let back_ns = there_ns + edge.latency_ns;
        let from = edge.from;
        let has_left = edge.out == (edge.left + 1) * edge.packets_each;
        if has_left {
            edge.left += 1;
            edge.flowing -= 1;
            if edge.flowing == 0 {
                edge.timing.flowing_s += self.now_ns as f64 * 1e-9;
            }
        }
        self.at(there_ns, What::There(number));
        self.at(back_ns, What::Acknowledged(number));
        if has_left && self.sending == Sending::Serial {
            self.edges[number].is_busy = false;
            self.enqueue(number);
            self.senders[from].0 = false;
            self.begin_next(from);
        }
    }

    fn there(&mut self, number: usize) {
        let edge = &mut self.edges[number];
        edge.there += 1;
        self.last_ns = self.now_ns;
        edge.timing.span_s.1 = self.now_ns as f64 * 1e-9;
        if edge.there.is_multiple_of(edge.packets_each) {
            let (to, ready) = (edge.to, edge.there / edge.packets_each);
            for next in edge.next.clone() {
                self.edges[next].ready = ready;
                self.enqueue(next);
            }
            self.begin_next(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_bcast::NodeLink;

    fn nodes(count: usize, latency_s: f64) -> Network {
        let node = NodeLink { cluster: 0, out: 1.5e6, into: 1.5e6, initiation_s: 0.0 };
        let mut network = Network::new(vec![node; count]);
        network.connect(0, 0, latency_s, vec![]);
        network
    }

    #[test]
    fn an_undisturbed_message_takes_its_packets_one_more_link_and_the_latency() {
        // 50 packets of 2 ms over two links in a row: 102 ms, and 5 ms of latency.
        let run = Run { edges: vec![(0, 1)], bytes: 150_000.0, segments: 1 };

        let outcome = simulate_packets(&nodes(2, 0.005), &[run], Sending::Serial);

        assert!((outcome.completion_s - 0.107).abs() < 1e-6, "{}", outcome.completion_s);
    }

    #[test]
    fn two_edges_take_turns_on_a_link() {
        let run = Run { edges: vec![(0, 1), (0, 2)], bytes: 150_000.0, segments: 1 };

        let outcome = simulate_packets(&nodes(3, 0.0), &[run], Sending::Concurrent);

        let ends = outcome.edges.map_ends();
        assert!((ends[0] - 0.2).abs() < 3e-3 && (ends[1] - 0.2).abs() < 3e-3, "{ends:?}");
    }

    #[test]
    fn a_window_limits_the_packets_in_flight() {
        // 166 packets in each round trip, which takes 2 s and 4 ms for one packet over both links.
        // The last 134 of 466 follow after two round trips, and take 0.268 s, 2 ms for the second
        // link, and 1 s of latency.
        let run = Run { edges: vec![(0, 1)], bytes: 1.398e6, segments: 1 };

        let outcome = simulate_packets(&nodes(2, 1.0), &[run], Sending::Serial);

        assert!((outcome.completion_s - 5.278).abs() < 1e-6, "{}", outcome.completion_s);
    }

    trait MapEnds {
        fn map_ends(&self) -> Vec<f64>;
    }

    impl MapEnds for Vec<EdgeTiming> {
        fn map_ends(&self) -> Vec<f64> {
            self.iter().map(|edge| edge.span_s.1).collect()
        }
    }
}
