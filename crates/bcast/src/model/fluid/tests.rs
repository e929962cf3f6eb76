//! Tests the simulation against values computed by hand, and against the cost model where both must
//! agree.

use super::*;
use crate::fixtures::grid_links;
use crate::model::{NodeLink, Serialisation, TreeCostModel};
use proptest::prelude::*;

/// Nodes of 1 MB/s each way in one cluster, with this initiation and latency.
fn nodes(count: usize, initiation_s: f64, latency_s: f64) -> Network {
    let node = NodeLink { cluster: 0, out: 1e6, into: 1e6, initiation_s };
    let mut network = Network::new(vec![node; count]);
    network.connect(0, 0, latency_s, vec![]);
    network
}

fn run(edges: &[(u32, u32)], bytes: f64, segments: u32) -> Run {
    Run { edges: edges.to_vec(), bytes, segments }
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9, "{value} instead of {expected}");
}

#[test]
fn a_pipelined_chain_takes_one_segment_for_each_hop_and_the_rest_once() {
    // 1 MB in 10 segments of 0.1 s over three hops: 3 x 0.1 + 9 x 0.1, and three latencies.
    let chain = run(&[(0, 1), (1, 2), (2, 3)], 1e6, 10);

    let outcome = simulate(&nodes(4, 0.0, 0.05), &[chain], Sending::Concurrent);

    near(outcome.completion_s, 1.2 + 0.15);
}

#[test]
fn initiation_is_paid_for_each_segment() {
    // Each segment takes 0.01 + 0.1 on each hop.
    let chain = run(&[(0, 1), (1, 2)], 1e6, 10);

    near(simulate(&nodes(3, 0.01, 0.0), &[chain], Sending::Concurrent).completion_s, 11.0 * 0.11);
}

#[test]
fn children_served_at_once_share_the_senders_capacity() {
    let star = run(&[(0, 1), (0, 2)], 1e6, 1);

    let at_once = simulate(&nodes(3, 0.0, 0.0), std::slice::from_ref(&star), Sending::Concurrent);
    let in_turn = simulate(&nodes(3, 0.0, 0.0), &[star], Sending::Serial);

    near(at_once.edges[0].span_s.1, 2.0);
    near(at_once.completion_s, 2.0);
    near(in_turn.edges[0].span_s.1, 1.0);
    near(in_turn.completion_s, 2.0);
}

#[test]
fn a_shared_pipe_is_divided_and_its_unused_part_goes_to_the_other_transfer() {
    // Two clusters with a pipe of 1 MB/s between them; nodes receive 2 MB/s, node 3 only 0.25 MB/s.
    let node = |cluster, into| NodeLink { cluster, out: 2e6, into, initiation_s: 0.0 };
    let mut network = Network::new(vec![node(0, 2e6), node(0, 2e6), node(1, 2e6), node(1, 0.25e6)]);
    let pipe = network.share(1e6);
    network.connect(0, 1, 0.0, vec![pipe]);
    let fast = run(&[(0, 2)], 0.75e6, 1);
    let slow = run(&[(0, 3)], 0.5e6, 1);

    let outcome = simulate(&network, &[fast, slow], Sending::Concurrent);

    near(outcome.edges[0].flowing_s, 1.0);
    near(outcome.edges[1].flowing_s, 2.0);
    near(outcome.completion_s, 2.0);
}

#[test]
fn two_stripes_fill_what_one_chain_leaves_idle() {
    // Each half goes from the root to one node and from there to the other. It takes 0.5 s, and in
    // two segments 0.25 s more for the second hop.
    let one = run(&[(0, 1), (1, 2)], 0.5e6, 2);
    let other = run(&[(0, 2), (2, 1)], 0.5e6, 2);

    let outcome = simulate(&nodes(3, 0.0, 0.0), &[one, other], Sending::Concurrent);

    // The root sends both halves over its 1 MB/s: 1 s, and the last segments take one hop more.
    near(outcome.completion_s, 1.25);
}

proptest! {
    /// Without shared capacities and with blocking sends, the simulation equals the cost model of
    /// Gupta and Vadhiyar (2006).
    #[test]
    fn blocking_sends_without_shared_capacities_agree_with_the_cost_model(
        draws in prop::collection::vec(0..1000_usize, 11),
        seed in 0..50_u64,
    ) {
        let links = grid_links(4, 3, seed);
        let node = |n: u32| NodeLink {
            cluster: n / 3, out: 1e9, into: 1e9, initiation_s: links.initiation_s(n as usize),
        };
        let mut network = Network::new((0..12).map(node).collect());
        for from in 0..4 {
            for to in 0..4 {
                // A capacity for each pair of nodes would be exact. Nodes of 1 GB/s and one pipe
                // for each pair of clusters are equivalent as long as one sender at a time uses a
                // pipe.
                let pipe = network.share(links.bandwidth(3 * from, 3 * to + 1));
                network.connect(from, to, links.latency_s(3 * from, 3 * to + 1), vec![pipe]);
            }
        }
        // Trees over the first node of each cluster, so that no pipe is used by two senders.
        let entries = [0_u32, 3, 6, 9];
        let few = links.restricted_to(&entries);
        let model = TreeCostModel::new(&few, 200_000, Serialisation::Transfer);
        let mut parents = [u32::MAX; 4];
        for node in 1..4 {
            parents[node] = (draws[node] % node) as u32;
        }
        let edges: Vec<(u32, u32)> = model
            .edges(&parents)
            .into_iter()
            .map(|(from, to)| (entries[from as usize], entries[to as usize]))
            .collect();

        let outcome = simulate(&network, &[run(&edges, 2e5, 1)], Sending::Serial);

        let expected = model.completion_s(&parents);
        prop_assert!((outcome.completion_s - expected).abs() < 1e-6 * expected);
    }
}
