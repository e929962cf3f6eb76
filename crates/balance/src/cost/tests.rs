//! Tests of the cost model.

use super::*;
use crate::fixtures::snapshot;
use crate::fixtures::with_wide_area;
use crate::snapshot::Edge;
use gridspan_topology::{Bandwidth, Latency};

const EXACT: CostModel = CostModel { message_overhead: Duration::ZERO, border_wait: 0.0 };

fn predicted(snapshot: &Snapshot, model: &CostModel) -> Prediction {
    let mapping: Vec<PeId> = snapshot.actors.iter().map(|actor| actor.pe).collect();
    predict(snapshot, &mapping, model)
}

#[test]
fn without_latency_the_busiest_pe_determines_the_step() {
    // The PEs have 1 + 4, 2, 3 and 0 ms of work, and PE 0 has 1 ms of background.
    let mut snapshot = snapshot(&[0, 1, 2, 0]);
    snapshot.pes[0].background = Duration::from_millis(1);
    snapshot.edges.clear();

    let prediction = predicted(&snapshot, &EXACT);

    assert_eq!(prediction.bound, Bound::Compute);
    assert_eq!((prediction.step.as_millis(), prediction.busiest), (6, PeId(0)));
    assert!((prediction.imbalance() - 6.0 / 2.75).abs() < 1e-9);
}

#[test]
fn a_pe_with_less_work_waits_less_for_its_processor() {
    // The PEs have 1 + 4, 2, 3 and 0 ms of work, and other programs use PE 0 for 20 ms.
    let mut snapshot = snapshot(&[0, 1, 2, 0]);
    snapshot.pes[0].background = Duration::from_millis(20);
    snapshot.edges.clear();
    let step = |mapping: [u32; 4]| predict(&snapshot, &mapping.map(PeId), &EXACT).step.as_millis();

    assert_eq!(step([0, 1, 2, 0]), 25);
    assert_eq!(step([0, 1, 2, 3]), 5, "a fifth of the work waits for a fifth of the time");
    assert_eq!(step([3, 1, 2, 3]), 5);
}

#[test]
fn a_pair_that_sends_both_ways_takes_a_round_trip_and_the_work_at_both_ends() {
    // Actors 1 (2 ms) and 2 (3 ms) are in different sites.
    let mut snapshot = with_wide_area(snapshot(&[0, 1, 2, 3]), Duration::from_millis(50));

    assert_eq!(predicted(&snapshot, &EXACT).step.as_millis(), 50 + 5);
    snapshot.edges.push(Edge { from: 2, to: 1, messages: 10, bytes: 10 });
    let prediction = predicted(&snapshot, &EXACT);

    assert_eq!((prediction.step.as_millis(), prediction.bound), (105, Bound::RoundTrip));
    assert_eq!(prediction.wide_area, Traffic { messages: 20, bytes: 1010 });
    assert_eq!(prediction.levels[0], prediction.wide_area);
}

#[test]
fn the_first_of_several_links_between_two_sites_counts() {
    let mut snapshot = with_wide_area(snapshot(&[0, 1, 2, 3]), Duration::from_millis(50));
    let slower = |link: &SiteLink| SiteLink { latency: Latency::from_millis(900), ..*link };
    let slower: Vec<SiteLink> = snapshot.links.iter().map(slower).collect();
    snapshot.links.extend(slower);

    assert_eq!(predicted(&snapshot, &EXACT).step.as_millis(), 50 + 5);
}

#[test]
fn with_step_order_a_cycle_waits_for_running_handlers_and_other_receivers() {
    // Actors 1 to 3 (2, 3 and 4 ms) are at the other site, and 1 answers actor 0 (1 ms), which
    // sends to 1 and 2.
    let mut snapshot = with_wide_area(snapshot(&[0, 2, 2, 2]), Duration::from_millis(50));
    let edge = |from, to| Edge { from, to, messages: 10, bytes: 10 };
    snapshot.edges = vec![edge(0, 1), edge(0, 2), edge(1, 0)];
    snapshot.has_step_order = true;

    // The round trip, actors 1 and 2 at one end and 0 at the other, and 4² / (2 · 100) ms for actor
    // 3.
    assert_eq!(predicted(&snapshot, &EXACT).step.as_micros(), 100_000 + 5_000 + 1_000 + 80);
}

#[test]
fn work_is_divided_by_the_speed_of_its_pe_and_the_number_of_steps() {
    let mut snapshot = snapshot(&[0, 1, 2, 3]);
    snapshot.pes[0].speed = 2.0;
    snapshot.steps = 10;

    let moved = predict(&snapshot, &[0, 0, 0, 0].map(PeId), &EXACT);

    // 1 ms measured on PE 0, and 9 ms from PEs of speed 1, which take half the time on PE 0; in ten
    // steps.
    assert_eq!(moved.step.as_micros(), 550);
}

#[test]
fn an_actor_on_a_shared_processor_takes_longer() {
    let mut snapshot = snapshot(&[0, 1, 2, 3]);
    snapshot.pes[3].available = 0.5;
    // The other PEs wait for PE 3.
    snapshot.pes.iter_mut().take(3).for_each(|pe| pe.idle = Duration::from_millis(4));

    let [here, there] = [[0, 1, 2, 3], [0, 1, 2, 2]]
        .map(|pes| predict(&snapshot, &pes.map(PeId), &EXACT).step.as_millis());

    // 4 ms with half a processor; 3 + 4 ms with a whole one.
    assert_eq!((here, there), (8, 7));
}

#[test]
fn if_no_pe_waits_for_a_slowed_one_only_free_pes_help() {
    let mut snapshot = snapshot(&[0, 1, 2]);
    snapshot.actors.iter_mut().for_each(|actor| actor.load = Duration::from_millis(10));
    snapshot.actors[0].load = Duration::from_millis(5);
    snapshot.pes[0].available = 0.5;

    let [now, free, shared] = [[0, 1, 2], [3, 1, 2], [1, 1, 2]]
        .map(|pes| predict(&snapshot, &pes.map(PeId), &EXACT).step.as_micros());

    // 25 ms of work, by 2.5, 3 and 2 PEs.
    assert_eq!((now, free, shared), (10_000, 8_333, 12_500));
}

#[test]
fn the_bandwidth_between_sites_can_bound_a_step() {
    let mut snapshot = with_wide_area(snapshot(&[0, 1, 2, 3]), Duration::ZERO);
    snapshot.links[0].bandwidth = Bandwidth::from_bits_per_second(80_000);

    let prediction = predicted(&snapshot, &EXACT);

    assert_eq!((prediction.bound, prediction.step.as_millis()), (Bound::Bandwidth, 100));
}

#[test]
fn no_mapping_takes_less_than_the_least_step() {
    let mut snapshot = snapshot(&[0, 0, 1, 3, 0]);
    for (pe, speed) in snapshot.pes.iter_mut().zip([1.0, 3.0, 0.5, 2.0]) {
        pe.speed = speed;
    }
    let last = snapshot.actors.len() - 1;
    let best = |snapshot: &Snapshot| {
        let mapping = |n: usize| (0..5).map(|actor| PeId((n >> (2 * actor)) as u32 & 3)).collect();
        let stays = |mapping: &Vec<PeId>| mapping[last] == snapshot.actors[last].pe;
        let mappings = (0..1 << 10).map(mapping).filter(stays);
        mappings.map(|mapping| predict(snapshot, &mapping, &EXACT).step).min().unwrap()
    };

    // The last actor cannot move, and has most of the work.
    snapshot.actors[last].load = Duration::from_millis(40);
    assert_eq!(least_step(&snapshot).as_millis(), 40);
    assert_eq!(best(&snapshot).as_millis(), 40);
    for load_ms in [1, 3, 5, 9] {
        snapshot.actors[last].load = Duration::from_millis(load_ms);
        let (least, best) = (least_step(&snapshot), best(&snapshot));
        assert!(least <= best && best < least * 2, "{least:?} {best:?}");
    }
}
