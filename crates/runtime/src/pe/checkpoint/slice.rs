//! How much of a captured part a PE encodes in a turn.

use std::time::Duration;

/// Bytes that a PE encodes in a turn, unless a single member has more. This takes less than 1 ms
/// for most types.
pub(crate) const SLICE_BYTES: usize = 256 << 10;
/// Time that the encoding takes in a turn, unless that of a single member takes longer.
const SLICE_TIME: Duration = Duration::from_millis(1);
/// A PE encodes as much as this number of turns for each such time since it has last encoded
/// something: a PE that is in long handlers spends about a tenth of its time on encoding.
pub(crate) const SLICE_EVERY: Duration = Duration::from_millis(8);
/// The clock is read at least this often in a slice, if members take equally long.
const READINGS: u64 = 8;
/// Largest number of members between two readings of the clock.
const STRIDE_MAX: u64 = 64;

/// The work of one turn.
pub(crate) struct Slice<'a> {
    bytes: usize,
    time: Option<Timed<'a>>,
}

/// A limit on the time of a slice.
struct Timed<'a> {
    clock: &'a (dyn Fn() -> u64 + Send),
    begin: u64,
    limit: u64,
    /// Number of members after which the clock is read again.
    left: u64,
    /// The number of members between the last two readings.
    stride: u64,
}

impl<'a> Slice<'a> {
    /// A slice after the time `since` without encoding. `clock` gives nanoseconds; without it, only
    /// bytes limit a slice.
    pub(crate) fn new(since: Duration, clock: Option<&'a (dyn Fn() -> u64 + Send)>) -> Self {
        let slices = portions(SLICE_EVERY, since);
        let time = clock.map(|clock| {
            let limit = (SLICE_TIME.as_nanos() as u64).saturating_mul(slices as u64);
            Timed { clock, begin: clock(), limit, left: 1, stride: 1 }
        });
        Self { bytes: SLICE_BYTES.saturating_mul(slices), time }
    }

    /// The next members are of another type, and may take much longer than those before.
    pub(crate) fn begin_type(&mut self) {
        if let Some(time) = &mut self.time {
            time.left = time.left.min(1);
            time.stride = 1;
        }
    }

    /// Whether the slice ends before the next member. `written`: its bytes so far.
    pub(crate) fn is_over(&mut self, written: usize) -> bool {
        written >= self.bytes || self.time.as_mut().is_some_and(Timed::is_over)
    }
}

impl Timed<'_> {
    /// Reads the clock now and then: rarely if members take much less time than the slice.
    fn is_over(&mut self) -> bool {
        if self.left > 0 {
            self.left -= 1;
            return false;
        }
        let spent = (self.clock)().saturating_sub(self.begin);
        if spent < self.limit / READINGS {
            self.stride = (self.stride * 2).min(STRIDE_MAX);
        }
        self.left = self.stride - 1;
        spent >= self.limit
    }
}

/// Number of portions of work that are due, one for each period in the time since the last ones.
pub(crate) fn portions(period: Duration, since: Duration) -> usize {
    1 + usize::try_from(since.as_nanos() / period.as_nanos()).unwrap_or(usize::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The number of members in a slice if each takes this long, and the number of readings of the
    /// clock. A member has one byte.
    fn members_and_readings(each: Duration, since: Duration) -> (usize, u64) {
        let (now, readings) = (AtomicU64::new(0), AtomicU64::new(0));
        let clock = || {
            readings.fetch_add(1, Ordering::Relaxed);
            now.load(Ordering::Relaxed)
        };
        let mut slice = Slice::new(since, Some(&clock));
        let mut members = 0;
        while !slice.is_over(members) {
            members += 1;
            now.fetch_add(each.as_nanos() as u64, Ordering::Relaxed);
        }
        (members, readings.load(Ordering::Relaxed))
    }

    #[test]
    fn a_slice_ends_after_its_time_and_has_a_member_at_least() {
        for (each, expected) in [(2_000_000, 1..=1), (300_000, 4..=4), (20_000, 50..=65)] {
            let (members, _) = members_and_readings(Duration::from_nanos(each), Duration::ZERO);
            assert!(expected.contains(&members), "{members} of {each} ns");
        }
    }

    #[test]
    fn the_clock_is_read_rarely_if_members_are_small() {
        let (members, readings) = members_and_readings(Duration::from_nanos(100), Duration::ZERO);
        assert!((10_000..10_100).contains(&members), "{members}");
        assert!(readings < 200, "{readings}");
    }

    #[test]
    fn a_slice_after_a_long_handler_has_more() {
        let millisecond = Duration::from_millis(1);
        let (members, _) = members_and_readings(millisecond, SLICE_EVERY * 9);
        assert!((10..=12).contains(&members), "{members} in 10 ms");
    }

    #[test]
    fn without_a_clock_only_bytes_end_a_slice() {
        let mut slice = Slice::new(Duration::ZERO, None);
        assert!((0..1_000_000).all(|_| !slice.is_over(SLICE_BYTES - 1)));
        assert!(slice.is_over(SLICE_BYTES));
    }
}
