//! Short texts for numbers in narrow columns.

use crate::quantity::{UNKNOWN, digits};

/// Prefixes for powers of a thousand.
const UNITS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Formats a count: up to four digits, or three with a unit, such as `9999` or `12.3k`.
pub(super) fn count(number: u64) -> String {
    if number < 10_000 { number.to_string() } else { with_unit(number as f64) }
}

/// Formats a rate, such as `0.250`, `1200` or `12.3k`.
pub(super) fn rate(per_s: Option<f64>) -> String {
    match per_s {
        None => UNKNOWN.to_owned(),
        Some(per_s) if per_s < 9999.5 => digits(per_s),
        Some(per_s) => with_unit(per_s),
    }
}

/// Formats a share in percent, without the percent sign.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| UNKNOWN.to_owned(), |share| format!("{:.0}", share * 100.0))
}

/// Formats a time since the start, such as `59s`, `12m 07s` or `3h 02m`.
pub(super) fn since_start(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn with_unit(number: f64) -> String {
    let unit = UNITS.into_iter().find(|(size, _)| number >= 0.9995 * size);
    let (size, unit) = unit.unwrap_or((1.0, ""));
    format!("{}{unit}", digits(number / size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_at_most_six_characters() {
        assert_eq!([0, 9999, 10_000, 12_345_678].map(count), ["0", "9999", "10.0k", "12.3M"]);
        let rates = [0.25, 3.0, 1234.4, 99_960.0, 2.5e9].map(|per_s| rate(Some(per_s)));
        assert_eq!(rates, ["0.250", "3.00", "1234", "100k", "2.50G"]);
        assert_eq!(rate(None), "-");
        assert_eq!([Some(0.0), Some(0.256), Some(1.0), None].map(percent), ["0", "26", "100", "-"]);
        assert!([u64::MAX / 100_000, 999_999_999_999_999].into_iter().all(|n| count(n).len() <= 6));
    }

    #[test]
    fn times_are_short() {
        assert_eq!(
            [7, 60, 727, 3600, 90_061].map(since_start),
            ["7s", "1m 00s", "12m 07s", "1h 00m", "25h 01m"]
        );
    }
}
