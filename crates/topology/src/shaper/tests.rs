//! Tests of the emulated link against hand-computed times and statistical bounds.

use super::*;
use crate::units::{Bandwidth, Latency};
use proptest::prelude::*;

const MBIT: u64 = 1_000_000;

fn link(latency_ms: u64, bits_per_second: u64) -> Link {
    Link::new(Latency::from_millis(latency_ms), Bandwidth::from_bits_per_second(bits_per_second))
}

fn arrival(fate: Fate) -> Time {
    match fate {
        Fate::Deliver { at } => at,
        Fate::Drop(reason) => panic!("dropped: {reason:?}"),
    }
}

#[test]
fn an_idle_link_delays_by_its_latency_and_the_time_to_send() {
    let mut shaper = Shaper::new(link(32, 100 * MBIT), 1);

    // 1250 bytes are 10,000 bits, 100 µs at 100 Mbit/s.
    let fate = shaper.send(Time(5_000), 1250);

    assert_eq!(fate, Fate::Deliver { at: Time(5_000 + 100_000 + 32_000_000) });
}

#[test]
fn a_perfect_link_delivers_at_once() {
    let mut shaper = Shaper::new(Link::perfect(), 1);

    assert_eq!(shaper.send(Time(7), u64::MAX), Fate::Deliver { at: Time(7) });
    assert_eq!(shaper.send(Time(7), 1), Fate::Deliver { at: Time(7) });
    assert_eq!(shaper.waiting_bytes(Time(7)), 0);
}

#[test]
fn a_packet_begins_when_the_one_before_it_has_left() {
    let mut shaper = Shaper::new(link(1, 8 * MBIT), 1);

    // One byte takes one microsecond.
    assert_eq!(arrival(shaper.send(Time(0), 100)), Time(1_100_000));
    assert_eq!(arrival(shaper.send(Time(40_000), 50)), Time(1_150_000));
    assert_eq!(arrival(shaper.send(Time(149_999), 1)), Time(1_151_000));
    assert_eq!(arrival(shaper.send(Time(500_000), 1)), Time(1_501_000));
}

#[test]
fn the_rate_is_exact_although_each_packet_takes_a_fraction_of_a_nanosecond() {
    // One byte at 24 Gbit/s takes a third of a nanosecond.
    let mut shaper = Shaper::new(link(0, 24_000 * MBIT), 1);

    let last = (0..3000).map(|_| arrival(shaper.send(Time::ZERO, 1))).last();

    assert_eq!(last, Some(Time(1000)));
}

#[test]
fn a_thousand_packets_arrive_at_the_rate_within_one_percent() {
    let jittery = link(10, 50 * MBIT).with_jitter(Duration::from_micros(200));
    let mut shaper = Shaper::new(jittery, 2);

    let arrivals: Vec<Time> = (0..1000).map(|_| arrival(shaper.send(Time::ZERO, 1200))).collect();

    let seconds = (arrivals[999] - arrivals[0]).as_secs_f64();
    let rate = 999.0 * 1200.0 * 8.0 / seconds;
    assert!((rate / 50e6 - 1.0).abs() < 0.01, "{rate} bits per second");
}

#[test]
fn losses_are_within_four_standard_deviations_of_their_probability() {
    for (seed, loss) in [(3, 0.001), (4, 0.05), (5, 0.5), (6, 0.999)] {
        let mut shaper = Shaper::new(Link::perfect().with_loss(loss), seed);
        let packets = 100_000;

        let lost = (0..packets)
            .filter(|_| shaper.send(Time::ZERO, 1) == Fate::Drop(DropReason::Loss))
            .count() as f64;

        let mean = packets as f64 * loss;
        let deviation = (mean * (1.0 - loss)).sqrt();
        assert!((lost - mean).abs() < 4.0 * deviation, "seed {seed}: {lost} lost, not {mean}");
    }
}

#[test]
fn a_loss_of_zero_loses_nothing_and_a_loss_of_one_everything() {
    let mut safe = Shaper::new(Link::perfect(), 7);
    let mut cut = Shaper::new(Link::perfect().with_loss(1.0), 7);

    for _ in 0..10_000 {
        assert_eq!(safe.send(Time::ZERO, 1), Fate::Deliver { at: Time::ZERO });
        assert_eq!(cut.send(Time::ZERO, 1), Fate::Drop(DropReason::Loss));
    }
}

#[test]
fn a_lost_packet_takes_its_time_to_leave() {
    let mut shaper = Shaper::new(link(0, 8 * MBIT).with_loss(1.0), 1);
    assert_eq!(shaper.send(Time::ZERO, 10), Fate::Drop(DropReason::Loss));

    shaper.set_link(link(0, 8 * MBIT));

    assert_eq!(shaper.send(Time::ZERO, 10), Fate::Deliver { at: Time(20_000) });
}

#[test]
fn the_queue_drops_packets_exactly_beyond_its_limit() {
    let mut shaper = Shaper::new(link(0, 8 * MBIT).with_queue_bytes(300), 1);

    // The first packet is being sent, the next three are queued.
    for _ in 0..4 {
        assert!(matches!(shaper.send(Time::ZERO, 100), Fate::Deliver { .. }));
    }
    assert_eq!(shaper.waiting_bytes(Time::ZERO), 300);
    assert_eq!(shaper.send(Time::ZERO, 1), Fate::Drop(DropReason::QueueFull));

    // At 100 µs the second packet starts to leave, which leaves room for exactly 100 bytes.
    assert_eq!(shaper.send(Time(99_999), 1), Fate::Drop(DropReason::QueueFull));
    assert_eq!(shaper.send(Time(100_000), 101), Fate::Drop(DropReason::QueueFull));
    assert_eq!(shaper.send(Time(100_000), 100), Fate::Deliver { at: Time(500_000) });
}

#[test]
fn a_queue_of_zero_bytes_passes_packets_that_need_not_wait() {
    let mut shaper = Shaper::new(link(0, 8 * MBIT).with_queue_bytes(0), 1);

    assert_eq!(shaper.send(Time::ZERO, 10), Fate::Deliver { at: Time(10_000) });
    assert_eq!(shaper.send(Time(9_999), 10), Fate::Drop(DropReason::QueueFull));
    assert_eq!(shaper.send(Time(10_000), 10), Fate::Deliver { at: Time(20_000) });
}

#[test]
fn jitter_is_uniform_up_to_its_limit() {
    let jitter = Duration::from_nanos(9);
    let mut shaper = Shaper::new(Link::perfect().with_jitter(jitter).with_reorder(true), 8);
    let mut seen = [0_u32; 10];

    for _ in 0..100_000 {
        seen[arrival(shaper.send(Time::ZERO, 1)).as_nanos() as usize] += 1;
    }

    // Standard deviation of a count: sqrt(100,000 * 0.1 * 0.9) = 95.
    assert!(seen.iter().all(|&count| count.abs_diff(10_000) < 400), "{seen:?}");
}

#[test]
fn jitter_reorders_only_if_allowed() {
    let jittery = Link::perfect().with_jitter(Duration::from_millis(5));
    let overtakes = |link: Link| {
        let mut shaper = Shaper::new(link, 9);
        let arrivals: Vec<Time> =
            (0..1000_u64).map(|n| arrival(shaper.send(Time(n * 1000), 1))).collect();
        arrivals.windows(2).filter(|pair| pair[1] < pair[0]).count()
    };

    assert_eq!(overtakes(jittery), 0);
    assert!(overtakes(jittery.with_reorder(true)) > 300);
}

#[test]
fn a_shorter_latency_set_while_running_does_not_overtake() {
    let mut shaper = Shaper::new(link(100, 8 * MBIT), 1);
    assert_eq!(arrival(shaper.send(Time::ZERO, 1)), Time(100_001_000));

    shaper.set_link(link(1, 8 * MBIT));

    assert_eq!(arrival(shaper.send(Time(1_000_000), 1)), Time(100_001_000));
    assert_eq!(arrival(shaper.send(Time(200_000_000), 1)), Time(201_001_000));
}

#[test]
fn changing_the_loss_does_not_change_the_jitter_of_other_packets() {
    let jittery = Link::perfect().with_jitter(Duration::from_millis(5)).with_reorder(true);
    let mut safe = Shaper::new(jittery, 10);
    let mut lossy = Shaper::new(jittery.with_loss(0.5), 10);

    for n in 0..1000 {
        let expected = safe.send(Time(n), 1);
        let fate = lossy.send(Time(n), 1);
        assert!(fate == expected || fate == Fate::Drop(DropReason::Loss));
    }
}

#[test]
fn times_beyond_the_maximum_saturate() {
    let mut shaper = Shaper::new(link(1, 1), 1);

    assert_eq!(arrival(shaper.send(Time::MAX, u64::MAX)), Time::MAX);
    assert_eq!(arrival(shaper.send(Time::ZERO, u64::MAX)), Time::MAX);
}

prop_compose! {
    fn any_link()(
        latency_us in 0..100_000_u64,
        bits_per_second in 1_000..100_000_000_000_u64,
        jitter_us in 0..10_000_u64,
        loss in 0.0..=1.0_f64,
        queue_bytes in 0..100_000_u64,
        reorder: bool,
    ) -> Link {
        Link {
            latency: Latency::from_micros(latency_us),
            bandwidth: Bandwidth::from_bits_per_second(bits_per_second),
            jitter: Duration::from_micros(jitter_us),
            loss,
            queue_bytes,
            reorder,
            lost_after: None,
        }
    }
}

proptest! {
    #[test]
    fn the_same_seed_gives_the_same_fates(
        link in any_link(),
        seed: u64,
        packets in prop::collection::vec((0..1_000_000_u64, 0..10_000_u64), 0..100),
    ) {
        let mut one = Shaper::new(link, seed);
        let mut other = Shaper::new(link, seed);
        for (now, bytes) in packets {
            prop_assert_eq!(one.send(Time(now), bytes), other.send(Time(now), bytes));
        }
    }

    #[test]
    fn fates_respect_latency_rate_order_and_queue(
        link in any_link(),
        seed: u64,
        packets in prop::collection::vec((0..1_000_000_u64, 0..10_000_u64), 0..100),
    ) {
        let mut shaper = Shaper::new(link, seed);
        let mut now = Time::ZERO;
        let mut last = Time::ZERO;
        for (gap_ns, bytes) in packets {
            now += Duration::from_nanos(gap_ns);
            if let Fate::Deliver { at } = shaper.send(now, bytes) {
                let least = link.latency.duration() + link.bandwidth.time_for(bytes);
                prop_assert!(at - now >= least);
                prop_assert!(link.reorder || at >= last);
                last = at;
            }
            prop_assert!(shaper.waiting_bytes(now) <= link.queue_bytes);
        }
    }
}

#[test]
fn parameters_change_at_their_time_and_not_before() {
    let slow = link(5, 8 * MBIT);
    let cut = slow.with_loss(1.0);
    let changes = vec![(Time(20_000_000), cut), (Time(10_000_000), slow)];
    let mut shaper = Shaper::new(link(1, 80 * MBIT), 1).with_changes(changes);

    assert_eq!(arrival(shaper.send(Time(9_999_999), 1000)), Time(11_099_999));
    // The previous packet leaves at the old rate, until 10.099999 ms; this one takes 1 ms to leave
    // and 5 ms to arrive.
    assert_eq!(arrival(shaper.send(Time(10_000_000), 1000)), Time(16_099_999));
    assert_eq!(shaper.send(Time(20_000_000), 1), Fate::Drop(DropReason::Loss));
    assert_eq!(shaper.link(), &cut);
}
