//! A plan over numbered nodes.

use super::fluid::{Run, Sending, SimulatedBroadcast, simulate};
use super::network::Network;

/// One tree and its part of the message.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftStripe {
    /// `(parent, child)`, each after the one that reaches its parent, in the order of sending.
    pub edges: Vec<(u32, u32)>,
    /// Its part of the message, `0.0..=1.0`; those of all stripes add up to 1.
    pub share: f64,
}

/// How a message is to travel.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// At least one tree.
    pub stripes: Vec<DraftStripe>,
    /// The size of a segment; a message that is not larger travels whole.
    pub segment_bytes: u64,
    /// What a node does while a segment leaves it.
    pub sending: Sending,
}

/// Segments of one simulated stripe at most: more would take longer to simulate than they are
/// worth.
const SEGMENTS_MAX: f64 = 4096.0;

impl Draft {
    /// A tree over which the message is sent whole, from one child to the next.
    pub fn whole(edges: Vec<(u32, u32)>) -> Self {
        let stripes = vec![DraftStripe { edges, share: 1.0 }];
        Self { stripes, segment_bytes: u64::MAX, sending: Sending::Serial }
    }

    /// The same, sent to all children at once, as nodes do that need not wait for what they send.
    pub fn at_once(mut self) -> Self {
        self.sending = Sending::Concurrent;
        self
    }

    /// The same trees with other segments.
    pub fn segmented(mut self, segment_bytes: u64) -> Self {
        self.segment_bytes = segment_bytes.max(1);
        self.sending = Sending::Concurrent;
        self
    }

    /// What travels over each tree.
    pub fn runs(&self, bytes: u64) -> Vec<Run> {
        let run = |stripe: &DraftStripe| {
            let part = bytes as f64 * stripe.share;
            let segments = (part / self.segment_bytes as f64).ceil().clamp(1.0, SEGMENTS_MAX);
            Run { edges: stripe.edges.clone(), bytes: part, segments: segments as u32 }
        };
        self.stripes.iter().map(run).collect()
    }

    /// How the broadcast goes over this network.
    pub fn simulate(&self, network: &Network, bytes: u64) -> SimulatedBroadcast {
        simulate(network, &self.runs(bytes), self.sending)
    }
}
