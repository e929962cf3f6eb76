//! Broadcasts between sites whose distances do not form a tree of groups.

use crate::common::speaker::times_ms;
use gridspan_runtime::Job;
use gridspan_topology::{GridSpec, Latency, Layout, Link, SiteId};

/// Sites of two nodes, with the latency of each pair of sites in milliseconds.
fn grid(sites: usize, links: &[(u32, u32, u64)]) -> GridSpec {
    let named = (0..sites).map(|at| (format!("s{at}"), vec![1; 2])).collect();
    let grid = GridSpec::from_layout(&Layout::new(named)).expect("sites have nodes");
    links.iter().fold(grid, |grid, &(from, to, millis)| {
        let link = Link::wan().with_latency(Latency::from_millis(millis));
        let (from, to) = (SiteId(from), SiteId(to));
        grid.with_link(from, to, link).with_link(to, from, link)
    })
}

#[test]
fn small_broadcasts_go_through_a_site_that_is_near_to_all_others() {
    // Any two of the first three sites are far from each other, and near the fourth.
    let links = [(0, 1, 60), (0, 2, 50), (1, 2, 70), (0, 3, 4), (1, 3, 5), (2, 3, 6)];
    for root in [0, 3] {
        let times = times_ms(Job::new("uneven"), &grid(4, &links), root, (1_000, true), 14);
        let late = times[10..].iter().copied().fold(0.0, f64::max);
        let best = if root == 0 { 4.0 + 6.0 } else { 5.0 + 6.0 };
        assert!(late < 1.15 * best, "from {root}: {times:?}");
    }
}
