//! Takes packets from the PEs of a node to other PEs: of the same node, or over the network.

use super::coordinator::{CoordinatorDriver, Surroundings};
use super::ending::Ending;
use super::inbox::Inbox;
use super::main_state::MainState;
use crate::address::id::COORDINATOR;
use crate::coordinator::{CoordinatorCommand, CoordinatorEvent, PlanningJob};
use crate::message::frame::Frame;
use crate::message::limits::Limits;
use crate::message::probe::ProbeOrder;
use crate::message::{Control, CoordinatorPlace, Packet};
use crate::relay::{Relay, RelayCommand};
use gridspan_topology::{Layout, NodeId, PeId, Time};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The network as the PEs of a node see it.
pub(crate) trait Network: Send + Sync {
    /// Takes a frame for another node; one that `is_bulk` holds up no others whatever its size. May
    /// be called by all PEs of the node.
    fn send(&self, to: NodeId, frame: Frame, is_bulk: bool);
    /// Says where a guest can be reached, before anything is sent to it.
    fn meet(&self, guest: NodeId, contact: &str);
    /// Has this node measure something; the first PE gets the results.
    fn probe(&self, order: ProbeOrder);
    /// Has the first PE told, by [`Switch::looked`], whether all has arrived that had been sent
    /// when this was asked last.
    fn look(&self, round: u64);
    /// The relay has something to do earlier than it had.
    fn look_again(&self);
    /// The relay has something to do now, and the first PE of this node may be busy.
    fn hurry(&self);
    /// Bytes that wait because too many are under way already.
    fn backlog_bytes(&self) -> usize;
}

/// No time.
const NEVER: u64 = u64::MAX;

/// How long the planner runs at a time: a full plan for 64 nodes takes about so long.
const PLANNING: Duration = Duration::from_millis(50);

/// Why not all was sent.
pub(super) enum Undelivered {
    /// There is no such PE.
    Stranger(PeId),
    /// It takes nothing, and too much waits for it.
    Full(PeId),
}

/// Connects the PEs of a node.
pub(super) struct Switch {
    /// For the threads that it starts.
    me: Weak<Self>,
    pub(super) layout: Arc<Layout>,
    pub(super) node: NodeId,
    first_pe: u32,
    inboxes: Vec<Inbox>,
    network: Option<Arc<dyn Network>>,
    relay: Mutex<Relay>,
    /// The job's coordinator, or what passes on packets to where it is.
    coordinator: CoordinatorDriver,
    /// When the relay has something to do although nothing comes, in nanoseconds since `begin`.
    due_ns: AtomicU64,
    /// Whether the relay is to be woken at once.
    #[cfg(feature = "net")]
    is_nudged: Arc<AtomicBool>,
    /// Bytes of tree broadcasts of which parts are missing.
    carried_bytes: AtomicUsize,
    /// Threads of the coordinator, and of planners, that may still run.
    threads: Mutex<Vec<JoinHandle<()>>>,
    begin: Instant,
    /// Bytes in an inbox at which the network should bring no more, and at which the job ends.
    limits: Limits,
    /// For the thread of main, if it is in this process.
    pub(super) ending: Ending,
    /// What main does, if it is in this process.
    pub(super) main: MainState,
    is_closed: AtomicBool,
}

impl Switch {
    pub(super) fn new(
        layout: Arc<Layout>,
        node: NodeId,
        inboxes: Vec<Inbox>,
        network: Option<Arc<dyn Network>>,
        mut relay: Relay,
        coordinator: CoordinatorDriver,
        limits: Limits,
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
            inboxes,
            network,
            relay,
            coordinator,
            carried_bytes: AtomicUsize::new(0),
            threads: Mutex::default(),
            begin: Instant::now(),
            due_ns: AtomicU64::new(NEVER),
            #[cfg(feature = "net")]
            is_nudged,
            limits,
            ending,
            main: MainState::default(),
            is_closed: AtomicBool::new(false),
        })
    }

    /// The inbox of a PE of this node.
    pub(super) fn inbox(&self, pe: PeId) -> &Inbox {
        &self.inboxes[(pe.0 - self.first_pe) as usize]
    }

    /// Whether the network should not bring more.
    #[cfg(feature = "net")]
    pub(super) fn is_congested(&self) -> bool {
        self.inboxes.iter().any(|inbox| inbox.bytes() >= self.limits.soft_bytes)
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

    /// Starts the thread of the coordinator, if that is here.
    pub(super) fn begin_coordinator(&self) {
        self.coordinator.begin(self);
    }

    /// Tells the coordinator something.
    pub(super) fn tell_coordinator(&self, event: CoordinatorEvent) {
        self.coordinator.push(event);
        self.coordinator.run(self);
    }

    /// The coordinator runs at this place now.
    pub(super) fn note_coordinator(&self, place: CoordinatorPlace) {
        self.relay.lock().unwrap_or_else(PoisonError::into_inner).set_coordinator(place);
        self.tell_coordinator(CoordinatorEvent::Place(place));
    }

    /// Bytes that wait for other parts of the same tree broadcast.
    pub(super) fn carried_bytes(&self) -> usize {
        self.carried_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that wait for the network.
    pub(super) fn backlog_bytes(&self) -> usize {
        self.network.as_ref().map_or(0, |network| network.backlog_bytes())
    }

    /// Whether the PEs should make no more messages until the network has taken some.
    pub(super) fn is_held_back(&self) -> bool {
        self.backlog_bytes() >= self.limits.soft_bytes
    }

    /// Sends packets from one PE of this node; those to itself go to `own`. Stops at one for a PE
    /// that does not exist. Messages to a PE of this node for which more waits than may are
    /// dropped, since that ends the job.
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
                // The rest leaves all the same: the word that the job ends may be in it.
                if packet.is_control() || inbox.bytes() <= self.limits.hard_bytes {
                    inbox.push([(from, packet)]);
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

    /// Lets the relay do something, and does what follows. What goes on to other nodes does so
    /// first.
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
                RelayCommand::Deliver { from, to, packet } => self.inbox(to).push([(from, packet)]),
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

    /// How long until [`Switch::wake_relay`] has something to do.
    #[cfg(feature = "net")]
    pub(super) fn until_due(&self) -> Option<Duration> {
        if self.is_nudged.load(Ordering::SeqCst) {
            return Some(Duration::ZERO);
        }
        let due = self.due_ns.load(Ordering::Relaxed);
        (due != NEVER).then(|| Time(due).since(self.now()))
    }

    /// Has the relay do what is due by now.
    #[cfg(feature = "net")]
    pub(super) fn wake_relay(&self) {
        if self.until_due() == Some(Duration::ZERO) {
            self.is_nudged.store(false, Ordering::SeqCst);
            self.carry(|relay, now, out| relay.wake(now, out));
        }
    }

    /// Runs the planner on a thread of its own, and gives the result to the coordinator.
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

    /// Starts a thread that ends by itself.
    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Waits for the threads of the coordinator and of planners; the job is over.
    pub(super) fn join_threads(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let ending = std::mem::take(&mut *threads);
        drop(threads);
        for thread in ending {
            // Whatever became of it, the job is over.
            let _ = thread.join();
        }
    }

    /// Finds out what a PE cannot know that is to say what it does. Only the first PE of a node
    /// speaks for the network.
    pub(super) fn look(&self, pe: PeId, round: u64) {
        match self.network.as_ref().filter(|_| pe.0 == self.first_pe) {
            Some(network) => network.look(round),
            None => self.looked(pe, round, true),
        }
    }

    /// Tells a PE what it could not know. `is_quiet`: whether nothing is on its way in the network.
    pub(super) fn looked(&self, pe: PeId, round: u64, is_quiet: bool) {
        let inbox = self.inbox(pe);
        let is_waiting = inbox.has_packets() || self.carried_bytes() > 0;
        let (is_quiet, main) = (is_quiet && !is_waiting, self.main.status());
        inbox.push_action(Box::new(move |core| core.looked(round, is_quiet, main)));
    }

    /// Tells the coordinator of a handler that a PE of this node is inside of, in its place.
    pub(super) fn tell_inside(&self, pe: PeId, handler: Option<(String, u64)>) {
        let packet = Packet::control(Control::Inside { handler });
        self.tell_coordinator(CoordinatorEvent::Packet { from: pe, packet });
    }

    /// Says where guests can be reached.
    pub(super) fn meet(&self, contacts: &[(NodeId, String)]) {
        if let Some(network) = &self.network {
            contacts.iter().for_each(|(guest, contact)| network.meet(*guest, contact));
        }
    }

    /// Has this node measure something.
    pub(super) fn probe(&self, orders: Vec<ProbeOrder>) {
        if let Some(network) = &self.network {
            orders.into_iter().for_each(|order| network.probe(order));
        }
    }

    #[cfg(feature = "net")]
    /// Delivers a frame from another node. A frame that does not decode, or is for or from no PE
    /// that it can be, is refused.
    pub(super) fn receive(
        &self,
        from: NodeId,
        frame: &bytes::Bytes,
    ) -> Result<(), crate::DecodeError> {
        if Relay::is_concerned(frame) {
            return self.carry(|relay, now, out| relay.receive(now, from, frame, out));
        }
        let (sender, to, packet) = Packet::from_frame(frame)?;
        // Founders pass on what is for the coordinator, which is on any of them; guests do not.
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
                format_args!("{sender} is not of {from}"),
            ));
        }
        if to == COORDINATOR {
            self.tell_coordinator(CoordinatorEvent::Packet { from: sender, packet });
            return Ok(());
        }
        if !self.layout.knows(to) || self.layout.node_of(to) != self.node {
            return Err(crate::DecodeError::new(
                "a frame",
                format_args!("{to} is not of this node"),
            ));
        }
        self.inbox(to).push([(sender, packet)]);
        Ok(())
    }
}

impl Surroundings for Switch {
    fn obey(&self, commands: Vec<CoordinatorCommand>) {
        for command in commands {
            match command {
                CoordinatorCommand::Send { to, packet } if self.layout.node_of(to) == self.node => {
                    self.inbox(to).push([(COORDINATOR, packet)]);
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
