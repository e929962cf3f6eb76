//! Many transports in one process, over a network of packets in memory and in virtual time.
//!
//! The world is one thread and one clock that jumps from event to event. All random numbers are
//! drawn from one seed, so a seed repeats the events of a run.

use bytes::{Bytes, BytesMut};
use gridspan_runtime::net::{
    Authority, FrameClass, Transport, TransportConfig, TransportEvent, TransportLimits,
};
use gridspan_runtime::session::PlantedSessionFault;
use gridspan_topology::dice::Dice;
use gridspan_topology::{Layout, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The effects of the network on packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    /// Least time of a packet, one way.
    pub(crate) latency: Duration,
    /// Upper limit of a random extra delay of each packet, which reorders packets.
    pub(crate) jitter: Duration,
    /// Probability that a packet is lost.
    pub(crate) loss: f64,
    /// Probability that a packet is sent twice.
    pub(crate) duplication: f64,
}

impl Weather {
    pub(crate) const FINE: Self = Self {
        latency: Duration::from_millis(2),
        jitter: Duration::ZERO,
        loss: 0.0,
        duplication: 0.0,
    };
    pub(crate) const ROUGH: Self = Self {
        latency: Duration::from_millis(5),
        jitter: Duration::from_millis(8),
        loss: 0.04,
        duplication: 0.02,
    };
}

struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

pub(crate) struct Member {
    pub(crate) transport: Transport,
    /// Time until which the process does not run, if it is stopped.
    pub(crate) stopped_until: Option<Instant>,
    inbox: Vec<(SocketAddr, Vec<u8>)>,
    needs_pump: bool,
}

pub(crate) struct World {
    pub(crate) layout: Layout,
    pub(crate) authority: Authority,
    pub(crate) members: Vec<Option<Member>>,
    pub(crate) weather: Weather,
    /// Limits of the transports that start from now on.
    pub(crate) limits: TransportLimits,
    /// By node, the silence after which transports that start from now on declare it lost. Other
    /// nodes have the default.
    pub(crate) lost_after: BTreeMap<NodeId, Duration>,
    pub(crate) fault: PlantedSessionFault,
    pub(crate) began: Instant,
    pub(crate) now: Instant,
    pub(crate) dice: Dice,
    /// Pairs of sender and receiver between which all packets are dropped.
    pub(crate) parted: BTreeSet<(NodeId, NodeId)>,
    packets: BTreeMap<(Instant, u64), Packet>,
    sequence: u64,
    /// All events of transports, and crashes of nodes, with their times in nanoseconds. The same
    /// seed gives the same log.
    pub(crate) log: Vec<String>,
    /// Frames received, in order, by receiver and sender.
    pub(crate) received: BTreeMap<(NodeId, NodeId), Vec<Bytes>>,
    /// Events other than frames, by the node that reported them.
    pub(crate) events: Vec<(NodeId, TransportEvent)>,
    /// Bytes of UDP payload that nodes have sent, by the sender's address.
    pub(crate) bytes_from: BTreeMap<SocketAddr, u64>,
    /// Packets sent to addresses outside the job.
    pub(crate) strays: Vec<Vec<u8>>,
}

pub(crate) fn address(node: NodeId) -> SocketAddr {
    SocketAddr::from(([10, 0, (node.0 >> 8) as u8, node.0 as u8], 7_000))
}

impl World {
    /// Starts `nodes` nodes at two sites.
    pub(crate) fn new(nodes: u32, seed: u64) -> Self {
        Self::with_fault(nodes, seed, PlantedSessionFault::None)
    }

    pub(crate) fn with_fault(nodes: u32, seed: u64, fault: PlantedSessionFault) -> Self {
        let half = nodes as usize / 2;
        let layout = Layout::new(vec![
            ("a".to_owned(), vec![1; nodes as usize - half]),
            ("b".to_owned(), vec![1; half]),
        ]);
        let now = Instant::now();
        let mut world = Self {
            authority: Authority::new("virtual").unwrap(),
            members: (0..nodes).map(|_| None).collect(),
            weather: Weather::FINE,
            limits: TransportLimits::default(),
            lost_after: BTreeMap::new(),
            fault,
            began: now,
            now,
            dice: Dice::new(seed),
            parted: BTreeSet::new(),
            packets: BTreeMap::new(),
            sequence: 0,
            log: vec![],
            received: BTreeMap::new(),
            events: vec![],
            bytes_from: BTreeMap::new(),
            strays: vec![],
            layout,
        };
        for node in world.layout.nodes() {
            world.start(node, 1);
        }
        world
    }

    /// Starts one incarnation of a node.
    pub(crate) fn start(&mut self, node: NodeId, incarnation: u64) {
        let identity = self.authority.issue(node, incarnation).unwrap();
        let mut seed = [node.0 as u8; 32];
        seed[..8].copy_from_slice(&self.dice.next_u64().to_le_bytes());
        let mut config = TransportConfig::new(self.layout.clone(), identity, seed);
        config.fault = self.fault;
        config.limits = self.limits.clone();
        config.lost_after = self.lost_after.clone();
        self.enter(node, Transport::new(config, self.now).unwrap());
    }

    /// Makes this the transport of a node, and drops the former one, if any.
    pub(crate) fn enter(&mut self, node: NodeId, mut transport: Transport) {
        for other in self.layout.nodes().filter(|&other| other != node) {
            transport.set_address(other, address(other));
        }
        self.members[node.index()] =
            Some(Member { transport, stopped_until: None, inbox: vec![], needs_pump: true });
    }

    /// Kills a node.
    pub(crate) fn crash(&mut self, node: NodeId) {
        self.members[node.index()] = None;
        self.note(node, "crash");
    }

    /// Stops a node's process for `duration`. After that, it handles the packets that have arrived.
    pub(crate) fn stop(&mut self, node: NodeId, duration: Duration) {
        let until = self.now + duration;
        if let Some(member) = &mut self.members[node.index()] {
            member.stopped_until = Some(until);
        }
    }

    /// Ends all partitions.
    pub(crate) fn heal(&mut self) {
        self.parted.clear();
    }

    /// Partitions `nodes` from all others, in both directions.
    pub(crate) fn part(&mut self, nodes: &[NodeId]) {
        for &a in nodes {
            for b in self.layout.nodes().filter(|b| !nodes.contains(b)) {
                self.parted.insert((a, b));
                self.parted.insert((b, a));
            }
        }
    }

    pub(crate) fn transport(&mut self, node: NodeId) -> &mut Transport {
        let member = self.members[node.index()].as_mut().expect("the node lives");
        member.needs_pump = true;
        &mut member.transport
    }

    pub(crate) fn send(&mut self, from: NodeId, to: NodeId, class: FrameClass, frame: Bytes) {
        self.transport(from).send(to, class, frame).unwrap();
    }

    pub(crate) fn below(&mut self, end: u32) -> u32 {
        self.dice.below(end)
    }

    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.dice.chance(probability)
    }

    /// Delivers a packet to `to` without delay or loss, as if `from` had sent it.
    pub(crate) fn inject(&mut self, from: SocketAddr, to: NodeId, bytes: Vec<u8>) {
        self.launch(Packet { from, to: address(to), bytes }, Duration::ZERO);
    }

    /// The losses so far: the node that reported each, and the lost one.
    pub(crate) fn losses(&self) -> Vec<(NodeId, NodeId)> {
        let lost = |(at, event): &(NodeId, TransportEvent)| match event {
            TransportEvent::Lost { node, .. } => Some((*at, *node)),
            _ => None,
        };
        self.events.iter().filter_map(lost).collect()
    }

    /// Lets this much virtual time pass.
    pub(crate) fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run(end, |_| false);
    }

    /// Lets time pass until `done` holds, but for `patience` at most. Returns whether it holds.
    pub(crate) fn run_until(
        &mut self,
        patience: Duration,
        done: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let end = self.now + patience;
        self.run(end, done)
    }

    fn run(&mut self, end: Instant, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            self.pump_all();
            if done(self) {
                return true;
            }
            let next = self.next_event();
            if next.is_none_or(|next| next > end) {
                self.now = end;
                return false;
            }
            self.now = next.unwrap_or(end).max(self.now);
            self.step();
        }
    }

    fn next_event(&mut self) -> Option<Instant> {
        let packet = self.packets.keys().next().map(|&(due, _)| due);
        let timers = self.members.iter_mut().flatten().filter_map(|member| {
            let due = member.transport.poll_timeout();
            match member.stopped_until {
                Some(until) => Some(until),
                None => due,
            }
        });
        timers.chain(packet).min()
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some(entry) = self.packets.first_entry()
            && entry.key().0 <= now
        {
            let packet = entry.remove();
            let to = self.layout.nodes().find(|&node| address(node) == packet.to);
            let Some(to) = to else {
                self.strays.push(packet.bytes);
                continue;
            };
            if let Some(member) = &mut self.members[to.index()] {
                member.inbox.push((packet.from, packet.bytes));
                member.needs_pump = true;
            }
        }
        for member in self.members.iter_mut().flatten() {
            if member.stopped_until.is_some_and(|until| until <= now) {
                member.stopped_until = None;
                member.needs_pump = true;
            }
            if member.stopped_until.is_none()
                && member.transport.poll_timeout().is_some_and(|due| due <= now)
            {
                member.transport.handle_timeout(now);
                member.needs_pump = true;
            }
        }
    }

    fn pump_all(&mut self) {
        for node in self.layout.nodes() {
            let Some(member) = &mut self.members[node.index()] else { continue };
            if member.stopped_until.is_some() || !std::mem::take(&mut member.needs_pump) {
                continue;
            }
            for (from, bytes) in std::mem::take(&mut member.inbox) {
                member.transport.handle_datagram(self.now, from, None, BytesMut::from(&bytes[..]));
            }
            self.pump(node);
        }
    }

    fn pump(&mut self, node: NodeId) {
        let Some(mut member) = self.members[node.index()].take() else { return };
        let mut buffer = vec![];
        loop {
            while let Some(event) = member.transport.poll_event() {
                self.record(node, event);
            }
            buffer.clear();
            let Some(transmit) = member.transport.poll_transmit(self.now, 10, &mut buffer) else {
                break;
            };
            let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
            for part in buffer[..transmit.size].chunks(size) {
                self.travel(node, transmit.destination, part);
            }
        }
        while let Some(event) = member.transport.poll_event() {
            self.record(node, event);
        }
        self.members[node.index()] = Some(member);
    }

    fn travel(&mut self, node: NodeId, to: SocketAddr, bytes: &[u8]) {
        let from = address(node);
        *self.bytes_from.entry(from).or_default() += bytes.len() as u64;
        let other = self.layout.nodes().find(|&other| address(other) == to);
        let is_parted = other.is_some_and(|other| self.parted.contains(&(node, other)));
        let is_lost = self.chance(self.weather.loss);
        let copies = 1 + usize::from(self.chance(self.weather.duplication));
        for _ in 0..copies {
            let share = self.dice.unit();
            if !is_parted && !is_lost {
                let delay = self.weather.latency + self.weather.jitter.mul_f64(share);
                self.launch(Packet { from, to, bytes: bytes.to_vec() }, delay);
            }
        }
    }

    fn launch(&mut self, packet: Packet, delay: Duration) {
        self.packets.insert((self.now + delay, self.sequence), packet);
        self.sequence += 1;
    }

    fn record(&mut self, node: NodeId, event: TransportEvent) {
        match event {
            TransportEvent::Frame { from, bytes } => {
                self.note(node, &format!("{} bytes from {from}", bytes.len()));
                self.received.entry((node, from)).or_default().push(bytes);
            }
            other => {
                self.note(node, &format!("{other:?}"));
                self.events.push((node, other));
            }
        }
    }

    fn note(&mut self, node: NodeId, what: &str) {
        let nanos = self.now.duration_since(self.began).as_nanos();
        self.log.push(format!("{nanos} {node}: {what}"));
    }
}
