//! The controller on paths of known rate, queue and loss.

use super::*;

const RTT: Duration = Duration::from_millis(50);
const MTU: u64 = 1_452;

/// Simulates a path that delivers `rate` bytes per second through a queue of `queue` bytes and
/// loses one packet in `lose_one_in`. Sends one window per round, and returns the used share of the
/// path.
fn utilisation(rate: u64, queue: u64, lose_one_in: u64, rounds: u32) -> f64 {
    let config = LossTolerantConfig { initial_window: 256 << 10, window_max: 64 << 20 };
    let mut controller = LossTolerant::new(&config, MTU as u16);
    let bdp = rate / 20;
    let mut now = Instant::now();
    let (mut delivered, mut elapsed, mut packets) = (0, 0.0, 0u64);
    for _ in 0..rounds {
        let window = controller.window();
        let lost_to_queue = window.saturating_sub(bdp + queue);
        let carried = window - lost_to_queue;
        let wait = carried.saturating_sub(bdp) as f64 / rate as f64;
        let rtt = RTT + Duration::from_secs_f64(wait);
        let sent = now;
        now += rtt;
        elapsed += rtt.as_secs_f64();
        for _ in 0..carried / MTU {
            packets += 1;
            if packets % lose_one_in == 0 {
                controller.on_congestion_event(now, sent, false, MTU);
            } else {
                // Not `on_ack`, because quinn's estimator cannot be created outside quinn.
                controller.acknowledge(now, sent, MTU, false, rtt);
                delivered += MTU;
            }
        }
        if lost_to_queue > 0 {
            controller.on_congestion_event(now, sent, false, lost_to_queue);
        }
        now += Duration::from_micros(1);
    }
    delivered as f64 / (elapsed * rate as f64)
}

#[test]
fn one_percent_of_random_loss_leaves_most_of_the_path_usable() {
    let share = utilisation(12_500_000, 1 << 20, 100, 400);
    assert!(share > 0.7, "{share}");
}

#[test]
fn a_path_without_random_loss_is_used_well_with_any_queue() {
    for queue in [10_000, 60_000, 625_000, 10 << 20] {
        let share = utilisation(12_500_000, queue, u64::MAX, 400);
        assert!(share > 0.7, "{queue}: {share}");
    }
}

#[test]
fn sustained_heavy_loss_reduces_the_window() {
    let config = LossTolerantConfig { initial_window: 1 << 20, window_max: 64 << 20 };
    let mut controller = LossTolerant::new(&config, MTU as u16);
    let mut now = Instant::now();
    for _ in 0..40 {
        let sent = now;
        now += RTT;
        for packet in 0..100 {
            if packet % 10 == 0 {
                controller.on_congestion_event(now, sent, false, MTU);
            } else {
                controller.acknowledge(now, sent, MTU, false, RTT);
            }
        }
        now += Duration::from_micros(1);
    }
    assert!(controller.window() < 100 << 10, "{}", controller.window());
}

#[test]
fn router_marks_and_persistent_congestion_always_reduce_the_window() {
    let config = LossTolerantConfig { initial_window: 1 << 20, window_max: 64 << 20 };
    let mut controller = LossTolerant::new(&config, MTU as u16);
    let now = Instant::now();
    controller.acknowledge(now + RTT, now, 1 << 20, true, RTT);
    controller.on_congestion_event(now + RTT, now, false, 0);
    assert_eq!(controller.window(), ((1 << 20) as f64 * BETA) as u64);
    controller.on_congestion_event(now + RTT * 3, now + RTT * 2, true, MTU);
    assert_eq!(controller.window(), 4 * MTU);
}

#[test]
fn the_shortest_round_trip_does_not_outlive_its_age() {
    let ms = Duration::from_millis;
    let after = |seconds: &[u64]| {
        let begin = Instant::now();
        let mut base = Shortest { current: Duration::MAX, before: Duration::MAX, since: None };
        base.update(begin, ms(10));
        for &second in seconds {
            base.update(begin + Duration::from_secs(second), ms(50));
        }
        base.get()
    };

    assert_eq!(after(&[10, 29]), ms(10));
    assert_eq!(after(&[10, 20, 31]), ms(50));
    assert_eq!(after(&[29]), ms(10));
    assert_eq!(after(&[29, 31]), ms(50), "a short pause");
    assert_eq!(after(&[300]), ms(50), "a long pause");
}
