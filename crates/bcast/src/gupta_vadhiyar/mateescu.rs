//! Mateescu's tree: shortest paths in which a sender also waits for its own earlier sends.
//!
//! G. Mateescu, "A method for MPI broadcast in computational grids", IPDPS 2005, grows a tree by a
//! generalised shortest-path search and orders children by labels from a post-order walk. Its full
//! text was not available; this follows the description in Gupta and Vadhiyar (2006): the next edge
//! is always the one that reaches a new node first, given the time at which its sender is free
//! again. The cost model orders the children.

use crate::model::{NONE, TreeCostModel};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the parents of a tree over all nodes of the model. Takes time proportional to the square
/// of the number of nodes, and more where many senders compete for a node.
pub fn mateescu(model: &TreeCostModel, root: u32) -> Vec<u32> {
    let count = model.len();
    let mut parents = vec![NONE; count];
    let mut is_reached = vec![false; count];
    let mut free_s = vec![0.0; count];
    // The best offer of each sender. If another sender reaches the node first, the sender makes a
    // new one.
    let mut offers: BinaryHeap<(Reverse<Ordered>, u32, u32)> = BinaryHeap::new();
    is_reached[root as usize] = true;
    let offer = |from: u32, free_s: f64, is_reached: &[bool]| {
        (0..count as u32)
            .filter(|&to| !is_reached[to as usize])
            .map(|to| (free_s + model.busy_s(from, to) + model.flight_s(from, to), to))
            .min_by(|one, other| one.0.total_cmp(&other.0))
            .map(|(at, to)| (Reverse(Ordered(at)), from, to))
    };
    offers.extend(offer(root, 0.0, &is_reached));
    while let Some((Reverse(Ordered(at)), from, to)) = offers.pop() {
        if is_reached[to as usize] {
            offers.extend(offer(from, free_s[from as usize], &is_reached));
            continue;
        }
        is_reached[to as usize] = true;
        parents[to as usize] = from;
        free_s[from as usize] += model.busy_s(from, to);
        free_s[to as usize] = at;
        offers.extend(offer(from, free_s[from as usize], &is_reached));
        offers.extend(offer(to, at, &is_reached));
    }
    parents
}

/// A time with a total order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LinkMatrix, Serialisation};

    #[test]
    fn equal_nodes_without_latency_become_a_binomial_tree() {
        let links = LinkMatrix::new(vec![0; 8], vec![0.0; 8], |_, _| (0.0, 1e6));
        let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);

        assert_eq!(model.completion_s(&mateescu(&model, 3)), 3.0);
    }

    #[test]
    fn with_long_flights_the_root_goes_on_sending() {
        // The postal model with a flight of 1 after a send of 1: nodes reached by time t follow
        // F(t) = F(t-1) + F(t-2), so that eight are reached at t = 5 (1, 1, 2, 3, 5, 8).
        let links = LinkMatrix::new(vec![0; 8], vec![0.0; 8], |_, _| (1.0, 1e6));
        let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);

        assert_eq!(model.completion_s(&mateescu(&model, 0)), 5.0);
    }

    #[test]
    fn a_slow_link_is_avoided() {
        let links = LinkMatrix::new(vec![0, 1, 2], vec![0.0; 3], |from, to| {
            (0.0, if from + to == 2 && from != to { 1e5 } else { 1e6 })
        });
        let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);

        assert_eq!(mateescu(&model, 0), [NONE, 0, 1]);
    }
}
