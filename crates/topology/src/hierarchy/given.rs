//! The hierarchy that the user described: sites, clusters, and hosts that run several nodes.

use super::draft::{Draft, Partition};
use super::group::{BandwidthRange, RttRange, between_place};
use super::stored::MAX_PAIRED_CHILDREN;
use super::tree::Hierarchy;
use crate::id::NodeId;
use crate::layout::Layout;
use crate::link::Link;
use crate::spec::GridSpec;
use std::collections::BTreeMap;

impl Hierarchy {
    /// Creates the hierarchy of a described grid: the whole, its sites, their clusters if any site
    /// has clusters, and the hosts if any host runs several nodes. A node outside all clusters
    /// forms a cluster alone. Levels that separate nothing are left out, such as the sites of a
    /// grid with only one site. Round trips are those of the links without queues and with their
    /// mean jitter.
    pub fn from_grid(grid: &GridSpec) -> Self {
        let layout = grid.layout();
        let mut hosts = BTreeMap::new();
        let host_of = |(node, name)| {
            let next = hosts.len() as u32;
            *hosts.entry((layout.site_of_node(node), name)).or_insert(next)
        };
        let by_host: Vec<u32> = grid.hosts().map(host_of).collect();
        let mut partitions = vec![by_site(layout)];
        if layout.nodes().any(|node| grid.cluster_of(node).is_some()) {
            partitions.push(by_cluster(grid));
        }
        if hosts.len() < by_host.len() {
            partitions.push(given(by_host, BTreeMap::new()));
        }
        let (mut hierarchy, _) = draft(layout, partitions).skeleton();
        describe(&mut hierarchy, grid);
        hierarchy
    }

    /// Creates a hierarchy of the whole and the sites of a layout, with names and without
    /// distances.
    pub fn from_layout(layout: &Layout) -> Self {
        draft(layout, vec![by_site(layout)]).skeleton().0
    }
}

fn draft(layout: &Layout, partitions: Vec<Partition>) -> Draft {
    let nodes: Vec<NodeId> = layout.nodes().collect();
    Draft { added_ms: vec![0.0; nodes.len()], nodes, partitions }
}

fn by_site(layout: &Layout) -> Partition {
    let names = layout.sites().map(|site| (site.0, layout.site_name(site).to_owned())).collect();
    given(layout.nodes().map(|node| layout.site_of_node(node).0).collect(), names)
}

fn by_cluster(grid: &GridSpec) -> Partition {
    let nodes = || grid.layout().nodes();
    let clusters = nodes().filter_map(|node| grid.cluster_of(node)).max();
    let first_loner = clusters.map_or(0, |last| last + 1);
    let cluster_of = |node: NodeId| grid.cluster_of(node).unwrap_or(first_loner + node.0);
    let names = nodes().filter_map(|node| {
        let cluster = grid.cluster_of(node)?;
        Some((cluster, grid.cluster_name(cluster).to_owned()))
    });
    given(nodes().map(cluster_of).collect(), names.collect())
}

fn given(groups: Vec<u32>, names: BTreeMap<u32, String>) -> Partition {
    Partition { groups, cut_ms: 0.0, confidence: 1.0, names }
}

/// Fills in the round trips and bandwidths of the links.
fn describe(hierarchy: &mut Hierarchy, grid: &GridSpec) {
    let mut of_level = vec![(Vec::new(), Vec::new()); hierarchy.depth()];
    for number in 0..hierarchy.groups.len() {
        let group = &hierarchy.groups[number];
        // Links are compared between children, or between members if the group has no children; all
        // members of a site or of a host are equivalent.
        let mut ends: Vec<NodeId> =
            group.children.iter().map(|&child| hierarchy.group(child).members()[0]).collect();
        if ends.is_empty() {
            ends = group.members.iter().copied().take(2).collect();
        }
        // With very many sites, every n-th of them is enough for the range.
        let step = ends.len().div_ceil(MAX_PAIRED_CHILDREN).max(1);
        let is_whole = step == 1 && !group.children.is_empty();
        let ends: Vec<NodeId> = ends.into_iter().step_by(step).collect();
        let mut between = vec![0; ends.len() * ends.len().saturating_sub(1) / 2];
        let (mut rtts, mut rates) = (Vec::new(), Vec::new());
        for (a, &one) in ends.iter().enumerate() {
            for (b, &other) in ends[..a].iter().enumerate() {
                let ms = round_trip_ms(grid.link(one, other), grid.link(other, one));
                let rate = grid.bandwidth(one, other).min(grid.bandwidth(other, one));
                between[between_place(a, b)] = ((f64::from(ms) * 1e6) as u64).max(1);
                rtts.push(ms);
                rates.push(rate);
            }
        }
        let (all_rtts, all_rates) = &mut of_level[group.level];
        all_rtts.extend_from_slice(&rtts);
        all_rates.extend_from_slice(&rates);
        let group = &mut hierarchy.groups[number];
        group.rtt = RttRange::of_milliseconds(&mut rtts);
        group.bandwidth = BandwidthRange::of(rates);
        group.between = if is_whole { between } else { Vec::new() };
    }
    for (level, (mut rtts, rates)) in hierarchy.levels.iter_mut().zip(of_level) {
        level.rtt = RttRange::of_milliseconds(&mut rtts);
        level.bandwidth = BandwidthRange::of(rates);
    }
}

/// Returns the mean round trip in milliseconds.
fn round_trip_ms(there: &Link, back: &Link) -> f32 {
    let one_way = |link: &Link| link.latency.duration() + link.jitter / 2;
    ((one_way(there) + one_way(back)).as_secs_f64() * 1e3) as f32
}
