//! Frames between the nodes of a job over QUIC, without sockets, clocks or threads.
//!
//! # Start
//!
//! A [`Transport`] is created with the job's layout and the identity of its node, and receives the
//! addresses of the other nodes. The first frame to a node opens a connection; after both have sent
//! their hello, frames flow.
//!
//! # Steady state
//!
//! There is one connection per pair of nodes, regardless of which node opened it. Small frames
//! share an ordered stream, each bulk frame has its own stream, and a datagram per beat reports
//! that the node lives and which frames it has received. The caller moves packets: it calls
//! [`handle_datagram`](Transport::handle_datagram) for each that arrives,
//! [`poll_transmit`](Transport::poll_transmit) until it returns none,
//! [`handle_timeout`](Transport::handle_timeout) at the time that
//! [`poll_timeout`](Transport::poll_timeout) returns, and
//! [`poll_event`](Transport::poll_event) until it returns none.
//!
//! # Failure
//!
//! A broken connection is re-established and the session resumed, invisibly to the layers above. A
//! node that stays silent is suspected and then lost, once. A caller that cannot accept more frames
//! pauses reading ([`pause_reading`](Transport::pause_reading)); QUIC's windows then stall the
//! senders, while heartbeats continue.

mod greeting;
mod inbound;
mod refusals;
mod upkeep;

use self::refusals::Refusals;
use super::config::{PathKind, TransportConfig, quic_config, server_config};
use super::connections::Connections;
use super::event::{FrameClass, LinkStats, LossReason, SendError, TransportEvent};
use super::hello::{CODE_CLOSED, CODE_REPLACED};
use super::identity::{self, IdentityError, check_job_name};
use super::incoming::Assembly;
use super::link::{LinkEvent, Stage};
use super::observed_controller::{Acknowledged, take_acknowledged};
use super::peer::{Peer, Phase};
use super::peers::Peers;
use super::wire::write_beat;
use crate::message::frame::Frame;
use crate::session::{Class, Detector, Health, LocalHealth};
use bytes::BytesMut;
use gridspan_topology::dice::Dice;
use gridspan_topology::{Layout, NodeId, Time};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, ConnectionError, ConnectionHandle, EcnCodepoint, Incoming, ServerConfig, Transmit,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest period of the upkeep: half a beat, so that a late upkeep is detected.
const UPKEEP_EVERY: Duration = Duration::from_millis(100);
/// Time after which a received frame is acknowledged; the sender keeps it that much longer.
const ACKNOWLEDGE_AFTER: Duration = Duration::from_millis(25);
/// Frames after which an acknowledgement is sent at once, which keeps the sender's list short.
const ACKNOWLEDGE_FRAMES: u64 = 256;
/// Bytes after which an acknowledgement is sent at once.
const ACKNOWLEDGE_BYTES: u64 = 512 << 10;
/// Beats, by default 5 s, within which a new connection must send its hello.
const GREETING_BEATS: u32 = 25;
/// Handshakes from unknown addresses per upkeep: 1,000 a second take a fifth of a processor.
const STRANGERS_MAX: u32 = 100;
/// Smallest window for data passed to QUIC, in bytes: enough for a chunk and its successor on any
/// path.
const SEND_WINDOW_MIN: u64 = 1 << 20;
/// Bounds in bytes of a congestion window that is kept for the next connection.
const WINDOW_REMEMBERED: (u64, u64) = (64 << 10, 4 << 20);

/// The transport of one node.
pub struct Transport {
    config: TransportConfig,
    client: Arc<QuicClientConfig>,
    server: ServerConfig,
    links: Connections,
    peers: Peers,
    nodes_by_address: BTreeMap<SocketAddr, NodeId>,
    events: VecDeque<TransportEvent>,
    inbox: VecDeque<(ConnectionHandle, LinkEvent)>,
    /// Peers that this node will dial.
    wanted: Vec<NodeId>,
    /// Nodes whose ports this node will check.
    ports_to_check: BTreeSet<NodeId>,
    assembly: Assembly,
    is_paused: bool,
    is_starved: bool,
    is_closed: bool,
    refusals: Refusals,
    strangers_left: u32,
    dice: Dice,
    local: LocalHealth,
    began: Instant,
    now: Instant,
    upkeep_due: Option<Instant>,
}

impl Transport {
    /// Creates a transport without connections.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the identity of the node, or the name of its job, cannot be used.
    pub fn new(config: TransportConfig, now: Instant) -> Result<Self, IdentityError> {
        check_job_name(&config.identity.job)?;
        let client = config.identity.quic_client()?;
        let server = server_config(&config)?;
        let retained = config.limits.retained_bytes_max;
        let new_peer = |node: NodeId| {
            let mut peer = Peer::new(retained, config.fault);
            peer.window = config.windows.get(&node).copied();
            peer
        };
        let peers = Peers::new(config.layout.nodes().map(new_peer).collect());
        let mut dice_seed = [0; 16];
        dice_seed.copy_from_slice(&config.seed[..16]);
        Ok(Self {
            links: Connections::new(server.clone(), &config),
            client,
            server,
            peers,
            nodes_by_address: BTreeMap::new(),
            events: VecDeque::new(),
            inbox: VecDeque::new(),
            wanted: vec![],
            ports_to_check: BTreeSet::new(),
            assembly: Assembly::new(config.limits.assembly_bytes_max),
            is_paused: false,
            is_starved: false,
            is_closed: false,
            refusals: Refusals::default(),
            strangers_left: STRANGERS_MAX,
            dice: Dice::from_bytes(dice_seed),
            local: LocalHealth::new(config.detector.beat, Time::ZERO),
            began: now,
            now,
            upkeep_due: None,
            config,
        })
    }

    /// Sets the address at which `node` receives packets. [`send`](Self::send) accepts frames to a
    /// founder before its address is set, but to a guest only after
    /// [`await_guest`](Self::await_guest).
    pub fn set_address(&mut self, node: NodeId, address: SocketAddr) {
        let (retained, fault) = (self.config.limits.retained_bytes_max, self.config.fault);
        self.peers.meet(node, || Peer::new(retained, fault));
        let Some(peer) = self.peers.get_mut(node) else { return };
        // Another node may have taken the old address meanwhile.
        if let Some(old) = peer.address.replace(address)
            && self.nodes_by_address.get(&old) == Some(&node)
        {
            self.nodes_by_address.remove(&old);
        }
        self.nodes_by_address.insert(address, node);
        if peer.phase == Phase::Idle && !peer.session.sender.is_flushed() {
            self.wanted.push(node);
        }
    }

    /// Makes [`send`](Self::send) accept frames to a guest whose address is unknown. They wait
    /// until it connects.
    pub fn await_guest(&mut self, guest: NodeId) {
        let (retained, fault) = (self.config.limits.retained_bytes_max, self.config.fault);
        self.peers.meet(guest, || Peer::new(retained, fault));
    }

    /// Returns the node that receives packets at `address`.
    pub fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        self.nodes_by_address.get(&address).copied()
    }

    /// Returns the address at which `node` receives packets, if known.
    pub fn address_of(&self, node: NodeId) -> Option<SocketAddr> {
        self.peers.get(node)?.address
    }

    /// Returns the key with which all nodes of the job sign their probes.
    pub(super) fn probe_key(&self) -> &[u8; 32] {
        &self.config.identity.probe_key
    }

    /// Returns all other founders of the job.
    pub fn others(&self) -> impl Iterator<Item = NodeId> + use<> {
        let me = self.node();
        self.config.layout.nodes().filter(move |&node| node != me)
    }

    /// Returns the sites, nodes and PEs of the job.
    pub fn layout(&self) -> &Layout {
        &self.config.layout
    }

    /// Returns this node.
    pub fn node(&self) -> NodeId {
        self.config.identity.node
    }

    /// Sends a frame, which is kept until `to` has acknowledged it. Costs a reference now, and a
    /// copy later if the frame is small.
    ///
    /// # Errors
    ///
    /// [`SendError`] if the frame is too large for its class, `to` is no other node of the job, or
    /// is lost, or too many bytes to it are not acknowledged yet. Nothing is sent then.
    pub fn send(
        &mut self,
        to: NodeId,
        class: FrameClass,
        frame: impl Into<Frame>,
    ) -> Result<(), SendError> {
        let frame = frame.into();
        let limits = &self.config.limits;
        let bytes = frame.len() as u64;
        let class = match class {
            FrameClass::Auto if bytes <= limits.small_bytes_max => Class::Small,
            FrameClass::Auto | FrameClass::Bulk => Class::Bulk,
            FrameClass::Small => Class::Small,
        };
        let limit = match class {
            Class::Small => limits.small_bytes_max,
            Class::Bulk => limits.frame_bytes_max,
        };
        if bytes > limit {
            return Err(match class {
                Class::Small => SendError::NotSmall { bytes, limit },
                Class::Bulk => SendError::TooLarge { bytes, limit },
            });
        }
        let peer = match self.peers.get_mut(to) {
            Some(peer) if to != self.config.identity.node => peer,
            _ => return Err(SendError::NoSuchPeer(to)),
        };
        if peer.phase == Phase::Lost {
            return Err(SendError::Lost(to));
        }
        peer.session.sender.push(class, frame)?;
        match peer.phase {
            Phase::Open { handle } => self.links.wake(handle),
            Phase::Idle => self.wanted.push(to),
            _ => {}
        }
        Ok(())
    }

    /// Opens a connection to `node` if there is none, so that the first frame need not wait for it.
    pub fn connect(&mut self, node: NodeId) {
        if node != self.node() && self.peers.get(node).is_some_and(|p| p.phase == Phase::Idle) {
            self.wanted.push(node);
        }
    }

    /// Leaves the first dial to `node`, which is about to [`connect`](Self::connect) to this node:
    /// if both dialled at once, one of two handshakes would be in vain. Frames to `node` wait
    /// meanwhile. If no connection has come after half a second, and none is under way, this node
    /// dials as soon as it has a frame.
    pub fn await_dial(&mut self, now: Instant, node: NodeId) {
        self.now = self.now.max(now);
        let time = self.time();
        if let Some(until) = self.peers.get_mut(node).and_then(|peer| peer.await_dial(time)) {
            self.upkeep_at(self.now + until.since(time));
        }
    }

    /// Stops reading streams, or starts again. Data that arrives meanwhile waits in QUIC's windows.
    pub fn pause_reading(&mut self, pause: bool) {
        if std::mem::replace(&mut self.is_paused, pause) && !pause {
            self.links.handles().for_each(|handle| self.links.touch(handle));
        }
    }

    /// Handles one packet.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        data: BytesMut,
    ) {
        self.now = self.now.max(now);
        if let Some(incoming) = self.links.handle_datagram(now, from, ecn, data) {
            self.admit(now, incoming);
        }
    }

    /// Appends the next packets to send to the empty `buffer`: one, or up to `segments` of equal
    /// size to one address.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        segments: usize,
        buffer: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.advance(now);
        let Self { links, peers, is_closed, .. } = self;
        let mut broken = None;
        let transmit = links.poll_transmit(now, segments, buffer, &mut |link| {
            let (Some(node), Stage::Open, false) = (link.peer, link.stage, *is_closed) else {
                return true;
            };
            let sender = &mut peers[node].session.sender;
            let written = link.outgoing.write(&mut link.connection, sender);
            if written.is_err() {
                // Not a refusal: the other side would then count this node as lost.
                link.close(now, CODE_REPLACED, "a stream was stopped");
                broken = Some(node);
            }
            written.is_ok()
        });
        if let Some(node) = broken {
            self.link_down(node);
        }
        transmit
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.links.is_busy() || !self.wanted.is_empty() {
            return Some(self.now);
        }
        [self.links.poll_timeout(), self.upkeep_due].into_iter().flatten().min()
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.links.handle_timeout(now);
        if self.upkeep_due.is_some_and(|due| due <= now) {
            self.advance(now);
            self.do_upkeep();
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<TransportEvent> {
        if self.events.is_empty() {
            self.advance(self.now);
        }
        self.events.pop_front()
    }

    /// Returns the bytes sent to `node` that it has not acknowledged yet.
    pub fn bytes_unacknowledged(&self, node: NodeId) -> u64 {
        self.peers.get(node).map_or(0, |peer| peer.session.sender.bytes_unacknowledged())
    }

    /// Whether all frames to nodes that are not lost were acknowledged, without those to guests
    /// that have not connected and have no address.
    pub fn is_flushed(&self) -> bool {
        let layout = &self.config.layout;
        self.peers.nodes().all(|node| {
            let peer = &self.peers[node];
            let is_unreachable = layout.is_guest(node) && peer.address.is_none();
            is_unreachable || peer.session.sender.is_flushed()
        })
    }

    /// Whether `node` was declared lost.
    pub fn is_lost(&self, node: NodeId) -> bool {
        self.peers.get(node).is_some_and(|peer| peer.phase == Phase::Lost)
    }

    /// Returns the number of handshakes of QUIC and TLS that this node has begun, as either side,
    /// including those that failed or whose connection was replaced.
    pub fn handshakes(&self) -> u64 {
        self.links.handshakes()
    }

    /// Returns the statistics of the link to `node`.
    pub fn stats(&self, node: NodeId) -> LinkStats {
        let Some(peer) = self.peers.get(node) else { return LinkStats::default() };
        let stats = LinkStats {
            bytes_unacknowledged: peer.session.sender.bytes_unacknowledged(),
            bytes_acknowledged: peer.session.sender.bytes_acknowledged(),
            is_backed_up: peer.session.sender.is_backed_up(),
            connections: peer.connections,
            ..LinkStats::default()
        };
        let Some(link) = peer.open_link().and_then(|handle| self.links.get(handle)) else {
            return stats;
        };
        let quic = link.connection.stats();
        LinkStats {
            is_open: true,
            rtt: quic.path.rtt,
            rtt_min: quic.path.min_rtt,
            congestion_window: quic.path.cwnd,
            packets_sent: quic.path.sent_packets,
            packets_lost: quic.path.lost_packets,
            bytes_sent: quic.udp_tx.bytes,
            bytes_received: quic.udp_rx.bytes,
            mtu: quic.path.current_mtu,
            stops: quic.frame_tx.data_blocked + quic.frame_tx.stream_data_blocked,
            ..stats
        }
    }

    /// Returns what `node` has acknowledged since the last call, over the connection that is open.
    pub(super) fn take_acknowledged(&self, node: NodeId) -> Acknowledged {
        let handle = self.peers.get(node).and_then(Peer::open_link);
        let link = handle.and_then(|handle| self.links.get(handle));
        link.map_or_else(Acknowledged::default, |link| {
            take_acknowledged(link.connection.congestion_state())
        })
    }

    /// Ends all connections: other nodes receive `reason` and consider this node lost. Frames that
    /// are not acknowledged are dropped, so call this when [`is_flushed`](Self::is_flushed) returns
    /// true. Call [`poll_transmit`](Self::poll_transmit) afterwards until there is no packet;
    /// nothing else happens.
    pub fn close(&mut self, now: Instant, reason: &str) {
        self.advance(now);
        tracing::debug!(handshakes = self.links.handshakes(), "closed");
        self.is_closed = true;
        self.wanted.clear();
        self.upkeep_due = None;
        for handle in self.links.handles() {
            if let Some(link) = self.links.get_mut(handle) {
                link.close(now, CODE_CLOSED, reason);
                self.links.wake(handle);
            }
        }
    }

    /// Breaks the connection to `node`, as a network might, for tests of the recovery.
    #[doc(hidden)]
    pub fn break_connection(&mut self, now: Instant, node: NodeId) {
        self.advance(now);
        if let Some(handle) = self.peers[node].open_link() {
            self.misbehaved(handle, node, "broken by a test");
        }
    }

    fn time(&self) -> Time {
        Time::ZERO + self.now.saturating_duration_since(self.began)
    }

    /// Handles the events of the links, and dials the wanted peers.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        loop {
            let inbox = &mut self.inbox;
            let Some(handle) = self.links.poll(&mut |link, event| inbox.push_back((link, event)))
            else {
                break;
            };
            while let Some((handle, event)) = self.inbox.pop_front() {
                self.handle_link_event(handle, event);
            }
            self.read(handle);
            self.links.settle(handle);
        }
        for node in std::mem::take(&mut self.wanted) {
            if self.peers[node].phase == Phase::Idle && !self.is_closed {
                self.dial(node);
            }
        }
    }
}

#[cfg(test)]
mod tests;
