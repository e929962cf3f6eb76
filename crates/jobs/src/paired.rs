//! The comparison of two programs by paired measurements: the median of the ratios, with a
//! confidence interval.
//!
//! The load of a machine changes from second to second, and by more than programs differ. So both
//! programs run once per round, close together in time, each round gives one ratio, and the result
//! is the median of these ratios.
//!
//! Its interval lies between two of the sorted ratios, the k-th from each end: the true median is
//! outside of them only if fewer than k of n independent ratios are on one side of it, each with
//! probability 1/2 (W. R. Thompson, "On confidence ranges for the median and other expectation
//! distributions for populations of unknown distribution form", 1936). So its confidence is at
//! least 95 % for any distribution of the ratios. That of a percentile bootstrap is less where
//! rounds are few: for 13 rounds 91 %.

use std::fmt;

/// Fewest rounds of a comparison. With five, all ratios are on one side of the true median in
/// 2 / 2^5 = 6 % of all comparisons, so that even the whole range has a confidence of only 94 %.
pub const ROUNDS_MIN: usize = 6;

/// Greatest probability that the true median is on one side of the interval.
const TAIL: f64 = 0.025;

/// A median with its 95 % confidence interval.
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
    /// Estimates the median of `values`. Of fewer than [`ROUNDS_MIN`] values, the interval is their
    /// whole range. All three numbers are NaN if there are no values.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
        let last = sorted.len().saturating_sub(1);
        let outside = values_outside(sorted.len());
        let median = f64::midpoint(at(last / 2), at(sorted.len() / 2));
        Self { median, low: at(outside), high: at(last - outside) }
    }

    /// Estimates the ratio of ours to theirs from measurements of the same rounds. Rounds that only
    /// one of the two has are left out.
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

/// Formats a number with three significant digits, or with all digits before the point if
/// these are more.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.0995 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Returns how many of `count` values are below the interval, and how many are above it: one less
/// than the largest k for which fewer than k heads in `count` tosses of a coin have a probability
/// of at most [`TAIL`].
fn values_outside(count: usize) -> usize {
    // The logarithm of the probability of `heads` heads, since that of 0 may be less than any f64.
    let mut log = -(count as f64) * std::f64::consts::LN_2;
    let (mut below, mut heads) = (log.exp(), 0);
    while heads < count && below <= TAIL {
        log += ((count - heads) as f64 / (heads + 1) as f64).ln();
        heads += 1;
        below += log.exp();
    }
    heads.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_interval_have_the_ranks_of_the_sign_test() {
        // Ranks from tables of the sign test for 95 %.
        let ranks = [(6, 1), (8, 1), (9, 2), (10, 2), (13, 3), (15, 4), (20, 6), (25, 8), (30, 10)];
        for (count, rank) in ranks.into_iter().chain([(40, 14), (50, 18)]) {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let (low, high) = (f64::from(rank), f64::from(count + 1 - rank));
            let median = f64::from(count + 1) / 2.0;
            assert_eq!(MedianEstimate::of(&values), MedianEstimate { median, low, high });
        }
    }

    #[test]
    fn many_values_have_the_interval_of_the_normal_approximation() {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        let MedianEstimate { low, high, .. } = MedianEstimate::of(&values);
        // The interval is 1.96 standard deviations to each side; one is half the root of the count.
        assert!((low - 4_901.0).abs() <= 2.0 && (high - 5_098.0).abs() <= 2.0, "{low} {high}");
    }

    #[test]
    fn the_interval_holds_the_true_median_in_95_percent_of_comparisons() {
        let mut dice = gridspan_topology::dice::Dice::new(1);
        for count in [6, 9, 13, 20, 40] {
            // A lopsided distribution, whose median is 1/4.
            let mut comparison = || {
                let values: Vec<f64> = (0..count).map(|_| dice.unit().powi(2)).collect();
                let MedianEstimate { low, high, .. } = MedianEstimate::of(&values);
                low <= 0.25 && 0.25 <= high
            };
            let held = (0..4_000).filter(|_| comparison()).count();
            assert!(held >= 3_770, "{held} of 4000 with {count} rounds");
        }
    }

    #[test]
    fn a_ratio_has_three_digits_and_its_interval() {
        let ours = [1.20, 2.00, 2.06, 1.02, 2.20, 1.07];
        let theirs = [1.0, 2.0, 2.0, 1.0, 2.0, 1.0];
        let ratio = MedianEstimate::of_paired_ratio(&ours, &theirs);
        assert_eq!(ratio.to_string(), "1.05 [1.00, 1.20]");
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
