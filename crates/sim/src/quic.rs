//! Nodes that communicate over QUIC in virtual time.
//!
//! Every node has the production transport, without sockets and clocks. Its datagrams pass the
//! links of the grid one by one. They may be lost, delayed, reordered or duplicated, and are
//! dropped while two sites cannot reach each other. The transport reacts by itself: it detects
//! failures by its heartbeats, connects again and resumes sessions, or declares a node lost.
//!
//! Heartbeats never end, so the queue of a stalled job is not empty; see
//! [`QuicNetwork::is_stalled`].

use crate::faults::{Delays, FaultCounts, QuicCounts, QuicFaults};
use bytes::{Bytes, BytesMut};
use gridspan_runtime::net::{
    FrameClass, LossReason, SendError, TransportEvent, TransportLimits, VirtualJob,
    VirtualTransport,
};
use gridspan_runtime::{Layout, NodeId, SiteId, Time};
use gridspan_topology::NodeLinks;
use gridspan_topology::dice::Dice;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum time between a datagram and its duplicate.
const DUPLICATE_DELAY_MAX: Duration = Duration::from_millis(50);
/// Maximum time, besides a round trip, between a frame and the break of its connection.
const BREAK_DELAY_MAX: Duration = Duration::from_millis(5);
/// Minimum time between two partitions of two sites. Nodes are lost after 3 s of silence, and two
/// partitions of 1.5 s must not add up to that.
const BETWEEN_PARTITIONS: Duration = Duration::from_secs(3);
/// Time for which a node is cut off so that others declare it lost: longer than their timeout.
const CUT_OFF: Duration = Duration::from_secs(6);
/// Time that a finished guest waits for confirmations of the frames that it sent.
const FLUSH: Duration = Duration::from_secs(3);
/// Time without other activity than that of transports after which a job counts as stalled. A node
/// that never answered is declared lost after 20 s, after which a job may continue.
const QUIET: Duration = Duration::from_secs(25);

/// The sender and the receiver of datagrams or frames.
type Way = (NodeId, NodeId);

/// An event on the network or of a transport.
pub(crate) enum QuicEvent {
    /// A datagram arrives.
    Arrives { way: Way, datagram: BytesMut },
    /// The timer of a node's transport may have expired.
    Due { node: NodeId },
    /// The connection between two nodes breaks, or all between their sites do.
    Breaks { way: Way },
    /// A finished guest stops waiting for confirmations.
    Closes { node: NodeId },
}

/// A command to the simulation.
pub(crate) enum Command {
    /// Schedule an event at this time.
    Schedule(Time, QuicEvent),
    /// Deliver a frame that arrived this way.
    Deliver(Way, Bytes),
    /// Report to a node that another is lost.
    Lose { at: NodeId, node: NodeId, reason: LossReason },
    /// A transport refused a frame that it must take.
    Fail(String),
}

/// The network and the delays that datagrams pass.
pub(crate) struct DatagramPath<'a> {
    pub(crate) network: &'a mut NodeLinks,
    pub(crate) delays: Option<&'a mut Delays>,
}

struct Member {
    transport: VirtualTransport,
    /// Time of its timer event in the queue.
    planned: Option<Time>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    /// The node has ended. The transport closes when others have received all frames that it sent,
    /// or after `FLUSH`.
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
    /// Times until which two sites, the lower first, do not reach each other.
    cuts: BTreeMap<(SiteId, SiteId), Time>,
    /// Times until which a node reaches no other node.
    cut_off: BTreeMap<NodeId, Time>,
    faults_seen: FaultCounts,
    counts: QuicCounts,
    commands: Vec<Command>,
    /// Number of events of transports in the queue of the simulation.
    queued: usize,
    /// Last time at which the queue held another event.
    active: Time,
}

impl QuicNetwork {
    /// Creates the transports of the founders, each of which connects to node 0. As in a real run,
    /// node 0 awaits their dials.
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
            let transport = network.enter(Time::ZERO, node)?;
            match node {
                NodeId(0) => {
                    let others = layout.nodes().filter(|&other| other != node);
                    others.for_each(|other| transport.await_dial(Time::ZERO, other));
                }
                _ => transport.connect(NodeId(0)),
            }
            network.schedule(Time::ZERO, QuicEvent::Due { node });
        }
        Ok(network)
    }

    /// Adds a guest, which connects to all founders. Returns the address at which others reach it.
    pub(crate) fn join(&mut self, now: Time, guest: NodeId) -> Result<String, String> {
        let founders: Vec<NodeId> = self.layout.nodes().collect();
        let transport = self.enter(now, guest)?;
        founders.into_iter().for_each(|founder| transport.connect(founder));
        let contact = transport.contact();
        self.schedule(now, QuicEvent::Due { node: guest });
        Ok(contact)
    }

    fn enter(&mut self, now: Time, node: NodeId) -> Result<&mut VirtualTransport, String> {
        let transport = self.job.transport(node, now).map_err(|error| error.to_string())?;
        let member = Member { transport, planned: None, stage: Stage::Running };
        Ok(&mut self.members.entry(node).or_insert(member).transport)
    }

    /// Gives a node the address of a guest.
    pub(crate) fn meet(&mut self, node: NodeId, guest: NodeId, contact: &str) {
        if let Some(member) = self.members.get_mut(&node) {
            member.transport.meet(guest, contact);
        }
    }

    /// Kills a node: datagrams that it has sent stay under way, and nothing else follows.
    pub(crate) fn kill(&mut self, node: NodeId) {
        self.members.remove(&node);
    }

    /// Cuts off a live node for long enough that the others declare it lost.
    pub(crate) fn cut_off(&mut self, now: Time, node: NodeId) {
        self.cut_off.insert(node, now + CUT_OFF);
    }

    /// Ends a guest: its transport closes when the others have received all frames that it sent, or
    /// after `FLUSH`.
    pub(crate) fn finish(&mut self, now: Time, guest: NodeId) {
        if let Some(member) = self.members.get_mut(&guest)
            && member.stage == Stage::Running
        {
            member.stage = Stage::Leaving;
            self.schedule(now, QuicEvent::Due { node: guest });
            self.schedule(now + FLUSH, QuicEvent::Closes { node: guest });
        }
    }

    /// Takes the commands of the last calls, in order.
    pub(crate) fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Accepts a frame for another node, which leaves with the next [`pump`](Self::pump). At
    /// random, schedules a break of the connection.
    pub(crate) fn send(
        &mut self,
        now: Time,
        way: Way,
        is_bulk: bool,
        frame: Bytes,
        links: &NodeLinks,
    ) {
        let (from, to) = way;
        let Some(member) = self.members.get_mut(&from) else { return };
        let class = if is_bulk { FrameClass::Bulk } else { FrameClass::Auto };
        match member.transport.send(to, class, frame) {
            Ok(()) => {}
            // The loss was reported to the node.
            Err(SendError::Lost(_)) => {}
            // The node does not know the guest yet, or has forgotten it.
            Err(SendError::NoSuchPeer(_)) if self.layout.is_guest(to) => {}
            Err(error) => self.commands.push(Command::Fail(format!("{from} to {to}: {error}"))),
        }
        if self.dice.chance(self.faults.disconnect) {
            let round_trip = links.latency(from, to) + links.latency(to, from);
            let at = now + self.dice.up_to(round_trip + BREAK_DELAY_MAX);
            self.schedule(at, QuicEvent::Breaks { way });
        }
    }

    /// Handles a scheduled event. The caller delays it while its node is paused.
    pub(crate) fn handle(&mut self, now: Time, event: QuicEvent, path: &mut DatagramPath<'_>) {
        match event {
            QuicEvent::Arrives { way: (from, to), datagram } => {
                if let Some(member) = self.members.get_mut(&to) {
                    member.transport.handle_datagram(now, from, datagram);
                    self.pump(now, to, path);
                }
            }
            QuicEvent::Due { node } => {
                let Some(member) = self.members.get_mut(&node) else { return };
                member.planned.take_if(|planned| *planned <= now);
                if member.transport.poll_timeout().is_some_and(|due| due <= now) {
                    member.transport.handle_timeout(now);
                }
                self.pump(now, node, path);
            }
            QuicEvent::Breaks { way } => self.break_connection(now, way, path),
            QuicEvent::Closes { node } => {
                if let Some(member) = self.members.get_mut(&node) {
                    member.close(now);
                    self.pump(now, node, path);
                }
            }
        }
    }

    /// The node whose pause delays an event, if there is one.
    pub(crate) fn place(event: &QuicEvent) -> Option<NodeId> {
        match event {
            QuicEvent::Arrives { way: (_, to), .. } => Some(*to),
            QuicEvent::Due { node } | QuicEvent::Closes { node } => Some(*node),
            QuicEvent::Breaks { .. } => None,
        }
    }

    /// Processes the events of a transport, sends its datagrams and plans its timer.
    pub(crate) fn pump(&mut self, now: Time, node: NodeId, path: &mut DatagramPath<'_>) {
        let Some(mut member) = self.members.remove(&node) else { return };
        loop {
            while let Some(event) = member.transport.poll_event() {
                self.hand_up(node, event);
            }
            let mut is_silent = true;
            member.transport.transmit(now, &mut |to, datagram| {
                is_silent = false;
                self.travel(now, (node, to), datagram, path);
            });
            if is_silent {
                break;
            }
        }
        if member.stage == Stage::Leaving && member.transport.is_flushed() {
            member.close(now);
            let depart = &mut |to, datagram| self.travel(now, (node, to), datagram, path);
            member.transport.transmit(now, depart);
        }
        // If an earlier timer event is in the queue, it fires first and plans the next one.
        let due = member.transport.poll_timeout().map(|due| due.max(now));
        if let Some(due) = due
            && member.planned.is_none_or(|planned| due < planned)
        {
            member.planned = Some(due);
            self.schedule(due, QuicEvent::Due { node });
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

    fn travel(&mut self, now: Time, way: Way, datagram: BytesMut, path: &mut DatagramPath<'_>) {
        let (from, to) = way;
        self.counts.datagrams += 1;
        if self.is_cut(now, way) {
            self.faults_seen.cut_off += 1;
            return;
        }
        let is_lost = self.dice.chance(self.faults.loss);
        let arrives = path.network.carry(now, from, to, datagram.len() as u64);
        let Some(mut at) = arrives.filter(|_| !is_lost) else {
            self.counts.datagrams_lost += 1;
            return;
        };
        if let Some(delays) = &mut path.delays {
            at = delays.frame(from, to, at);
        }
        if self.dice.chance(self.faults.duplicate) {
            self.faults_seen.duplicated += 1;
            let again = at + self.dice.up_to(DUPLICATE_DELAY_MAX);
            let datagram = datagram.clone();
            self.schedule(again, QuicEvent::Arrives { way, datagram });
        }
        self.schedule(at, QuicEvent::Arrives { way, datagram });
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

    fn break_connection(&mut self, now: Time, way: Way, path: &mut DatagramPath<'_>) {
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
            self.pump(now, from, path);
        }
    }

    fn schedule(&mut self, at: Time, event: QuicEvent) {
        self.commands.push(Command::Schedule(at, event));
    }

    /// Records that the simulation has put an event into its queue, or taken it out.
    pub(crate) fn note_queued(&mut self, is_put: bool) {
        match is_put {
            true => self.queued += 1,
            false => self.queued -= 1,
        }
    }

    /// Whether some of this many events of the simulation are not events of transports.
    pub(crate) fn has_others(&self, events: usize) -> bool {
        events > self.queued
    }

    /// Notes that something other than transports is active.
    pub(crate) fn note_activity(&mut self, now: Time) {
        self.active = now;
    }

    /// Whether only transports have been active for `QUIET`.
    pub(crate) fn is_stalled(&self, now: Time) -> bool {
        now.since(self.active) > QUIET
    }

    /// Counts of faults and of traffic on the network.
    pub(crate) fn counts(&self) -> (FaultCounts, QuicCounts) {
        let founders = self.members.iter().filter(|(node, _)| !self.layout.is_guest(**node));
        let connections = founders.flat_map(|(node, member)| {
            let others = self.layout.nodes().filter(move |other| node < other);
            others.map(|other| member.transport.stats(other).connections)
        });
        (self.faults_seen, QuicCounts { connections: connections.sum(), ..self.counts })
    }
}
