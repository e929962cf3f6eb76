//! Finds the best of all trees by trying each.

use super::cost::TreeCostModel;

/// Number of nodes up to which all trees can be tried; eight nodes have 262,144.
const NODES_MAX: usize = 9;

/// Returns the cost of the cheapest of all trees from `root`, in seconds. Panics beyond nine nodes.
///
/// There is one tree for each sequence of `n - 2` nodes (H. Prüfer, 1918); the order of children is
/// that of the model, which is optimal.
pub fn exact_optimum_s(model: &TreeCostModel, root: u32) -> f64 {
    let count = model.len();
    assert!(count <= NODES_MAX, "more than {NODES_MAX} nodes have too many trees");
    if count < 3 {
        let parents: Vec<u32> =
            (0..count as u32).map(|node| if node == root { u32::MAX } else { root }).collect();
        return model.completion_s(&parents);
    }
    let mut sequence = vec![0_u32; count - 2];
    let mut best_s = f64::INFINITY;
    loop {
        best_s = best_s.min(model.completion_s(&rooted(&edges_of(&sequence), root, count)));
        // The next number in base `count`.
        let Some(digit) = sequence.iter().position(|&digit| digit as usize + 1 < count) else {
            return best_s;
        };
        sequence[digit] += 1;
        sequence[..digit].fill(0);
    }
}

/// The edges of the tree that a Prüfer sequence encodes.
fn edges_of(sequence: &[u32]) -> Vec<(u32, u32)> {
    let count = sequence.len() + 2;
    let mut degree = vec![1; count];
    sequence.iter().for_each(|&node| degree[node as usize] += 1);
    let mut edges = Vec::with_capacity(count - 1);
    for &node in sequence {
        let leaf = degree.iter().position(|&degree| degree == 1).unwrap_or(0);
        degree[leaf] = 0;
        degree[node as usize] -= 1;
        edges.push((leaf as u32, node));
    }
    let mut last = (0..count as u32).filter(|&node| degree[node as usize] == 1);
    edges.extend(last.next().zip(last.next()));
    edges
}

fn rooted(edges: &[(u32, u32)], root: u32, count: usize) -> Vec<u32> {
    let mut parents = vec![u32::MAX; count];
    let mut reached = vec![root];
    let mut at = 0;
    while let Some(&node) = reached.get(at) {
        for &(one, other) in edges {
            let next = match node {
                _ if node == one => other,
                _ if node == other => one,
                _ => continue,
            };
            if next != root && parents[node as usize] != next {
                parents[next as usize] = node;
                reached.push(next);
            }
        }
        at += 1;
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LinkMatrix, Serialisation};

    #[test]
    fn equal_nodes_without_latency_take_the_logarithm_of_their_number() {
        for (count, rounds) in [(2, 1.0), (4, 2.0), (5, 3.0), (7, 3.0)] {
            let links = LinkMatrix::new(vec![0; count], vec![0.0; count], |_, _| (0.0, 1e6));
            let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);

            assert!((exact_optimum_s(&model, 1) - rounds).abs() < 1e-9);
        }
    }

    #[test]
    fn in_the_postal_model_reached_nodes_are_fibonacci_numbers() {
        let links = LinkMatrix::new(vec![0; 6], vec![0.0; 6], |_, _| (1.0, 1e6));
        let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);

        // 1, 1, 2, 3, 5, 8 nodes are reached at 0 to 5: six at 5.
        assert!((exact_optimum_s(&model, 0) - 5.0).abs() < 1e-9);
    }
}
