//! Tests of the estimates, with handmade samples.

use super::*;

const FLOW: (NodeId, NodeId) = (NodeId(0), NodeId(9));

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn round_trip(ms: u64) -> LinkSample {
    LinkSample { round_trip: Some(Duration::from_millis(ms)), ..LinkSample::default() }
}

fn rate(mbit: u64, is_full: bool) -> LinkSample {
    let rate = Some(Bandwidth::from_bits_per_second(mbit * 1_000_000));
    LinkSample { rate, is_full, ..LinkSample::default() }
}

#[test]
fn latency_is_half_the_least_round_trip_in_both_directions() {
    let mut monitor = LinkMonitor::new();
    for ms in [24, 20, 28] {
        monitor.observe(at(0), (1, 2), FLOW, round_trip(ms));
    }
    for (from, to) in [(1, 2), (2, 1)] {
        let estimate = monitor.estimate(at(100), from, to).unwrap();
        assert_eq!(estimate.latency, Latency::from_millis(10));
        assert_eq!(estimate.jitter, Duration::from_millis(4));
        assert_eq!(estimate.confidence, 3.0 / 8.0);
    }
    assert_eq!(monitor.estimate(at(100), 1, 3), None);
}

#[test]
fn remembered_estimates_outlast_their_samples_in_both_directions() {
    let mut monitor = LinkMonitor::new();
    for (from, to) in [(1, 2), (1, 3)] {
        monitor.observe(at(0), (from, to), FLOW, round_trip(20));
        monitor.observe(at(0), (from, to), FLOW, rate(50, true));
    }

    monitor.remember(at(0), 2, 1);

    let known = |from, to| monitor.estimate(at(60_000), from, to);
    assert_eq!(known(1, 2).unwrap().latency, Latency::from_millis(10));
    assert_eq!(known(2, 1).unwrap().latency, Latency::from_millis(10));
    assert_eq!(known(1, 2).unwrap().bandwidth, rate(50, true).rate);
    assert_eq!(known(1, 3), None);
}

#[test]
fn a_link_that_becomes_slow_is_announced_once_within_three_seconds() {
    let mut monitor = LinkMonitor::new();
    let mut announced = Vec::new();
    for half in 0..20 {
        let now = at(half * 500);
        monitor.observe(now, (1, 2), FLOW, round_trip(if half < 8 { 20 } else { 80 }));
        announced.extend(monitor.changes(now).into_iter().map(|change| (half, change)));
    }
    let (half, change) = announced[0];
    assert!(half - 8 <= 6, "noticed {half} half-seconds after the start");
    assert_eq!(change.before.latency, Latency::from_millis(10));
    assert_eq!(change.after.latency, Latency::from_millis(40));
    assert_eq!(announced.len(), 2, "both directions, once each");
}

#[test]
fn noise_below_a_fifth_and_a_single_outlier_are_no_change() {
    let mut monitor = LinkMonitor::new();
    for half in 0..40 {
        let odd = if half == 20 { 60 } else { 20 + half % 4 };
        monitor.observe(at(half * 500), (1, 2), FLOW, round_trip(odd));
        assert_eq!(monitor.changes(at(half * 500)), []);
    }
}

#[test]
fn a_round_trip_behind_a_message_is_no_change_and_is_doubted() {
    let mut monitor = LinkMonitor::new();
    // One ping every ten seconds; the second is queued behind a message, and the link is unchanged.
    let mut changes = Vec::new();
    for half in 0..60 {
        let now = at(half * 500);
        match half {
            0 | 22 | 40 => monitor.observe(now, (1, 2), FLOW, round_trip(20)),
            20 => monitor.observe(now, (1, 2), FLOW, round_trip(25)),
            _ => {}
        }
        changes.extend(monitor.changes(now));
        assert_eq!(monitor.is_doubted(1, 2), (20..22).contains(&half), "{half}");
        assert_eq!(monitor.estimate(now, 1, 2).unwrap().latency, Latency::from_millis(10));
    }
    assert_eq!(changes, []);

    // Three in a row change the estimate.
    for second in 60..66 {
        monitor.observe(at(second * 1000), (1, 2), FLOW, round_trip(25));
        changes.extend(monitor.changes(at(second * 1000)));
    }
    assert_eq!(changes.len(), 2, "both directions, once each");
}

#[test]
fn a_full_link_gives_its_bandwidth_and_others_a_lower_bound() {
    let mut monitor = LinkMonitor::new();
    monitor.observe(at(0), (1, 2), FLOW, round_trip(20));
    monitor.observe(at(0), (1, 2), FLOW, rate(3, false));
    let mbit = |monitor: &mut LinkMonitor, ms| {
        monitor.changes(at(ms));
        monitor.estimate(at(ms), 1, 2)?.bandwidth.map(|b| b.bits_per_second() / 1_000_000)
    };
    assert_eq!(mbit(&mut monitor, 0), None, "the bandwidth is unknown");
    monitor.observe(at(100), (1, 2), FLOW, rate(100, true));
    assert_eq!(mbit(&mut monitor, 100), Some(100));
    monitor.observe(at(9_000), (1, 2), FLOW, rate(10, false));
    assert_eq!(mbit(&mut monitor, 9_000), Some(100), "a low rate is only a lower bound");
    monitor.observe(at(12_000), (1, 2), FLOW, rate(10, true));
    assert_eq!(mbit(&mut monitor, 12_000), Some(10));
}

#[test]
fn estimates_age_and_lose_confidence() {
    let mut monitor = LinkMonitor::new();
    (0..8).for_each(|_| monitor.observe(at(0), (1, 2), FLOW, round_trip(20)));
    monitor.changes(at(0));
    let later = monitor.estimate(at(30_000), 1, 2).unwrap();
    assert_eq!((later.observed, later.latency), (at(0), Latency::from_millis(10)));
    assert!((later.confidence - 0.5).abs() < 1e-9);
}

#[test]
fn a_measurement_of_the_bandwidth_does_not_age_the_round_trips() {
    let mut monitor = LinkMonitor::new();
    (0..8).for_each(|_| monitor.observe(at(0), (1, 2), FLOW, round_trip(20)));
    monitor.changes(at(0));
    monitor.observe(at(10_000), (1, 2), FLOW, rate(100, true));
    for half in 20..24 {
        monitor.changes(at(half * 500));
    }
    let later = monitor.estimate(at(30_000), 1, 2).unwrap();
    assert_eq!((later.observed, later.bandwidth), (at(0), rate(100, true).rate));
    assert!((later.confidence - 0.5).abs() < 1e-9, "{}", later.confidence);
}

#[test]
fn losses_count_once_there_are_enough_packets() {
    let mut monitor = LinkMonitor::new();
    monitor.observe(at(0), (1, 2), FLOW, round_trip(20));
    let lossy = |sent, lost| LinkSample { sent, lost, ..LinkSample::default() };
    monitor.observe(at(0), (1, 2), FLOW, lossy(900, 90));
    assert_eq!(monitor.estimate(at(0), 1, 2).unwrap().loss, 0.0);
    monitor.observe(at(0), (1, 2), FLOW, lossy(100, 10));
    assert_eq!(monitor.estimate(at(0), 1, 2).unwrap().loss, 0.1);
    (0..100).for_each(|_| monitor.observe(at(0), (1, 2), FLOW, lossy(100, 0)));
    assert!(monitor.estimate(at(0), 1, 2).unwrap().loss < 0.001, "the past fades");
}

#[test]
fn rates_of_concurrent_flows_are_added_up() {
    let mut monitor = LinkMonitor::new();
    monitor.observe(at(0), (1, 2), FLOW, round_trip(20));
    for node in 0..4 {
        monitor.observe(at(10 * node), (1, 2), (NodeId(node as u32), NodeId(9)), rate(25, true));
    }
    let bandwidth = monitor.estimate(at(50), 1, 2).unwrap().bandwidth.unwrap();
    assert_eq!(bandwidth.bits_per_second(), 100_000_000);
}
