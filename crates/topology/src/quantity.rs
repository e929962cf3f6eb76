//! Quantities in human notation: `32ms`, `100mbit`, `64KiB`, `0.1%`.
//!
//! Each type is read with [`str::parse`] and written with [`Display`](fmt::Display), and the
//! written form reads back as the same value. Units are case-insensitive; a number without a unit
//! is rejected, because its meaning is unknown.
//!
//! Crates for times, sizes and rates are not used, because each has a different grammar, and their
//! errors do not name the possible units.

use crate::units::{Bandwidth, Latency};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// Maximum length of a quantity in bytes.
const MAX_TEXT_BYTES: usize = 64;

/// A unit's name and its size in the smallest unit of its kind, smallest first.
type Units = &'static [(&'static str, u64)];

const DURATIONS: Units = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const BANDWIDTHS: Units = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
];
const BYTES: Units = &[
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];
/// The name of an unlimited bandwidth or number of bytes.
const UNLIMITED: &str = "unlimited";

/// Error of a text that is not a quantity. Nothing was changed; the message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text does not start with a number.
    #[error(
        "`{text}` does not start with a number; write a number and a unit, such as `{example}`"
    )]
    Number {
        /// The text.
        text: String,
        /// A quantity of the kind expected.
        example: &'static str,
    },
    /// The unit is missing or unknown.
    #[error("`{text}` has no known unit; write one of {known}, such as `{example}`")]
    Unit {
        /// The text.
        text: String,
        /// The known units.
        known: String,
        /// A quantity of the kind expected.
        example: &'static str,
    },
    /// The value does not fit.
    #[error("`{text}` is too large; write a smaller value")]
    TooLarge {
        /// The text.
        text: String,
    },
    /// The value is not a whole number of the smallest unit.
    #[error("`{text}` is finer than one {smallest}; write fewer digits after the point")]
    TooFine {
        /// The text.
        text: String,
        /// The smallest unit.
        smallest: &'static str,
    },
    /// A bandwidth is zero.
    #[error("`{text}` would let nothing pass; write a bandwidth above zero, or a loss of 100%")]
    Zero {
        /// The text.
        text: String,
    },
    /// The number is not a probability.
    #[error("`{text}` is not a probability; write one between `0%` and `100%`")]
    Probability {
        /// The text.
        text: String,
    },
    /// The number is not a speed of a processor.
    #[error("`{text}` is not a speed; write a number from 0.01 to 100, such as `0.5` or `1/3`")]
    Speed {
        /// The text.
        text: String,
    },
    /// The text is too long for a quantity.
    #[error("this is too long for a quantity; write something like `{example}`")]
    TooLong {
        /// A quantity of the kind expected.
        example: &'static str,
    },
}

/// Reads a duration in whole nanoseconds, such as `1.5s` (units: ns, us, ms, s, min, h). Fails if
/// the text is not a number with such a unit, or the value is too large or too fine.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    parse_scaled(text, DURATIONS, "32ms").map(Duration::from_nanos)
}

/// Reads durations like [`parse_duration`].
impl FromStr for Latency {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse_duration(text).map(Self)
    }
}

/// Writes whole nanoseconds in the largest of ns, us, ms and s that leaves no fraction.
impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0.as_nanos(), &DURATIONS[..5])
    }
}

/// Reads bits per second, such as `100mbit` (units: bit, kbit, mbit, gbit, tbit), or `unlimited`.
impl FromStr for Bandwidth {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.trim() == UNLIMITED {
            return Ok(Self::UNLIMITED);
        }
        match parse_scaled(text, BANDWIDTHS, "100mbit")? {
            0 => Err(QuantityError::Zero { text: quoted(text) }),
            bits_per_second => Ok(Self::from_bits_per_second(bits_per_second)),
        }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.write_str(UNLIMITED);
        }
        write_scaled(f, u128::from(self.bits_per_second()), BANDWIDTHS)
    }
}

/// A number of bytes; `u64::MAX` is written `unlimited`.
///
/// ```
/// use gridspan_topology::ByteCount;
///
/// assert_eq!("64KiB".parse(), Ok(ByteCount(65_536)));
/// assert_eq!(ByteCount(1_000_000).to_string(), "1MB");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCount(pub u64);

/// Reads bytes, such as `1MB` or `64KiB` (units: B, kB, KiB … TB, TiB), or `unlimited`.
impl FromStr for ByteCount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.trim() == UNLIMITED {
            return Ok(Self(u64::MAX));
        }
        parse_scaled(text, BYTES, "1MB").map(Self)
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == u64::MAX {
            return f.write_str(UNLIMITED);
        }
        write_scaled(f, u128::from(self.0), BYTES)
    }
}

/// A probability, `0.0..=1.0`.
///
/// ```
/// use gridspan_topology::Probability;
///
/// assert_eq!("0.1%".parse(), Ok(Probability(0.001)));
/// assert!("110%".parse::<Probability>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Probability(pub f64);

/// Reads a percentage, such as `0.1%`, or a plain number, such as `0.001`.
impl FromStr for Probability {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(QuantityError::TooLong { example: "0.1%" });
        }
        parse_probability(text.trim())
            .map(Self)
            .ok_or_else(|| QuantityError::Probability { text: quoted(text) })
    }
}

impl fmt::Display for Probability {
    /// Writes a percentage if that is short and exact, otherwise a plain number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = format!("{}%", self.0 * 100.0);
        if percent.len() <= MAX_TEXT_BYTES && parse_probability(&percent) == Some(self.0) {
            return f.write_str(&percent);
        }
        // An exponent keeps even the smallest number short enough to be read back.
        write!(f, "{:e}", self.0)
    }
}

fn parse_probability(text: &str) -> Option<f64> {
    let (number, exponent) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), "e-2"),
        None => (text, ""),
    };
    // `parse` also accepts signs and words such as `inf`, which are not valid probabilities here.
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    // The exponent divides by 100 without the rounding error of a division. So a percentage that
    // already has an exponent is rejected.
    let value: f64 = format!("{number}{exponent}").parse().ok()?;
    (0.0..=1.0).contains(&value).then_some(value)
}

/// Reads a decimal number and a unit exactly, in the smallest unit.
fn parse_scaled(text: &str, units: Units, example: &'static str) -> Result<u64, QuantityError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(QuantityError::TooLong { example });
    }
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let point_without_digits = number.contains('.') && fraction.is_empty();
    if whole.is_empty() || point_without_digits || fraction.contains('.') {
        return Err(QuantityError::Number { text: quoted(text), example });
    }
    let unit = unit.trim_start();
    let Some(&(_, scale)) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
        let known = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        return Err(QuantityError::Unit { text: quoted(text), known, example });
    };
    let too_large = || QuantityError::TooLarge { text: quoted(text) };
    let too_fine = || QuantityError::TooFine { text: quoted(text), smallest: units[0].0 };

    let fraction = fraction.trim_end_matches('0');
    // With at most 18 digits, the product below fits 128 bits.
    if fraction.len() > 18 {
        return Err(too_fine());
    }
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let fraction_digits: u64 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| too_fine())? };
    let power = 10_u128.pow(fraction.len() as u32);
    let scaled_fraction = u128::from(fraction_digits) * u128::from(scale);
    if scaled_fraction % power != 0 {
        return Err(too_fine());
    }
    let total = u128::from(whole) * u128::from(scale) + scaled_fraction / power;
    u64::try_from(total).map_err(|_| too_large())
}

/// Writes a value in the largest unit that leaves no fraction.
fn write_scaled(f: &mut fmt::Formatter<'_>, value: u128, units: Units) -> fmt::Result {
    let divides =
        |&&(name, scale): &&(&str, u64)| name.is_ascii() && value.is_multiple_of(u128::from(scale));
    let (name, scale) = *units.iter().rfind(divides).unwrap_or(&units[0]);
    let (name, scale) = if value == 0 { units[0] } else { (name, scale) };
    write!(f, "{}{name}", value / u128::from(scale))
}

/// Escapes an external text so that no terminal interprets it as a command.
fn quoted(text: &str) -> String {
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_exactly() {
        for (text, nanos) in [
            ("32ms", 32_000_000),
            ("50us", 50_000),
            ("50µs", 50_000),
            ("1.5s", 1_500_000_000),
            ("0.5us", 500),
            ("1.50 ms", 1_500_000),
            (" 7NS ", 7),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0ms", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn bandwidths_bytes_and_probabilities_are_read_exactly() {
        assert_eq!("100mbit".parse(), Ok(Bandwidth::from_bits_per_second(100_000_000)));
        assert_eq!("2.5Gbit".parse(), Ok(Bandwidth::from_bits_per_second(2_500_000_000)));
        assert_eq!("unlimited".parse(), Ok(Bandwidth::UNLIMITED));
        assert_eq!("1MB".parse(), Ok(ByteCount(1_000_000)));
        assert_eq!("64KiB".parse(), Ok(ByteCount(65_536)));
        assert_eq!("1.5kib".parse(), Ok(ByteCount(1_536)));
        assert_eq!("unlimited".parse(), Ok(ByteCount(u64::MAX)));
        assert_eq!("0.1%".parse(), Ok(Probability(0.001)));
        assert_eq!("0.7 %".parse(), Ok(Probability(0.007)));
        assert_eq!("0.25".parse(), Ok(Probability(0.25)));
        assert_eq!("100%".parse(), Ok(Probability(1.0)));
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        let message = |text| parse_duration(text).unwrap_err().to_string();
        assert_eq!(
            message("32"),
            "`32` has no known unit; write one of ns, us, µs, ms, s, min, h, such as `32ms`"
        );
        assert_eq!(
            message("fast"),
            "`fast` does not start with a number; write a number and a unit, such as `32ms`"
        );
        assert_eq!(
            message("0.5ns"),
            "`0.5ns` is finer than one ns; write fewer digits after the point"
        );
        assert_eq!(message("99999999999s"), "`99999999999s` is too large; write a smaller value");
    }

    #[test]
    fn malformed_quantities_are_refused() {
        for text in ["", ".", "1.ms", ".5ms", "1.2.3ms", "-1ms", "1e3ms", "1ms2", "ms", "1 0ms"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
        for text in ["0mbit", "100mbps", "1MB"] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text:?}");
        }
        for text in ["", "%", "-1%", "101%", "1.1", "inf", "nan", "+1%", "1e-1%e"] {
            assert!(text.parse::<Probability>().is_err(), "{text:?}");
        }
        assert!(parse_duration(&"1".repeat(65)).is_err());
    }

    #[test]
    fn quantities_are_written_in_their_largest_whole_unit() {
        assert_eq!(Latency::from_micros(1_500).to_string(), "1500us");
        assert_eq!(Latency::from_millis(32).to_string(), "32ms");
        assert_eq!(Latency(Duration::from_secs(90)).to_string(), "90s");
        assert_eq!(Latency::ZERO.to_string(), "0ns");
        assert_eq!(Bandwidth::from_bits_per_second(100_000_000).to_string(), "100mbit");
        assert_eq!(ByteCount(65_536).to_string(), "64KiB");
        assert_eq!(ByteCount(1_000_000).to_string(), "1MB");
        assert_eq!(Probability(0.001).to_string(), "0.1%");
    }

    proptest! {
        #[test]
        fn written_quantities_read_back_unchanged(nanos: u64, bits in 1..=u64::MAX, bytes: u64, p in 0.0..=1.0_f64) {
            let latency = Latency(Duration::from_nanos(nanos));
            prop_assert_eq!(latency.to_string().parse(), Ok(latency));
            let bandwidth = Bandwidth::from_bits_per_second(bits);
            prop_assert_eq!(bandwidth.to_string().parse(), Ok(bandwidth));
            prop_assert_eq!(ByteCount(bytes).to_string().parse(), Ok(ByteCount(bytes)));
            prop_assert_eq!(Probability(p).to_string().parse(), Ok(Probability(p)));
            let tiny = Probability(p * f64::MIN_POSITIVE);
            prop_assert_eq!(tiny.to_string().parse(), Ok(tiny));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,80}", near in "[0-9.]{0,25} ?[a-zA-Zµ%]{0,4}") {
            for text in [text, near] {
                let _ = text.parse::<Latency>();
                let _ = text.parse::<Bandwidth>();
                let _ = text.parse::<ByteCount>();
                let _ = text.parse::<Probability>();
            }
        }
    }
}
