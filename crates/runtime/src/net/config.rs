//! Settings of a transport, and the settings that it passes to quinn, which override all defaults
//! of quinn.

use super::congestion::LossTolerantConfig;
use super::identity::{Identity, IdentityError};
use super::observed_controller::ObservedControllers;
use super::seeded::{SeededIdentifiers, StandingClock};
use crate::message::limits::Limits;
use crate::session::{DetectorSettings, PlantedSessionFault};
use gridspan_topology::{Layout, NodeId};
use quinn_proto::congestion::CubicConfig;
use quinn_proto::{
    AckFrequencyConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig,
    TransportConfig as QuicConfig, VarInt,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Settings of a [`Transport`](super::Transport).
#[derive(Clone, Debug)]
pub struct TransportConfig {
    /// The sites, nodes and PEs of the job.
    pub layout: Layout,
    /// Identity of this node, with its certificate.
    pub identity: Identity,
    /// Limits of memory and work.
    pub limits: TransportLimits,
    /// Times after which other nodes are suspected and declared lost.
    pub detector: DetectorSettings,
    /// Silence after which a node is lost, where it differs from `detector`.
    pub lost_after: BTreeMap<NodeId, Duration>,
    /// Seed of all randomness except cryptography. The same seed and the same packets at the same
    /// times give the same decisions.
    pub seed: [u8; 32],
    /// Whether links between sites are emulated, so that a loopback address does not imply that the
    /// path accepts packets of any size.
    pub emulated: bool,
    /// First congestion windows, in bytes, to nodes whose link is known. Other nodes get one
    /// according to the kind of the path.
    pub windows: BTreeMap<NodeId, u64>,
    /// Congestion control; by default chosen by the kind of the path.
    pub congestion: Congestion,
    /// Whether time is virtual. Then the identifiers of connections come from the seed instead of
    /// the system's random numbers, and the time of day stands still.
    pub is_virtual: bool,
    /// A bug to plant, which tests must find.
    #[doc(hidden)]
    pub fault: PlantedSessionFault,
}

impl TransportConfig {
    /// Returns the default settings for the node `identity` in `layout`.
    pub fn new(layout: Layout, identity: Identity, seed: [u8; 32]) -> Self {
        Self {
            layout,
            identity,
            limits: TransportLimits::default(),
            detector: DetectorSettings::default(),
            lost_after: BTreeMap::new(),
            seed,
            emulated: false,
            windows: BTreeMap::new(),
            congestion: Congestion::Auto,
            is_virtual: false,
            fault: PlantedSessionFault::None,
        }
    }
}

impl TransportConfig {
    /// Returns the settings of the detector for one other node.
    pub(super) fn detector_of(&self, node: NodeId) -> DetectorSettings {
        match self.lost_after.get(&node) {
            Some(&silence) => self.detector.with_lost_after(silence),
            None => self.detector,
        }
    }
}

/// Algorithm of congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// Cubic inside a site, loss-tolerant between sites.
    #[default]
    Auto,
    /// Cubic everywhere (RFC 9438).
    Cubic,
    /// Cubic that does not treat random loss as congestion, everywhere.
    LossTolerant,
}

/// Limits of memory and work, per node unless stated otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportLimits {
    /// Largest frame that is sent and accepted. Default 64 MiB.
    pub frame_bytes_max: u64,
    /// Largest frame that shares the ordered stream; larger ones are bulk. Default 64 KiB, which
    /// delays the frames behind it by half a millisecond at 1 Gbit/s.
    pub small_bytes_max: u64,
    /// Unacknowledged bytes kept per peer. Default 256 MiB: one second of a 2 Gbit/s link.
    pub retained_bytes_max: u64,
    /// Bytes of bulk frames that may be assembled at once, over all peers. A single frame may
    /// exceed it. The frames of one peer take at most as much as is left free. Default 256 MiB.
    pub assembly_bytes_max: u64,
    /// Bytes that one peer may send before this node has read them. Default 32 MiB: twice the
    /// bandwidth-delay product of 1 Gbit/s and 100 ms.
    pub receive_window: u64,
    /// Largest number of bytes passed to QUIC and not yet acknowledged, per peer. Default 16 MiB.
    /// The window in use is twice the congestion window if that is less, because quinn searches
    /// these bytes for every packet.
    pub send_window_max: u64,
    /// Bulk frames under way at once, per peer and direction. Default 256: a frame holds its stream
    /// for at least a round trip, or two if a packet is lost, so few streams would limit a long
    /// link.
    pub bulk_streams: u32,
    /// Connections whose hello has not arrived yet. Default 256; beyond it, the oldest from an
    /// unknown address ends.
    pub handshakes_max: usize,
    /// Number of connections without a hello above which a new peer must first prove its address.
    /// Default 32.
    pub retry_above: usize,
    /// Time for which a node dials a peer that never answered, before it declares the peer lost.
    /// Default 20 s: the last node of a large job may be late.
    pub connect_patience: Duration,
}

/// Bytes of a frame besides the largest message: headers, and other messages that share the frame.
const FRAME_OVERHEAD: u64 = 4 << 20;

impl TransportLimits {
    /// Returns the default limits, with room for the largest message of a job.
    pub fn for_job(limits: &Limits) -> Self {
        Self { frame_bytes_max: limits.message_bytes() as u64 + FRAME_OVERHEAD, ..Self::default() }
    }
}

impl Default for TransportLimits {
    fn default() -> Self {
        Self {
            frame_bytes_max: 64 << 20,
            small_bytes_max: 64 << 10,
            retained_bytes_max: 256 << 20,
            assembly_bytes_max: 256 << 20,
            receive_window: 32 << 20,
            send_window_max: 16 << 20,
            bulk_streams: 256,
            handshakes_max: 256,
            retry_above: 32,
            connect_patience: Duration::from_secs(20),
        }
    }
}

/// Time for which a connection lives without any packet. If the detector is more patient, this node
/// dials again until the other one answers or is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Round trip assumed before the first is measured: it determines when a lost first packet is sent
/// again.
const INITIAL_RTT: Duration = Duration::from_millis(100);
/// Packets that may arrive before they are acknowledged: measured 36 % less CPU for small frames.
const ACK_THRESHOLD: u32 = 10;
/// Longest delay of an acknowledgement: short against a wide-area round trip, so that it does not
/// distort the measurement. Above a few thousand packets a second, delays are shorter.
const ACK_DELAY: Duration = Duration::from_millis(1);
/// Largest packet in bytes on all paths but [`PathKind::Loopback`]: Ethernet less IP and UDP
/// headers.
const MTU_ROUTED: u16 = 1452;
/// Largest packet in bytes within a machine: ten of them fit one segmented send, for which the
/// kernel takes at most 64 KiB.
const MTU_LOOPBACK: u16 = 6500;
/// Largest UDP payload accepted, in bytes; no path carries a larger one.
const UDP_PAYLOAD_MAX: u16 = 65_000;
/// First congestion window in bytes within a machine and between emulated sites.
const WINDOW_LOOPBACK: u64 = 2 << 20;
/// First congestion window inside a site: 1 MB, since its network is provisioned for the job.
const WINDOW_SITE: u64 = 1 << 20;
/// First congestion window over a real wide-area link of unknown rate: 1 Gbit/s at 2 ms or 20
/// Mbit/s at 100 ms, paced over the first round trip.
const WINDOW_WIDE: u64 = 256 << 10;
/// Time, in probe timeouts, for which all packets must be lost to count as persistent congestion.
/// quinn's default of 3 is shorter than a brief outage of a link.
const PERSISTENT_CONGESTION: u32 = 8;
/// Size of the datagram buffers in bytes. Each datagram holds one heartbeat; the newest is enough.
const DATAGRAM_BYTES: usize = 16 << 10;
/// Buffer for handshake bytes out of order: two certificates and some room.
const CRYPTO_BYTES: usize = 16 << 10;
/// Bytes of early packets kept per handshake.
const INCOMING_BYTES: u64 = 16 << 10;
/// Bytes of early packets kept for all handshakes together.
const INCOMING_BYTES_TOTAL: u64 = 1 << 20;

/// The kind of a path, which decides packet size, first window and congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathKind {
    /// Within one machine.
    Loopback,
    /// Between sites that are emulated on one machine.
    Emulated,
    /// Within a site.
    Site,
    /// Between sites.
    Wide,
}

impl PathKind {
    /// Returns the kind of the path to `node` at `address`; an unknown node counts as one of
    /// another site.
    pub(super) fn of(config: &TransportConfig, node: Option<NodeId>, address: SocketAddr) -> Self {
        let home = config.layout.site_of_node(config.identity.node);
        let same_site = node.is_some_and(|node| config.layout.site_of_node(node) == home);
        match (address.ip().is_loopback(), same_site || !config.emulated) {
            (true, true) => Self::Loopback,
            (true, false) => Self::Emulated,
            (false, _) if same_site => Self::Site,
            (false, _) => Self::Wide,
        }
    }
}

/// Returns quinn's settings for one path. `window` is the first congestion window, if the path is
/// known.
pub(super) fn quic_config(
    transport: &TransportConfig,
    path: PathKind,
    window: Option<u64>,
) -> QuicConfig {
    let limits = &transport.limits;
    let mut config = QuicConfig::default();
    let streams = VarInt::from_u32(limits.bulk_streams + 1);
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(streams)
        .stream_receive_window(var_int(limits.receive_window))
        .receive_window(var_int(limits.receive_window))
        .send_window(limits.send_window_max)
        .send_fairness(false)
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok())
        .keep_alive_interval(None)
        .initial_rtt(INITIAL_RTT)
        .persistent_congestion_threshold(PERSISTENT_CONGESTION)
        .crypto_buffer_size(CRYPTO_BYTES)
        .datagram_receive_buffer_size(Some(DATAGRAM_BYTES))
        .datagram_send_buffer_size(DATAGRAM_BYTES)
        .enable_segmentation_offload(true);
    let mut frequency = AckFrequencyConfig::default();
    frequency
        .ack_eliciting_threshold(VarInt::from_u32(ACK_THRESHOLD))
        .max_ack_delay(Some(ACK_DELAY));
    config.ack_frequency_config(Some(frequency));
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(match path {
        PathKind::Loopback => MTU_LOOPBACK,
        _ => MTU_ROUTED,
    });
    config.mtu_discovery_config(Some(discovery));
    let initial_window = window.unwrap_or(match path {
        PathKind::Loopback | PathKind::Emulated => WINDOW_LOOPBACK,
        PathKind::Site => WINDOW_SITE,
        PathKind::Wide => WINDOW_WIDE,
    });
    let is_near = matches!(path, PathKind::Loopback | PathKind::Site);
    if transport.congestion == Congestion::Cubic
        || (transport.congestion == Congestion::Auto && is_near)
    {
        let mut cubic = CubicConfig::default();
        cubic.initial_window(initial_window);
        config.congestion_controller_factory(Arc::new(ObservedControllers(Arc::new(cubic))));
    } else {
        let tolerant = LossTolerantConfig { initial_window, window_max: limits.send_window_max };
        config.congestion_controller_factory(Arc::new(ObservedControllers(Arc::new(tolerant))));
    }
    config
}

/// Returns quinn's settings for the endpoint.
pub(super) fn endpoint_config(transport: &TransportConfig) -> EndpointConfig {
    let seed = transport.seed;
    let mut config = EndpointConfig::default();
    config.rng_seed(Some(seed));
    if transport.is_virtual {
        config.cid_generator(move || Box::new(SeededIdentifiers::new(seed)));
    }
    // Probes differ from QUIC packets in the bit that greasing would flip.
    config.grease_quic_bit(false);
    // Fails only below 1,200.
    let _ = config.max_udp_payload_size(UDP_PAYLOAD_MAX);
    config
}

/// Returns quinn's settings for incoming connections.
pub(super) fn server_config(transport: &TransportConfig) -> Result<ServerConfig, IdentityError> {
    let limits = &transport.limits;
    let mut config = ServerConfig::with_crypto(transport.identity.quic_server()?);
    config
        .migration(false)
        .max_incoming(limits.handshakes_max)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(INCOMING_BYTES_TOTAL)
        .transport_config(Arc::new(quic_config(transport, PathKind::Wide, None)));
    config.validation_token.sent(0);
    if transport.is_virtual {
        config.time_source(Arc::new(StandingClock));
    }
    Ok(config)
}

fn var_int(value: u64) -> VarInt {
    VarInt::from_u64(value).unwrap_or(VarInt::MAX)
}
