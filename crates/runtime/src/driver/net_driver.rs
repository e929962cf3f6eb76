//! Drives a node's connections to other nodes: which of its threads does, and when.
//!
//! A wake-up of another thread costs more than all of QUIC, so the node's first PE drives the
//! network itself while it has nothing else to do: it waits in the socket, and what arrives for it
//! is handled on the same thread. While it computes, a second thread, the *watch*, takes over; it
//! looks every few milliseconds whether the network was attended to, and drives it until the PE
//! wants it back.

mod drive;

use super::arrivals::Arrivals;
use super::inbox::Inbox;
use super::locks::{lock, try_lock};
use super::loss;
use super::switch::{Network, Switch};
use crate::coordinator::CoordinatorEvent;
use crate::error::JobError;
use crate::message::frame::Frame;
use crate::message::probe::ProbeOrder;
use crate::net::{FrameClass, LossReason, NetLoop, SendError, TransportEvent, Waker};
use crate::pe::Core;
use crate::pe::links::OnFailure;
use gridspan_topology::NodeId;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub(super) use drive::Drive;

/// How often the watch looks, and how long the network may go unattended before it takes over.
/// Short against a wide-area round trip; 200 looks a second cost little.
const WATCH: Duration = Duration::from_millis(5);
/// How long a busy PE leaves the network alone between two turns, unless it has something to send.
const ATTEND: Duration = Duration::from_micros(200);
/// How long the watch waits in the socket at a time while it drives.
const DRIVE: Duration = Duration::from_millis(50);
/// How long reading may stay paused while nothing of the send backlog drains.
const STUCK: Duration = Duration::from_secs(1);
/// How long a node that is done waits for others to confirm any of what it sent.
const FLUSH: Duration = Duration::from_secs(3);

/// A node's way to the other nodes.
pub(super) struct NetDriver {
    /// Where to, whether it is bulk whatever its size, and what.
    frames: Mutex<VecDeque<(NodeId, bool, Frame)>>,
    orders: Mutex<Vec<ProbeOrder>>,
    /// Rounds of questions whether all has arrived.
    looks: Mutex<Vec<u64>>,
    arrivals: Mutex<Arrivals>,
    /// Where guests can be reached of which the transport has not heard.
    contacts: Mutex<Vec<(NodeId, SocketAddr)>>,
    /// Whether there are frames, or orders.
    has_frames: AtomicBool,
    /// Bytes of frames that the transport did not take yet, whether it was offered them or not.
    backlog_bytes: AtomicUsize,
    /// Bytes of frames that have come.
    received_bytes: AtomicU64,
    /// How many of the frames, those at the front, are these.
    left: AtomicUsize,
    /// When the transport last took one of them, in nanoseconds since `begin`.
    drained_ns: AtomicU64,
    /// Whether whoever drives waits in the socket.
    waiting: AtomicBool,
    waker: Waker,
    net: Mutex<NetLoop>,
    /// Whether the watch is to take over at once, and its thread.
    hurried: AtomicBool,
    watching: OnceLock<Thread>,
    /// Whether the PE wants to drive.
    wanted: AtomicBool,
    /// When the network was last driven, in nanoseconds since `begin`.
    driven_ns: AtomicU64,
    begin: Instant,
    /// The job is over: peers that go away are no loss.
    over: AtomicBool,
    /// Who hears of the first loss at once, whatever the PEs are at.
    on_failure: Vec<OnFailure>,
    is_loss_told: AtomicBool,
}

impl Network for NetDriver {
    fn send(&self, to: NodeId, frame: Frame, is_bulk: bool) {
        self.backlog_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        lock(&self.frames).push_back((to, is_bulk, frame));
        self.announce();
    }

    fn meet(&self, guest: NodeId, contact: &str) {
        // One that says nothing of use dials itself.
        if let Ok(address) = contact.parse() {
            lock(&self.contacts).push((guest, address));
            self.announce();
        }
    }

    fn look_again(&self) {
        self.announce();
    }

    fn hurry(&self) {
        self.announce();
        self.hurried.store(true, Ordering::SeqCst);
        if let Some(watch) = self.watching.get() {
            watch.unpark();
        }
    }

    fn probe(&self, order: ProbeOrder) {
        lock(&self.orders).push(order);
        self.announce();
    }

    fn look(&self, round: u64) {
        lock(&self.looks).push(round);
        self.announce();
    }

    fn backlog_bytes(&self) -> usize {
        self.backlog_bytes.load(Ordering::Relaxed)
    }
}

impl NetDriver {
    pub(super) fn new(net: NetLoop) -> Self {
        Self {
            frames: Mutex::default(),
            orders: Mutex::default(),
            looks: Mutex::default(),
            arrivals: Mutex::default(),
            contacts: Mutex::default(),
            has_frames: AtomicBool::new(false),
            backlog_bytes: AtomicUsize::new(0),
            received_bytes: AtomicU64::new(0),
            left: AtomicUsize::new(0),
            drained_ns: AtomicU64::new(0),
            waiting: AtomicBool::new(false),
            waker: net.waker(),
            net: Mutex::new(net),
            hurried: AtomicBool::new(false),
            watching: OnceLock::new(),
            wanted: AtomicBool::new(false),
            driven_ns: AtomicU64::new(0),
            begin: Instant::now(),
            over: AtomicBool::new(false),
            on_failure: Vec::new(),
            is_loss_told: AtomicBool::new(false),
        }
    }

    /// The same, which tells these of the first loss.
    pub(super) fn telling(self, on_failure: &[OnFailure]) -> Self {
        Self { on_failure: on_failure.to_vec(), ..self }
    }

    /// There is something to send.
    fn announce(&self) {
        self.has_frames.store(true, Ordering::SeqCst);
        if self.waiting.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Ends a wait of the driving thread.
    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// How many bytes of frames went to other nodes, as far as they have acknowledged them, and
    /// came from them.
    pub(super) fn carried_bytes(&self) -> (u64, u64) {
        let mut net = lock(&self.net);
        let transport = net.transport();
        let sent = transport.others().map(|node| transport.stats(node).bytes_acknowledged);
        (sent.sum(), self.received_bytes.load(Ordering::Relaxed))
    }

    /// Opens the connection over which this node and another watch each other.
    pub(super) fn connect(&self, node: NodeId) {
        lock(&self.net).transport().connect(node);
    }

    /// Where others can reach this node, as far as it can tell.
    pub(super) fn contact(&self) -> String {
        let address = lock(&self.net).local_address().ok();
        let address = address.filter(|address| !address.ip().is_unspecified());
        address.map(|address| address.to_string()).unwrap_or_default()
    }

    fn elapsed_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn unattended(&self) -> Duration {
        let driven = self.driven_ns.load(Ordering::Relaxed);
        Duration::from_nanos(self.elapsed_ns().saturating_sub(driven))
    }

    /// Sends what is queued, receives, and waits at most `timeout` if there is nothing.
    fn turn(&self, net: &mut NetLoop, switch: &Switch, timeout: Duration, own: Option<&Inbox>) {
        if self.has_frames.swap(false, Ordering::SeqCst) || self.backlog_bytes() > 0 {
            self.hand_over(net, switch);
        }
        net.transport().pause_reading(switch.is_congested() || self.is_draining(switch));
        switch.wake_relay();
        let timeout = switch.until_due().map_or(timeout, |due| due.min(timeout));
        let timeout = if timeout.is_zero() {
            timeout
        } else {
            self.waiting.store(true, Ordering::SeqCst);
            if self.has_frames.load(Ordering::SeqCst) { Duration::ZERO } else { timeout }
        };
        let mut result = net.turn(Some(timeout), &mut |event| {
            // This thread is awake: what its relay passes on leaves below.
            self.waiting.store(false, Ordering::SeqCst);
            if let Some(own) = own {
                // This thread is awake; nobody has to wake it for what it brings itself.
                own.wake_up();
            }
            self.handle(switch, event);
        });
        self.waiting.store(false, Ordering::SeqCst);
        switch.wake_relay();
        if result.is_ok() && self.has_frames.swap(false, Ordering::SeqCst) {
            // The relay has passed something on, which leaves at once.
            self.hand_over(net, switch);
            result = net.turn(Some(Duration::ZERO), &mut |event| self.handle(switch, event));
        }
        self.driven_ns.store(self.elapsed_ns(), Ordering::Relaxed);
        if let Err(error) = result {
            fail(switch, JobError::Failed(format!("the node's UDP socket failed: {error}")));
        }
    }

    /// Whether too much waits here, such as what the relay passes on faster than others take it,
    /// and some of it leaves. Where none does for long, reading goes on all the same, up to the
    /// hard limit: two nodes that each read only once the other has would wait forever.
    fn is_draining(&self, switch: &Switch) -> bool {
        let since = self.elapsed_ns().saturating_sub(self.drained_ns.load(Ordering::Relaxed));
        switch.is_held_back() && Duration::from_nanos(since) < STUCK
    }

    /// Hands frames to the transport. Those to nodes that have too many bytes under way stay, in
    /// order, until acknowledgements have come.
    fn hand_over(&self, net: &mut NetLoop, switch: &Switch) {
        for order in std::mem::take(&mut *lock(&self.orders)) {
            net.probe(order);
        }
        let frames = std::mem::take(&mut *lock(&self.frames));
        let all: usize = frames.iter().map(|(_, _, frame)| frame.len()).sum();
        // After the frames: where a guest can be reached is told before anything is sent to it.
        for (guest, address) in std::mem::take(&mut *lock(&self.contacts)) {
            if guest != switch.node && net.transport().address_of(guest).is_none() {
                net.transport().set_address(guest, address);
            }
        }
        let mut stalled = BTreeSet::new();
        let mut left = VecDeque::new();
        let (waited, mut is_drained) = (self.left.load(Ordering::Relaxed), false);
        for (position, (to, is_bulk, frame)) in frames.into_iter().enumerate() {
            if stalled.contains(&to) {
                left.push_back((to, is_bulk, frame));
                continue;
            }
            let class = if is_bulk { FrameClass::Bulk } else { FrameClass::Auto };
            match net.transport().send(to, class, frame.clone()) {
                Ok(()) => is_drained |= position < waited,
                Err(SendError::Backlog(_)) => {
                    stalled.insert(to);
                    left.push_back((to, is_bulk, frame));
                }
                // Frames to a node that was lost have nowhere to go; its loss ends the job.
                Err(SendError::Lost(_)) => {}
                // A guest that nobody has heard of, or that is forgotten.
                Err(SendError::NoSuchPeer(_)) if switch.layout.is_guest(to) => {}
                Err(error) => {
                    fail(switch, JobError::Failed(format!("cannot send to {to}: {error}")));
                }
            }
        }
        let bytes: usize = left.iter().map(|(_, _, frame)| frame.len()).sum();
        self.backlog_bytes.fetch_sub(all - bytes, Ordering::Relaxed);
        self.left.store(left.len(), Ordering::Relaxed);
        if is_drained || waited == 0 {
            self.drained_ns.store(self.elapsed_ns(), Ordering::Relaxed);
        }
        {
            let mut frames = lock(&self.frames);
            left.append(&mut frames);
            *frames = left;
        }
        for round in std::mem::take(&mut *lock(&self.looks)) {
            let is_quiet = lock(&self.arrivals).look(net.transport()) && bytes == 0;
            switch.looked(switch.layout.leader(switch.node), round, is_quiet);
        }
    }

    fn handle(&self, switch: &Switch, event: TransportEvent) {
        match event {
            TransportEvent::Frame { from, bytes } => {
                self.received_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                if let Err(error) = switch.receive(from, &bytes) {
                    tell(switch, move |core| core.blame(from, error));
                }
            }
            TransportEvent::Probed(report) => tell(switch, move |core| core.probed(report)),
            TransportEvent::Sampled(samples) => tell(switch, move |core| core.observed(samples)),
            TransportEvent::Connected(node) => tracing::info!(%node, "connected"),
            TransportEvent::Suspected(node) => tracing::warn!(%node, "silent; suspected"),
            TransportEvent::Recovered(node) => tracing::info!(%node, "heard of again"),
            TransportEvent::Refused { address, node, reason, count } => {
                tracing::warn!(%address, ?node, count, %reason, "refused");
            }
            TransportEvent::Lost { node, reason } => self.lose(switch, node, &reason),
        }
    }

    fn lose(&self, switch: &Switch, node: NodeId, reason: &LossReason) {
        if self.over.load(Ordering::SeqCst) {
            return;
        }
        let error = loss::error(&switch.layout, node, reason);
        tracing::info!(%error, "node lost");
        if loss::is_fatal(&switch.layout, node, reason)
            && !self.is_loss_told.swap(true, Ordering::SeqCst)
        {
            self.on_failure.iter().for_each(|tell| tell(&error));
        }
        // The PEs may be busy, and the coordinator on its way to that node.
        if loss::is_fatal(&switch.layout, node, reason) {
            switch.tell_coordinator(CoordinatorEvent::NodeLost(node, error.clone()));
        }
        let leader = switch.layout.leader(switch.node);
        switch.inbox(leader).push_loss(Box::new(move |core| core.node_lost(node, error)));
    }

    /// The job is over: sends what is left, and says goodbye.
    pub(super) fn finish(&self, switch: &Switch) {
        self.over.store(true, Ordering::SeqCst);
        self.waker.wake();
        let mut net = lock(&self.net);
        self.turn(&mut net, switch, Duration::ZERO, None);
        if let Err(error) = self.flush(&mut net, switch).and_then(|()| net.close("the job is over"))
        {
            tracing::debug!(%error, "closing");
        }
    }

    /// Waits until the others have all that was sent to them, as long as they take any of it.
    fn flush(&self, net: &mut NetLoop, switch: &Switch) -> io::Result<()> {
        let unacknowledged = |net: &mut NetLoop| -> u64 {
            let others = switch.layout.nodes().filter(|&node| node != switch.node);
            others.map(|node| net.transport().bytes_unacknowledged(node)).sum()
        };
        loop {
            let before = unacknowledged(net);
            if net.flush(FLUSH, &mut |_| {})? || unacknowledged(net) >= before {
                return Ok(());
            }
        }
    }

    /// Drives the network whenever nobody else does, until the job is over.
    pub(super) fn watch(&self, switch: &Switch) {
        // Set once, here.
        let _ = self.watching.set(thread::current());
        let mut pause = WATCH;
        while !self.over.load(Ordering::SeqCst) {
            thread::park_timeout(pause);
            pause = WATCH;
            let is_hurried = self.hurried.swap(false, Ordering::SeqCst);
            if self.waiting.load(Ordering::SeqCst) || !is_hurried && self.unattended() < WATCH {
                continue;
            }
            let Some(mut net) = try_lock(&self.net) else {
                // Whoever drives now may leave without having seen why.
                if is_hurried {
                    self.hurried.store(true, Ordering::SeqCst);
                    pause = ATTEND;
                }
                continue;
            };
            while !self.wanted.load(Ordering::SeqCst) && !self.over.load(Ordering::SeqCst) {
                self.turn(&mut net, switch, DRIVE, None);
            }
        }
    }
}

/// Has the first PE of this node do something.
fn tell(switch: &Switch, action: impl FnOnce(&mut Core) + Send + 'static) {
    let leader = switch.layout.leader(switch.node);
    switch.inbox(leader).push_action(Box::new(action));
}

/// Ends the job; the first PE of this node tells the coordinator.
fn fail(switch: &Switch, error: JobError) {
    tell(switch, move |core| core.fail(error));
}
