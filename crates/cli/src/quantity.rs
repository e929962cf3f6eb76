//! Formats quantities with three significant digits, or two if they are small.

use gridspan_topology::{Bandwidth, BandwidthRange, RttRange};
use std::time::Duration;

/// Text for an unknown quantity.
pub(crate) const UNKNOWN: &str = "-";
/// Largest number of decimals of a percentage; a share has about 16 digits.
const DECIMALS_MAX: usize = 14;

/// Formats a number with a noun: `1 node`, `2 nodes`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Formats a number with three significant digits, such as `0.104`, `10.4` or `1040`, or below 0.1
/// with two, such as `0.010` or `0.0010`: columns have room for six characters.
pub(crate) fn digits(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.000_995 => format!("{number:.1e}"),
        size if size < 0.009_95 => format!("{number:.4}"),
        size if size < 0.9995 => format!("{number:.3}"),
        size if size < 9.995 => format!("{number:.2}"),
        size if size < 99.95 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

/// Formats a share, such as `47 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Formats a share as [`percent`] does, but with more digits below 1 % and above 99 %, such as
/// `0.120 %`.
pub(crate) fn exact_percent(share: f64) -> String {
    match share {
        0.01..0.99 => percent(share),
        0.99..1.0 => format!("{} %", below_hundred(share * 100.0)),
        _ => format!("{} %", digits(share * 100.0)),
    }
}

/// Formats a number of at least 99 and below 100 with three digits, or with more if three would
/// round it to 100.
fn below_hundred(number: f64) -> String {
    let with = |decimals: usize| format!("{number:.decimals$}");
    let text = (1..=DECIMALS_MAX).map(with).find(|text| !text.starts_with("100"));
    // The product of a share and 100 may be rounded to 100.
    text.unwrap_or_else(|| format!("99.{}", "9".repeat(DECIMALS_MAX)))
}

/// Formats a time in milliseconds, without the unit.
pub(crate) fn milliseconds(time: Duration) -> String {
    digits(time.as_secs_f64() * 1e3)
}

/// Formats a time with its unit, such as `104 us` or `10.4 ms`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds < 0.999_5e-3 => format!("{} us", digits(seconds * 1e6)),
        _ if seconds < 0.9995 => format!("{} ms", digits(seconds * 1e3)),
        _ => format!("{} s", digits(seconds)),
    }
}

/// Formats a time with three digits and a unit up to days, such as `13.3 min`.
pub(crate) fn long_time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let units = [(86_400.0, "d"), (3600.0, "h"), (60.0, "min")];
    match units.into_iter().find(|(size, _)| seconds >= 2.0 * size) {
        Some((size, unit)) => format!("{} {unit}", digits(seconds / size)),
        None => time(duration),
    }
}

/// Formats how long ago something was, such as `5 min ago`.
pub(crate) fn ago(time: Duration) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let seconds = time.as_secs();
    let (size, unit) = units.into_iter().find(|(size, _)| seconds >= *size).unwrap_or(units[3]);
    format!("{} {unit} ago", seconds / size)
}

/// Formats a number of bytes with its unit, such as `16.4 kB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(size, _)| bytes as f64 >= 0.9995 * size);
    unit.map_or_else(
        || format!("{bytes} B"),
        |(size, unit)| format!("{} {unit}", digits(bytes as f64 / size)),
    )
}

/// Formats the range of round trips, such as `64.0 ms (62.1 to 70.3)`.
pub(crate) fn rtt_range(range: &RttRange) -> String {
    let median = time(range.median);
    let in_unit = |end: Duration| {
        let factor = match median.rsplit(' ').next() {
            Some("us") => 1e6,
            Some("ms") => 1e3,
            _ => 1.0,
        };
        digits(end.as_secs_f64() * factor)
    };
    let (min, max) = (in_unit(range.min), in_unit(range.max));
    if min == max { median } else { format!("{median} ({min} to {max})") }
}

/// Formats a bandwidth with its unit, such as `94.3 Mbit/s`.
pub(crate) fn bandwidth(bandwidth: Bandwidth) -> String {
    if bandwidth.is_unlimited() {
        return "unlimited".to_owned();
    }
    let bits = bandwidth.bits_per_second() as f64;
    let units = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")];
    let (size, unit) =
        units.into_iter().find(|(size, _)| bits >= 0.9995 * size).unwrap_or(units[3]);
    format!("{} {unit}", digits(bits / size))
}

/// Formats the range of bandwidths, such as `1.00 Gbit/s` or `10.0 Mbit/s to 1.00 Gbit/s`.
pub(crate) fn bandwidth_range(range: &BandwidthRange) -> String {
    let (min, max) = (bandwidth(range.min), bandwidth(range.max));
    if min == max { max } else { format!("{min} to {max}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        assert_eq!(time(Duration::from_micros(104)), "104 us");
        assert_eq!(time(Duration::from_nanos(999_600)), "1.00 ms");
        assert_eq!(time(Duration::from_millis(10)), "10.0 ms");
        assert_eq!(time(Duration::from_millis(2500)), "2.50 s");
        assert_eq!(
            [0.25, 100.0, 800.0, 7200.0, 648_000.0]
                .map(|seconds| long_time(Duration::from_secs_f64(seconds))),
            ["250 ms", "100 s", "13.3 min", "2.00 h", "7.50 d"]
        );
        assert_eq!(bandwidth(Bandwidth::from_bits_per_second(94_340_000)), "94.3 Mbit/s");
        assert_eq!(bandwidth(Bandwidth::from_bits_per_second(10_000_000_000)), "10.0 Gbit/s");
        assert_eq!(bandwidth(Bandwidth::UNLIMITED), "unlimited");
        let shares = [0.0, 0.001, 0.503, 0.999, 0.9996, 0.999_999, 1.0].map(exact_percent);
        assert_eq!(shares, ["0 %", "0.100 %", "50 %", "99.9 %", "99.96 %", "99.9999 %", "100 %"]);
        assert!(!exact_percent(1.0_f64.next_down()).starts_with("100"));
        assert_eq!(
            [8, 1000, 16_384, 2_500_000].map(bytes),
            ["8 B", "1.00 kB", "16.4 kB", "2.50 MB"]
        );
        assert_eq!(
            [0, 59, 60, 7199, 86_400 * 8].map(|seconds| ago(Duration::from_secs(seconds))),
            ["0 s ago", "59 s ago", "1 min ago", "1 h ago", "8 d ago"]
        );
    }

    #[test]
    fn small_numbers_have_two_digits_and_at_most_six_characters() {
        assert_eq!(
            [0.104, 0.0123, 0.009_96, 0.009_94, 0.001_23, 0.001, 0.000_99, 2.5e-7].map(digits),
            ["0.104", "0.012", "0.010", "0.0099", "0.0012", "0.0010", "9.9e-4", "2.5e-7"]
        );
    }

    #[test]
    fn the_ends_of_a_range_are_in_the_unit_of_its_median() {
        let ms = Duration::from_millis;
        let range = RttRange { min: Duration::from_micros(900), median: ms(10), max: ms(40) };
        assert_eq!(rtt_range(&range), "10.0 ms (0.900 to 40.0)");
        assert_eq!(rtt_range(&RttRange { min: ms(10), median: ms(10), max: ms(10) }), "10.0 ms");
    }
}
