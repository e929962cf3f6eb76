//! The comparison of two programs by paired measurements: the median of the ratios, with an
//! interval of confidence.
//!
//! The load of a machine changes from second to second, and by more than programs differ. So both
//! programs run once per round, close together in time, each round gives one ratio, and the result
//! is the median of these ratios. Its interval is a percentile bootstrap (Efron, "Bootstrap
//! methods: another look at the jackknife", 1979, section 3): the median of as many ratios drawn
//! with replacement, many times.

use gridspan_topology::dice::Dice;
use std::fmt;

/// Fewest rounds of a comparison. With five, all ratios are on one side of the true median in
/// 2 / 2^5 = 6 % of all comparisons, so that no interval inside of them has a confidence of 95 %.
pub const ROUNDS_MIN: usize = 6;

/// Number of drawn medians. The ends of the interval are then within 0.3 % of their rank.
const RESAMPLES: usize = 10_000;
/// The part of the drawn medians that lies outside of the interval, at each side.
const TAIL: f64 = 0.025;

/// A median and the interval that contains the true one with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianEstimate {
    /// The median of the values.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl MedianEstimate {
    /// Estimates the median of `values`, which must be in no particular order. The same values give
    /// the same interval. All three numbers are NaN if there are no values.
    pub fn of(values: &[f64]) -> Self {
        let mut dice = Dice::new(1);
        let mut drawn = vec![0.0; values.len()];
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                drawn.fill_with(|| values[dice.below(values.len())]);
                median(&mut drawn)
            })
            .collect();
        medians.sort_unstable_by(f64::total_cmp);
        let outside = (TAIL * RESAMPLES as f64) as usize;
        let [low, high] = [outside, RESAMPLES - 1 - outside].map(|at| medians[at]);
        Self { median: median(&mut values.to_vec()), low, high }
    }

    /// Estimates the ratio of ours to theirs from measurements of the same rounds. Rounds that only
    /// one of them has are left out.
    pub fn of_paired_ratio(ours: &[f64], theirs: &[f64]) -> Self {
        let ratios: Vec<f64> =
            ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        Self::of(&ratios)
    }
}

/// Writes `1.03 [1.01, 1.06]`, each number with three digits.
impl fmt::Display for MedianEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, low, high] = [self.median, self.low, self.high].map(three_digits);
        write!(f, "{median} [{low}, {high}]")
    }
}

/// Formats a number with three significant digits, but all those before the point.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.0995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Sorts the values and returns the middle one, or the mean of the two in the middle; NaN if there
/// are none.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    let count = values.len();
    (at(count.saturating_sub(1) / 2) + at(count / 2)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_thirteen_values_is_that_of_efron() {
        // Efron (1979), section 3, gives the distribution of the drawn median of 13 values: .0015,
        // .0142, .0550, .1242, .1936, .2230 and so on for the second, third and later ones. So 2.5
        // % lie below the fourth, and 2.5 % above the tenth.
        let values = [7.0, 1.0, 13.0, 4.0, 10.0, 2.0, 12.0, 6.0, 8.0, 3.0, 11.0, 5.0, 9.0];
        let expected = MedianEstimate { median: 7.0, low: 4.0, high: 10.0 };
        assert_eq!(MedianEstimate::of(&values), expected);
    }

    #[test]
    fn the_interval_of_an_even_number_of_ratios_is_that_of_all_possible_draws() {
        // All 6^6 draws, enumerated in Python: 0.87 % of the medians are 1.00 and 3.5 % at most
        // 1.01; 96.5 % are at most 1.135 and 99.1 % at most 1.15.
        let ours = [1.20, 2.00, 2.06, 1.02, 2.20, 1.07];
        let theirs = [1.0, 2.0, 2.0, 1.0, 2.0, 1.0];
        let ratio = MedianEstimate::of_paired_ratio(&ours, &theirs);
        let is_near = |value: f64, expected: f64| (value - expected).abs() < 1e-12;
        assert!(is_near(ratio.median, 1.05), "{ratio:?}");
        assert!(is_near(ratio.low, 1.01) && is_near(ratio.high, 1.15), "{ratio:?}");
        assert_eq!(ratio.to_string(), "1.05 [1.01, 1.15]");
    }

    #[test]
    fn load_that_comes_and_goes_cancels_in_the_ratio() {
        // Both slow down by up to 3 in the same rounds; the ratio stays 1.1.
        let load = [1.0, 3.0, 1.5, 1.0, 2.0, 1.0, 2.5, 1.2];
        let ours = load.map(|load| 1.1 * load);
        let ratio = MedianEstimate::of_paired_ratio(&ours, &load);
        assert!(ratio.low > 1.0999 && ratio.high < 1.1001, "{ratio:?}");
    }

    #[test]
    fn no_value_has_no_median_and_one_is_its_own() {
        assert!(MedianEstimate::of(&[]).median.is_nan());
        assert_eq!(MedianEstimate::of(&[3.0]).to_string(), "3.00 [3.00, 3.00]");
    }

    #[test]
    fn numbers_have_three_digits() {
        let texts = [219.4, 12.34, 9.999, 1.0, 0.0712, 0.1].map(three_digits);
        assert_eq!(texts, ["219", "12.3", "10.0", "1.00", "0.071", "0.10"]);
    }
}
