//! The speed of a processor, relative to an ordinary one.

use crate::quantity::QuantityError;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The speed of a processor without other load, relative to an ordinary one: work takes twice as
/// long at 0.5 as at 1. A speed is from 0.01 to 100 and is stored in millionths.
///
/// ```
/// use gridspan_topology::Speed;
/// use std::time::Duration;
///
/// let slow: Speed = "1/2".parse()?;
/// assert_eq!(slow.takes(Duration::from_millis(10)), Duration::from_millis(20));
/// # Ok::<(), gridspan_topology::QuantityError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Speed(u32);

/// The value of speed 1.
const UNIT: u32 = 1_000_000;
/// Minimum speed in millionths; less is a mistake.
const MIN: u32 = UNIT / 100;
/// Maximum speed in millionths.
const MAX: u32 = UNIT * 100;
/// Maximum length of a speed in bytes.
const MAX_TEXT_BYTES: usize = 32;

impl Speed {
    /// The speed of an ordinary processor.
    pub const ORDINARY: Self = Self(UNIT);

    /// Creates a speed from 0.01 to 100; `None` for other values.
    pub fn new(factor: f64) -> Option<Self> {
        let millionths = (factor * f64::from(UNIT)).round();
        (f64::from(MIN)..=f64::from(MAX)).contains(&millionths).then_some(Self(millionths as u32))
    }

    /// Returns the ratio to the speed of an ordinary processor.
    pub fn factor(self) -> f64 {
        f64::from(self.0) / f64::from(UNIT)
    }

    /// Returns how long work takes at this speed if it takes `time` on an ordinary processor.
    pub fn takes(self, time: Duration) -> Duration {
        if self == Self::ORDINARY {
            return time;
        }
        let nanos = time.as_nanos() * u128::from(UNIT) / u128::from(self.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self::ORDINARY
    }
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(u32::deserialize(deserializer)?.clamp(MIN, MAX)))
    }
}

/// Writes a decimal number that reads back as the same speed.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.factor().fmt(f)
    }
}

/// Reads a number, or a fraction such as `1/3`.
impl FromStr for Speed {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(QuantityError::TooLong { example: "0.5" });
        }
        let (above, below) = text.split_once('/').unwrap_or((text, "1"));
        let number = |part: &str| part.trim().parse::<f64>().ok();
        let factor = number(above).zip(number(below)).map(|(above, below)| above / below);
        // As for other quantities, no terminal interprets an external text as a command.
        let refuse = || QuantityError::Speed { text: text.escape_debug().to_string() };
        factor.and_then(Self::new).ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_fractions_are_speeds() {
        let third: Speed = "1/3".parse().unwrap();

        assert_eq!("2".parse(), Ok(Speed::new(2.0).unwrap()));
        assert_eq!("1.0".parse(), Ok(Speed::ORDINARY));
        assert!((third.factor() - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(third.to_string().parse(), Ok(third));
        let time = third.takes(Duration::from_millis(1)).as_secs_f64();
        assert!((time - 0.003).abs() < 1e-8, "{time}");
    }

    #[test]
    fn invalid_speeds_are_refused_with_advice() {
        for text in ["", "0", "-1", "101", "1e-9", "1/0", "NaN", "inf", "1/2/3", "fast"] {
            let message = text.parse::<Speed>().unwrap_err().to_string();
            assert!(message.ends_with("write a number from 0.01 to 100, such as `0.5` or `1/3`"));
        }
        let message = "\u{1b}[2J".parse::<Speed>().unwrap_err().to_string();
        assert!(!message.contains('\u{1b}'), "{message}");
    }

    #[test]
    fn a_stored_speed_is_clamped_to_its_range() {
        let stored = postcard::to_stdvec(&0_u32).unwrap();
        assert_eq!(postcard::from_bytes::<Speed>(&stored).unwrap().factor(), 0.01);
    }
}
