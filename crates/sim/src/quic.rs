//! Nodes that talk over QUIC in virtual time.
//!
//! Every node has the transport of production, without sockets and clocks. Its datagrams meet the
//! links of the grid one by one: they are lost, delayed, overtaken and duplicated, and cut off
//! while two sites do not reach each other. What follows is the transport's own doing: it finds out
//! by its heartbeats, makes connections again and resumes sessions, or declares a node lost.
//!
//! Heartbeats never end, so a job that stalls is not known by an empty queue; see
//! [`QuicNetwork::is_stalled`].

use crate::faults::{Delays, FaultCounts, QuicCounts, QuicFaults};
use crate::network::Network;
use bytes::{Bytes, BytesMut};
use gridspan_runtime::net::{
    FrameClass, LossReason, SendError, TransportEvent, TransportLimits, VirtualJob,
    VirtualTransport,
};
use gridspan_runtime::{Layout, NodeId, SiteId, Time};
use gridspan_topology::dice::Dice;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time after its original that a duplicate of a datagram arrives.
const DUPLICATE_DELAY_MAX: Duration = Duration::from_millis(50);
/// The longest time after a frame was sent that its connection breaks, besides a round trip.
const BREAK_DELAY_MAX: Duration = Duration::from_millis(5);
/// How long two sites reach each other at least between two partitions. Nodes are lost after 3 s of
/// silence, which two partitions of 1.5 s must not add up to.
const BETWEEN_PARTITIONS: Duration = Duration::from_secs(3);
/// How long a node that others are to take for dead is cut off: longer than their patience.
const CUT_OFF: Duration = Duration::from_secs(6);
/// How long a guest that is done waits for others to confirm what it sent.
const FLUSH: Duration = Duration::from_secs(3);
/// When nothing but transports has done anything for so long, a job has stalled. A node that never
/// answered is given up after 20 s, which may let a job go on.
const QUIET: Duration = Duration::from_secs(25);

/// From one node to another.
type Way = (NodeId, NodeId);

/// What happens on the network or to a transport.
pub(crate) enum Happening {
    /// A datagram arrives.
    Arrives { way: Way, datagram: BytesMut },
    /// The timer of a node's transport may have expired.
    Due { node: NodeId },
    /// The connection between two nodes breaks, or all between their sites do.
    Breaks { way: Way },
    /// A guest that is done waits no longer.
    Closes { node: NodeId },
}

/// What the simulation has to do.
pub(crate) enum Command {
    /// Come back with this at that time.
    Schedule(Time, Happening),
    /// Hand a frame up that came this way.
    Deliver(Way, Bytes),
    /// Tell a node that another is lost.
    Lose { at: NodeId, node: NodeId, reason: LossReason },
    /// A transport refused a frame that it must take.
    Fail(String),
}

/// What datagrams pass.
pub(crate) struct Air<'a> {
    pub(crate) network: &'a mut Network,
    pub(crate) delays: Option<&'a mut Delays>,
}

struct Member {
    transport: VirtualTransport,
    /// For when its timer is in the queue.
    planned: Option<Time>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// Its node has ended; it closes when others have all that it sent.
    Leaving,
    Closed,
}

impl Member {
    fn close(&mut self, now: Time) {
        if std::mem::replace(&mut self.stage, Stage::Closed) != Stage::Closed {
            self.transport.close(now, "the job is over");
        }
    }
}

/// The transports of all nodes and the network between them.
pub(crate) struct QuicNetwork {
    job: VirtualJob,
    layout: Layout,
    members: BTreeMap<NodeId, Member>,
    faults: QuicFaults,
    dice: Dice,
    /// Until when two sites, the lower first, do not reach each other.
    cuts: BTreeMap<(SiteId, SiteId), Time>,
    /// Until when a node reaches nobody.
    cut_off: BTreeMap<NodeId, Time>,
    faults_seen: FaultCounts,
    counts: QuicCounts,
    commands: Vec<Command>,
    /// Happenings in the queue of the simulation.
    queued: usize,
    /// When something else was last in it.
    active: Time,
}

impl QuicNetwork {
    /// The transports of the founders, each of which connects to the coordinator.
    pub(crate) fn new(layout: &Layout, faults: QuicFaults, seed: u64) -> Result<Self, String> {
        let limits = TransportLimits {
            small_bytes_max: faults.bulk_bytes,
            retained_bytes_max: u64::MAX,
            ..TransportLimits::default()
        };
        let job = VirtualJob::new(layout.clone(), seed, limits).map_err(|e| e.to_string())?;
        let mut network = Self {
            job: job.with_fault(faults.planted),
            layout: layout.clone(),
            members: BTreeMap::new(),
            dice: Dice::new(seed ^ 0x7175_6963_0000_0000),
            faults,
            cuts: BTreeMap::new(),
            cut_off: BTreeMap::new(),
            faults_seen: FaultCounts::default(),
            counts: QuicCounts::default(),
            commands: Vec::new(),
            queued: 0,
            active: Time::ZERO,
        };
        for node in layout.nodes() {
            network.enter(Time::ZERO, node)?.connect(NodeId(0));
            network.schedule(Time::ZERO, Happening::Due { node });
        }
        Ok(network)
    }

    /// A guest comes and connects to all founders. Returns where others reach it.
    pub(crate) fn join(&mut self, now: Time, guest: NodeId) -> Result<String, String> {
        let founders: Vec<NodeId> = self.layout.nodes().collect();
        let transport = self.enter(now, guest)?;
        founders.into_iter().for_each(|founder| transport.connect(founder));
        let contact = transport.contact();
        self.schedule(now, Happening::Due { node: guest });
        Ok(contact)
    }

    fn enter(&mut self, now: Time, node: NodeId) -> Result<&mut VirtualTransport, String> {
        let transport = self.job.transport(node, now).map_err(|error| error.to_string())?;
        let member = Member { transport, planned: None, stage: Stage::Running };
        Ok(&mut self.members.entry(node).or_insert(member).transport)
    }

    /// A node hears where a guest can be reached.
    pub(crate) fn meet(&mut self, node: NodeId, guest: NodeId, contact: &str) {
        if let Some(member) = self.members.get_mut(&node) {
            member.transport.meet(guest, contact);
        }
    }

    /// A node dies: what it has sent is under way, and nothing else follows.
    pub(crate) fn kill(&mut self, node: NodeId) {
        self.members.remove(&node);
    }

    /// The others do not hear of a node that lives for so long that they take it for dead.
    pub(crate) fn cut_off(&mut self, now: Time, node: NodeId) {
        self.cut_off.insert(node, now + CUT_OFF);
    }

    /// A guest has ended: its transport closes when the others have all that it sent.
    pub(crate) fn finish(&mut self, now: Time, guest: NodeId) {
        if let Some(member) = self.members.get_mut(&guest)
            && member.stage == Stage::Running
        {
            member.stage = Stage::Leaving;
            self.schedule(now, Happening::Due { node: guest });
            self.schedule(now + FLUSH, Happening::Closes { node: guest });
        }
    }

    /// What the last calls led to, in order.
    pub(crate) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Takes a frame for another node. It leaves with the next [`pump`](Self::pump).
    pub(crate) fn send(&mut self, now: Time, way: Way, is_bulk: bool, frame: Bytes, air: &Network) {
        let (from, to) = way;
        let Some(member) = self.members.get_mut(&from) else { return };
        let class = if is_bulk { FrameClass::Bulk } else { FrameClass::Auto };
        match member.transport.send(to, class, frame) {
            Ok(()) => {}
            // The node was told of the loss.
            Err(SendError::Lost(_)) => {}
            // A guest that this node has not heard of, or that is forgotten.
            Err(SendError::NoSuchPeer(_)) if self.layout.is_guest(to) => {}
            Err(error) => self.commands.push(Command::Fail(format!("{from} to {to}: {error}"))),
        }
        if self.dice.chance(self.faults.disconnect) {
            let round_trip = air.latency(from, to) + air.latency(to, from);
            let at = now + self.dice.up_to(round_trip + BREAK_DELAY_MAX);
            self.schedule(at, Happening::Breaks { way });
        }
    }

    /// Deals with something that was scheduled. A node that stands still does so later.
    pub(crate) fn handle(&mut self, now: Time, happening: Happening, air: &mut Air<'_>) {
        match happening {
            Happening::Arrives { way: (from, to), datagram } => {
                if let Some(member) = self.members.get_mut(&to) {
                    member.transport.handle_datagram(now, from, datagram);
                    self.pump(now, to, air);
                }
            }
            Happening::Due { node } => {
                let Some(member) = self.members.get_mut(&node) else { return };
                member.planned.take_if(|planned| *planned <= now);
                if member.transport.poll_timeout().is_some_and(|due| due <= now) {
                    member.transport.handle_timeout(now);
                }
                self.pump(now, node, air);
            }
            Happening::Breaks { way } => self.break_connection(now, way, air),
            Happening::Closes { node } => {
                if let Some(member) = self.members.get_mut(&node) {
                    member.close(now);
                    self.pump(now, node, air);
                }
            }
        }
    }

    /// The node that something happens to, and that may stand still meanwhile.
    pub(crate) fn place(happening: &Happening) -> Option<NodeId> {
        match happening {
            Happening::Arrives { way: (_, to), .. } => Some(*to),
            Happening::Due { node } | Happening::Closes { node } => Some(*node),
            Happening::Breaks { .. } => None,
        }
    }

    /// Hands up what a transport has, lets its datagrams leave and plans its timer.
    pub(crate) fn pump(&mut self, now: Time, node: NodeId, air: &mut Air<'_>) {
        let Some(mut member) = self.members.remove(&node) else { return };
        loop {
            while let Some(event) = member.transport.poll_event() {
                self.hand_up(node, event);
            }
            let mut is_silent = true;
            member.transport.transmit(now, &mut |to, datagram| {
                is_silent = false;
                self.travel(now, (node, to), datagram, air);
            });
            if is_silent {
                break;
            }
        }
        if member.stage == Stage::Leaving && member.transport.is_flushed() {
            member.close(now);
            let depart = &mut |to, datagram| self.travel(now, (node, to), datagram, air);
            member.transport.transmit(now, depart);
        }
        // An earlier timer comes first, and finds out when the next is.
        let due = member.transport.poll_timeout().map(|due| due.max(now));
        if let Some(due) = due
            && member.planned.is_none_or(|planned| due < planned)
        {
            member.planned = Some(due);
            self.schedule(due, Happening::Due { node });
        }
        self.members.insert(node, member);
    }

    fn hand_up(&mut self, node: NodeId, event: TransportEvent) {
        match event {
            TransportEvent::Frame { from, bytes } => {
                self.commands.push(Command::Deliver((from, node), bytes));
            }
            TransportEvent::Lost { node: lost, reason } => {
                self.counts.lost_nodes += 1;
                self.commands.push(Command::Lose { at: node, node: lost, reason });
            }
            TransportEvent::Suspected(_) => self.counts.suspicions += 1,
            _ => {}
        }
    }

    fn travel(&mut self, now: Time, way: Way, datagram: BytesMut, air: &mut Air<'_>) {
        let (from, to) = way;
        self.counts.datagrams += 1;
        if self.is_cut(now, way) {
            self.faults_seen.cut_off += 1;
            return;
        }
        let is_lost = self.dice.chance(self.faults.loss);
        let arrives = air.network.carry(now, from, to, datagram.len() as u64);
        let Some(mut at) = arrives.filter(|_| !is_lost) else {
            self.counts.datagrams_lost += 1;
            return;
        };
        if let Some(delays) = &mut air.delays {
            at = delays.frame(from, to, at);
        }
        if self.dice.chance(self.faults.duplicate) {
            self.faults_seen.duplicated += 1;
            let again = at + self.dice.up_to(DUPLICATE_DELAY_MAX);
            let datagram = datagram.clone();
            self.schedule(again, Happening::Arrives { way, datagram });
        }
        self.schedule(at, Happening::Arrives { way, datagram });
    }

    fn is_cut(&self, now: Time, way: Way) -> bool {
        let is_until = |until: Option<&Time>| until.is_some_and(|&until| now < until);
        is_until(self.cuts.get(&self.sites(way)))
            || is_until(self.cut_off.get(&way.0))
            || is_until(self.cut_off.get(&way.1))
    }

    fn sites(&self, (from, to): Way) -> (SiteId, SiteId) {
        let [here, there] = [from, to].map(|node| self.layout.site_of_node(node));
        (here.min(there), here.max(there))
    }

    fn break_connection(&mut self, now: Time, way: Way, air: &mut Air<'_>) {
        let sites = self.sites(way);
        let may_part = self.cuts.get(&sites).is_none_or(|&end| now >= end + BETWEEN_PARTITIONS);
        if sites.0 != sites.1 && may_part && self.dice.chance(self.faults.partition) {
            self.faults_seen.partitions += 1;
            let until = now + self.dice.up_to(self.faults.partition_max);
            self.cuts.insert(sites, until);
            return;
        }
        let (from, to) = way;
        let Some(member) = self.members.get_mut(&from) else { return };
        if member.transport.break_connection(now, to) {
            self.faults_seen.disconnects += 1;
            self.pump(now, from, air);
        }
    }

    fn schedule(&mut self, at: Time, happening: Happening) {
        self.commands.push(Command::Schedule(at, happening));
    }

    /// The simulation has put something into its queue, or taken it out.
    pub(crate) fn note_queued(&mut self, is_put: bool) {
        match is_put {
            true => self.queued += 1,
            false => self.queued -= 1,
        }
    }

    /// Whether nothing but transports will ever do anything, with so many events in the queue:
    /// that has been so for long.
    pub(crate) fn is_stalled(&mut self, now: Time, events: usize) -> bool {
        if events > self.queued {
            self.active = now;
        }
        now.since(self.active) > QUIET
    }

    /// What went wrong on the network, and how much passed it.
    pub(crate) fn counts(&self) -> (FaultCounts, QuicCounts) {
        let founders = self.members.iter().filter(|(node, _)| !self.layout.is_guest(**node));
        let connections = founders.flat_map(|(node, member)| {
            let others = self.layout.nodes().filter(move |other| node < other);
            others.map(|other| member.transport.stats(other).connections)
        });
        (self.faults_seen, QuicCounts { connections: connections.sum(), ..self.counts })
    }
}
