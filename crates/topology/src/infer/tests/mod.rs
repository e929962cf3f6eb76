//! Tests of inference on networks whose structure is known.
//!
//! The seeds here are 1 to 5; the constants of the methods were chosen on seeds from 1000 on.

mod full;
mod labels;
mod sampled;
mod upkeep;

use crate::fixtures::Synthetic;
use crate::hierarchy::Hierarchy;
use crate::infer::Inference;
use crate::rand_index::adjusted_rand_index;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// Returns the agreement of the groups of a level with the truth.
fn agreement(hierarchy: &Hierarchy, level: usize, truth: &[u32]) -> f64 {
    let group = |node| hierarchy.group_of(node, level).unwrap().0;
    let groups: Vec<u32> = hierarchy.nodes().map(group).collect();
    adjusted_rand_index(&groups, truth)
}

/// Runs an inference whose probes take one sample each.
fn run(network: &Synthetic, seed: u64) -> Inference {
    let mut inference = Inference::new(network.nodes() as usize, seed);
    loop {
        let probes = inference.next_probes();
        if probes.is_empty() {
            return inference;
        }
        for (a, b) in probes {
            inference.answer(a, b, network.measure(a, b, 0));
        }
    }
}
