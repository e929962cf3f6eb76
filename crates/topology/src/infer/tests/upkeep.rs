//! Nodes that join an inferred hierarchy and leave it.

use super::{SEEDS, agreement};
use crate::fixtures::{NetworkShape, Synthetic};
use crate::id::NodeId;
use crate::infer::{Upkeep, infer};
use crate::matrix::RttMatrix;
use std::time::Duration;

/// Places a node and returns the number of probes.
fn join(upkeep: &mut Upkeep, network: &Synthetic, node: NodeId) -> usize {
    let mut join = upkeep.join(node);
    loop {
        let probes = join.next_probes(upkeep.hierarchy());
        if probes.is_empty() {
            break;
        }
        for other in probes {
            join.answer(other, network.measure(node, other, 0));
        }
    }
    assert!(upkeep.place(&join));
    join.probe_count()
}

/// Returns the hierarchy of the first nodes of a network.
fn part(network: &Synthetic, nodes: usize) -> Upkeep {
    let least = |a, b| (0..3).filter_map(|attempt| network.measure(a, b, attempt)).min();
    Upkeep::new(infer(&RttMatrix::from_fn(nodes, least)))
}

#[test]
fn new_nodes_find_their_groups_with_few_probes() {
    for shape in
        [NetworkShape::ThreeLevel, NetworkShape::HardThreeLevel, NetworkShape::EightByEight]
    {
        for seed in SEEDS {
            let network = Synthetic::new(shape, 320, seed);
            let mut upkeep = part(&network, 256);
            let probes: usize =
                (256..320).map(|node| join(&mut upkeep, &network, NodeId(node))).sum();
            let hierarchy = upkeep.hierarchy();
            let fine = agreement(hierarchy, hierarchy.depth() - 1, network.clusters());
            assert!(fine >= 0.93, "{} with seed {seed}: {fine}", shape.name());
            assert!(probes / 64 <= 40, "{}: {} probes each", shape.name(), probes / 64);
        }
    }
}

#[test]
fn nodes_of_a_new_site_are_alone_and_make_the_hierarchy_stale() {
    let network = Synthetic::new(NetworkShape::TwoLevel, 64, 1);
    let sites = network.sites();
    let least = |a, b| (0..3).filter_map(|attempt| network.measure(a, b, attempt)).min();
    let mut upkeep = Upkeep::new(infer(&RttMatrix::from_fn(64, least)));
    let strangers: Vec<NodeId> =
        sites.iter().enumerate().filter(|(_, site)| **site == 3).map(|(n, _)| n.into()).collect();
    strangers.iter().for_each(|&node| assert!(upkeep.leave(node)));
    assert_eq!(upkeep.hierarchy().groups_at(1).len(), 3);
    assert!(upkeep.staleness() < 1.0, "{}", upkeep.staleness());

    strangers.iter().for_each(|&node| {
        join(&mut upkeep, &network, node);
    });

    let hierarchy = upkeep.hierarchy();
    assert_eq!(agreement(hierarchy, 1, &sites), 1.0, "the first opened a group for the others");
    assert!(upkeep.staleness() >= 1.0, "{}", upkeep.staleness());
}

#[test]
fn a_node_that_fits_no_group_counts_only_while_it_is_there() {
    let network = Synthetic::new(NetworkShape::TwoLevel, 64, 1);
    let sites = network.sites();
    let mut upkeep = part(&network, 64);
    let site: Vec<NodeId> =
        sites.iter().enumerate().filter(|(_, site)| **site == 3).map(|(n, _)| n.into()).collect();
    site.iter().for_each(|&node| assert!(upkeep.leave(node)));

    for _ in 0..8 {
        join(&mut upkeep, &network, site[0]);
        assert_eq!(upkeep.hierarchy().groups_at(1).len(), 4, "it is alone");
        assert!(upkeep.leave(site[0]));
    }

    // An inference is due when half of the 64 nodes have changed.
    let changes = site.len() + 2 * 8;
    assert_eq!(upkeep.staleness(), changes as f64 / 32.0);
}

#[test]
fn unexpected_round_trips_make_the_hierarchy_stale() {
    let network = Synthetic::new(NetworkShape::ThreeLevel, 128, 1);
    let mut upkeep = part(&network, 128);
    let pairs: Vec<_> =
        (0..128).flat_map(|a| (0..a).map(move |b| (NodeId(a), NodeId(b)))).collect();

    for &(a, b) in &pairs {
        upkeep.observe(a, b, network.measure(a, b, 9).unwrap());
    }
    let sound = upkeep.staleness();
    for &(a, b) in pairs.iter().take(200) {
        upkeep.observe(a, b, Duration::from_millis(7));
    }

    assert!(sound < 0.7, "{sound}");
    assert!(upkeep.staleness() >= 1.0);
}

#[test]
fn a_present_node_or_one_whose_neighbours_left_is_not_placed() {
    let network = Synthetic::new(NetworkShape::TwoLevel, 64, 1);
    let mut upkeep = part(&network, 63);
    let again = upkeep.join(NodeId(5));
    assert!(!upkeep.place(&again));
    let far = upkeep.join(NodeId(u32::MAX));
    assert!(!upkeep.place(&far));

    let mut late = upkeep.join(NodeId(63));
    loop {
        let probes = late.next_probes(upkeep.hierarchy());
        if probes.is_empty() {
            break;
        }
        probes.into_iter().for_each(|b| late.answer(b, network.measure(NodeId(63), b, 0)));
    }
    let sites = network.sites();
    for node in (0..63).filter(|&node| sites[node] == sites[63]) {
        upkeep.leave(NodeId::from(node));
    }
    assert!(!upkeep.place(&late));
}

#[test]
fn a_join_probes_nodes_that_were_placed_after_it_began() {
    let network = Synthetic::new(NetworkShape::TwoLevel, 64, 1);
    let mut upkeep = part(&network, 62);
    let mut early = upkeep.join(NodeId(62));
    join(&mut upkeep, &network, NodeId(63));

    loop {
        let probes = early.next_probes(upkeep.hierarchy());
        if probes.is_empty() {
            break;
        }
        probes.into_iter().for_each(|b| early.answer(b, network.measure(NodeId(62), b, 0)));
    }

    assert!(early.probe_count() > 0 && upkeep.place(&early));
    assert_eq!(upkeep.hierarchy().nodes().len(), 64);
}
