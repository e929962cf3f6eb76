//! The number of steps in a window, derived from how often actors send to each other.

use crate::snapshot::Edge;
use std::collections::BTreeMap;

/// Returns the number of steps in a window. In an iterative job nearly every pair of actors that
/// send to each other does so once in each step. So the number of steps is the median, over these
/// pairs, of the number of messages in the direction with fewer messages. If no pair sends in both
/// directions, it is the median over all edges; without messages it is 1, and the window is one
/// step. `edges` has at most one entry for each sender and receiver.
pub fn rounds(edges: &[Edge]) -> u64 {
    let talks: BTreeMap<(u32, u32), u64> =
        edges.iter().map(|edge| ((edge.from, edge.to), edge.messages)).collect();
    let both = |(&(from, to), &there): (&(u32, u32), &u64)| {
        let back = talks.get(&(to, from)).filter(|_| from < to)?;
        Some(there.min(*back))
    };
    let mut counts: Vec<u64> = talks.iter().filter_map(both).collect();
    if counts.is_empty() {
        counts = talks.into_values().collect();
    }
    if counts.is_empty() {
        return 1;
    }
    let middle = (counts.len() - 1) / 2;
    (*counts.select_nth_unstable(middle).1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(talks: &[(u32, u32, u64)]) -> Vec<Edge> {
        let edge = |&(from, to, messages)| Edge { from, to, messages, bytes: 0 };
        talks.iter().map(edge).collect()
    }

    #[test]
    fn steps_are_counted_by_pairs_that_send_both_ways() {
        // Ten steps of a ring of three, a first broadcast by one actor, and reports to another.
        let ring = [(0, 1, 10), (1, 0, 10), (1, 2, 10), (2, 1, 11), (0, 2, 10), (2, 0, 10)];
        let others = [(0, 7, 1), (0, 8, 1), (0, 9, 1), (1, 9, 500), (3, 9, 900)];

        assert_eq!(rounds(&edges(&[&ring[..], &others].concat())), 10);
        assert_eq!(rounds(&edges(&others)), 1);
    }

    #[test]
    fn without_messages_the_window_is_one_step() {
        assert_eq!(rounds(&[]), 1);
        assert_eq!(rounds(&edges(&[(0, 1, 0)])), 1);
    }
}
