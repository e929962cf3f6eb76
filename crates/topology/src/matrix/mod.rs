//! Measured round-trip times between all pairs of nodes.
//!
//! [`RttMatrix`] is the value; `text.rs` reads it from the formats of data sets.

mod text;

pub use text::{MatrixProblem, MatrixTextError, RttUnit};

use crate::id::NodeId;
use std::time::Duration;

/// Round-trip times from each of `n` nodes to each other one. The two directions of a pair may
/// differ, and either may be missing. Where a pair was measured several times, the matrix should
/// contain the least sample, because only noise makes a round trip longer.
#[derive(Clone, Debug, PartialEq)]
pub struct RttMatrix {
    nodes: usize,
    /// Row by row; negative if missing. Single precision halves the memory, and its error, 10^-7,
    /// is far below that of any measurement.
    milliseconds: Vec<f32>,
}

const MISSING: f32 = -1.0;

impl RttMatrix {
    /// Maximum number of nodes, for which a matrix takes 256 MiB.
    pub const MAX_NODES: usize = 8192;

    /// Creates a matrix with all entries missing. Panics beyond [`RttMatrix::MAX_NODES`].
    pub fn new(nodes: usize) -> Self {
        assert!(nodes <= Self::MAX_NODES, "a matrix has at most {} nodes", Self::MAX_NODES);
        Self { nodes, milliseconds: vec![MISSING; nodes * nodes] }
    }

    /// Creates a matrix with the result of `measure` for each ordered pair of different nodes.
    /// Panics beyond [`RttMatrix::MAX_NODES`].
    pub fn from_fn(
        nodes: usize,
        mut measure: impl FnMut(NodeId, NodeId) -> Option<Duration>,
    ) -> Self {
        let mut matrix = Self::new(nodes);
        for a in 0..nodes {
            for b in (0..nodes).filter(|&b| b != a) {
                if let Some(rtt) = measure(NodeId::from(a), NodeId::from(b)) {
                    matrix.record(NodeId::from(a), NodeId::from(b), rtt);
                }
            }
        }
        matrix
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Returns the round trip from one node to another, or `None` if it is missing or both are the
    /// same node. Panics if there is no such node.
    pub fn rtt(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        let ms = self.milliseconds(from.index(), to.index())?;
        Some(Duration::from_nanos((f64::from(ms) * 1e6).round() as u64))
    }

    /// Records a sample if it is less than the known value. A sample from a node to itself is
    /// ignored. Panics if there is no such node.
    pub fn record(&mut self, from: NodeId, to: NodeId, rtt: Duration) {
        let place = self.place(from.index(), to.index());
        let ms = (rtt.as_secs_f64() * 1e3) as f32;
        let known = &mut self.milliseconds[place];
        if from != to && (*known < 0.0 || ms < *known) {
            *known = ms;
        }
    }

    /// Returns the round trip in milliseconds.
    pub(crate) fn milliseconds(&self, from: usize, to: usize) -> Option<f32> {
        let ms = self.milliseconds[self.place(from, to)];
        (ms >= 0.0).then_some(ms)
    }

    fn place(&self, from: usize, to: usize) -> usize {
        assert!(from < self.nodes && to < self.nodes, "the matrix has {} nodes", self.nodes);
        from * self.nodes + to
    }
}
