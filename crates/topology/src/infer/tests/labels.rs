//! The user's site names, merged with measurements.

use super::{agreement, run};
use crate::fixtures::{NetworkShape, Synthetic};
use crate::id::NodeId;
use crate::infer::{Contradiction, SiteNames, infer, infer_labelled};
use crate::matrix::RttMatrix;
use std::time::Duration;

/// Returns names for the nodes that `said` selects, by their true site.
fn names(network: &Synthetic, said: impl Fn(usize) -> bool) -> SiteNames {
    let sites = network.sites().into_iter().enumerate();
    sites.filter(|&(n, _)| said(n)).map(|(n, site)| (NodeId::from(n), format!("s{site}"))).collect()
}

#[test]
fn true_names_contradict_nothing_and_name_the_sites() {
    for seed in 1..=5 {
        let network = Synthetic::new(NetworkShape::ThreeLevel, 64, seed);

        let labelled = infer_labelled(&network.matrix(), &names(&network, |_| true));

        assert_eq!(labelled.contradictions, [], "seed {seed}");
        let hierarchy = labelled.hierarchy;
        assert_eq!(hierarchy.depth(), 3);
        assert_eq!(agreement(&hierarchy, 1, &network.sites()), 1.0);
        assert!(hierarchy.groups_at(1).all(|id| hierarchy.group(id).name().is_some()));
    }
}

#[test]
fn nodes_without_a_name_follow_the_nearest_named_nodes() {
    for seed in 1..=5 {
        let network = Synthetic::new(NetworkShape::ThreeLevel, 64, seed);
        // One site has no name.
        let sites = network.sites();
        let names = names(&network, |n| n % 4 == 0 && sites[n] != 3);

        let labelled = infer_labelled(&network.matrix(), &names);

        assert_eq!(labelled.contradictions, [], "seed {seed}");
        assert_eq!(agreement(&labelled.hierarchy, 1, &sites), 1.0, "seed {seed}");
        let named = labelled.hierarchy.groups_at(1);
        let named = named.filter(|&id| labelled.hierarchy.group(id).name().is_some()).count();
        assert_eq!(named, 3);
    }
}

#[test]
fn a_node_that_is_far_from_its_site_stays_in_it_and_is_reported() {
    let network = Synthetic::new(NetworkShape::EightByEight, 600, 1);
    let mut names = names(&network, |_| true);
    let sites = network.sites();
    let wrong = NodeId::from(sites.iter().position(|&site| site == 1).unwrap());
    names.insert(wrong, "s0".to_owned());

    let labelled = run(&network, 1).finish_labelled(&names);

    let [Contradiction::Apart { site, nodes, rtt, .. }] = &labelled.contradictions[..] else {
        panic!("{:?}", labelled.contradictions)
    };
    assert_eq!((site.as_str(), &nodes[..]), ("s0", &[wrong][..]));
    assert!(*rtt > Duration::from_millis(8));
    let other = NodeId::from(sites.iter().position(|&site| site == 0).unwrap());
    let hierarchy = &labelled.hierarchy;
    let common = hierarchy.group(hierarchy.common_group(wrong, other).unwrap());
    assert_eq!(common.name(), Some("s0"));
}

#[test]
fn sites_in_one_place_stay_separate_and_are_reported() {
    let matrix = RttMatrix::from_fn(12, |a, b| {
        Some(Duration::from_micros(if (a.0 < 6) == (b.0 < 6) { 100 } else { 20_000 }))
    });
    let name = |n: u32| ["a", "b", "c", "c"][n as usize / 3].to_owned();
    let names: SiteNames = (0..12).map(|n| (NodeId(n), name(n))).collect();

    let labelled = infer_labelled(&matrix, &names);

    let text: Vec<String> = labelled.contradictions.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        ["sites `a` and `b` are said to be different, but node0 and node3 are 100us apart; \
          give them one name if they are one site"]
    );
    let hierarchy = labelled.hierarchy;
    assert_ne!(hierarchy.group_of(NodeId(0), 1), hierarchy.group_of(NodeId(3), 1), "{hierarchy}");
}

#[test]
fn names_on_a_network_of_one_level_make_a_level() {
    let matrix = RttMatrix::from_fn(6, |_, _| Some(Duration::from_millis(30)));
    let names: SiteNames = (0..6).map(|n| (NodeId(n), format!("site{}", n / 2))).collect();

    let labelled = infer_labelled(&matrix, &names);

    assert_eq!(labelled.hierarchy.groups_at(1).len(), 3);
    let site0 = labelled.hierarchy.group_of(NodeId(1), 1).unwrap();
    assert_eq!(labelled.hierarchy.group(site0).members(), [NodeId(0), NodeId(1)]);
    assert_eq!(labelled.contradictions, [], "all pairs are equal, in sites and between them");
}

#[test]
fn without_names_nothing_changes() {
    let matrix = Synthetic::new(NetworkShape::ThreeLevel, 64, 1).matrix();
    let names = SiteNames::from([(NodeId(900), "elsewhere".to_owned())]);
    assert_eq!(infer_labelled(&matrix, &names).hierarchy, infer(&matrix));
}
