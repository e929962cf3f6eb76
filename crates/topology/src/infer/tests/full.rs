//! Inference from a full matrix, on networks whose structure is known.

use super::{SEEDS, agreement};
use crate::fixtures::{NetworkShape, Noise, Synthetic};
use crate::id::NodeId;
use crate::infer::infer;
use crate::matrix::RttMatrix;
use std::time::Duration;

/// Returns the mean agreement of the closest groups, and whether each network gets the right number
/// of levels.
fn over_seeds(shape: NetworkShape, nodes: u32, noise: Noise) -> (f64, bool) {
    let mut sum = 0.0;
    let mut levels_right = true;
    for seed in SEEDS {
        let network = Synthetic::new(shape, nodes, seed).with_noise(noise);
        let hierarchy = infer(&network.matrix());
        sum += agreement(&hierarchy, hierarchy.depth() - 1, network.clusters());
        levels_right &= hierarchy.depth() == shape.levels();
    }
    (sum / SEEDS.count() as f64, levels_right)
}

#[test]
fn a_full_matrix_shows_all_levels_and_the_closest_groups() {
    for nodes in [64, 256] {
        for shape in
            [NetworkShape::TwoLevel, NetworkShape::ThreeLevel, NetworkShape::HardThreeLevel]
        {
            let (agreement, levels_right) = over_seeds(shape, nodes, Noise::USUAL);
            assert!(agreement >= 0.95, "{} of {nodes}: {agreement}", shape.name());
            assert!(levels_right, "{} of {nodes}", shape.name());
        }
    }
}

#[test]
fn missing_entries_slow_pairs_and_busy_hosts_are_tolerated() {
    let noises = [
        Noise { missing: 0.3, ..Noise::USUAL },
        Noise { outliers: 0.2, ..Noise::USUAL },
        Noise { busy: 0.25, ..Noise::USUAL },
    ];
    for noise in noises {
        let (agreement, levels_right) = over_seeds(NetworkShape::ThreeLevel, 128, noise);
        assert!(agreement >= 0.95 && levels_right, "{noise:?}: {agreement}");
    }
}

#[test]
fn clusters_of_very_different_sizes_are_found() {
    let agreements = SEEDS.map(|seed| {
        let network = Synthetic::new(NetworkShape::ThreeLevel, 128, seed).with_uneven_clusters();
        let hierarchy = infer(&network.matrix());
        agreement(&hierarchy, hierarchy.depth() - 1, network.clusters())
    });
    let mean = agreements.sum::<f64>() / SEEDS.count() as f64;
    assert!(mean >= 0.95, "{mean}");
}

#[test]
fn sites_are_found_regardless_of_their_clusters() {
    for shape in [NetworkShape::ThreeLevel, NetworkShape::EightByEight, NetworkShape::TenByThree] {
        for seed in SEEDS {
            let network = Synthetic::new(shape, 128, seed);
            let hierarchy = infer(&network.matrix());
            let best = (0..hierarchy.depth())
                .map(|level| agreement(&hierarchy, level, &network.sites()))
                .fold(0.0, f64::max);
            assert!(best >= 0.99, "{} with seed {seed}: {best}", shape.name());
        }
    }
}

#[test]
fn without_noise_the_medians_are_the_round_trips_of_the_network() {
    let network = Synthetic::new(NetworkShape::HardThreeLevel, 64, 1).with_noise(Noise::NONE);

    let hierarchy = infer(&network.matrix());

    let medians: Vec<_> =
        hierarchy.levels().map(|level| level.rtt.unwrap().median.as_micros()).collect();
    assert_eq!(medians, [484, 220, 100]);
    assert!(hierarchy.groups_at(2).all(|id| hierarchy.group(id).confidence() > 0.95));
}

#[test]
fn matrices_without_structure_give_one_level() {
    let alike = RttMatrix::from_fn(9, |_, _| Some(Duration::from_millis(3)));
    for matrix in [RttMatrix::new(0), RttMatrix::new(1), RttMatrix::new(5), alike] {
        let hierarchy = infer(&matrix);
        assert_eq!((hierarchy.depth(), hierarchy.nodes().len()), (1, matrix.nodes()));
    }
}

#[test]
fn a_remote_node_is_a_separate_group_and_a_busy_one_is_not() {
    let micros = |a: NodeId, b: NodeId| match (a.0.min(b.0), a.0.max(b.0)) {
        (_, 19) => 20_000,
        (4, _) | (_, 4) => 300,
        _ => 100,
    };
    let matrix = RttMatrix::from_fn(20, |a, b| Some(Duration::from_micros(micros(a, b))));

    let hierarchy = infer(&matrix);

    assert_eq!(hierarchy.depth(), 2, "{hierarchy}");
    let of = |node| hierarchy.group_of(NodeId(node), 1);
    assert!(of(0) == of(4) && of(0) != of(19));
    assert_eq!(hierarchy.group(of(19).unwrap()).members(), [NodeId(19)]);
}

#[test]
fn the_same_matrix_gives_the_same_hierarchy() {
    let matrix = Synthetic::new(NetworkShape::TenByThree, 64, 1).matrix();
    assert_eq!(infer(&matrix), infer(&matrix));
}
