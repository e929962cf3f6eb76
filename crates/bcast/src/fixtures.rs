//! Networks on which searches by the cost model are tested and compared.

use gridspan_bcast::LinkMatrix;
use gridspan_topology::dice::Dice;

const MBIT: f64 = 125_000.0;

/// Links that differ for every pair: bandwidths uniform between 0.1 and 10 Mbit/s, as in Gupta and
/// Vadhiyar (2006), figure 3; one-way latencies of 1 to 50 ms; 0.2 ms to begin a message.
pub fn uniform_links(nodes: usize, seed: u64) -> LinkMatrix {
    let mut dice = Dice::new(seed);
    LinkMatrix::new((0..nodes as u32).collect(), vec![2e-4; nodes], |_, _| {
        (dice.between(1e-3, 50e-3), dice.between(0.1, 10.0) * MBIT)
    })
}

/// Links of clusters of equal nodes: 100 Mbit/s and 0.05 ms inside, 1 to 10 Mbit/s and 1 to 50 ms
/// between; 0.2 ms to begin a message.
pub fn grid_links(clusters: usize, nodes_each: usize, seed: u64) -> LinkMatrix {
    let mut dice = Dice::new(seed);
    let class_of = (0..clusters * nodes_each).map(|node| (node / nodes_each) as u32).collect();
    LinkMatrix::new(class_of, vec![2e-4; clusters * nodes_each], |from, to| {
        let between = (dice.between(1e-3, 50e-3), dice.between(1.0, 10.0) * MBIT);
        if from == to { (5e-5, 100.0 * MBIT) } else { between }
    })
}
