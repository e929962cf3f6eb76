//! Tests of probing, over modelled links in virtual time.

use super::*;
use gridspan_topology::{Fate, Latency, Link, Shaper, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Runs an order from node 0 over a link to node 1, in virtual time.
fn run(kind: ProbeKind, link: Link) -> (Probed, Duration) {
    let began = Instant::now();
    let mut nodes = [0, 1].map(|node| Prober::new(NodeId(node), &[7; 32], began));
    let mut shapers = [Shaper::new(link, 1), Shaper::new(link, 2)];
    let mut way: BinaryHeap<Reverse<(Time, usize, Vec<u8>)>> = BinaryHeap::new();
    nodes[0].order(began, ProbeOrder { id: 9, kind, targets: vec![NodeId(1)] });
    let mut time = Time::ZERO;
    loop {
        let now = began + time.since(Time::ZERO);
        while way.peek().is_some_and(|Reverse((at, ..))| *at <= time) {
            let Some(Reverse((_, to, data))) = way.pop() else { break };
            nodes[to].handle(now, &data);
        }
        for from in 0..2 {
            while let Some((to, data)) = nodes[from].poll_transmit(now) {
                let sent = shapers[from].send(time, data.len() as u64);
                if let Fate::Deliver { at } = sent {
                    way.push(Reverse((at, to.index(), data)));
                }
            }
        }
        if let Some((id, found)) = nodes[0].poll_done() {
            assert_eq!((id, found.len()), (9, 1));
            return (found[0], time.since(Time::ZERO));
        }
        let timers = nodes.iter().filter_map(Prober::poll_timeout);
        let timers = timers.map(|due| Time::ZERO + due.saturating_duration_since(began));
        let packets = way.peek().map(|Reverse((at, ..))| *at);
        time = timers.chain(packets).min().unwrap().max(time + Duration::from_nanos(1));
    }
}

#[test]
fn a_round_trip_is_measured_through_jitter_and_loss() {
    let link = Link::new(Latency::from_millis(10), Bandwidth::UNLIMITED)
        .with_jitter(Duration::from_millis(5))
        .with_loss(0.2);
    let (found, _) = run(ProbeKind::RoundTrip, link);
    let excess = found.round_trip.unwrap() - Duration::from_millis(20);
    assert!(excess < Duration::from_millis(5), "{excess:?} above the least possible");
}

#[test]
fn a_target_that_never_answers_is_given_up() {
    let (found, after) = run(ProbeKind::RoundTrip, Link::perfect().with_loss(1.0));
    assert_eq!(found, Probed::nothing(NodeId(1)));
    assert!(after < Duration::from_secs(5), "{after:?}");
}

#[test]
fn a_train_measures_the_rate_of_a_slow_link_but_not_of_a_fast_one() {
    let link = |mbit: u64| {
        let bandwidth = Bandwidth::from_bits_per_second(mbit * 1_000_000);
        Link::new(Latency::from_millis(5), bandwidth)
    };
    let (slow, _) = run(ProbeKind::BURST, link(20));
    let rate = slow.rate.unwrap().bits_per_second() as f64;
    assert!((rate / 20e6 - 1.0).abs() < 0.01, "{rate}");
    let (fast, _) = run(ProbeKind::BURST, link(10_000));
    assert_eq!(fast.rate, None);
    assert!(fast.round_trip.is_some());
}

#[test]
fn a_train_slower_than_the_link_arrives_at_its_own_rate() {
    let bandwidth = |mbit: u64| Bandwidth::from_bits_per_second(mbit * 1_000_000);
    let link = Link::new(Latency::from_millis(5), bandwidth(100));
    let (found, _) = run(ProbeKind::train_at(bandwidth(10)), link);
    let rate = found.rate.unwrap().bits_per_second() as f64;
    assert!((rate / 10e6 - 1.0).abs() < 0.01, "{rate}");
}

#[test]
fn forged_packets_and_unexpected_answers_are_ignored() {
    let now = Instant::now();
    let mut prober = Prober::new(NodeId(0), &[7; 32], now);
    let ping = ProbePacket {
        kind: Kind::Ping,
        from: NodeId(1),
        to: NodeId(0),
        order: 1,
        index: 0,
        count: 1,
        stamp: 0,
        span: 0,
        bytes: 0,
    };
    let stranger = hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]);
    prober.handle(now, &ping.encode(PING_BYTES, &stranger));
    let pong = ProbePacket { kind: Kind::Pong, ..ping };
    prober.handle(now, &pong.encode(PING_BYTES, &prober.key));
    let elsewhere = ProbePacket { to: NodeId(2), ..ping };
    prober.handle(now, &elsewhere.encode(PING_BYTES, &prober.key));
    assert!(prober.poll_transmit(now).is_none() && prober.poll_done().is_none());
    prober.handle(now, &ping.encode(PING_BYTES, &prober.key));
    assert_eq!(prober.poll_transmit(now).map(|(to, _)| to), Some(NodeId(1)));
}

#[test]
fn a_packet_of_a_train_with_the_last_number_that_fits_ends_only_a_train_of_that_length() {
    let now = Instant::now();
    let mut prober = Prober::new(NodeId(0), &[7; 32], now);
    let packet = ProbePacket {
        kind: Kind::Train,
        from: NodeId(1),
        to: NodeId(0),
        order: 1,
        index: u16::MAX,
        count: 0,
        stamp: 0,
        span: 0,
        bytes: 0,
    };
    for count in [0, 1, u16::MAX] {
        let packet = ProbePacket { count, ..packet };
        prober.handle(now, &packet.encode(TRAIN_BYTES, &prober.key));
    }
    assert!(prober.poll_transmit(now).is_none());
    let last = ProbePacket { index: u16::MAX - 1, count: u16::MAX, ..packet };
    prober.handle(now, &last.encode(TRAIN_BYTES, &prober.key));
    assert_eq!(prober.poll_transmit(now).map(|(to, _)| to), Some(NodeId(1)));
}
