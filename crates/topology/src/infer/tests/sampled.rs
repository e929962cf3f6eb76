//! Inference that requests its measurements, on networks whose structure is known.

use super::{SEEDS, agreement, run};
use crate::fixtures::{NetworkShape, Noise, Synthetic};
use crate::id::NodeId;
use crate::infer::{Inference, infer};

/// Returns the mean agreement of the closest groups and of the sites, and checks the bounds on
/// probes.
fn over_seeds(shape: NetworkShape, nodes: u32, noise: Noise) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for seed in SEEDS {
        let network = Synthetic::new(shape, nodes, seed).with_noise(noise);
        let inference = run(&network, seed);
        let probes = inference.probe_count();
        assert!(probes.mean <= 100.0 && probes.max <= 250, "{} {probes:?}", shape.name());
        let hierarchy = inference.finish();
        sums[0] += agreement(&hierarchy, hierarchy.depth() - 1, network.clusters());
        let sites = network.sites();
        let best = (0..hierarchy.depth()).map(|level| agreement(&hierarchy, level, &sites));
        sums[1] += best.fold(0.0, f64::max);
    }
    sums.map(|sum| sum / SEEDS.count() as f64)
}

#[test]
fn a_thousand_nodes_are_grouped_with_at_most_a_hundred_probes_each() {
    for shape in [NetworkShape::EightByEight, NetworkShape::HardThreeLevel, NetworkShape::TwoLevel]
    {
        let [fine, coarse] = over_seeds(shape, 1024, Noise::USUAL);
        assert!(fine >= 0.93 && coarse >= 0.99, "{}: {fine} {coarse}", shape.name());
    }
}

#[test]
fn a_tenth_of_lost_probes_is_tolerated() {
    let noise = Noise { missing: 0.1, ..Noise::USUAL };
    let [fine, coarse] = over_seeds(NetworkShape::EightByEight, 512, noise);
    assert!(fine >= 0.93 && coarse >= 0.99, "{fine} {coarse}");
}

/// The bench covers five seeds and all shapes; this size takes seconds without optimisation.
#[test]
fn four_thousand_nodes_are_grouped_with_at_most_a_hundred_probes_each() {
    let network = Synthetic::new(NetworkShape::EightByEight, 4096, 1);

    let inference = run(&network, 1);

    assert!(inference.probe_count().mean <= 100.0);
    let hierarchy = inference.finish();
    assert!(agreement(&hierarchy, hierarchy.depth() - 1, network.clusters()) >= 0.93);
    let sites = network.sites();
    assert!((0..hierarchy.depth()).any(|level| agreement(&hierarchy, level, &sites) >= 0.99));
}

#[test]
fn all_pairs_of_a_small_grid_are_probed_once() {
    let network = Synthetic::new(NetworkShape::ThreeLevel, 64, 1);

    let inference = run(&network, 1);

    assert_eq!(inference.probe_count().mean, 63.0);
    let hierarchy = inference.finish();
    assert_eq!(hierarchy.depth(), 3);
    let sites = network.sites();
    assert_eq!(agreement(&hierarchy, 1, &sites), agreement(&infer(&network.matrix()), 1, &sites));
}

#[test]
fn the_same_seed_and_answers_give_the_same_hierarchy() {
    let network = Synthetic::new(NetworkShape::TenByThree, 300, 1);
    assert_eq!(run(&network, 5).finish(), run(&network, 5).finish());
}

#[test]
fn without_any_answer_all_nodes_form_one_group() {
    let mut inference = Inference::new(600, 1);

    let rounds = std::iter::from_fn(|| Some(inference.next_probes()).filter(|p| !p.is_empty()));

    assert!(rounds.take(1000).count() < 1000, "it ends");
    let hierarchy = inference.finish();
    assert_eq!((hierarchy.depth(), hierarchy.nodes().len()), (1, 600));
}

#[test]
fn an_inference_that_is_cut_short_still_has_all_nodes() {
    let network = Synthetic::new(NetworkShape::EightByEight, 600, 1);
    for rounds in 0..8 {
        let mut inference = Inference::new(600, 1);
        for _ in 0..rounds {
            for (a, b) in inference.next_probes() {
                inference.answer(a, b, network.measure(a, b, 0));
            }
        }
        let hierarchy = inference.finish();
        assert!(hierarchy.nodes().eq((0..600).map(NodeId)), "after {rounds} rounds");
    }
}
