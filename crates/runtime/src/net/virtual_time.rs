//! The transport in virtual time, for a simulator. It takes [`Time`] in place of instants, and
//! numbers of nodes in place of addresses.
//!
//! quinn uses instants and socket addresses. An instant is a base, the same for all nodes of a job,
//! plus the virtual time; the base is never compared with a clock. The address of a node is its
//! number. All other code is the [`Transport`] that real nodes use.
//!
//! The same seed gives datagrams of the same sizes at the same times, though not with the same
//! bytes. Keys, and with them certificates and ciphertext, come from the system's random numbers,
//! but their lengths are fixed: Ed25519 keys and signatures always take 32 and 64 bytes, where
//! ECDSA signatures take 70 to 72, and serial numbers consist of node and incarnation (see
//! `identity`). quinn's random numbers and the identifiers of connections derive from the seed (see
//! `seeded`).

use super::config::{TransportConfig, TransportLimits};
use super::event::{FrameClass, LinkStats, SendError, TransportEvent};
use super::identity::{Authority, IdentityError};
use super::transport::Transport;
use crate::message::frame::Frame;
use crate::session::PlantedSessionFault;
use bytes::{Bytes, BytesMut};
use gridspan_topology::{Layout, NodeId, Time};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of all jobs, and of all runs of a job.
const NAME: &str = "virtual";
/// The port of all nodes.
const PORT: u16 = 7_000;
/// Prefix of the nodes' addresses; the number of the node follows.
const PREFIX: [u16; 6] = [0xfd00, 0, 0, 0, 0, 0];
/// Largest number of datagrams of equal size that are created at once, as for a system's segmented
/// send.
const SEGMENTS: usize = 10;
/// Address of a node of another run. No node of this run has it.
const ELSEWHERE: NodeId = NodeId(u32::MAX);
/// Virtual time in which a node of another run is accepted or refused: a handshake and the hellos
/// take a few steps.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// Virtual time of one exchange of datagrams with a node of another run.
const STEP: Duration = Duration::from_millis(1);

/// A run of a job whose nodes communicate in virtual time.
#[derive(Clone)]
pub struct VirtualJob {
    authority: Arc<Authority>,
    base: Instant,
    layout: Layout,
    seed: u64,
    limits: TransportLimits,
    fault: PlantedSessionFault,
}

impl VirtualJob {
    /// Creates a job with a throw-away authority.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the authority cannot be made.
    pub fn new(layout: Layout, seed: u64, limits: TransportLimits) -> Result<Self, IdentityError> {
        let (authority, base) = (Arc::new(Authority::new(NAME)?), Instant::now());
        Ok(Self { authority, base, layout, seed, limits, fault: PlantedSessionFault::None })
    }

    /// Plants a bug in every transport.
    #[doc(hidden)]
    pub fn with_fault(self, fault: PlantedSessionFault) -> Self {
        Self { fault, ..self }
    }

    /// Begins another run of the job on the nodes of `layout`. As a launcher does, it creates a new
    /// authority, so that the new run refuses lost nodes of this run that come back.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the authority cannot be made.
    pub fn next_run(&self, layout: Layout, seed: u64) -> Result<Self, IdentityError> {
        let authority = match self.fault {
            PlantedSessionFault::KeysKept => self.authority.clone(),
            _ => Arc::new(Authority::new(NAME)?),
        };
        Ok(Self { authority, layout, seed, ..self.clone() })
    }

    /// Whether `node` of this run receives a frame from node `from` of the run `other`. `from` has
    /// the keys of `other`, and dials `node` as if it were node `to` of that run. Neither has other
    /// connections.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the certificate of a node cannot be made.
    pub fn accepts(
        &self,
        node: NodeId,
        other: &Self,
        (from, to): (NodeId, NodeId),
    ) -> Result<bool, IdentityError> {
        let mut dialling = other.transport(from, Time::ZERO)?;
        let mut dialled = self.transport(node, Time::ZERO)?;
        if dialling.send(to, FrameClass::Auto, Bytes::from_static(b"late")).is_err() {
            return Ok(false);
        }
        let mut now = Time::ZERO;
        while now < Time::ZERO + ANSWER_PATIENCE {
            dialling.transmit(now, &mut |_, datagram| {
                dialled.handle_datagram(now, ELSEWHERE, datagram);
            });
            dialled.transmit(now, &mut |_, datagram| dialling.handle_datagram(now, to, datagram));
            while let Some(event) = dialled.poll_event() {
                if matches!(event, TransportEvent::Frame { .. }) {
                    return Ok(true);
                }
            }
            while let Some(event) = dialling.poll_event() {
                if matches!(event, TransportEvent::Refused { .. } | TransportEvent::Lost { .. }) {
                    return Ok(false);
                }
            }
            now += STEP;
            for transport in [&mut dialling, &mut dialled] {
                if transport.poll_timeout().is_some_and(|due| due <= now) {
                    transport.handle_timeout(now);
                }
            }
        }
        Ok(false)
    }

    /// Creates the transport of a founder or a guest, which knows the addresses of all founders.
    ///
    /// # Errors
    ///
    /// [`IdentityError`] if the certificate of the node cannot be made.
    pub fn transport(&self, node: NodeId, now: Time) -> Result<VirtualTransport, IdentityError> {
        let identity = self.authority.issue(node, 1)?;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..12].copy_from_slice(&node.0.to_le_bytes());
        let mut config = TransportConfig::new(self.layout.clone(), identity, seed);
        config.limits = self.limits.clone();
        (config.is_virtual, config.fault) = (true, self.fault);
        let mut transport = Transport::new(config, self.base + now.since(Time::ZERO))?;
        for other in self.layout.nodes().filter(|&other| other != node) {
            transport.set_address(other, address(other));
        }
        Ok(VirtualTransport { transport, base: self.base, buffer: Vec::new() })
    }
}

/// The transport of one node in virtual time. The caller moves datagrams and time as for a
/// [`Transport`]; time must not run backwards.
pub struct VirtualTransport {
    transport: Transport,
    base: Instant,
    buffer: Vec<u8>,
}

impl VirtualTransport {
    /// Sends a frame, which is kept until `to` has acknowledged it. It leaves with the next
    /// [`transmit`](Self::transmit).
    ///
    /// # Errors
    ///
    /// Those of [`Transport::send`].
    pub fn send(
        &mut self,
        to: NodeId,
        class: FrameClass,
        frame: impl Into<Frame>,
    ) -> Result<(), SendError> {
        self.transport.send(to, class, frame)
    }

    /// Opens a connection to `node` if there is none.
    pub fn connect(&mut self, node: NodeId) {
        self.transport.connect(node);
    }

    /// Leaves the first dial to `node`, which is about to connect to this node.
    pub fn await_dial(&mut self, now: Time, node: NodeId) {
        let now = self.instant(now);
        self.transport.await_dial(now, node);
    }

    /// Returns the address at which others can reach this node, for [`meet`](Self::meet).
    pub fn contact(&self) -> String {
        address(self.transport.node()).to_string()
    }

    /// Sets the address of a guest; ignores a `contact` that is not an address.
    pub fn meet(&mut self, guest: NodeId, contact: &str) {
        if let Ok(address) = contact.parse()
            && guest != self.transport.node()
            && self.transport.address_of(guest).is_none()
        {
            self.transport.set_address(guest, address);
        }
    }

    /// Handles one datagram.
    pub fn handle_datagram(&mut self, now: Time, from: NodeId, datagram: BytesMut) {
        let now = self.instant(now);
        self.transport.handle_datagram(now, address(from), None, datagram);
    }

    /// Passes all due datagrams to `on_datagram`.
    pub fn transmit(&mut self, now: Time, on_datagram: &mut dyn FnMut(NodeId, BytesMut)) {
        let now = self.instant(now);
        loop {
            self.buffer.clear();
            let transmit = self.transport.poll_transmit(now, SEGMENTS, &mut self.buffer);
            let Some(transmit) = transmit else { return };
            // A packet to an address that is not a node's is dropped.
            let Some(to) = node(transmit.destination) else { continue };
            let size = transmit.segment_size.unwrap_or(transmit.size).max(1);
            for datagram in self.buffer[..transmit.size].chunks(size) {
                on_datagram(to, BytesMut::from(datagram));
            }
        }
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) must be called.
    pub fn poll_timeout(&mut self) -> Option<Time> {
        let due = self.transport.poll_timeout()?;
        Some(Time::ZERO + due.saturating_duration_since(self.base))
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.instant(now);
        self.transport.handle_timeout(now);
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<TransportEvent> {
        self.transport.poll_event()
    }

    /// Whether all frames to nodes that are not lost were acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.transport.is_flushed()
    }

    /// Returns the statistics of the link to `node`.
    pub fn stats(&self, node: NodeId) -> LinkStats {
        self.transport.stats(node)
    }

    /// Ends all connections; other nodes receive `reason`. Call [`transmit`](Self::transmit) once
    /// more afterwards.
    pub fn close(&mut self, now: Time, reason: &str) {
        let now = self.instant(now);
        self.transport.close(now, reason);
    }

    /// Breaks the connection to `node`, as a network might. Returns whether there was one.
    pub fn break_connection(&mut self, now: Time, node: NodeId) -> bool {
        let is_open = self.transport.stats(node).is_open;
        if is_open {
            let now = self.instant(now);
            self.transport.break_connection(now, node);
        }
        is_open
    }

    fn instant(&self, now: Time) -> Instant {
        self.base + now.since(Time::ZERO)
    }
}

fn address(node: NodeId) -> SocketAddr {
    let [a, b, c, d, e, f] = PREFIX;
    let (high, low) = ((node.0 >> 16) as u16, node.0 as u16);
    SocketAddr::from((Ipv6Addr::new(a, b, c, d, e, f, high, low), PORT))
}

fn node(address: SocketAddr) -> Option<NodeId> {
    let IpAddr::V6(ip) = address.ip() else { return None };
    let [prefix @ .., high, low] = ip.segments();
    let is_node = prefix == PREFIX && address.port() == PORT;
    is_node.then_some(NodeId(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: NodeId = NodeId(0);
    const SECOND: NodeId = NodeId(1);
    const LOST: NodeId = NodeId(2);

    fn layout(nodes: usize) -> Layout {
        Layout::new(vec![("a".to_owned(), vec![1; nodes])])
    }

    /// A run on four nodes, and the next one, on three.
    fn two_runs(fault: PlantedSessionFault) -> [VirtualJob; 2] {
        let run = VirtualJob::new(layout(4), 1, TransportLimits::default()).unwrap();
        let run = run.with_fault(fault);
        let next = run.next_run(layout(3), 2).unwrap();
        [run, next]
    }

    #[test]
    fn a_node_of_the_run_before_is_refused() {
        let [run, next] = two_runs(PlantedSessionFault::None);

        assert!(run.accepts(FIRST, &run, (LOST, FIRST)).unwrap(), "in its own run");
        assert!(!next.accepts(FIRST, &run, (LOST, FIRST)).unwrap());
        assert!(!run.accepts(FIRST, &next, (LOST, FIRST)).unwrap(), "nor does it accept them");
    }

    #[test]
    fn with_the_keys_of_the_run_before_only_the_numbers_of_nodes_differ() {
        let [run, next] = two_runs(PlantedSessionFault::KeysKept);

        assert!(next.accepts(FIRST, &run, (LOST, FIRST)).unwrap());
        assert!(!next.accepts(SECOND, &run, (LOST, LOST)).unwrap(), "it dials itself");
        assert!(!next.accepts(SECOND, &run, (LOST, NodeId(3))).unwrap(), "that is not node 3");
    }

    #[test]
    fn the_address_of_a_node_is_its_number() {
        for number in [0, 7, 0x1_0002, u32::MAX] {
            assert_eq!(node(address(NodeId(number))), Some(NodeId(number)));
        }
        assert_eq!(node(SocketAddr::from(([127, 0, 0, 1], PORT))), None);
    }
}
