//! Tests of merging: its result, its laws, and the size of samples.

use super::*;
use crate::message::codec::encoded_len;
use crate::message::telemetry::{
    PeTelemetry, SAMPLE_BYTES_MAX, SEVERAL_SITES, TelemetryCounts, TelemetryTree,
};
use gridspan_topology::{Layout, NodeId, PeId};
use proptest::prelude::*;

fn layout(sites: &[usize], pes: u32) -> Layout {
    let site = |(n, &nodes): (usize, &usize)| (format!("s{n}"), vec![pes; nodes]);
    Layout::new(sites.iter().enumerate().map(site).collect())
}

/// Counts of a job that has run for long, so that numbers take many bytes.
fn counts(seed: u64) -> TelemetryCounts {
    let month_us = 30 * 24 * 3600 * 1_000_000 + seed;
    TelemetryCounts {
        busy_us: month_us,
        network_us: month_us / 3,
        idle_us: month_us / 2,
        ran_us: month_us,
        waited_us: month_us / 5,
        handled: 1_000_000_000_000 + seed,
        waiting: 1_000_000 + seed,
        waiting_bytes: 1 << 33,
        actors: 100_000,
        migrations: 1_000_000,
        tasks_done: 1_000_000_000_000,
        tasks_waiting: 1_000_000,
    }
}

/// The sample of one node alone. `busy`: its load.
fn of_node(
    layout: &Layout,
    bounds: TelemetryBounds,
    node: NodeId,
    (busy, types): (u16, usize),
) -> TelemetrySample {
    let place = layout.place(node);
    let (site, pes) = (bounds.site(place.site), place.pes.len() as u32);
    let mut sum = TelemetryCounts::default();
    let listed = place.pes.clone().map(|pe| {
        let counts = counts(u64::from(pe));
        sum += counts;
        PeTelemetry { pe: PeId(pe), counts, is_late: false }
    });
    let mut listed: Vec<PeTelemetry> = listed.collect();
    listed.truncate(bounds.pes_listed(false));
    let own = NodeTelemetry {
        node,
        site: place.site,
        pes,
        counts: sum,
        memory_bytes: 1 << 38,
        busy_permille: busy,
        late_pes: 1,
        is_focus: false,
    };
    let sites = layout.sites();
    let links = sites.map(|to| LinkTelemetry {
        from: site,
        to: bounds.link_to(to),
        messages: 1_000_000_000,
        bytes: 1 << 45,
    });
    let of_type = |position| TypeTelemetry {
        number: bounds.type_number(position),
        site: bounds.type_site(place.site),
        actors: 100_000,
        handled: 1_000_000_000_000,
        waiting: 1_000_000,
    };
    let mut sample = TelemetrySample {
        newest_step: u64::from(node.0),
        telemetry_ns: 10_000,
        telemetry_ns_max: 10_000,
        processor_ns: 9_000,
        processor_ns_max: 9_000,
        depth: 1,
        sites: vec![SiteTelemetry { site, nodes: 1, pes, counts: sum, memory_bytes: 1 << 38 }],
        nodes: vec![own],
        pes: listed,
        ..TelemetrySample::default()
    };
    // Merged, because several may count under one key.
    let (links, types) = (links.collect(), (0..types).map(of_type).collect());
    sample.merge(&TelemetrySample { links, types, ..TelemetrySample::default() }, bounds);
    sample
}

/// Merges the samples of a whole job over its tree. Returns the sample of the job, the number of
/// messages between nodes, and the sizes of those that the root gets, in bytes.
fn over_tree(
    layout: &Layout,
    types: usize,
    busy: impl Fn(NodeId) -> u16,
) -> (TelemetrySample, u32, Vec<usize>) {
    let bounds = TelemetryBounds::new(layout, types);
    let mut samples: Vec<TelemetrySample> =
        layout.nodes().map(|node| of_node(layout, bounds, node, (busy(node), types))).collect();
    let mut order: Vec<(u32, NodeId, NodeId)> = layout
        .nodes()
        .filter_map(|node| {
            let TelemetryTree { parent, depth, .. } =
                TelemetryTree::of(layout, node, &BTreeSet::new());
            Some((depth, node, parent?))
        })
        .collect();
    // The deepest nodes first.
    order.sort_by_key(|&(depth, node, _)| (std::cmp::Reverse(depth), node));
    let (mut messages, mut to_root) = (0, Vec::new());
    for (_, node, parent) in order {
        let sample = std::mem::take(&mut samples[node.index()]);
        messages += 1;
        if parent == NodeId(0) {
            to_root.push(encoded_len(&sample));
        }
        let depth = sample.depth + 1;
        samples[parent.index()].merge(&TelemetrySample { depth, ..sample }, bounds);
    }
    (samples.swap_remove(0), messages, to_root)
}

#[test]
fn a_job_of_a_thousand_nodes_sends_its_root_at_most_64_kb_whatever_its_shape() {
    let shapes: [(&[usize], usize, u32); 6] = [
        (&[1000], 6, 6),
        (&[250; 4], 6, 6),
        (&[100; 10], 6, 7),
        (&[50; 20], 64, 7),
        (&[10; 100], 64, 8),
        (&[1; 1000], 200, 6),
    ];
    for (sites, types, levels) in shapes {
        for pes in [1, 16] {
            let layout = layout(sites, pes);
            let (job, messages, to_root) =
                over_tree(&layout, types, |node| (node.0 * 7919 % 1001) as u16);

            assert_eq!((job.node_count(), job.total().pes), (1000, 1000 * pes));
            assert_eq!(messages, 999, "each node sends one sample");
            assert!(to_root.len() <= 8, "{to_root:?}");
            let bytes: usize = to_root.iter().sum();
            assert!(bytes <= SAMPLE_BYTES_MAX, "{sites:?}: {bytes} bytes");
            assert!(job.depth <= levels, "{sites:?}: {} levels", job.depth);
            assert_eq!(job.newest_step, 999);
            assert_eq!((job.telemetry_ns, job.telemetry_ns_max), (10_000_000, 10_000));
            assert_eq!((job.processor_ns, job.processor_ns_max), (9_000_000, 9_000));
        }
    }
}

#[test]
fn the_types_and_links_of_a_node_that_count_as_one_are_united() {
    let of_type = |number, actors| TypeTelemetry { number, actors, ..TypeTelemetry::default() };
    let link = |to, bytes| LinkTelemetry { to: SiteId(to), bytes, ..LinkTelemetry::default() };
    let mut sample = TelemetrySample {
        types: vec![of_type(2, 5), of_type(1, 3), of_type(2, 4)],
        links: vec![link(0, 7), link(1, 8), link(1, 9)],
        ..TelemetrySample::default()
    };

    sample.unite_equal();

    assert_eq!(sample.types, [of_type(1, 3), of_type(2, 9)]);
    assert_eq!(sample.links, [link(0, 7), link(1, 17)]);
}

#[test]
fn a_small_job_is_listed_in_full() {
    let layout = layout(&[60, 60], 2);
    let (job, _, to_root) = over_tree(&layout, 3, |_| 500);

    assert_eq!((job.nodes.len(), job.pes.len()), (120, 240));
    assert_eq!((job.sites.len(), job.links.len(), job.types.len()), (2, 4, 6));
    assert!(job.nodes.iter().map(|it| it.node).eq(layout.nodes()), "in order");
    assert!(to_root.iter().sum::<usize>() <= SAMPLE_BYTES_MAX);
}

#[test]
fn of_a_large_job_the_nodes_at_both_ends_of_each_site_are_listed() {
    let layout = layout(&[300, 300], 1);
    // The loads of a site are all different, and in no order.
    let busy = |node: NodeId| (node.0 % 300 * 7 % 300) as u16;
    let (job, ..) = over_tree(&layout, 1, busy);

    assert_eq!(job.nodes.len(), 32, "eight at each end of two sites");
    for site in layout.sites() {
        let of_site = job.nodes.iter().filter(|node| node.site == site);
        let mut loads: Vec<u16> = of_site.map(|node| node.busy_permille).collect();
        loads.sort_unstable();
        assert_eq!(loads, (0..8).chain(292..300).collect::<Vec<u16>>());
    }
    assert!(job.pes.is_empty());
    assert_eq!(job.total().counts.actors, 600 * 100_000, "sums are of all nodes");
}

#[test]
fn links_of_many_sites_are_counted_by_sender_only() {
    let layout = layout(&[2; 21], 1);
    let (job, ..) = over_tree(&layout, 1, |_| 0);

    assert_eq!(job.links.len(), 21);
    assert!(job.links.iter().all(|link| link.to == SEVERAL_SITES));
    assert_eq!(job.links[3].messages, 2 * 21 * 1_000_000_000);
}

#[test]
fn sums_of_hostile_numbers_do_not_overflow() {
    let layout = layout(&[2], 1);
    let bounds = TelemetryBounds::new(&layout, 1);
    let most = TelemetryCounts { busy_us: u64::MAX, idle_us: u64::MAX, ..counts(0) };
    let site = SiteTelemetry {
        site: SiteId(0),
        nodes: u32::MAX,
        pes: u32::MAX,
        counts: most,
        memory_bytes: u64::MAX,
    };
    let sample = TelemetrySample { sites: vec![site], ..TelemetrySample::default() };
    let mut sum = sample.clone();
    sum.merge(&sample, bounds);

    let total = sum.total();
    assert_eq!((total.nodes, total.memory_bytes), (u32::MAX, u64::MAX));
    assert_eq!(total.counts.time_us(), u64::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]
    #[test]
    fn merging_is_associative_and_commutative(
        loads in prop::collection::vec(0..20u16, 200),
        order in Just((0..200u32).collect::<Vec<u32>>()).prop_shuffle(),
        cuts in [1..199usize, 1..199usize],
        focus in 0..200u32,
    ) {
        // Above the limit, so that nodes are dropped.
        let layout = layout(&[90, 110], 1);
        let bounds = TelemetryBounds::new(&layout, 2);
        let single = |&node: &u32| {
            let mut sample = of_node(&layout, bounds, NodeId(node), (loads[node as usize], 2));
            sample.nodes[0].is_focus = node == focus;
            sample
        };
        let merged = |nodes: &[u32]| {
            let mut sum = TelemetrySample::default();
            nodes.iter().map(single).for_each(|sample| sum.merge(&sample, bounds));
            sum
        };
        let (first, last) = (cuts[0].min(cuts[1]), cuts[0].max(cuts[1]));
        let [a, b, c] = [&order[..first], &order[first..last], &order[last..]].map(merged);

        let join = |one: &TelemetrySample, other: &TelemetrySample| {
            let mut sum = one.clone();
            sum.merge(other, bounds);
            sum
        };
        prop_assert_eq!(join(&join(&a, &b), &c), join(&a, &join(&b, &c)));
        prop_assert_eq!(join(&a, &c), join(&c, &a));
        let whole = merged(&(0..200).collect::<Vec<u32>>());
        prop_assert_eq!(&join(&join(&c, &a), &b), &whole);
        prop_assert!(whole.nodes.iter().any(|node| node.node == NodeId(focus)));
    }
}
