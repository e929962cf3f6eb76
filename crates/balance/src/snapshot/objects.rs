//! The object graph of a snapshot as the cutter takes it.

use crate::cutter::{Graph, GraphError, MAX_WEIGHT_SUM, Tie};
use crate::snapshot::{ActorLoad, Snapshot};

/// The weight of a message, so that it counts as much as 16 KiB do: what a link of 1 Gbit/s sends
/// in the time that sending and receiving one small message take.
pub(crate) const MESSAGE_WEIGHT: u64 = 64;
/// So many bytes weigh one.
const BYTES_PER_WEIGHT: u64 = 256;
/// How many windows a migration should pay for itself in.
const WINDOWS_TO_PAY: u64 = 10;
/// What an actor must save by moving, in its average edges.
const STAY: f64 = 0.5;
/// The edges may add up to this, so that ties can be added to them.
const EDGES_MAX: u128 = 1 << 60;

/// What messages weigh.
pub(crate) fn weight(messages: u64, bytes: u64) -> u128 {
    u128::from(messages) * u128::from(MESSAGE_WEIGHT) + u128::from(bytes / BYTES_PER_WEIGHT)
}

/// The most that `edges` edges may weigh each, so that they can be added.
pub(crate) fn weight_max(edges: usize) -> u64 {
    (EDGES_MAX / edges.max(1) as u128) as u64
}

/// Actors as vertices; messages and bytes as edges.
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

/// What it is worth that each actor stays where it is: half of one of its edges, so that nothing
/// moves for nothing, and what its state costs to send.
pub(crate) fn pulls<'a>(actors: impl Iterator<Item = &'a ActorLoad>, graph: &Graph) -> Vec<u64> {
    let pull = |(at, actor): (usize, &ActorLoad)| {
        let vertex = at as u32;
        let weight: i64 = graph.neighbours(vertex).map(|(_, weight)| weight).sum();
        let average = weight as f64 / graph.degree(vertex).max(1) as f64;
        let state = actor.bytes / BYTES_PER_WEIGHT / WINDOWS_TO_PAY;
        (average * STAY).ceil() as u64 + state.min(1 << 40)
    };
    let mut pulls: Vec<u64> = actors.enumerate().map(pull).collect();
    // Edges are at most 2^60 in all; leave as much again unused.
    let sum: u128 = pulls.iter().map(|&pull| u128::from(pull)).sum();
    let divisor = sum.div_ceil(u128::from(MAX_WEIGHT_SUM / 2)).max(1);
    if divisor > 1 {
        pulls.iter_mut().for_each(|pull| *pull = (u128::from(*pull) / divisor) as u64);
    }
    pulls
}

/// The ties of actors to their present parts.
pub(crate) fn tie(home: Option<u32>, pull: u64, is_movable: bool) -> Tie {
    match home {
        Some(home) if !is_movable => Tie::fixed(home),
        // At least one, so that who is at home differs from who comes from elsewhere.
        Some(home) => Tie { home, pull: pull.max(1) },
        None => Tie::FREE,
    }
}
