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

impl ProbeKind {
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
    /// The rate at which a train arrived there.
    pub rate: Option<Bandwidth>,
    /// Whether the rate is that of the link; otherwise the link was too fast for a train so short,
    /// and the rate is what it can do at least.
    pub is_full: bool,
}

impl Probed {
    /// Nothing is known yet.
    pub fn nothing(target: NodeId) -> Self {
        Self { target, round_trip: None, rate: None, is_full: false }
    }
}
