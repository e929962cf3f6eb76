//! The event loop: takes the next event, steps a PE or a connection, and schedules the events that
//! follow.
//!
//! **Time.** A free PE accepts the packets that have arrived and handles one message. It is busy
//! for as long as the handler charged, or for the default cost. Its packets leave when the handler
//! ends, one after the other. A turn in which a PE finds nothing to do takes no time.
//!
//! **Processors.** Where a node has fewer processors than PEs, or other users' processes compute on
//! it, a PE is busy until its share of a processor has done the work. Its packets leave then. The
//! PE learns its share from the times for which it ran and waited, as under real-time drivers.
//!
//! **Packets.** Packets between PEs of one node move as values, after the latency of the loopback.
//! Packets to another node are encoded, pass the link, and are decoded on arrival, so that the
//! bytes on the network are the same as in production; see `frames`.
//!
//! **Main** is polled at the start, and after each turn of PE 0 if main was woken. Its actions
//! reach PE 0 without a delay, unless main acts very often at one virtual time.

mod checkpoints;
mod coordination;
mod ending;
mod frames;
mod membership;
mod relays;

use crate::connection::{ConnectionEvent, Connections};
use crate::faults::Delays;
use crate::former_run::{FormerRun, LateFrame, SentFrames, Stopped};
use crate::guests::{GuestStep, Roster};
use crate::idleness::Idleness;
use crate::log::Log;
use crate::main_task::MainTask;
use crate::node::Node;
use crate::options::SimOptions;
use crate::probing::{Probing, Report, Step};
use crate::queue::EventQueue;
use crate::quic::{QuicEvent, QuicNetwork};
use crate::report::{Ending, SimError, SimReport};
use crate::station::{Output, Station, Turn};
use bytes::Bytes;
pub use checkpoints::Halted;
use gridspan_record::TimeUse;
use gridspan_runtime::coordinator::CoordinatorHost;
use gridspan_runtime::message::Packet;
use gridspan_runtime::message::probe::ProbeReport;
use gridspan_runtime::pe::{Core, PeCommand, PendingWork, Spent};
use gridspan_runtime::relay::Relay;
use gridspan_runtime::{
    COORDINATOR, CheckpointSegment, CheckpointStore, Job, JobError, Layout, NodeId, PeId, Program,
    Time, end,
};
use gridspan_topology::{GridSpec, NodeLinks};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A timed event.
enum Event {
    /// A PE may have its next turn.
    Turn(PeId),
    /// A PE may have finished its turn on the shared processors of a node, or the shares of the
    /// node's PEs change.
    Processors(NodeId),
    /// The relay of a node may have work.
    Relay(NodeId),
    /// The coordinator may have work, if it is on this node.
    Coordinator(NodeId),
    /// A packet arrives from a PE of the same node.
    Packet { node: NodeId, from: PeId, to: PeId, packet: Packet },
    /// Frames of a PE, a relay or the coordinator leave for other nodes.
    Leave(Vec<Outgoing>),
    /// A frame arrives from another node.
    Frame(Arrival),
    /// A lost node of the former run sends a frame again.
    Late(LateFrame),
    /// A measurement packet of a node makes its next step.
    Probe(Step),
    /// An event of a guest.
    Guest(NodeId, GuestStep),
    /// An event on a connection that can break.
    Connection(ConnectionEvent),
    /// An event on the network under QUIC, or of a transport.
    Quic(QuicEvent),
}

/// Number of tree evaluations that the broadcast advisor may make at a time. They take no virtual
/// time.
const PLANNING: u64 = 20_000;

/// Number of events between two calls of an observer: few, since a handler may compute for long,
/// and enough that an observer with a clock costs little.
const OBSERVED: u64 = 64;

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
///
/// ```
/// use gridspan_runtime::{Grid, Job};
/// use gridspan_sim::{SimOptions, Simulation};
/// use gridspan_topology::GridSpec;
/// use std::time::Duration;
///
/// let job = Job::new("pause").main(async |grid: Grid| {
///     grid.sleep(Duration::from_secs(3_600)).await?; // takes no real time
///     Ok(())
/// });
/// let grid = GridSpec::from_emulate("2x2,wan=32ms").unwrap();
/// let report = Simulation::new(job, grid, SimOptions::with_seed(1))?.run();
/// assert_eq!(report.outcome, Ok(()));
/// assert!(report.virtual_time.as_secs_f64() >= 3_600.0);
/// # Ok::<(), gridspan_sim::SimError>(())
/// ```
pub struct Simulation {
    layout: Arc<Layout>,
    stations: Roster<Station>,
    main: MainTask,
    network: NodeLinks,
    connections: Option<Connections>,
    quic: Option<QuicNetwork>,
    delays: Option<Delays>,
    nodes: Roster<Node>,
    /// Nodes that were killed.
    dead: BTreeSet<NodeId>,
    /// Founders that were declared lost in error. They end when they learn of it.
    mistaken: BTreeSet<NodeId>,
    relays: Roster<Relay>,
    hosts: Roster<CoordinatorHost>,
    /// The node of the coordinator, or its last node while it moves.
    coordinator_at: NodeId,
    queue: EventQueue<Event>,
    probing: Probing,
    now: Time,
    options: SimOptions,
    log: Log,
    counts: Counts,
    /// Unfinished work when main returned.
    pending: Option<PendingWork>,
    broken: Option<JobError>,
    idleness: Idleness,
    on_detection: Option<OnDetection>,
    is_cancelled: Option<Box<dyn Fn() -> bool + Send>>,
    observe: Option<Box<dyn FnMut(Time, u64) + Send>>,
    /// The checkpoints of each node.
    kept: Vec<CheckpointStore>,
    /// The manifest of the checkpoint from which the job continues, if there is one.
    manifest: Option<Bytes>,
    /// Time at which the simulation stops the run.
    halts_at: Option<Time>,
    /// Time at which the simulation orders the job to stop after a checkpoint, and the nodes that
    /// leave then.
    pauses_at: Option<(Time, Vec<NodeId>)>,
    /// Whether the job has stopped after that checkpoint.
    is_paused: bool,
    /// The last frames of a run that is to be stopped.
    sent: SentFrames,
    /// The former run, if its lost nodes come back.
    former: Option<FormerRun>,
}

/// A state of the job that the coordinator has detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detected {
    Quiescence,
    /// The completion of a phase.
    Completion,
}

/// Callback for each detection, with the unfinished work of the job.
pub(crate) type OnDetection = Box<dyn Fn(Detected, &PendingWork) + Send>;

#[derive(Default)]
struct Counts {
    events: u64,
    packets: u64,
    frames: u64,
    wide_area_frames: u64,
    wide_area_bytes: u64,
}

impl Simulation {
    /// Prepares a job on a grid. Memory: about 8 KB for each PE, plus the state of its actors.
    ///
    /// # Errors
    ///
    /// [`SimError::Job`] if the job's definition is invalid; [`SimError::NoPlace`] if a guest's
    /// site does not exist; [`SimError::Certificates`] if nodes over QUIC cannot get certificates;
    /// [`SimError::LostNodesOverQuic`] if nodes of the layout are to be lost over QUIC;
    /// [`SimError::NoSuchNode`] if a node that is to be lost does not exist.
    pub fn new(job: Job, spec: GridSpec, options: SimOptions) -> Result<Self, SimError> {
        let program = Program::new(job, spec.layout().clone())?;
        Self::of(program, spec, options)
    }

    fn of(program: Program, spec: GridSpec, mut options: SimOptions) -> Result<Self, SimError> {
        if let Some(limit) = program.time_limit() {
            options.time_limit = options.time_limit.min(limit);
        }
        let program = program.with_uplinks_of(&spec);
        let layout = program.layout().clone();
        let station = |pe| Station::new(program.pe(pe), spec.speed(layout.node_of(pe)));
        let stations = layout.pes().map(station).collect();
        let nodes = layout.nodes().map(|node| Node::new(&spec, node, options.processors)).collect();
        let seed = options.seed;
        let relays = layout.nodes().map(|node| program.relay(node)).collect();
        let faults = options.faults.clone();
        let sessions = faults.as_ref().and_then(|faults| faults.sessions);
        let over_quic = faults.as_ref().and_then(|faults| faults.quic);
        if over_quic.is_some() && !options.lost_nodes.is_empty() {
            return Err(SimError::LostNodesOverQuic);
        }
        membership::check_lost(&options.lost_nodes, &layout)?;
        let connections = sessions.filter(|_| over_quic.is_none());
        let connections = connections.map(|sessions| Connections::new(sessions, seed));
        let quic = over_quic.map(|faults| QuicNetwork::new(&layout, faults, seed)).transpose();
        let quic = quic.map_err(SimError::Certificates)?;
        let network = NodeLinks::new(spec, seed);
        let network = if quic.is_some() { network.of_packets() } else { network };
        let guests = membership::prepare(&program, &options.guests)?;
        let mut simulation = Self {
            coordinator_at: program.coordinator_node(),
            hosts: Roster::new(layout.nodes().map(|node| program.coordinator_host(node)).collect()),
            stations: Roster::new(stations),
            main: MainTask::new(program),
            nodes: Roster::new(nodes),
            dead: BTreeSet::new(),
            mistaken: BTreeSet::new(),
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
            on_detection: None,
            is_cancelled: None,
            observe: None,
            kept: layout.nodes().map(|_| CheckpointStore::default()).collect(),
            manifest: None,
            halts_at: None,
            pauses_at: None,
            is_paused: false,
            sent: SentFrames::default(),
            former: None,
            layout,
        };
        simulation.expect(guests);
        simulation.expect_losses();
        simulation.obey_quic();
        Ok(simulation)
    }

    /// Makes the run end with [`JobError::Cancelled`] once `is_cancelled`, which is called before
    /// each event, returns true.
    pub fn cancelled_by(mut self, is_cancelled: impl Fn() -> bool + Send + 'static) -> Self {
        self.is_cancelled = Some(Box::new(is_cancelled));
        self
    }

    /// Calls `observe` after every 64 events, with the virtual time and the number of events so
    /// far. It does not change the run.
    pub fn observed_by(mut self, observe: impl FnMut(Time, u64) + Send + 'static) -> Self {
        self.observe = Some(Box::new(observe));
        self
    }

    /// Runs the job to its end.
    pub fn run(self) -> SimReport {
        self.run_to_end().0
    }

    /// Runs the job to its end, or until it is to be stopped. A stopped run also returns the state
    /// with which the job can continue.
    fn run_to_end(mut self) -> (SimReport, Option<Stopped>) {
        self.poll_main();
        // Virtual time cannot pass `Time::MAX`, so an endless job would never exceed that limit.
        let last = Time(Time::MAX.as_nanos() - 1);
        let limit = (Time::ZERO + self.options.time_limit).min(last);
        loop {
            if let Some(error) = self.broken.take() {
                return (self.report(Ending::Finished, Err(error)), None);
            }
            if let Some(outcome) = self.outcome() {
                return (self.report(Ending::Finished, outcome), None);
            }
            if self.is_paused {
                return self.halt();
            }
            let Some((now, number, event)) = self.queue.pop() else {
                return (self.give_up(Ending::Stalled), None);
            };
            if self.halts_at.is_some_and(|at| now > at) {
                return self.halt();
            }
            if now > limit {
                return (self.give_up(Ending::TimeLimit), None);
            }
            if self.is_cancelled.as_ref().is_some_and(|is_cancelled| is_cancelled()) {
                return (self.report(Ending::Finished, Err(JobError::Cancelled)), None);
            }
            if self.only_transports_are_active(now, &event)
                || self.only_upkeep_is_left(now, (number, &event))
            {
                return (self.give_up(Ending::Stalled), None);
            }
            self.now = now;
            if let Some((_, leaving)) = self.pauses_at.take_if(|(at, _)| now >= *at) {
                self.pause(leaving);
            }
            self.step(number, event);
        }
    }

    fn step(&mut self, number: u64, event: Event) {
        match event {
            // When a turn is brought forward, its old event stays in the queue.
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
            Event::Late(late) => self.receive_late(late),
            Event::Probe(step) => self.probe(step),
            Event::Connection(event) => self.handle_connection_event(event),
            Event::Quic(event) => self.handle_quic_event(event),
        }
        self.counts.events += 1;
        if self.counts.events.is_multiple_of(OBSERVED)
            && let Some(observe) = &mut self.observe
        {
            observe(self.now, self.counts.events);
        }
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
        let turn = station.turn(self.now, &self.options);
        match &mut node.processors {
            None => {
                let Turn { taking, handling, output } = turn;
                let ends = self.now + taking + handling;
                let leaves = self.send(pe, ends, output.packets);
                let spent = Spent {
                    ran: leaves.since(self.now),
                    waited: Duration::ZERO,
                    communication: Some(taking.saturating_add(leaves.since(ends))),
                };
                let station = &mut self.stations[pe];
                station.machine.note_time(spent);
                station.machine.record_use(ends, TimeUse::Runtime);
                station.machine.record_use(leaves, TimeUse::Network);
                station.busy_until = leaves;
                self.obey(pe, leaves, output.commands);
            }
            Some(processors) => {
                let held = station.hold(self.now, turn);
                processors.begin(self.now, pe, held);
                self.plan_processors(at);
            }
        }
        let ran = self.now.since(self.nodes[at].paused_until);
        if let Some(pause) = self.delays.as_mut().and_then(|delays| delays.pause(ran)) {
            self.nodes[at].paused_until = self.now + pause;
        }
        if pe == PeId(0) {
            self.poll_main();
        }
        self.finish_transport(pe);
        self.plan_relay(at);
        self.schedule_turn(pe);
    }

    /// Sends the packets of a handler that ends at `ends`, one after the other. Returns the time at
    /// which the last one leaves.
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
            // Frames wait for the end of the handler, because links must get frames in the order in
            // which they leave.
            let at = if self.quic.is_some() { leaves } else { ends };
            self.queue.push(at, Event::Leave(frames));
        }
        leaves
    }

    /// Releases the PEs that are done on the processors of a node. Ignores an event that was
    /// replaced by an earlier one.
    fn attend_processors(&mut self, at: NodeId, number: u64) {
        if self.nodes[at].planned.take_if(|plan| *plan == (self.now, number)).is_none() {
            return;
        }
        while let Some(pe) = self.nodes[at].take_done(self.now) {
            let Output { commands, packets } = self.stations[pe].release(self.now);
            let leaves = self.send(pe, self.now, packets);
            self.stations[pe].machine.record_use(leaves, TimeUse::Network);
            let busy_until = &mut self.stations[pe].busy_until;
            *busy_until = leaves.max(*busy_until);
            self.obey(pe, leaves, commands);
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

    /// Carries out the commands of a PE. Measurements of links start at `begin`.
    fn obey(&mut self, pe: PeId, begin: Time, commands: Vec<PeCommand>) {
        let node = self.layout.node_of(pe);
        for command in commands {
            match command {
                PeCommand::Probe(order) => {
                    for (at, step) in self.probing.begin(begin, (pe, node), order) {
                        self.queue.push(at, Event::Probe(step));
                    }
                }
                PeCommand::Meet { guest, contact } => self.meet(node, guest, &contact),
                PeCommand::CoordinatorAt(place) => self.note_coordinator(pe, place),
                // The coordinator asks for these only in real time.
                PeCommand::Look { .. } | PeCommand::Diagnose => {}
                PeCommand::Keep(segment) => self.keep(pe, &segment),
                PeCommand::CheckpointComplete { manifest, is_paused } => {
                    if let Err(error) = self.kept[node.index()].complete(manifest) {
                        self.broken = Some(error.into());
                    }
                    if is_paused && pe == PeId(0) {
                        self.is_paused = true;
                    }
                }
            }
        }
    }

    /// Orders main's PE to stop the job after a checkpoint.
    fn pause(&mut self, leaving: Vec<NodeId>) {
        let pause = move |core: &mut Core| {
            if let Err(reason) = core.pause(leaving, false) {
                end(Err(JobError::failed(reason)))(core);
            }
        };
        self.stations[PeId(0)].actions.push(Box::new(pause));
        self.schedule_turn(PeId(0));
    }

    /// Keeps a segment of a checkpoint, and tells the PE when its part is complete.
    fn keep(&mut self, pe: PeId, segment: &CheckpointSegment) {
        let store = &mut self.kept[self.layout.node_of(pe).index()];
        let Some(part) = store.keep(segment) else { return };
        let checkpoint = segment.checkpoint();
        let confirm = move |core: &mut Core| core.checkpoint_kept(checkpoint, part);
        self.stations[pe].actions.push(Box::new(confirm));
        self.schedule_turn(pe);
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

    /// Schedules the next turn of a PE, if it has work.
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

    /// Sends a packet inside a node.
    fn send_local(&mut self, leaves: Time, from: PeId, to: PeId, packet: Packet) {
        let node = self.layout.node_of(if to == COORDINATOR { from } else { to });
        let mut at = leaves + self.network.spec().loopback().duration();
        if let Some(delays) = &mut self.delays {
            at = delays.local(from, to, at);
        }
        self.counts.packets += 1;
        self.queue.push(at, Event::Packet { node, from, to, packet });
    }

    /// Delivers a packet to a PE of a node, or to the coordinator host there.
    fn deliver(&mut self, node: NodeId, from: PeId, to: PeId, packet: Packet) {
        if to == COORDINATOR {
            return self.deliver_to_host(node, from, packet);
        }
        if self.is_over(to) {
            return;
        }
        let station = &mut self.stations[to];
        let packet = match station.machine.is_recorded() {
            true => packet.stamped(self.now.as_nanos()),
            false => packet,
        };
        station.inbox.push((from, packet));
        self.schedule_turn(to);
    }

    /// Polls main if it was woken.
    fn poll_main(&mut self) {
        let ended = self.main.poll();
        let mut actions = self.main.take_actions();
        if let Some(outcome) = ended {
            self.pending = Some(self.pending_now());
            actions.push(end(outcome));
        }
        if !actions.is_empty() {
            let carried_out = self.main.carried_out_at(self.now);
            let station = &mut self.stations[PeId(0)];
            station.busy_until = station.busy_until.max(carried_out);
            station.actions.append(&mut actions);
            self.schedule_turn(PeId(0));
        }
    }
}
