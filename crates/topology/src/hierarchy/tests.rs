//! Tests of the tree of groups and of its constructors.

use super::*;
use crate::id::{GroupId, NodeId};
use crate::layout::Layout;
use crate::link::Link;
use crate::spec::GridSpec;
use crate::units::{Bandwidth, Latency};
use proptest::prelude::*;
use std::time::Duration;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Sites `a` of nodes 0 and 1, `b` of node 2 and `c` of nodes 3 to 5.
fn three_sites() -> Hierarchy {
    let sites = [("a", 2), ("b", 1), ("c", 3)];
    let layout = Layout::new(sites.map(|(name, n)| (name.to_owned(), vec![1; n])).into());
    let link = |millis| Link::new(Latency::from_millis(millis), Bandwidth::UNLIMITED);
    let site = |name: &str| layout.sites().find(|&s| layout.site_name(s) == name).unwrap();
    let grid = GridSpec::from_layout(&layout).unwrap().with_lan(link(1)).with_wan(link(10));
    let grid = grid.with_link(site("a"), site("c"), link(30));
    Hierarchy::from_grid(&grid)
}

#[test]
fn a_described_grid_has_its_sites_and_their_round_trips() {
    let hierarchy = three_sites();

    assert_eq!(hierarchy.depth(), 2);
    let names: Vec<_> =
        hierarchy.groups_at(1).map(|id| hierarchy.group(id).name().unwrap().to_owned()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(hierarchy.rtt(NodeId(0), NodeId(1)), Some(ms(2)));
    assert_eq!(hierarchy.rtt(NodeId(1), NodeId(2)), Some(ms(20)));
    assert_eq!(hierarchy.rtt(NodeId(5), NodeId(0)), Some(ms(40)), "30 ms there, 10 ms back");
    assert_eq!(hierarchy.rtt(NodeId(4), NodeId(4)), Some(Duration::ZERO));
    assert_eq!(hierarchy.rtt(NodeId(4), NodeId(6)), None);
    let wide = hierarchy.levels().next().unwrap();
    assert_eq!(wide.rtt.map(|range| (range.min, range.max)), Some((ms(20), ms(40))));
}

#[test]
fn groups_know_their_parents_children_members_and_leaders() {
    let hierarchy = three_sites();
    let c = hierarchy.group_of(NodeId(4), 1).unwrap();

    assert_eq!(hierarchy.group(c).members(), [NodeId(3), NodeId(4), NodeId(5)]);
    assert_eq!(hierarchy.group(c).leader(), NodeId(3));
    assert_eq!(hierarchy.group(c).parent(), Some(hierarchy.root()));
    assert_eq!(hierarchy.group(hierarchy.root()).children(), [GroupId(1), GroupId(2), GroupId(3)]);
    assert_eq!(hierarchy.common_group(NodeId(3), NodeId(5)), Some(c));
    assert_eq!(hierarchy.common_group(NodeId(0), NodeId(5)), Some(hierarchy.root()));
    assert_eq!(hierarchy.rtt_between(c, hierarchy.root()), Some(ms(20)), "one contains the other");
    assert_eq!(hierarchy.group_of(NodeId(0), 2), None);
}

#[test]
fn a_single_site_is_the_whole_and_hosts_of_several_nodes_are_a_level() {
    let single = Hierarchy::from_layout(&Layout::single(4));
    assert_eq!((single.depth(), single.group(single.root()).name()), (1, Some("local")));

    let text = "[site.a]\nhosts = [\"h\", \"h\", \"g\"]\n[site.b]\nhosts = [\"h\"]\n";
    let hierarchy = Hierarchy::from_grid(&GridSpec::from_toml(text).unwrap());
    assert_eq!(hierarchy.depth(), 3);
    assert_eq!(hierarchy.group_of(NodeId(0), 2), hierarchy.group_of(NodeId(1), 2));
    assert_ne!(hierarchy.group_of(NodeId(0), 2), hierarchy.group_of(NodeId(3), 2));
}

#[test]
fn removing_a_node_removes_its_empty_groups() {
    let mut hierarchy = three_sites();

    assert!(hierarchy.remove(NodeId(2)));
    assert!(!hierarchy.remove(NodeId(2)), "the node has left already");

    assert_eq!(hierarchy.groups_at(1).len(), 2);
    assert_eq!(hierarchy.rtt(NodeId(0), NodeId(3)), Some(ms(40)));
    assert_eq!(hierarchy.rtt(NodeId(0), NodeId(1)), Some(ms(2)));
    assert_eq!(hierarchy.rtt(NodeId(0), NodeId(2)), None);
    for node in [0, 1, 3, 4, 5] {
        assert!(hierarchy.remove(NodeId(node)));
    }
    assert_eq!(hierarchy.nodes().len(), 0);
    assert_eq!(hierarchy.groups_at(1).len(), 0);
}

#[test]
fn an_inserted_node_is_in_one_group_of_each_level() {
    let mut hierarchy = three_sites();
    let b = hierarchy.group_of(NodeId(2), 1).unwrap();

    assert!(hierarchy.insert(NodeId(9), b));
    assert!(hierarchy.insert(NodeId(7), hierarchy.root()));
    assert!(!hierarchy.insert(NodeId(7), hierarchy.root()), "the node is present already");

    assert_eq!(hierarchy.group_of(NodeId(9), 1), hierarchy.group_of(NodeId(2), 1));
    let own = hierarchy.group_of(NodeId(7), 1).unwrap();
    assert_eq!(hierarchy.group(own).members(), [NodeId(7)]);
    assert_eq!(hierarchy.rtt(NodeId(7), NodeId(0)), Some(ms(20)), "the median of the level");
    assert_eq!(hierarchy.rtt(NodeId(5), NodeId(0)), Some(ms(40)));
}

#[test]
fn the_text_of_a_hierarchy_has_a_line_per_level() {
    let text = three_sites().to_string();

    let expected = "6 nodes in 2 levels\n\
        level 0: 1 group, RTT 20.0ms (20.0ms to 40.0ms)\n\
        level 1: 3 groups, RTT 2.00ms";
    assert_eq!(text, expected);
}

#[test]
fn a_stored_hierarchy_is_read_back_unchanged() {
    let mut hierarchy = three_sites();
    hierarchy.insert(NodeId(11), hierarchy.root());

    let stored = postcard::to_stdvec(&hierarchy).unwrap();

    assert_eq!(postcard::from_bytes::<Hierarchy>(&stored).unwrap(), hierarchy);
}

proptest! {
    #[test]
    fn a_damaged_hierarchy_is_refused_or_consistent(place: prop::sample::Index, byte: u8) {
        let mut stored = postcard::to_stdvec(&three_sites()).unwrap();
        let place = place.index(stored.len());
        stored[place] = byte;
        let Ok(read) = postcard::from_bytes::<Hierarchy>(&stored) else { return Ok(()) };
        for a in read.nodes() {
            for b in read.nodes() {
                prop_assert!(read.common_group(a, b).is_some());
                let _ = read.rtt(a, b);
            }
        }
    }

    #[test]
    fn any_insertions_and_removals_leave_a_consistent_tree(
        steps in prop::collection::vec((0..12_u32, 0..16_usize, any::<bool>()), 0..40),
    ) {
        let mut hierarchy = three_sites();
        for (node, group, comes) in steps {
            if comes {
                let groups = (0..hierarchy.depth()).map(|l| hierarchy.groups_at(l).len()).sum::<usize>();
                hierarchy.insert(NodeId(node), GroupId::from(group % groups));
            } else {
                hierarchy.remove(NodeId(node));
            }
            let stored = postcard::to_stdvec(&hierarchy).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Hierarchy>(&stored).unwrap(), hierarchy.clone());
        }
    }
}

#[test]
fn clusters_are_a_level_below_their_sites() {
    let grid = GridSpec::from_toml(
        r#"
        [site.a]
        hosts = ["front"]
        cluster.x = { hosts = ["x[1-2]"], lan = { latency = "10us" } }
        cluster.y = { hosts = ["y1"] }
        [site.b]
        hosts = ["b1"]
        "#,
    )
    .unwrap();

    let hierarchy = Hierarchy::from_grid(&grid);

    let members = |level: usize| -> Vec<Vec<u32>> {
        let nodes = |group| hierarchy.group(group).members().iter().map(|node| node.0).collect();
        hierarchy.groups_at(level).map(nodes).collect()
    };
    assert_eq!(members(1), [vec![0, 1, 2, 3], vec![4]]);
    assert_eq!(members(2), [vec![0], vec![1, 2], vec![3], vec![4]]);
    let cluster = hierarchy.group_of(NodeId(1), 2).unwrap();
    assert_eq!(hierarchy.group(cluster).name(), Some("x"));
}
