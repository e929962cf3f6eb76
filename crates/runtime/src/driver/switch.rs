//! Delivers packets of a node's PEs to other PEs, of the same node or over the network.

use super::affinity::Affinity;
use super::checkpoints::CheckpointKeeper;
use super::coordinator::{CoordinatorDriver, Surroundings};
use super::ending::Ending;
use super::gauge::Gauge;
use super::inbox::Inbox;
use super::main_state::MainState;
use crate::address::id::COORDINATOR;
use crate::coordinator::{CoordinatorCommand, CoordinatorEvent, PlanningJob};
use crate::message::frame::Frame;
use crate::message::limits::Limits;
use crate::message::probe::ProbeOrder;
use crate::message::telemetry::{LinkReading, NodeReadings, TelemetryLease, TelemetrySample};
use crate::message::{Control, CoordinatorPlace, Packet};
use crate::pe::PeCommand;
use crate::relay::{Relay, RelayCommand};
use gridspan_topology::{Layout, NodeId, PeId, Time};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// The network as seen by the PEs of a node.
pub(crate) trait Network: Send + Sync {
    /// Queues a frame for another node; a frame that `is_bulk` does not delay others, whatever its
    /// size. All PEs of the node may call this.
    fn send(&self, to: NodeId, frame: Frame, is_bulk: bool);
    /// Sets the address of a guest, before anything is sent to it.
    fn meet(&self, guest: NodeId, contact: &str);
    /// Notes where the coordinator runs now.
    fn note_coordinator(&self, place: CoordinatorPlace);
    /// Starts a measurement by this node; the first PE receives the results.
    fn probe(&self, order: ProbeOrder);
    /// Determines whether all bytes that had been sent at the last call have arrived, and reports
    /// that to the first PE through [`Switch::looked`].
    fn look(&self, round: u64);
    /// Notifies the network that the relay's next timer is earlier than before.
    fn look_again(&self);
    /// Notifies the network that the relay has to run now; the first PE of this node may be busy.
    fn hurry(&self);
    /// Bytes of frames that the transport has not accepted yet.
    fn backlog_bytes(&self) -> usize;
    /// The nodes that are suspected because they are silent, each with the time since the
    /// suspicion.
    fn silences(&self) -> Vec<(NodeId, Duration)>;
    /// The traffic that this node has sent, by receiving site.
    fn sent(&self) -> Vec<LinkReading>;
}

/// Value of `due_ns` if no timer is set.
const NEVER: u64 = u64::MAX;

/// Time slice of the planner: about the duration of a full plan for 64 nodes.
const PLANNING: Duration = Duration::from_millis(50);

/// Reason that not all packets were sent.
pub(super) enum Undelivered {
    /// The PE does not exist.
    Stranger(PeId),
    /// The inbox of the PE exceeds its hard limit.
    Full(PeId),
}

/// Connects the PEs of a node.
pub(super) struct Switch {
    /// Reference to itself, for the threads that it starts.
    me: Weak<Self>,
    pub(super) layout: Arc<Layout>,
    pub(super) node: NodeId,
    first_pe: u32,
    inboxes: Vec<Inbox>,
    /// The counters of the PEs, in the order of the inboxes.
    gauges: Vec<Gauge>,
    network: Option<Arc<dyn Network>>,
    relay: Mutex<Relay>,
    /// Driver of the job's coordinator, or of the forwarding of packets to it.
    coordinator: CoordinatorDriver,
    /// Time of the relay's next timer, in nanoseconds since `begin`.
    due_ns: AtomicU64,
    /// Whether the relay has to run at once.
    #[cfg(feature = "net")]
    is_nudged: Arc<AtomicBool>,
    /// Bytes that wait in the relay: of incomplete tree broadcasts and multicasts, and of messages
    /// of agents.
    carried_bytes: AtomicUsize,
    /// Threads of the coordinator, and of planners, that may still run.
    threads: Mutex<Vec<JoinHandle<()>>>,
    begin: Instant,
    /// When the clock of the PEs began, if the job is recorded.
    recorded_from: Option<Instant>,
    /// Byte budgets: an inbox above the soft limit pauses reading from the network, one above the
    /// hard limit ends the job.
    limits: Limits,
    /// The end of the job, for the thread of main if it is in this process.
    pub(super) ending: Ending,
    /// The state of main, if it is in this process.
    pub(super) main: MainState,
    is_closed: AtomicBool,
    checkpoints: CheckpointKeeper,
    /// Whether this node has given up the frames that it has not sent yet.
    #[cfg(feature = "net")]
    is_abandoned: AtomicBool,
    watchdog: OnceLock<Thread>,
    /// Whether the watchdog is to report all handlers that PEs are inside.
    are_handlers_wanted: AtomicBool,
    /// The processors for threads that PEs start, if PEs are bound to processors.
    home: OnceLock<Affinity>,
}

impl Switch {
    pub(super) fn new(
        layout: Arc<Layout>,
        node: NodeId,
        inboxes: Vec<Inbox>,
        network: Option<Arc<dyn Network>>,
        mut relay: Relay,
        coordinator: CoordinatorDriver,
        (limits, checkpoints, pes_began, is_recorded): (Limits, CheckpointKeeper, Instant, bool),
    ) -> Arc<Self> {
        let is_nudged = Arc::new(AtomicBool::new(false));
        if let Some(network) = network.clone() {
            let is_nudged = Arc::clone(&is_nudged);
            relay.connect(Arc::new(move || {
                is_nudged.store(true, Ordering::SeqCst);
                network.hurry();
            }));
        }
        let first_pe = layout.place(node).pes.start;
        let ending = Ending::default();
        let relay = Mutex::new(relay);
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            layout,
            node,
            first_pe,
            gauges: inboxes.iter().map(|_| Gauge::new(pes_began)).collect(),
            inboxes,
            network,
            relay,
            coordinator,
            carried_bytes: AtomicUsize::new(0),
            threads: Mutex::default(),
            begin: Instant::now(),
            recorded_from: is_recorded.then_some(pes_began),
            due_ns: AtomicU64::new(NEVER),
            #[cfg(feature = "net")]
            is_nudged,
            limits,
            ending,
            main: MainState::default(),
            is_closed: AtomicBool::new(false),
            checkpoints,
            #[cfg(feature = "net")]
            is_abandoned: AtomicBool::new(false),
            watchdog: OnceLock::new(),
            are_handlers_wanted: AtomicBool::new(false),
            home: OnceLock::new(),
        })
    }

    /// Returns the inbox of a PE of this node.
    pub(super) fn inbox(&self, pe: PeId) -> &Inbox {
        &self.inboxes[(pe.0 - self.first_pe) as usize]
    }

    /// Returns the counters of a PE of this node.
    pub(super) fn gauge(&self, pe: PeId) -> &Gauge {
        &self.gauges[(pe.0 - self.first_pe) as usize]
    }

    /// Returns the counters of the PEs of this node, in their order.
    pub(super) fn gauges(&self) -> &[Gauge] {
        &self.gauges
    }

    /// Asks the PEs of this node for their counters.
    pub(super) fn order_readings(&self) {
        for (gauge, inbox) in self.gauges.iter().zip(&self.inboxes) {
            // The empty action wakes a PE that sleeps, so that it answers.
            if gauge.order() {
                inbox.push_action(Box::new(|_| {}));
            }
        }
    }

    /// The traffic that this node has sent to other nodes, by receiving site.
    pub(super) fn sent(&self) -> Vec<LinkReading> {
        self.network.as_ref().map(|network| network.sent()).unwrap_or_default()
    }

    /// Sets where the relay reads the counters of this node.
    pub(super) fn set_readings(&self, readings: Arc<dyn NodeReadings>) {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner).set_readings(readings);
    }

    /// Sets the processors for threads that PEs start, since PEs are bound to processors.
    pub(super) fn set_home(&self, home: Option<Affinity>) {
        if let Some(home) = home {
            // Set once, when the node starts.
            let _ = self.home.set(home);
        }
    }

    /// Makes all nodes send samples of their counters to this one for some time, and returns the
    /// latest sample of the job.
    pub(super) fn sample(&self, lease: TelemetryLease) -> Option<TelemetrySample> {
        self.carry(|relay, now, out| relay.sample(now, lease, out))
    }

    /// Whether reading from the network should pause.
    #[cfg(feature = "net")]
    pub(super) fn is_congested(&self) -> bool {
        self.inboxes.iter().any(|inbox| inbox.bytes() >= self.limits.soft_bytes)
    }

    /// Gives up the frames that this node has not sent yet.
    #[cfg(feature = "net")]
    pub(super) fn abandon_network(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
    }

    /// Whether this node has given up the frames that it has not sent yet.
    #[cfg(feature = "net")]
    pub(super) fn is_network_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::SeqCst)
    }

    /// Whether the job is over on this node.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.inboxes.iter().for_each(Inbox::close);
        self.coordinator.wake();
    }

    /// Starts the thread of the coordinator, if the coordinator is on this node.
    pub(super) fn begin_coordinator(&self) {
        self.coordinator.begin(self);
    }

    pub(super) fn tell_coordinator(&self, event: CoordinatorEvent) {
        self.coordinator.push(event);
        self.coordinator.run(self);
    }

    /// Carries out a command of a PE of this node.
    pub(super) fn obey(&self, pe: PeId, command: PeCommand) {
        match command {
            PeCommand::CoordinatorAt(place) => {
                if let Some(network) = &self.network {
                    network.note_coordinator(place);
                }
                self.relay.lock().unwrap_or_else(PoisonError::into_inner).set_coordinator(place);
                self.tell_coordinator(CoordinatorEvent::Place(place));
            }
            PeCommand::Look { round } => self.look(pe, round),
            PeCommand::Diagnose => {
                let main = self.main.status();
                self.inbox(pe).push_action(Box::new(move |core| core.diagnosed(main)));
            }
            PeCommand::Keep(segment) => {
                let switch = self.me.clone();
                self.checkpoints.keep(&segment, move |action| {
                    if let Some(switch) = switch.upgrade() {
                        switch.inbox(pe).push_action(action);
                    }
                });
            }
            PeCommand::CheckpointComplete { manifest, is_paused } => {
                self.checkpoints.complete(manifest, is_paused);
            }
            PeCommand::Probe(order) => {
                if let Some(network) = &self.network {
                    network.probe(order);
                }
            }
            PeCommand::Meet { guest, contact } => {
                if let Some(network) = &self.network {
                    network.meet(guest, &contact);
                }
            }
        }
    }

    /// Returns the bytes that wait in the relay.
    pub(super) fn carried_bytes(&self) -> usize {
        self.carried_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that wait for the network.
    pub(super) fn backlog_bytes(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.backlog_bytes())
    }

    /// Whether the PEs should send no more messages until the network has accepted some.
    pub(super) fn is_held_back(&self) -> bool {
        self.backlog_bytes() >= self.limits.soft_bytes
    }

    /// Sends packets from one PE of this node; packets to itself go to `own`. Stops at a packet for
    /// a PE that does not exist. Messages to a PE of this node are dropped if its inbox exceeds the
    /// hard limit, since that ends the job.
    pub(super) fn send(
        &self,
        from: PeId,
        packets: impl Iterator<Item = (PeId, Packet)>,
        own: &mut Vec<(PeId, Packet)>,
    ) -> Result<(), Undelivered> {
        let mut undelivered = None;
        for (to, packet) in packets {
            if to == COORDINATOR {
                self.coordinator.push(CoordinatorEvent::Packet { from, packet });
                continue;
            }
            if !self.layout.may_contain(to) {
                undelivered = Some(Undelivered::Stranger(to));
                break;
            }
            if packet.is_spread() {
                self.carry(|relay, now, out| relay.take(now, from, packet, out));
            } else if to == from {
                own.push((from, packet));
            } else if self.layout.node_of(to) == self.node {
                let inbox = self.inbox(to);
                // Later packets are still sent: the end of the job may be among them.
                if packet.is_control() || inbox.bytes() <= self.limits.hard_bytes {
                    inbox.push([(from, self.stamped(packet))]);
                }
                if inbox.bytes() > self.limits.hard_bytes {
                    undelivered = Some(Undelivered::Full(to));
                }
            } else if let Some(network) = &self.network {
                let node = self.layout.node_of(to);
                network.send(node, packet.into_frame(from, to).into(), false);
            }
        }
        self.coordinator.run(self);
        undelivered.map_or(Ok(()), Err)
    }

    /// Passes a packet to a PE of this node. The end of the job, which the coordinator sends, goes
    /// to all PEs of the node at once, since the first of them, which receives it for all, may be
    /// inside a handler. The PE drops the same packet of a guest.
    fn deliver(&self, to: PeId, (from, packet): (PeId, Packet)) {
        if from == COORDINATOR
            && let Some(outcome) = packet.stop()
        {
            for inbox in &self.inboxes {
                let outcome = outcome.clone();
                inbox.push_action(Box::new(move |core| core.handle_stop(outcome)));
            }
        }
        self.inbox(to).push([(from, self.stamped(packet))]);
    }

    /// Adds the time to a packet that has arrived, if the job is recorded.
    fn stamped(&self, packet: Packet) -> Packet {
        match self.recorded_from {
            None => packet,
            Some(begin) => packet.stamped(begin.elapsed().as_nanos() as u64),
        }
    }

    /// Calls `act` on the relay and carries out the resulting commands in their order.
    fn carry<R>(&self, act: impl FnOnce(&mut Relay, Time, &mut Vec<RelayCommand>) -> R) -> R {
        let mut out = Vec::new();
        let mut relay = self.relay.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut relay, self.now(), &mut out);
        for command in out {
            match command {
                RelayCommand::Send { to, frame, is_bulk } => {
                    if let Some(network) = &self.network {
                        network.send(to, frame, is_bulk);
                    }
                }
                RelayCommand::Deliver { from, to: COORDINATOR, packet } => {
                    self.coordinator.push(CoordinatorEvent::Packet { from, packet });
                }
                RelayCommand::Deliver { from, to, packet } => {
                    self.inbox(to).push([(from, self.stamped(packet))]);
                }
                RelayCommand::Act(action) => self.inbox(PeId(self.first_pe)).push_action(action),
            }
        }
        self.carried_bytes.store(relay.bytes(), Ordering::Relaxed);
        let due = relay.next_wakeup().map_or(NEVER, |due| due.0);
        if due < self.due_ns.swap(due, Ordering::Relaxed)
            && let Some(network) = &self.network
        {
            network.look_again();
        }
        drop(relay);
        self.coordinator.run(self);
        result
    }

    fn now(&self) -> Time {
        Time(self.begin.elapsed().as_nanos() as u64)
    }

    /// Returns the time until [`Switch::wake_relay`] has something to do; `None` if no timer is
    /// set.
    #[cfg(feature = "net")]
    pub(super) fn until_due(&self) -> Option<Duration> {
        if self.is_nudged.load(Ordering::SeqCst) {
            return Some(Duration::ZERO);
        }
        let due = self.due_ns.load(Ordering::Relaxed);
        (due != NEVER).then(|| Time(due).since(self.now()))
    }

    /// Runs the relay if its timer has expired or it has to run at once.
    #[cfg(feature = "net")]
    pub(super) fn wake_relay(&self) {
        if self.until_due() == Some(Duration::ZERO) {
            self.is_nudged.store(false, Ordering::SeqCst);
            self.carry(|relay, now, out| relay.wake(now, out));
        }
    }

    /// Runs the planner on its own thread, and passes the result to the coordinator.
    fn run_planner(&self, mut planning_job: PlanningJob) {
        let Some(switch) = self.me.upgrade() else { return };
        let run_planner = move || {
            let begin = Instant::now();
            let planning = || planning_job.run_for(PLANNING, &|| begin.elapsed());
            let is_lost = catch_unwind(AssertUnwindSafe(planning)).is_err();
            switch.tell_coordinator(match is_lost {
                true => CoordinatorEvent::PlannerLost,
                false => CoordinatorEvent::Planned(planning_job),
            });
        };
        if let Err(error) = self.spawn("planner", run_planner) {
            tracing::warn!(%error, "no thread for the planner; broadcasts keep their plans");
            self.tell_coordinator(CoordinatorEvent::PlannerLost);
        }
    }

    /// Starts a thread, which must end by itself.
    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        let home = self.home.get().copied();
        let run = move || {
            home.into_iter().for_each(Affinity::apply);
            run();
        };
        threads.push(thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Waits for the threads of the coordinator and of planners, once the job is over.
    pub(super) fn join_threads(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let ending = std::mem::take(&mut *threads);
        drop(threads);
        for thread in ending {
            // A panic of the thread no longer matters: the job is over.
            let _ = thread.join();
        }
    }

    /// Determines, for a report of `pe` to the coordinator, the state that the PE cannot see
    /// itself, and passes it to [`looked`](Self::looked). Only the first PE of a node reports for
    /// the network.
    fn look(&self, pe: PeId, round: u64) {
        match self.network.as_ref().filter(|_| pe.0 == self.first_pe) {
            Some(network) => network.look(round),
            None => self.looked(pe, round, true),
        }
    }

    /// Reports to a PE the state outside it. `is_quiet`: whether no frame is in the network.
    pub(super) fn looked(&self, pe: PeId, round: u64, is_quiet: bool) {
        let inbox = self.inbox(pe);
        let is_waiting = inbox.has_packets() || self.carried_bytes() > 0;
        let (is_quiet, main) = (is_quiet && !is_waiting, self.main.status());
        inbox.push_action(Box::new(move |core| core.looked(round, is_quiet, main)));
    }

    /// Makes the coordinator, if it is on this node, find out what the job waits for, and tells it
    /// which handlers the PEs of this node are inside.
    pub(super) fn diagnose(&self, request: u64) {
        self.are_handlers_wanted.store(true, Ordering::SeqCst);
        if let Some(watchdog) = self.watchdog.get() {
            watchdog.unpark();
        }
        self.tell_coordinator(CoordinatorEvent::Diagnose(request));
    }

    pub(super) fn set_watchdog(&self, watchdog: Thread) {
        // Set once, when the watchdog begins.
        let _ = self.watchdog.set(watchdog);
    }

    /// Whether a diagnosis has asked for all handlers since the last call.
    pub(super) fn take_handlers_wanted(&self) -> bool {
        self.are_handlers_wanted.swap(false, Ordering::SeqCst)
    }

    /// The nodes that this node suspects, each with the time since the suspicion.
    pub(super) fn silences(&self) -> Vec<(NodeId, Duration)> {
        self.network.as_ref().map(|network| network.silences()).unwrap_or_default()
    }

    /// Reports to the coordinator, on behalf of a PE of this node, the handler that it is inside.
    pub(super) fn tell_inside(&self, pe: PeId, handler: Option<(String, u64)>) {
        let packet = Packet::control(Control::Inside { handler });
        self.tell_coordinator(CoordinatorEvent::Packet { from: pe, packet });
    }

    #[cfg(feature = "net")]
    /// Delivers a frame from another node. Fails if the frame does not decode, or if its sender or
    /// receiver is invalid.
    pub(super) fn receive(
        &self,
        from: NodeId,
        frame: &bytes::Bytes,
    ) -> Result<(), crate::DecodeError> {
        if crate::message::is_for_relay(frame) {
            return self.carry(|relay, now, out| relay.receive(now, from, frame, out));
        }
        let (sender, to, packet) = Packet::from_frame(frame)?;
        // Founders forward packets for the coordinator, which may be on any of them; guests do not.
        let is_founder = !self.layout.is_guest(from);
        let is_passed_on = to == COORDINATOR && is_founder;
        let is_sound = match sender {
            COORDINATOR => is_founder,
            _ if to == COORDINATOR && self.layout.is_guest(self.node) => false,
            _ => {
                let is_known = self.layout.may_contain(sender);
                is_known && (is_passed_on || self.layout.node_of(sender) == from)
            }
        };
        if !is_sound {
            return Err(crate::DecodeError::new(
                "a frame",
                format_args!("{sender} is not on {from}"),
            ));
        }
        if to == COORDINATOR {
            self.tell_coordinator(CoordinatorEvent::Packet { from: sender, packet });
            return Ok(());
        }
        if !self.layout.knows(to) || self.layout.node_of(to) != self.node {
            return Err(crate::DecodeError::new(
                "a frame",
                format_args!("{to} is not on this node"),
            ));
        }
        self.deliver(to, (sender, packet));
        Ok(())
    }
}

impl Surroundings for Switch {
    fn obey(&self, commands: Vec<CoordinatorCommand>) {
        for command in commands {
            match command {
                CoordinatorCommand::Send { to, packet } if self.layout.node_of(to) == self.node => {
                    self.deliver(to, (COORDINATOR, packet));
                }
                CoordinatorCommand::Send { to, packet } => {
                    if let Some(network) = &self.network {
                        let node = self.layout.node_of(to);
                        network.send(node, packet.into_frame(COORDINATOR, to).into(), false);
                    }
                }
                CoordinatorCommand::Forward { node, frame } => {
                    if let Some(network) = &self.network {
                        network.send(node, frame.into(), false);
                    }
                }
                CoordinatorCommand::Relay { from, packet } => {
                    self.carry(|relay, now, out| relay.take(now, from, packet, out));
                }
                CoordinatorCommand::Plan(planning_job) => self.run_planner(planning_job),
            }
        }
    }

    fn is_closed(&self) -> bool {
        Switch::is_closed(self)
    }

    fn start_thread(&self) -> std::io::Result<()> {
        let Some(switch) = self.me.upgrade() else { return Ok(()) };
        self.spawn("coordinator", move || switch.coordinator.serve(&*switch))
    }
}
