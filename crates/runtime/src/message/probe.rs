//! What nodes are asked to measure of each other, and what they found.

use gridspan_topology::{Bandwidth, NodeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeKind {
    /// The least of several round trips.
    RoundTrip,
    /// How far a short train of packets, which leave so long one after the other, is drawn apart
    /// on its way.
    Train {
        /// Zero: all at once.
        gap: Duration,
    },
}

/// Packets of a train that leaves all at once: 38 kB, which show rates of up to 600 Mbit/s.
const BURST_PACKETS: u16 = 32;
/// Packets of a train that comes at a rate: long enough to meet those of others.
const PACED_PACKETS: u16 = 128;

impl ProbeKind {
    /// Packets to each target at a time.
    pub fn packets(self) -> u16 {
        match self {
            Self::RoundTrip => 1,
            Self::Train { gap } if gap.is_zero() => BURST_PACKETS,
            Self::Train { .. } => PACED_PACKETS,
        }
    }

    /// The rate of a train of which `packets` took so long from the first to the last.
    pub fn rate(packets: u64, span: Duration) -> Option<Bandwidth> {
        let bits = (8 * Self::TRAIN_BYTES * packets.saturating_sub(1)) as f64;
        (!span.is_zero())
            .then(|| Bandwidth::from_bits_per_second((bits / span.as_secs_f64()) as u64))
    }

    /// A train of packets that leave all at once.
    pub const BURST: Self = Self::Train { gap: Duration::ZERO };
    /// Bytes of a train's packet: the largest that every path takes.
    pub const TRAIN_BYTES: u64 = 1200;

    /// A train that comes at a rate.
    pub fn train_at(rate: Bandwidth) -> Self {
        Self::Train { gap: rate.time_for(Self::TRAIN_BYTES) }
    }
}

/// Measurements that one node makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeOrder {
    /// Names the order in the report.
    pub id: u64,
    /// What to measure.
    pub kind: ProbeKind,
    /// The other ends.
    pub targets: Vec<NodeId>,
}

/// What was found about one target; nothing, if it did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// The other end.
    pub target: NodeId,
    /// The least round trip.
    pub round_trip: Option<Duration>,
    /// The rate at which a train arrived there; unknown if it came all at once.
    pub rate: Option<Bandwidth>,
    /// The rate at which a train left that did not leave all at once.
    pub sent: Option<Bandwidth>,
}

/// What a node found for an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The order's name.
    pub id: u64,
    /// What the node's transport takes for a datagram, from its buffers to the system; `None` if it
    /// has sent none.
    pub send_cost: Option<Duration>,
    /// What was found about each target.
    pub found: Vec<Probed>,
}

impl Probed {
    /// Nothing is known yet.
    pub fn nothing(target: NodeId) -> Self {
        Self { target, round_trip: None, rate: None, sent: None }
    }
}
