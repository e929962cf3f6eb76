//! The computing time of a function, learned from its calls.
//!
//! The model of the time is a constant times a power of the size of the arguments: a line through
//! the logarithms. Older calls have less weight. If all calls have about the same size, the
//! exponent is one.

use serde::{Deserialize, Serialize};

/// Factor by which each call reduces the weight of all earlier ones.
const FADING: f64 = 0.95;
/// Minimum variance of the logarithm of sizes to learn an exponent.
const SPREAD_MIN: f64 = 0.05;
/// Maximum exponent, which no function worth a remote call exceeds; the minimum is 0.
const EXPONENT_MAX: f64 = 4.0;

/// Weighted sums of logarithms over calls.
///
/// ```
/// use gridspan_workflow::performance::History;
///
/// let mut history = History::default();
/// assert_eq!(history.predict_s(4_000_000), None);
/// history.observe(1_000_000, 0.5);
/// history.observe(2_000_000, 1.0);
/// let predicted_s = history.predict_s(4_000_000).unwrap();
/// assert!((predicted_s - 2.0).abs() < 1e-3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    weight: f64,
    size: f64,
    time: f64,
    size_size: f64,
    size_time: f64,
}

impl History {
    /// Adds a call with arguments of `bytes` bytes that took `time_s` seconds on a server of speed
    /// 1. Ignores times that are not positive and finite.
    pub fn observe(&mut self, bytes: u64, time_s: f64) {
        if !(time_s > 0.0 && time_s.is_finite()) {
            return;
        }
        let (size, time) = (logarithm(bytes), time_s.ln());
        for sum in [
            &mut self.weight,
            &mut self.size,
            &mut self.time,
            &mut self.size_size,
            &mut self.size_time,
        ] {
            *sum *= FADING;
        }
        self.weight += 1.0;
        self.size += size;
        self.time += time;
        self.size_size += size * size;
        self.size_time += size * time;
    }

    /// Predicts the time of a call in seconds; `None` before the first call has ended.
    pub fn predict_s(&self, bytes: u64) -> Option<f64> {
        if self.weight == 0.0 {
            return None;
        }
        let [size, time] = [self.size, self.time].map(|sum| sum / self.weight);
        let spread = self.size_size / self.weight - size * size;
        let together = self.size_time / self.weight - size * time;
        let exponent = match spread < SPREAD_MIN {
            true => 1.0,
            false => (together / spread).clamp(0.0, EXPONENT_MAX),
        };
        Some((time + exponent * (logarithm(bytes) - size)).exp())
    }
}

fn logarithm(bytes: u64) -> f64 {
    (bytes as f64 + 1.0).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_is_learned_from_calls_of_several_sizes() {
        let mut history = History::default();
        assert_eq!(history.predict_s(10), None);
        for bytes in [1_000, 4_000, 16_000, 64_000] {
            history.observe(bytes, 1e-9 * (bytes as f64).powf(1.5));
        }

        let predicted_s = history.predict_s(256_000).unwrap();

        // 256,000^1.5 is 1.295e8.
        assert!((predicted_s / 0.1295 - 1.0).abs() < 0.01, "{predicted_s}");
    }

    #[test]
    fn with_calls_of_one_size_the_time_is_proportional_to_the_size() {
        let mut history = History::default();
        (0..5).for_each(|_| history.observe(1_000_000, 2.0));

        assert!((history.predict_s(1_000_000).unwrap() - 2.0).abs() < 1e-9);
        assert!((history.predict_s(2_000_000).unwrap() - 4.0).abs() < 1e-3);
    }

    #[test]
    fn invalid_times_are_ignored() {
        let mut history = History::default();
        for time_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            history.observe(8, time_s);
        }

        assert_eq!(history, History::default());
    }
}
