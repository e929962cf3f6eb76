//! A plan over numbered nodes.

use super::fluid::{Run, Sending, SimulatedBroadcast, simulate};
use super::network::Network;

/// One tree and its part of the message.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftStripe {
    /// `(parent, child)` edges in the order of sending, each after the edge that reaches its
    /// parent.
    pub edges: Vec<(u32, u32)>,
    /// Its part of the message, `0.0..=1.0`; the parts of all stripes add up to 1.
    pub share: f64,
}

/// A plan over numbered nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// At least one tree.
    pub stripes: Vec<DraftStripe>,
    /// The size of a segment; a message that is not larger travels whole.
    pub segment_bytes: u64,
    /// Whether a node may begin other sends while a segment leaves it.
    pub sending: Sending,
}

/// Maximum number of segments of a simulated stripe: more would take too long to simulate for
/// their benefit.
const SEGMENTS_MAX: f64 = 4096.0;

impl Draft {
    /// A tree over which the message is sent whole, to one child after the other.
    pub fn whole(edges: Vec<(u32, u32)>) -> Self {
        let stripes = vec![DraftStripe { edges, share: 1.0 }];
        Self { stripes, segment_bytes: u64::MAX, sending: Sending::Serial }
    }

    /// Makes nodes send to all children at once, without waiting for earlier sends.
    pub fn at_once(mut self) -> Self {
        self.sending = Sending::Concurrent;
        self
    }

    /// Changes the size of segments, which are sent to all children at once.
    pub fn segmented(mut self, segment_bytes: u64) -> Self {
        self.segment_bytes = segment_bytes.max(1);
        self.sending = Sending::Concurrent;
        self
    }

    /// The part of a message of `bytes` that travels over each tree.
    pub fn runs(&self, bytes: u64) -> Vec<Run> {
        let run = |stripe: &DraftStripe| {
            let part = bytes as f64 * stripe.share;
            let segments = (part / self.segment_bytes as f64).ceil().clamp(1.0, SEGMENTS_MAX);
            Run { edges: stripe.edges.clone(), bytes: part, segments: segments as u32 }
        };
        self.stripes.iter().map(run).collect()
    }

    /// Simulates the broadcast over this network.
    pub fn simulate(&self, network: &Network, bytes: u64) -> SimulatedBroadcast {
        simulate(network, &self.runs(bytes), self.sending)
    }
}
