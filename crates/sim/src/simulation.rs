//! The loop: takes the next event, steps a PE or a connection, schedules what follows.
//!
//! **Time.** A PE that is free takes what has come and handles one message; it is busy for as long
//! as the handler charged, or for the default cost. What it sends leaves when the handler ends, one
//! packet after the other. Idle PEs take no time at all.
//!
//! **Processors.** Where a node has fewer processors than PEs, or other users' processes compute on
//! it, a PE is busy for as long as its part of a processor needs, and what it sends leaves at the
//! end of that. It is told its part as drivers in real time tell it, from how long it ran and how
//! long it waited.
//!
//! **Packets.** Between PEs of one node packets move as values, after the latency of the loopback.
//! To another node they are encoded, meet the link, and are decoded where they arrive, so that what
//! crosses the network in a simulation is what crosses it in production; see `frames`.
//!
//! **Main** is polled between events. What it asks of PE 0 reaches it at once.

mod coordination;
mod ending;
mod frames;
mod membership;
mod relays;

use crate::connection::{Connections, Happening};
use crate::faults::Delays;
use crate::guests::{GuestStep, Roster};
use crate::idleness::Idleness;
use crate::log::Log;
use crate::main_task::MainTask;
use crate::network::Network;
use crate::node::Node;
use crate::options::SimOptions;
use crate::probing::{Probing, Report, Step};
use crate::queue::EventQueue;
use crate::quic::{self, QuicNetwork};
use crate::report::{Ending, SimError, SimReport};
use crate::station::Station;
use bytes::Bytes;
use gridspan_runtime::coordinator::CoordinatorHost;
use gridspan_runtime::message::Packet;
use gridspan_runtime::message::probe::ProbeReport;
use gridspan_runtime::pe::{Core, PendingWork, Spent};
use gridspan_runtime::relay::Relay;
use gridspan_runtime::{COORDINATOR, Job, JobError, Layout, NodeId, PeId, Program, Time, end};
use gridspan_topology::GridSpec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What happens at some time.
enum Event {
    /// A PE may go on.
    Turn(PeId),
    /// A PE may be done on the processors of a node, or the parts that its PEs get change.
    Processors(NodeId),
    /// The relay of a node may have something to do.
    Relay(NodeId),
    /// The coordinator may have something to do, if it is on this node.
    Coordinator(NodeId),
    /// A packet arrives from a PE of the same node.
    Packet { node: NodeId, from: PeId, to: PeId, packet: Packet },
    /// A handler has ended, and what it sent to other nodes leaves.
    Leave(Vec<Outgoing>),
    /// A frame arrives from another node.
    Frame(Arrival),
    /// A packet with which a node measures goes on its way.
    Probe(Step),
    /// Something happens to a guest.
    Guest(NodeId, GuestStep),
    /// Something happens on a connection that can break.
    Connection(Happening),
    /// Something happens on the network under QUIC, or to a transport.
    Quic(quic::Happening),
}

/// Evaluations of a tree that the advisor of broadcasts may make at a time. In virtual time they
/// take none.
const PLANNING: u64 = 20_000;

/// A frame for another node.
struct Outgoing {
    leaves: Time,
    from: NodeId,
    to: NodeId,
    is_bulk: bool,
    frame: Bytes,
}

/// A frame from another node.
struct Arrival {
    from: NodeId,
    to: NodeId,
    frame: Bytes,
}

/// A job on a simulated grid.
pub struct Simulation {
    layout: Arc<Layout>,
    stations: Roster<Station>,
    main: MainTask,
    network: Network,
    connections: Option<Connections>,
    quic: Option<QuicNetwork>,
    delays: Option<Delays>,
    nodes: Roster<Node>,
    /// Guests that have died.
    dead: BTreeSet<NodeId>,
    relays: Roster<Relay>,
    hosts: Roster<CoordinatorHost>,
    /// The node that the coordinator is on, or was on last.
    coordinator_at: NodeId,
    queue: EventQueue<Event>,
    probing: Probing,
    now: Time,
    options: SimOptions,
    log: Log,
    counts: Counts,
    /// What was unfinished when main returned.
    pending: Option<PendingWork>,
    broken: Option<JobError>,
    idleness: Idleness,
    on_quiescence: Option<OnQuiescence>,
}

/// What is called when the coordinator finds the job quiescent.
pub(crate) type OnQuiescence = Box<dyn Fn(&PendingWork) + Send>;

#[derive(Default)]
struct Counts {
    events: u64,
    packets: u64,
    frames: u64,
    wide_area_frames: u64,
    wide_area_bytes: u64,
}

impl Simulation {
    /// Lays a job out on a grid. Memory: about 8 KB for each PE, and what its actors hold.
    pub fn new(job: Job, spec: GridSpec, options: SimOptions) -> Result<Self, SimError> {
        let program = Program::new(job, spec.layout().clone())?;
        let layout = program.layout().clone();
        let station = |pe| Station::new(program.pe(pe), spec.speed(layout.node_of(pe)));
        let stations = layout.pes().map(station).collect();
        let nodes = layout.nodes().map(|node| Node::new(&spec, node, options.processors)).collect();
        let seed = options.seed;
        let relays = layout.nodes().map(|node| program.relay(node)).collect();
        let faults = options.faults.clone();
        let sessions = faults.as_ref().and_then(|faults| faults.sessions);
        let over_quic = faults.as_ref().and_then(|faults| faults.quic);
        let connections = sessions.filter(|_| over_quic.is_none());
        let connections = connections.map(|sessions| Connections::new(sessions, seed));
        let quic = over_quic.map(|faults| QuicNetwork::new(&layout, faults, seed)).transpose();
        let quic = quic.map_err(SimError::Certificates)?;
        let network = Network::new(spec, seed);
        let network = if quic.is_some() { network.of_packets() } else { network };
        let guests = membership::seat(&program, &options.guests)?;
        let mut simulation = Self {
            coordinator_at: program.coordinator_node(),
            hosts: Roster::new(layout.nodes().map(|node| program.coordinator_host(node)).collect()),
            stations: Roster::new(stations),
            main: MainTask::new(program),
            nodes: Roster::new(nodes),
            dead: BTreeSet::new(),
            network,
            relays: Roster::new(relays),
            connections,
            quic,
            delays: faults.map(|faults| Delays::new(faults, seed)),
            queue: EventQueue::new(),
            probing: Probing::default(),
            now: Time::ZERO,
            log: Log::new(options.log),
            options,
            counts: Counts::default(),
            pending: None,
            broken: None,
            idleness: Idleness::default(),
            on_quiescence: None,
            layout,
        };
        simulation.expect(guests);
        simulation.obey_quic();
        Ok(simulation)
    }

    /// Runs the job to its end.
    pub fn run(mut self) -> SimReport {
        self.poll_main();
        let limit = Time::ZERO + self.options.time_limit;
        loop {
            if let Some(error) = self.broken.take() {
                return self.report(Ending::Finished, Err(error));
            }
            if let Some(outcome) = self.stations[PeId(0)].machine.outcome().cloned() {
                return self.report(Ending::Finished, outcome);
            }
            let Some((now, number, event)) = self.queue.pop() else {
                return self.give_up(Ending::Stalled);
            };
            if now > limit {
                return self.give_up(Ending::TimeLimit);
            }
            if self.only_transports_are_active(now, &event) || self.only_upkeep_is_left(now, &event)
            {
                return self.give_up(Ending::Stalled);
            }
            self.now = now;
            self.step(number, event);
        }
    }

    fn step(&mut self, number: u64, event: Event) {
        match event {
            // A turn that was brought forward leaves its old event behind.
            Event::Turn(pe) if self.stations[pe].next_turn != Some((self.now, number)) => {
                return;
            }
            Event::Turn(pe) if self.is_over(pe) => return,
            Event::Turn(pe) => self.turn(pe),
            Event::Processors(node) => self.attend_processors(node, number),
            Event::Relay(node) => self.wake_relay(node, number),
            Event::Coordinator(node) => self.wake_coordinator(node, number),
            Event::Packet { node, from, to, packet } => {
                self.log.add(self.now, from, to, None);
                self.deliver(node, from, to, packet);
            }
            Event::Leave(frames) => self.leave(frames),
            Event::Guest(guest, step) => self.step_guest(guest, step),
            Event::Frame(arrival) => self.receive(arrival),
            Event::Probe(step) => self.probe(step),
            Event::Connection(happening) => self.happen_on_connection(happening),
            Event::Quic(happening) => self.happen_on_quic(happening),
        }
        self.counts.events += 1;
    }

    /// Lets a PE handle its next message.
    fn turn(&mut self, pe: PeId) {
        let at = self.layout.node_of(pe);
        let node = &mut self.nodes[at];
        let station = &mut self.stations[pe];
        station.next_turn = None;
        if node.paused_until > self.now {
            let until = node.paused_until;
            station.next_turn = Some((until, self.queue.push(until, Event::Turn(pe))));
            return;
        }
        let (taking, handling) = station.turn(self.now, &self.options);
        let packets: Vec<_> = station.machine.outbox().drain().collect();
        match &mut node.processors {
            None => {
                let ends = self.now + taking + handling;
                let leaves = self.send(pe, ends, packets);
                let spent = Spent {
                    ran: leaves.since(self.now),
                    waited: Duration::ZERO,
                    communication: Some(taking + leaves.since(ends)),
                };
                self.stations[pe].machine.note_time(spent);
                self.measure(pe, leaves);
                self.stations[pe].busy_until = leaves;
            }
            Some(processors) => {
                let held = station.hold(self.now, (taking, handling), packets);
                processors.begin(self.now, pe, held);
                self.plan_processors(at);
            }
        }
        if let Some(pause) = self.delays.as_mut().and_then(Delays::pause) {
            self.nodes[at].paused_until = self.now + pause;
        }
        if let Some(place) = self.stations[pe].machine.take_coordinator_place() {
            self.note_coordinator(pe, place);
        }
        if pe == PeId(0) {
            self.poll_main();
        }
        self.tell_transport(pe);
        self.plan_relay(at);
        self.schedule_turn(pe);
    }

    /// Sends what a handler that ends at `ends` has left, one packet after the other. Returns when
    /// the last has left.
    fn send(&mut self, pe: PeId, ends: Time, packets: Vec<(PeId, Packet)>) -> Time {
        let (node, speed) = (self.layout.node_of(pe), self.stations[pe].speed);
        let mut leaves = ends;
        let mut frames = Vec::new();
        for (to, packet) in packets {
            if packet.is_spread() {
                let send_cost = speed.takes(self.options.remote_send_cost);
                self.hand_over((node, pe, send_cost), packet, &mut leaves, &mut frames);
            } else if to == pe {
                self.stations[pe].inbox.push((pe, packet));
            } else if to == COORDINATOR {
                self.send_to_coordinator((node, pe, speed), packet, &mut leaves, &mut frames);
            } else if self.layout.node_of(to) == node {
                leaves += speed.takes(self.options.local_send_cost);
                self.send_local(leaves, pe, to, packet);
            } else {
                leaves += speed.takes(self.options.remote_send_cost);
                let there = self.layout.node_of(to);
                let frame = packet.into_frame(pe, to).into();
                frames.push(Outgoing { leaves, from: node, to: there, is_bulk: false, frame });
            }
        }
        if !frames.is_empty() {
            // Links see frames in the order in which they leave, and this handler may take long.
            let at = if self.quic.is_some() { leaves } else { ends };
            self.queue.push(at, Event::Leave(frames));
        }
        leaves
    }

    /// Sees who is done on the processors of a node. An event that was overtaken stays behind.
    fn attend_processors(&mut self, at: NodeId, number: u64) {
        if self.nodes[at].planned.take_if(|plan| *plan == (self.now, number)).is_none() {
            return;
        }
        while let Some(pe) = self.nodes[at].take_done(self.now) {
            let packets = self.stations[pe].release(self.now);
            let leaves = self.send(pe, self.now, packets);
            self.measure(pe, leaves);
            self.stations[pe].busy_until = leaves;
            self.schedule_turn(pe);
        }
        self.plan_processors(at);
    }

    fn plan_processors(&mut self, at: NodeId) {
        let node = &mut self.nodes[at];
        let Some(next) = node.next() else { return };
        if node.planned.is_none_or(|(planned, _)| planned != next) {
            node.planned = Some((next, self.queue.push(next, Event::Processors(at))));
        }
    }

    /// Begins what a PE is asked to measure of the links from its node.
    fn measure(&mut self, pe: PeId, begin: Time) {
        let node = self.layout.node_of(pe);
        for order in self.stations[pe].machine.take_probe_orders() {
            for (at, step) in self.probing.begin(begin, (pe, node), order) {
                self.queue.push(at, Event::Probe(step));
            }
        }
    }

    fn probe(&mut self, step: Step) {
        let (next, report) = self.probing.step(self.now, step, &mut self.network);
        if let Some((at, step)) = next {
            self.queue.push(at, Event::Probe(step));
        }
        if let Some(Report { pe, id, found }) = report {
            let station = &mut self.stations[pe];
            let send_cost = Some(station.speed.takes(self.options.remote_send_cost));
            let report = ProbeReport { id, send_cost, found };
            station.actions.push(Box::new(move |core: &mut Core| core.probed(report)));
            self.schedule_turn(pe);
        }
    }

    /// Sees to it that a PE has its next turn when it has something to do.
    fn schedule_turn(&mut self, pe: PeId) {
        let station = &mut self.stations[pe];
        if station.held.is_some() {
            return;
        }
        let Some(at) = station.wakeup().map(|at| at.max(self.now)) else { return };
        if station.next_turn.is_none_or(|(planned, _)| at < planned) {
            station.next_turn = Some((at, self.queue.push(at, Event::Turn(pe))));
        }
    }

    /// Sends a packet inside of a node.
    fn send_local(&mut self, leaves: Time, from: PeId, to: PeId, packet: Packet) {
        let node = self.layout.node_of(if to == COORDINATOR { from } else { to });
        let mut at = leaves + self.network.spec().loopback().duration();
        if let Some(delays) = &mut self.delays {
            at = delays.local(from, to, at);
        }
        self.counts.packets += 1;
        self.queue.push(at, Event::Packet { node, from, to, packet });
    }

    /// Gives a packet to a PE of a node, or to the host of the coordinator there.
    fn deliver(&mut self, node: NodeId, from: PeId, to: PeId, packet: Packet) {
        if to == COORDINATOR {
            return self.deliver_to_host(node, from, packet);
        }
        if self.is_over(to) {
            return;
        }
        self.stations[to].inbox.push((from, packet));
        self.schedule_turn(to);
    }

    /// Lets main go on if what it waited for has come.
    fn poll_main(&mut self) {
        let ended = self.main.poll();
        let mut actions = self.main.take_actions();
        if let Some(outcome) = ended {
            self.pending = Some(self.pending_now());
            actions.push(end(outcome));
        }
        if !actions.is_empty() {
            self.stations[PeId(0)].actions.append(&mut actions);
            self.schedule_turn(PeId(0));
        }
    }
}
