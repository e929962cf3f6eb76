//! The recent samples of one link, in half-second buckets.

use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The span of a bucket.
pub(super) const BUCKET: Duration = Duration::from_millis(500);
/// Number of recent buckets: long enough for some samples of a quiet connection, short enough that
/// changes show within a few seconds.
const RECENT: usize = 4;

/// The samples of one bucket.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Bucket {
    /// Number of the half-second since the start of the job, from 1; 0 if the bucket is empty.
    number: u64,
    rtt_min_ns: u64,
    rtt_sum_ns: u64,
    rtts: u32,
    /// The best rate while more data was queued, in bits per second.
    full_rate: u64,
    /// The best rate otherwise, a lower bound of the bandwidth.
    part_rate: u64,
}

/// The last [`RECENT`] buckets with an observation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Window {
    buckets: [Bucket; RECENT],
}

/// The combined result of recent buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Recent {
    pub(super) rtt_min: Option<Duration>,
    pub(super) rtt_mean: Option<Duration>,
    pub(super) rtts: u32,
    pub(super) full_rate: Option<u64>,
    pub(super) part_rate: Option<u64>,
}

impl Window {
    /// Returns the bucket of a time. An older time counts for the oldest bucket.
    fn bucket(&mut self, at: Time) -> &mut Bucket {
        let number = at.as_nanos() / BUCKET.as_nanos() as u64 + 1;
        let newest = self.buckets.iter().map(|bucket| bucket.number).max().unwrap_or(0);
        let number = number.max(newest.saturating_sub(RECENT as u64 - 1));
        let bucket = &mut self.buckets[(number % RECENT as u64) as usize];
        if bucket.number != number {
            *bucket = Bucket { number, ..Bucket::default() };
        }
        bucket
    }

    pub(super) fn round_trip(&mut self, at: Time, rtt: Duration) {
        let ns = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
        let bucket = self.bucket(at);
        bucket.rtt_min_ns = if bucket.rtts == 0 { ns } else { bucket.rtt_min_ns.min(ns) };
        bucket.rtt_sum_ns = bucket.rtt_sum_ns.saturating_add(ns);
        bucket.rtts += 1;
    }

    pub(super) fn rate(&mut self, at: Time, bits_per_second: u64, is_full: bool) {
        let bucket = self.bucket(at);
        let best = if is_full { &mut bucket.full_rate } else { &mut bucket.part_rate };
        *best = (*best).max(bits_per_second);
    }

    /// Returns the observations of the last [`RECENT`] half-seconds, including that of `now`.
    pub(super) fn recent(&self, now: Time) -> Recent {
        let number = now.as_nanos() / BUCKET.as_nanos() as u64 + 1;
        let mut recent = Recent::default();
        let (mut min_ns, mut sum_ns) = (u64::MAX, 0u64);
        for bucket in &self.buckets {
            if bucket.number == 0 || bucket.number + RECENT as u64 <= number {
                continue;
            }
            if bucket.rtts > 0 {
                min_ns = min_ns.min(bucket.rtt_min_ns);
                sum_ns = sum_ns.saturating_add(bucket.rtt_sum_ns);
                recent.rtts += bucket.rtts;
            }
            recent.full_rate = recent.full_rate.max(some_rate(bucket.full_rate));
            recent.part_rate = recent.part_rate.max(some_rate(bucket.part_rate));
        }
        if recent.rtts > 0 {
            recent.rtt_min = Some(Duration::from_nanos(min_ns));
            recent.rtt_mean = Some(Duration::from_nanos(sum_ns / u64::from(recent.rtts)));
        }
        recent
    }
}

fn some_rate(bits_per_second: u64) -> Option<u64> {
    (bits_per_second > 0).then_some(bits_per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn only_the_last_two_seconds_count() {
        let mut window = Window::default();
        window.round_trip(Time(0), Duration::from_millis(10));
        window.round_trip(Time(1_999 * MS), Duration::from_millis(30));
        let at = |ms: u64| window.recent(Time(ms * MS)).rtt_min;
        assert_eq!(at(1_999), Some(Duration::from_millis(10)));
        assert_eq!(at(2_000), Some(Duration::from_millis(30)));
        assert_eq!(at(3_500), None);
    }

    #[test]
    fn rates_with_and_without_a_full_link_are_separate() {
        let mut window = Window::default();
        window.rate(Time(0), 5, true);
        window.rate(Time(0), 3, true);
        window.rate(Time(0), 9, false);
        let recent = window.recent(Time(0));
        assert_eq!((recent.full_rate, recent.part_rate), (Some(5), Some(9)));
    }

    #[test]
    fn a_late_sample_does_not_push_newer_ones_out() {
        let mut window = Window::default();
        window.rate(Time(10_000 * MS), 10, true);
        window.rate(Time(0), 30, true);
        assert_eq!(window.recent(Time(10_000 * MS)).full_rate, Some(30));
        assert_eq!(window.recent(Time(11_500 * MS)).full_rate, Some(10));
    }
}
