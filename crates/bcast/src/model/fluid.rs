//! Simulates segments on their way through trees.
//!
//! A node that has a segment sends it to its children. Beginning a send takes the node's initiation
//! time, in which it begins no other; then the segment flows, and its last byte arrives after the
//! latency. An edge carries one segment at a time, in order. With [`Sending::Serial`] a node also
//! waits for the flow to end before it begins the next send, as blocking sends do; without shared
//! capacities this is the cost model of Gupta and Vadhiyar (2006).

use super::network::Network;
use gridspan_topology::FairShares;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// The sends that a node may begin while a segment leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sending {
    /// None: it sends to one child after the other.
    Serial,
    /// Sends to other children.
    Concurrent,
}

/// The part of a message that travels over one tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// `(parent, child)` edges in the order of sending, each after the edge that reaches its
    /// parent.
    pub edges: Vec<(u32, u32)>,
    /// Size of the part, in bytes.
    pub bytes: f64,
    /// Number of its segments, which have equal size: at least one.
    pub segments: u32,
}

/// The timing of one edge, simulated or observed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EdgeTiming {
    /// The node that sent.
    pub from: u32,
    /// The node that received.
    pub to: u32,
    /// Bytes carried.
    pub bytes: f64,
    /// Seconds in which bytes were flowing.
    pub flowing_s: f64,
    /// Seconds until the first segment began to flow, and until the last had arrived.
    pub span_s: (f64, f64),
    /// Bytes behind the first segment, and seconds from its arrival until the last of them had
    /// arrived, pauses included. The receiver of a real broadcast observes only this. Zero if
    /// nothing followed, or if it was not measured.
    pub later: (f64, f64),
}

/// The result of a simulated broadcast.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedBroadcast {
    /// Time until the last node had the whole message, in seconds.
    pub completion_s: f64,
    /// The timing of each edge of each tree, in their order.
    pub edges: Vec<EdgeTiming>,
}

/// Simulates trees from one root that carry their parts of a message at the same time.
pub fn simulate(network: &Network, runs: &[Run], sending: Sending) -> SimulatedBroadcast {
    Simulation::new(network, runs, sending).run()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// The sender has begun the edge's next segment.
    Begun(u32),
    /// The segment has left; valid only if the edge's stamp is still the same.
    Left(u32, u32),
    /// The segment has arrived.
    There(u32),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at_s: f64,
    number: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    /// The earliest event is the greatest; at equal times, the one added first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at_s.total_cmp(&self.at_s).then(other.number.cmp(&self.number))
    }
}

struct Edge {
    from: u32,
    to: u32,
    run: u32,
    latency_s: f64,
    segment_bytes: f64,
    segments: u32,
    /// The edges from the receiver in the same tree.
    next: Vec<u32>,
    /// Number of segments that the sender has.
    ready: u32,
    /// Number of segments that entered the sender's queue.
    begun: u32,
    /// Number of segments that have arrived.
    there: u32,
    is_busy: bool,
    left_bytes: f64,
    since_s: f64,
    rate: f64,
    stamp: u32,
    /// Time at which the first segment had arrived.
    first_s: f64,
    timing: EdgeTiming,
}

impl Edge {
    /// Creates an edge of the run with this number, before the simulation.
    fn new(network: &Network, number: u32, run: &Run, (from, to): (u32, u32)) -> Self {
        let segments = run.segments.max(1);
        let later_bytes = run.bytes * (1.0 - 1.0 / f64::from(segments));
        let timing = EdgeTiming {
            from,
            to,
            bytes: run.bytes,
            flowing_s: 0.0,
            span_s: (0.0, 0.0),
            later: (later_bytes, 0.0),
        };
        Self {
            from,
            to,
            run: number,
            latency_s: network.latency_s(from, to),
            segment_bytes: run.bytes / f64::from(segments),
            segments,
            next: Vec::new(),
            ready: 0,
            begun: 0,
            there: 0,
            is_busy: false,
            left_bytes: 0.0,
            since_s: 0.0,
            rate: 0.0,
            stamp: 0,
            first_s: 0.0,
            timing,
        }
    }
}

/// Returns the edges of all runs, each with the edges that follow it, and the numbers of those that
/// begin at the root.
fn edges_of(network: &Network, runs: &[Run]) -> (Vec<Edge>, Vec<u32>) {
    let mut edges: Vec<Edge> = Vec::new();
    let mut first = Vec::new();
    for (number, run) in (0u32..).zip(runs) {
        // The edge that reaches each node in this tree.
        let mut into: Vec<Option<u32>> = vec![None; network.len()];
        for &(from, to) in &run.edges {
            let place = edges.len() as u32;
            match into[from as usize] {
                Some(above) => edges[above as usize].next.push(place),
                None => first.push(place),
            }
            into[to as usize] = Some(place);
            edges.push(Edge::new(network, number, run, (from, to)));
        }
    }
    (edges, first)
}

struct Sender {
    queue: VecDeque<u32>,
    is_busy: bool,
}

struct Simulation<'a> {
    network: &'a Network,
    sending: Sending,
    edges: Vec<Edge>,
    senders: Vec<Sender>,
    shares: FairShares,
    events: BinaryHeap<Event>,
    count: u64,
    now_s: f64,
}

impl<'a> Simulation<'a> {
    fn new(network: &'a Network, runs: &[Run], sending: Sending) -> Self {
        let (edges, first) = edges_of(network, runs);
        let path = |edge: &Edge| network.path(edge.from, edge.to).collect::<Vec<u32>>();
        let shares = FairShares::new(network.capacities(), edges.iter().map(path).collect());
        let sender = || Sender { queue: VecDeque::new(), is_busy: false };
        let mut simulation = Self {
            network,
            sending,
            senders: (0..network.len()).map(|_| sender()).collect(),
            shares,
            edges,
            events: BinaryHeap::new(),
            count: 0,
            now_s: 0.0,
        };
        for number in first {
            let edge = &mut simulation.edges[number as usize];
            edge.ready = edge.segments;
            simulation.enqueue(number);
        }
        for node in 0..network.len() as u32 {
            simulation.begin_next(node);
        }
        simulation
    }

    fn run(mut self) -> SimulatedBroadcast {
        while let Some(event) = self.events.pop() {
            self.now_s = event.at_s;
            match event.what {
                What::Begun(edge) => self.flow(edge),
                What::Left(edge, stamp) if self.edges[edge as usize].stamp == stamp => {
                    self.left(edge);
                }
                What::Left(..) => {}
                What::There(edge) => self.there(edge),
            }
        }
        let edges: Vec<EdgeTiming> = self.edges.iter().map(|edge| edge.timing).collect();
        let completion_s = edges.iter().map(|edge| edge.span_s.1).fold(0.0, f64::max);
        SimulatedBroadcast { completion_s, edges }
    }

    fn at(&mut self, at_s: f64, what: What) {
        self.count += 1;
        self.events.push(Event { at_s, number: self.count, what });
    }

    /// Puts the edge's next segment into the queue of its sender, if the sender has it and the edge
    /// is idle.
    fn enqueue(&mut self, edge: u32) {
        let Edge { from, ready, begun, is_busy, .. } = &mut self.edges[edge as usize];
        if !*is_busy && *begun < *ready {
            *is_busy = true;
            *begun += 1;
            self.senders[*from as usize].queue.push_back(edge);
        }
    }

    fn begin_next(&mut self, node: u32) {
        let sender = &mut self.senders[node as usize];
        if sender.is_busy {
            return;
        }
        if let Some(edge) = sender.queue.pop_front() {
            sender.is_busy = true;
            let at_s = self.now_s + self.network.node(node).initiation_s;
            self.at(at_s, What::Begun(edge));
        }
    }

    /// The edge's segment begins to flow.
    fn flow(&mut self, number: u32) {
        let edge = &mut self.edges[number as usize];
        edge.left_bytes = edge.segment_bytes;
        edge.since_s = self.now_s;
        edge.rate = 0.0;
        if edge.begun == 1 {
            edge.timing.span_s.0 = self.now_s;
        }
        edge.timing.flowing_s -= self.now_s;
        let from = edge.from;
        self.shares.begin(number);
        self.update_rates();
        if self.sending == Sending::Concurrent {
            self.senders[from as usize].is_busy = false;
            self.begin_next(from);
        }
    }

    fn update_rates(&mut self) {
        for place in 0..self.shares.changed().len() {
            let number = self.shares.changed()[place];
            let rate = self.shares.rate(number);
            let edge = &mut self.edges[number as usize];
            if edge.rate == rate {
                continue;
            }
            edge.left_bytes = (edge.left_bytes - edge.rate * (self.now_s - edge.since_s)).max(0.0);
            edge.since_s = self.now_s;
            edge.rate = rate;
            edge.stamp += 1;
            let (at_s, stamp) = (self.now_s + edge.left_bytes / rate, edge.stamp);
            self.at(at_s, What::Left(number, stamp));
        }
    }

    fn left(&mut self, number: u32) {
        let edge = &mut self.edges[number as usize];
        edge.stamp += 1;
        edge.timing.flowing_s += self.now_s;
        edge.is_busy = false;
        let (from, there_s) = (edge.from, self.now_s + edge.latency_s);
        self.shares.end(number);
        self.update_rates();
        self.at(there_s, What::There(number));
        self.enqueue(number);
        if self.sending == Sending::Serial {
            self.senders[from as usize].is_busy = false;
        }
        self.begin_next(from);
    }

    fn there(&mut self, number: u32) {
        let edge = &mut self.edges[number as usize];
        edge.there += 1;
        edge.timing.span_s.1 = self.now_s;
        if edge.there == 1 {
            edge.first_s = self.now_s;
        }
        edge.timing.later.1 = self.now_s - edge.first_s;
        let (to, there) = (edge.to, edge.there);
        for place in 0..self.edges[number as usize].next.len() {
            let next = self.edges[number as usize].next[place];
            debug_assert_eq!(self.edges[next as usize].run, self.edges[number as usize].run);
            self.edges[next as usize].ready = there;
            self.enqueue(next);
        }
        self.begin_next(to);
    }
}

#[cfg(test)]
mod tests;
