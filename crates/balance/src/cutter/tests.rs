//! Tests of the cutter as a whole.

use super::*;
use crate::fixtures::{geometric, grid_2d, leanmd, triangulation};
use proptest::prelude::*;

/// Two rings of 50 vertices, connected by one light edge.
fn dumbbell() -> Graph {
    let ring = |base: u32| (0..50).map(move |v| (base + v, base + (v + 1) % 50, 10));
    let edges: Vec<_> = ring(0).chain(ring(50)).chain([(7, 93, 1)]).collect();
    Graph::new(&[1; 100], &edges).unwrap()
}

#[test]
fn the_lightest_edge_is_cut() {
    let cut = Cutter::new(2).cut(&dumbbell()).unwrap();

    assert_eq!(cut.weight, 1);
    assert_eq!(cut.loads, [50, 50]);
    assert_eq!((cut.imbalance, cut.obstacle), (1.0, None));
}

#[test]
fn leanmd_is_cut_along_planes() {
    // The planar cut has a weight of 1296.
    let graph = leanmd(6, 5).graph().unwrap();

    let cut = Cutter::new(2).v_cycles(2).seed(3).cut(&graph).unwrap();

    assert!(cut.weight <= 1296 * 103 / 100, "{} messages", cut.weight);
}

#[test]
fn parts_get_their_shares_at_any_scale_of_the_shares() {
    let graph = triangulation(60, 5).graph().unwrap();
    for scale in [1e-300, 1.0, 1e300] {
        let shares = [0.5, 0.3, 0.2].map(|share| share * scale);

        let cut = Cutter::with_shares(shares.to_vec()).cut(&graph).unwrap();

        assert!(cut.imbalance <= 1.03, "{}", cut.imbalance);
        assert!(cut.loads[0] > cut.loads[1] && cut.loads[1] > cut.loads[2]);
    }
}

#[test]
fn a_part_without_a_share_stays_empty() {
    let graph = grid_2d(20, 20).graph().unwrap();

    let cut = Cutter::with_shares(vec![1.0, 0.0, 2.0]).cut(&graph).unwrap();

    assert_eq!(cut.loads[1], 0);
    assert!(cut.imbalance <= 1.03, "{}", cut.imbalance);
}

#[test]
fn many_parts_of_uneven_objects_keep_the_tolerance() {
    let graph = leanmd(6, 6).graph().unwrap();

    let cut = Cutter::new(128).cut(&graph).unwrap();

    assert!(cut.imbalance <= 1.03, "{}", cut.imbalance);
    assert_eq!(cut.obstacle, None);
}

#[test]
fn a_vertex_heavier_than_the_limit_is_named_and_the_others_share_the_rest() {
    let mut loads = vec![10_u64; 90];
    loads[17] = 1000;
    let graph = Graph::new(&loads, &[]).unwrap();

    let cut = Cutter::new(10).cut(&graph).unwrap();

    assert_eq!(cut.obstacle, Some(Obstacle::HeavyVertex { vertex: 17, load: 1000, limit: 194 }));
    let alone = cut.part[17];
    for (part, load) in cut.loads.iter().enumerate() {
        // A load of 890 on nine parts is 98.9 each, and one vertex has a load of 10.
        assert!(part as u32 == alone && *load == 1000 || *load <= 100, "{:?}", cut.loads);
    }
}

#[test]
fn weights_up_to_the_greatest_sum_are_balanced_and_cut_well() {
    let small = grid_2d(24, 24);
    let load = (1_u64 << 62) / 576;
    let weight = (1_u64 << 62) / small.edges.len() as u64;
    let edges: Vec<_> = small.edges.iter().map(|&(a, b, _)| (a, b, weight)).collect();
    let graph = Graph::new(&vec![load; 576], &edges).unwrap();

    let cut = Cutter::new(8).cut(&graph).unwrap();

    assert!(cut.imbalance <= 1.03, "{}", cut.imbalance);
    assert!(cut.weight / weight <= 150, "{} edges", cut.weight / weight);
}

#[test]
fn a_single_edge_of_the_greatest_weight_is_not_cut() {
    let graph = Graph::new(&[1; 64], &[(3, 40, 1 << 62)]).unwrap();

    let cut = Cutter::new(4).cut(&graph).unwrap();

    assert_eq!(cut.weight, 0);
    assert!(cut.imbalance <= 1.03);
}

#[test]
fn without_loads_the_numbers_of_vertices_are_balanced() {
    let graph = Graph::new(&[0; 1000], &[]).unwrap();

    let cut = Cutter::new(7).cut(&graph).unwrap();

    let most = (0..7).map(|part| cut.part.iter().filter(|p| **p == part).count()).max();
    assert!(most <= Some(147), "{most:?}");
}

#[test]
fn few_vertices_move_when_few_loads_change() {
    let graph = geometric(5000, 8.0, 7).graph().unwrap();
    let first = Cutter::new(16).cut(&graph).unwrap();
    let loads: Vec<u64> = (0..5000).map(|v| 1000 + if v < 600 { 150 } else { 0 }).collect();
    let edges = geometric(5000, 8.0, 7).edges;
    let changed = Graph::new(&loads, &edges).unwrap();
    let ties: Vec<_> = first.part.iter().map(|&home| Tie { home, pull: 4 }).collect();

    let second = Cutter::new(16).ties(&ties).recut(&changed, &first.part).unwrap();

    let moved = first.part.iter().zip(&second.part).filter(|(a, b)| a != b).count();
    assert!(moved <= 250, "{moved} of 5000 moved");
    assert!(second.imbalance <= 1.03, "{}", second.imbalance);
    assert!(second.weight as f64 <= first.weight as f64 * 1.1);
}

#[test]
fn parts_are_named_after_the_homes_of_their_vertices() {
    let graph = dumbbell();
    for swap in [0, 1] {
        let home = |v: u32| u32::from(v >= 50) ^ swap;
        let ties: Vec<_> = (0..100).map(|v| Tie { home: home(v), pull: 1 }).collect();

        let cut = Cutter::new(2).ties(&ties).cut(&graph).unwrap();

        assert!((0..100).all(|v| cut.part[v as usize] == home(v)));
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let graph = dumbbell();
    let refusal = |cutter: Cutter<'_>| cutter.cut(&graph).unwrap_err();

    assert_eq!(refusal(Cutter::new(0)), CutError::NoParts);
    assert_eq!(
        refusal(Cutter::with_shares(vec![1.0, -1.0])),
        CutError::Share { part: 1, share: -1.0 }
    );
    assert!(matches!(refusal(Cutter::new(2).tolerance(f64::NAN)), CutError::Tolerance { .. }));
    assert!(matches!(refusal(Cutter::new(2).ties(&[Tie::FREE])), CutError::Length { .. }));
    let ties = [Tie::fixed(2); 100];
    assert!(matches!(refusal(Cutter::new(2).ties(&ties)), CutError::NoSuchPart { .. }));
    let ties = [Tie { home: 0, pull: 1 << 60 }; 100];
    assert!(matches!(refusal(Cutter::new(2).ties(&ties)), CutError::TooHeavy(_)));
}

#[test]
fn a_path_is_cut_at_its_lightest_edge() {
    let graph = Graph::new(&[1; 4], &[(0, 1, 2), (1, 2, 1), (2, 3, 1)]).unwrap();
    for seed in 0..20 {
        assert_eq!(Cutter::new(2).seed(seed).cut(&graph).unwrap().weight, 1);
    }
}

/// Returns the smallest possible maximum load of a part, and the smallest cut weight at that load.
fn optimum(graph: &Graph, parts: u32) -> (i64, u64) {
    let vertices = graph.len() as u32;
    let assignments = (0..u64::from(parts).pow(vertices)).map(|number| {
        let part: Vec<u32> = (0..vertices)
            .map(|vertex| (number / u64::from(parts).pow(vertex) % u64::from(parts)) as u32)
            .collect();
        let mut loads = vec![0; parts as usize];
        part.iter().zip(graph.loads()).for_each(|(&part, load)| loads[part as usize] += load);
        (loads.into_iter().max().unwrap(), graph.cut(&part))
    });
    assignments.min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn small_graphs_of_equal_vertices_are_cut_optimally(
        vertices in 3..9_u32,
        parts in 2..4_u32,
        edges in prop::collection::vec((0..8_u32, 0..8_u32, 1..20_u64), 2..20),
        seed: u64,
    ) {
        let edges: Vec<_> =
            edges.into_iter().map(|(a, b, w)| (a % vertices, b % vertices, w)).collect();
        let graph = Graph::new(&vec![1; vertices as usize], &edges).unwrap();

        let cut = Cutter::new(parts).seed(seed).cut(&graph).unwrap();

        let load_max = *cut.loads.iter().max().unwrap() as i64;
        prop_assert_eq!((load_max, cut.weight), optimum(&graph, parts));
    }

    #[test]
    fn scaling_all_edge_weights_does_not_change_the_cut(
        loads in prop::collection::vec(1..50_u64, 70..200),
        edges in prop::collection::vec((0..70_u32, 0..70_u32, 1..1000_u64), 100..300),
        start in prop::collection::vec(0..5_u32, 200),
        shift in 30..44_u32,
        seed: u64,
    ) {
        // All edges together weigh at most 300 times 1,000, less than 2^19; shifted by at most 43,
        // less than 2^62.
        let greater: Vec<_> = edges.iter().map(|&(a, b, w)| (a, b, w << shift)).collect();
        let cutter = Cutter::new(5).seed(seed);
        let [one, other] = [edges, greater].map(|edges| Graph::new(&loads, &edges).unwrap());

        prop_assert_eq!(cutter.cut(&one).unwrap().part, cutter.cut(&other).unwrap().part);
        let start = &start[..loads.len()];
        let recut = |graph| cutter.recut(graph, start).unwrap().part;
        prop_assert_eq!(recut(&one), recut(&other));
    }
}

type Case = (Vec<u64>, Vec<(u32, u32, u64)>, Vec<f64>, Vec<Tie>, Vec<u32>, u64);

/// Graphs, shares, ties and present parts of all kinds, with weight sums up to about 2^61.
fn cases() -> impl Strategy<Value = Case> {
    (1..120_usize, 1..9_usize, any::<u64>(), 0..=48_u32).prop_flat_map(
        |(vertices, parts, seed, scale)| {
            let end = 0..vertices as u32;
            let weight = (0..100_u64).prop_map(move |weight| weight << (scale.saturating_sub(2)));
            let home = 0..parts as u32;
            let pull = prop_oneof![Just(0), 1..200_u64, Just(Tie::FIXED)];
            let tie = (home.clone(), pull).prop_map(|(home, pull)| Tie { home, pull });
            let ties =
                prop_oneof![Just(Vec::new()), prop::collection::vec(tie, vertices..=vertices)];
            (
                prop::collection::vec(
                    (0..100_u64).prop_map(move |l| l << scale),
                    vertices..=vertices,
                ),
                prop::collection::vec((end.clone(), end, weight), 0..300),
                prop::collection::vec(0.1..4.0_f64, parts..=parts),
                ties,
                prop::collection::vec(home, vertices..=vertices),
                Just(seed),
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_cut_is_valid_and_reproducible_and_keeps_fixed_vertices(case in cases()) {
        let (loads, edges, shares, ties, start, seed) = case;
        let graph = Graph::new(&loads, &edges).unwrap();
        let cutter = Cutter::with_shares(shares.clone()).ties(&ties).seed(seed).v_cycles(1);
        for cut in [cutter.cut(&graph), cutter.recut(&graph, &start)] {
            let cut = cut.unwrap();
            prop_assert_eq!(cut.part.len(), loads.len());
            prop_assert!(cut.part.iter().all(|part| (*part as usize) < shares.len()));
            let stays = |(tie, part): (&Tie, &u32)| !tie.is_fixed() || tie.home == *part;
            prop_assert!(ties.iter().zip(&cut.part).all(stays));
            prop_assert_eq!(cut.weight, graph.cut(&cut.part));
        }
        prop_assert_eq!(cutter.cut(&graph), cutter.cut(&graph));
        prop_assert_eq!(cutter.recut(&graph, &start), cutter.recut(&graph, &start));
    }

    #[test]
    fn a_balance_that_packing_reaches_is_reached(
        loads in prop::collection::vec(1..=30_u64, 200..400),
        start in prop::collection::vec(0..4_u32, 400),
        edges in prop::collection::vec((0..200_u32, 0..200_u32, 0..50_u64), 0..600),
        seed: u64,
    ) {
        // A balanced cut exists if one results from putting the vertices, heaviest first, each into
        // the part with the least load. With about 50 or more loads of 1 to 30 in each part, that
        // is nearly always so.
        let graph = Graph::new(&loads, &edges).unwrap();
        let mut sorted = loads.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let mut packed = [0_u64; 4];
        for load in sorted {
            *packed.iter_mut().min().unwrap() += load;
        }
        let share = loads.iter().sum::<u64>() as f64 / 4.0;
        prop_assume!(packed.iter().all(|&load| load as f64 <= share * 1.03));
        let cutter = Cutter::new(4).seed(seed);
        for cut in [cutter.cut(&graph), cutter.recut(&graph, &start[..loads.len()])] {
            let cut = cut.unwrap();
            prop_assert!(cut.imbalance <= 1.03 + 1.0 / share, "{}", cut.imbalance);
            prop_assert_eq!(cut.obstacle, None);
        }
    }
}
