//! Measurements between nodes: orders and results.

use gridspan_topology::{Bandwidth, NodeId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Kind of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProbeKind {
    /// The shortest of several round trips.
    RoundTrip,
    /// The rate at which a train of packets arrives.
    Train {
        /// Time between the departures of two packets; zero if all leave at once.
        gap: Duration,
    },
}

/// Number of packets of a train that leaves all at once: 38 kB, which show rates of up to
/// 600 Mbit/s.
const BURST_PACKETS: u16 = 32;
/// Number of packets of a paced train: enough to overlap with the trains of other nodes.
const PACED_PACKETS: u16 = 128;

impl ProbeKind {
    /// Returns the number of packets sent to each target at a time.
    pub fn packets(self) -> u16 {
        match self {
            Self::RoundTrip => 1,
            Self::Train { gap } if gap.is_zero() => BURST_PACKETS,
            Self::Train { .. } => PACED_PACKETS,
        }
    }

    /// Returns the rate of a train of which `packets` packets arrived within `span`, from the first
    /// to the last; `None` if `span` is zero.
    pub fn rate(packets: u64, span: Duration) -> Option<Bandwidth> {
        let bits = (8 * Self::TRAIN_BYTES * packets.saturating_sub(1)) as f64;
        (!span.is_zero())
            .then(|| Bandwidth::from_bits_per_second((bits / span.as_secs_f64()) as u64))
    }

    /// A train of packets that leave all at once.
    pub const BURST: Self = Self::Train { gap: Duration::ZERO };
    /// Size of a train's packet in bytes: the largest that every path takes.
    pub const TRAIN_BYTES: u64 = 1200;

    /// Returns a train paced at a rate.
    pub fn train_at(rate: Bandwidth) -> Self {
        Self::Train { gap: rate.time_for(Self::TRAIN_BYTES) }
    }
}

/// Measurements that one node makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeOrder {
    /// Identifies the order in the report.
    pub id: u64,
    /// What to measure.
    pub kind: ProbeKind,
    /// The nodes to measure.
    pub targets: Vec<NodeId>,
}

/// Measurements of one target; all `None` if it did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// The target node.
    pub target: NodeId,
    /// The shortest round trip.
    pub round_trip: Option<Duration>,
    /// Arrival rate of a train at the target; `None` if it arrived all at once.
    pub rate: Option<Bandwidth>,
    /// Departure rate of a paced train.
    pub sent: Option<Bandwidth>,
}

/// A node's measurements for an order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The order's identifier.
    pub id: u64,
    /// Time that the node's transport takes for a datagram, from its buffers to the system; `None`
    /// if it has sent none.
    pub send_cost: Option<Duration>,
    /// Measurements of each target.
    pub found: Vec<Probed>,
}

impl Probed {
    /// Creates an empty result for a target.
    pub fn nothing(target: NodeId) -> Self {
        Self { target, round_trip: None, rate: None, sent: None }
    }
}
