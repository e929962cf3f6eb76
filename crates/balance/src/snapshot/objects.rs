//! The object graph of a snapshot in the form that the cutter takes.

use crate::cutter::{Graph, GraphError, MAX_WEIGHT_SUM, Tie};
use crate::snapshot::{ActorLoad, Snapshot};

/// Weight of a message. It equals that of 16 KiB: the bytes that a link of 1 Gbit/s transmits in
/// the time that sending and receiving one small message takes.
pub(crate) const MESSAGE_WEIGHT: u64 = 64;
/// Number of bytes that have the weight 1.
const BYTES_PER_WEIGHT: u64 = 256;
/// Number of windows within which a migration should pay for itself.
const WINDOWS_TO_PAY: u64 = 10;
/// Minimum saving of an actor's move, as a multiple of its average edge.
const STAY: f64 = 0.5;
/// Maximum sum of all edge weights, so that ties can be added to them.
const EDGES_MAX: u128 = 1 << 60;

/// Returns the weight of messages.
pub(crate) fn weight(messages: u64, bytes: u64) -> u128 {
    u128::from(messages) * u128::from(MESSAGE_WEIGHT) + u128::from(bytes / BYTES_PER_WEIGHT)
}

/// Returns the greatest weight that each of `edges` edges may have without a sum beyond
/// [`EDGES_MAX`].
pub(crate) fn weight_max(edges: usize) -> u64 {
    (EDGES_MAX / edges.max(1) as u128) as u64
}

/// Returns the graph with actors as vertices, and messages and bytes as edges.
pub(crate) fn object_graph(snapshot: &Snapshot, works: &[u64]) -> Result<Graph, GraphError> {
    let edges = || snapshot.edges.iter();
    let sum: u128 = edges().map(|edge| weight(edge.messages, edge.bytes)).sum();
    let divisor = sum.div_ceil(EDGES_MAX).max(1);
    let of = |edge: &crate::snapshot::Edge| {
        let weight = weight(edge.messages, edge.bytes) / divisor;
        (edge.from, edge.to, u64::try_from(weight).unwrap_or(u64::MAX))
    };
    Graph::new(works, &edges().map(of).collect::<Vec<_>>())
}

/// Returns the weight of staying for each actor: half of its average edge, so that no actor moves
/// without a gain, plus the cost of sending its state.
pub(crate) fn pulls<'a>(actors: impl Iterator<Item = &'a ActorLoad>, graph: &Graph) -> Vec<u64> {
    let pull = |(at, actor): (usize, &ActorLoad)| {
        let vertex = at as u32;
        let weight: i64 = graph.neighbours(vertex).map(|(_, weight)| weight).sum();
        let average = weight as f64 / graph.degree(vertex).max(1) as f64;
        let state = actor.bytes / BYTES_PER_WEIGHT / WINDOWS_TO_PAY;
        (average * STAY).ceil() as u64 + state.min(1 << 40)
    };
    let mut pulls: Vec<u64> = actors.enumerate().map(pull).collect();
    // Edges weigh at most 2^60 in total, so pulls may take half of the cutter's maximum, 2^61.
    let sum: u128 = pulls.iter().map(|&pull| u128::from(pull)).sum();
    let divisor = sum.div_ceil(u128::from(MAX_WEIGHT_SUM / 2)).max(1);
    if divisor > 1 {
        pulls.iter_mut().for_each(|pull| *pull = (u128::from(*pull) / divisor) as u64);
    }
    pulls
}

/// Returns the tie of an actor to its present part.
pub(crate) fn tie(home: Option<u32>, pull: u64, is_movable: bool) -> Tie {
    match home {
        Some(home) if !is_movable => Tie::fixed(home),
        // At least 1, so that the cutter tells an actor at home from one away from home.
        Some(home) => Tie { home, pull: pull.max(1) },
        None => Tie::FREE,
    }
}
