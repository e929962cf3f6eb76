//! Drives a node's connections to other nodes: which thread does so, and when.
//!
//! To wake another thread for a packet costs more than all work of QUIC on the packet. So the
//! node's first PE drives the network itself while it has no other work: it waits in the socket,
//! and handles arriving packets on the same thread. While it computes, a second thread, the
//! *watch*, takes over. The watch checks every few milliseconds whether the network was driven. If
//! not, it drives the network until the PE requests it back.

mod drive;

use super::arrivals::Arrivals;
use super::inbox::Inbox;
use super::locks::{lock, try_lock};
use super::loss::{self, Needed};
use super::switch::{Network, Switch};
use super::traffic::Traffic;
use crate::coordinator::CoordinatorEvent;
use crate::error::JobError;
use crate::message::CoordinatorPlace;
use crate::message::frame::Frame;
use crate::message::probe::ProbeOrder;
use crate::message::telemetry::LinkReading;
use crate::net::{FrameClass, LossReason, NetLoop, SendError, TransportEvent, Waker};
use crate::pe::Core;
use crate::pe::links::OnFailure;
use gridspan_topology::NodeId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

pub(super) use drive::Drive;

/// Period of the watch, and the time for which the network may stay unattended before the watch
/// takes over. Short against a wide-area round trip; 200 checks a second cost little.
const WATCH: Duration = Duration::from_millis(5);
/// Time for which a busy PE leaves the network alone between turns, unless it has frames to send.
const ATTEND: Duration = Duration::from_micros(200);
/// Longest wait of the watch in the socket while it drives.
const DRIVE: Duration = Duration::from_millis(50);
/// Time for which reading may stay paused while nothing of the send backlog drains.
const STUCK: Duration = Duration::from_secs(1);
/// Time for which a node that is done waits for an acknowledgement of any of its frames.
const FLUSH: Duration = Duration::from_secs(3);
/// Period in which a node that is done checks whether it may give up its frames.
const FLUSH_CHECK: Duration = Duration::from_millis(20);

/// Sends frames of a node to the other nodes, and receives theirs.
pub(super) struct NetDriver {
    frames: Mutex<Outgoing>,
    orders: Mutex<Vec<ProbeOrder>>,
    /// Rounds of stall detection in which the coordinator asks whether all sent bytes have arrived.
    looks: Mutex<Vec<u64>>,
    arrivals: Mutex<Arrivals>,
    /// Guests that the transport does not know yet, with their addresses as far as known.
    contacts: Mutex<Vec<(NodeId, Option<SocketAddr>)>>,
    /// The suspected nodes, each with the time at which the suspicion began.
    suspects: Mutex<BTreeMap<NodeId, Instant>>,
    /// Whether anything was queued since the last turn.
    has_frames: AtomicBool,
    /// Bytes of frames that the transport has not accepted yet, whether offered to it or not.
    backlog_bytes: AtomicUsize,
    received_bytes: AtomicU64,
    /// Number of frames, at the front of `frames`, that the last turn left there.
    left: AtomicUsize,
    /// When the transport last accepted a frame that was left, or no frame was left, in
    /// nanoseconds since `begin`.
    drained_ns: AtomicU64,
    /// Whether the driving thread waits in the socket.
    waiting: AtomicBool,
    waker: Waker,
    net: Mutex<NetLoop>,
    /// Whether the watch has to take over at once.
    hurried: AtomicBool,
    watching: OnceLock<Thread>,
    /// Whether the first PE requests the network back from the watch.
    wanted: AtomicBool,
    /// When the network was last driven, in nanoseconds since `begin`.
    driven_ns: AtomicU64,
    begin: Instant,
    /// Whether the job is over: peers that disconnect then are not lost.
    over: AtomicBool,
    /// Listeners to notify of the first loss at once, even while the PEs are busy.
    on_failure: Vec<OnFailure>,
    is_loss_reported: AtomicBool,
    /// The nodes whose losses certainly end the job; `None` if the loss of any founder does.
    needed: Option<Needed>,
}

/// Frames to send, and counts of all frames queued so far.
struct Outgoing {
    /// The destination, whether to send it as bulk whatever its size, and the frame.
    frames: VecDeque<(NodeId, bool, Frame)>,
    traffic: Traffic,
}

impl Network for NetDriver {
    fn send(&self, to: NodeId, frame: Frame, is_bulk: bool) {
        self.backlog_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        let mut outgoing = lock(&self.frames);
        outgoing.traffic.note(to, &frame);
        outgoing.frames.push_back((to, is_bulk, frame));
        drop(outgoing);
        self.announce();
    }

    fn meet(&self, guest: NodeId, contact: &str) {
        // A guest that gives no usable address connects to this node itself.
        lock(&self.contacts).push((guest, contact.parse().ok()));
        self.announce();
    }

    fn note_coordinator(&self, place: CoordinatorPlace) {
        self.needed.iter().for_each(|needed| needed.note_coordinator(place));
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

    fn silences(&self) -> Vec<(NodeId, Duration)> {
        let suspects = lock(&self.suspects);
        suspects.iter().map(|(&node, since)| (node, since.elapsed())).collect()
    }

    fn sent(&self) -> Vec<LinkReading> {
        lock(&self.frames).traffic.sent()
    }
}

impl NetDriver {
    pub(super) fn new(mut net: NetLoop) -> Self {
        let traffic = Traffic::new(net.transport().layout().clone());
        Self {
            frames: Mutex::new(Outgoing { frames: VecDeque::new(), traffic }),
            orders: Mutex::default(),
            looks: Mutex::default(),
            arrivals: Mutex::default(),
            contacts: Mutex::default(),
            suspects: Mutex::default(),
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
            is_loss_reported: AtomicBool::new(false),
            needed: None,
        }
    }

    /// Sets the listeners to notify of the first loss.
    pub(super) fn telling(self, on_failure: &[OnFailure]) -> Self {
        Self { on_failure: on_failure.to_vec(), ..self }
    }

    /// Sets the nodes whose losses certainly end the job. If another founder is lost, the
    /// coordinator decides, and notifies the listeners of a failure itself.
    pub(super) fn needing(self, needed: Option<Needed>) -> Self {
        Self { needed, ..self }
    }

    /// Marks that something was queued, and wakes the driving thread if it waits in the socket.
    fn announce(&self) {
        self.has_frames.store(true, Ordering::SeqCst);
        if self.waiting.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Returns a waker that ends a wait of the driving thread.
    pub(super) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Returns the bytes of frames that other nodes have acknowledged, and the bytes received from
    /// them.
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

    /// Leaves it to a node to open that connection, since it does so at its start.
    pub(super) fn await_dial(&self, node: NodeId) {
        lock(&self.net).transport().await_dial(Instant::now(), node);
    }

    /// Returns the address at which others can reach this node; empty if it is unknown.
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

    /// Sends queued frames, receives, and waits at most `timeout` if there is nothing to do.
    /// Returns the time that this took, without the wait.
    fn turn(
        &self,
        net: &mut NetLoop,
        switch: &Switch,
        timeout: Duration,
        own: Option<&Inbox>,
    ) -> Duration {
        let (begin, waited) = (self.elapsed_ns(), net.waited());
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
            // This thread is awake: frames that the relay passes on leave below.
            self.waiting.store(false, Ordering::SeqCst);
            if let Some(own) = own {
                // This thread is awake; its own packets need not wake it.
                own.wake_up();
            }
            self.handle(switch, event);
        });
        self.waiting.store(false, Ordering::SeqCst);
        if let Some(own) = own {
            // The PE goes on after this turn; frames of the relay for it need not wake it.
            own.wake_up();
        }
        switch.wake_relay();
        if result.is_ok() && self.has_frames.swap(false, Ordering::SeqCst) {
            // The relay has passed frames on, which leave at once.
            self.hand_over(net, switch);
            result = net.turn(Some(Duration::ZERO), &mut |event| self.handle(switch, event));
        }
        let end = self.elapsed_ns();
        self.driven_ns.store(end, Ordering::Relaxed);
        if let Err(error) = result {
            let reason = format!("the node's UDP socket failed: {error}");
            fail(switch, JobError::Network { reason });
        }
        let waited = net.waited().saturating_sub(waited);
        Duration::from_nanos(end.saturating_sub(begin)).saturating_sub(waited)
    }

    /// Whether too many frames wait here while some still leave, for example because the relay
    /// passes frames on faster than others accept them. If none has left for [`STUCK`], returns
    /// false, so that reading continues, up to the hard limit: two nodes that each read only once
    /// the other has read would wait forever.
    fn is_draining(&self, switch: &Switch) -> bool {
        let since = self.elapsed_ns().saturating_sub(self.drained_ns.load(Ordering::Relaxed));
        switch.is_held_back() && Duration::from_nanos(since) < STUCK
    }

    /// Hands probe orders, addresses of guests, and frames to the transport, and answers the queued
    /// looks. Frames to nodes that have too many bytes under way stay, in order, until
    /// acknowledgements arrive.
    fn hand_over(&self, net: &mut NetLoop, switch: &Switch) {
        for order in std::mem::take(&mut *lock(&self.orders)) {
            net.probe(order);
        }
        let frames = std::mem::take(&mut lock(&self.frames).frames);
        let all: usize = frames.iter().map(|(_, _, frame)| frame.len()).sum();
        // Taken after the frames: the contact of a guest is pushed before any frame to it.
        for (guest, address) in std::mem::take(&mut *lock(&self.contacts)) {
            if guest == switch.node || net.transport().address_of(guest).is_some() {
                continue;
            }
            match address {
                Some(address) => net.transport().set_address(guest, address),
                None => net.transport().await_guest(guest),
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
                // Frames to a lost node are dropped.
                Err(SendError::Lost(_)) => {}
                // A guest that the transport does not know yet, or has forgotten.
                Err(SendError::NoSuchPeer(_)) if switch.layout.is_guest(to) => {}
                Err(error) => {
                    let reason = format!("cannot send to {to}: {error}");
                    fail(switch, JobError::Network { reason });
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
            let mut outgoing = lock(&self.frames);
            left.append(&mut outgoing.frames);
            outgoing.frames = left;
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
            TransportEvent::Suspected(node) => {
                tracing::warn!(%node, "silent; suspected");
                lock(&self.suspects).insert(node, Instant::now());
            }
            TransportEvent::Recovered(node) => {
                tracing::info!(%node, "responds again");
                lock(&self.suspects).remove(&node);
            }
            TransportEvent::Refused { address, node, reason, count } => {
                tracing::warn!(%address, ?node, count, %reason, "refused");
            }
            TransportEvent::Lost { node, reason } => {
                lock(&self.suspects).remove(&node);
                self.lose(switch, node, &reason);
            }
        }
    }

    fn lose(&self, switch: &Switch, node: NodeId, reason: &LossReason) {
        if self.over.load(Ordering::SeqCst) {
            return;
        }
        let error = loss::error(&switch.layout, node, reason);
        tracing::info!(%error, "node lost");
        let is_needed = self.needed.as_ref().is_none_or(|needed| needed.contains(node));
        if is_needed
            && loss::is_fatal(&switch.layout, node, reason)
            && !self.is_loss_reported.swap(true, Ordering::SeqCst)
        {
            self.on_failure.iter().for_each(|tell| tell(&error));
        }
        // The PEs may be busy, and the coordinator may be moving to that node.
        if loss::is_fatal(&switch.layout, node, reason) {
            switch.tell_coordinator(CoordinatorEvent::NodeLost(node, error.clone()));
        }
        let leader = switch.layout.leader(switch.node);
        switch.inbox(leader).push_loss(Box::new(move |core| core.node_lost(node, error)));
    }

    /// Sends the remaining frames and closes the connections, since the job is over.
    pub(super) fn finish(&self, switch: &Switch) {
        self.over.store(true, Ordering::SeqCst);
        self.waker.wake();
        let mut net = lock(&self.net);
        if switch.is_network_abandoned() {
            return;
        }
        self.turn(&mut net, switch, Duration::ZERO, None);
        // Frames that arrive from now on are dropped, so reading them takes no memory. Another node
        // that ends waits until its last frames are read.
        net.transport().pause_reading(false);
        if let Err(error) = self.flush(&mut net, switch).and_then(|()| net.close("the job is over"))
        {
            tracing::debug!(%error, "closing");
        }
    }

    /// Waits until others have acknowledged all frames, including those that the transport does not
    /// accept yet: the end of the job may be among them. Stops when no frame is acknowledged for
    /// [`FLUSH`].
    fn flush(&self, net: &mut NetLoop, switch: &Switch) -> io::Result<()> {
        let unacknowledged = |net: &mut NetLoop| -> u64 {
            let others = switch.layout.nodes().filter(|&node| node != switch.node);
            let sent: u64 = others.map(|node| net.transport().bytes_unacknowledged(node)).sum();
            sent + self.backlog_bytes() as u64
        };
        loop {
            let before = unacknowledged(net);
            let end = Instant::now() + FLUSH;
            while Instant::now() < end {
                if switch.is_network_abandoned() {
                    return Ok(());
                }
                if self.backlog_bytes() > 0 {
                    self.hand_over(net, switch);
                }
                if net.flush(FLUSH_CHECK, &mut |_| {})? && self.backlog_bytes() == 0 {
                    return Ok(());
                }
            }
            if unacknowledged(net) >= before {
                return Ok(());
            }
        }
    }

    /// Drives the network whenever no other thread does, until the job is over.
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
                // The thread that drives now may stop before it has handled the hurried event.
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

/// Makes the first PE of this node run `action`.
fn tell(switch: &Switch, action: impl FnOnce(&mut Core) + Send + 'static) {
    let leader = switch.layout.leader(switch.node);
    switch.inbox(leader).push_action(Box::new(action));
}

/// Ends the job; the first PE of this node reports the error to the coordinator.
fn fail(switch: &Switch, error: JobError) {
    tell(switch, move |core| core.fail(error));
}

#[cfg(test)]
mod tests;
