//! Units as types: points in time, latencies and bandwidths.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time: nanoseconds since the start of the job. It is real in the embedded and cluster
/// drivers and virtual in the simulator; unlike `std::time::Instant` it can be recorded and
/// replayed.
///
/// ```
/// use gridspan_topology::Time;
/// use std::time::Duration;
///
/// let begin = Time::ZERO + Duration::from_millis(5);
/// let end = begin + Duration::from_millis(20);
/// assert_eq!(end.since(begin), Duration::from_millis(20));
/// assert_eq!(end.to_string(), "0.025000s");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The start of the job.
    pub const ZERO: Self = Self(0);
    /// A time that no job reaches.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the nanoseconds since the start of the job.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the start of the job.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    /// Saturates at [`Time::MAX`].
    #[inline]
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Time {
    type Output = Duration;
    /// The same as [`Time::since`].
    #[inline]
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.as_secs_f64())
    }
}

/// The time that the first byte takes over a link, one way.
///
/// ```
/// use gridspan_topology::Latency;
///
/// assert_eq!("32ms".parse(), Ok(Latency::from_millis(32)));
/// assert_eq!(Latency::from_micros(1_500).to_string(), "1500us");
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Latency(pub Duration);

impl Latency {
    /// No delay.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Creates a latency of whole microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(Duration::from_micros(micros))
    }

    /// Creates a latency of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Duration::from_millis(millis))
    }

    /// Returns the latency as a duration.
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// The rate at which bytes follow each other over a link. It is never zero bits per second: a link
/// without a limit is [`Bandwidth::UNLIMITED`].
///
/// ```
/// use gridspan_topology::Bandwidth;
/// use std::time::Duration;
///
/// let link: Bandwidth = "100mbit".parse()?;
/// assert_eq!(link.time_for(1_250_000), Duration::from_millis(100));
/// # Ok::<(), gridspan_topology::QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bandwidth(#[serde(deserialize_with = "at_least_one")] u64);

impl Bandwidth {
    /// No limit.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// Creates a bandwidth of `bits_per_second`, at least one.
    pub const fn from_bits_per_second(bits_per_second: u64) -> Self {
        Self(if bits_per_second == 0 { 1 } else { bits_per_second })
    }

    /// Returns the bits per second; `u64::MAX` if unlimited.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Whether the bandwidth has no limit.
    pub const fn is_unlimited(self) -> bool {
        self.0 == u64::MAX
    }

    /// Returns the time that `bytes` take to leave a sender, rounded up to the nanosecond.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.is_unlimited() {
            return Duration::ZERO;
        }
        let nanos = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Reads a stored bandwidth, and raises zero to one bit per second.
fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(u64::deserialize(deserializer)?.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_bytes_is_rounded_up() {
        // 1 MB at 100 Mbit/s.
        let link = Bandwidth::from_bits_per_second(100_000_000);
        assert_eq!(link.time_for(1_000_000), Duration::from_millis(80));
        assert_eq!(
            Bandwidth::from_bits_per_second(3).time_for(1),
            Duration::from_nanos(2_666_666_667)
        );
        assert_eq!(Bandwidth::UNLIMITED.time_for(u64::MAX), Duration::ZERO);
    }
}
