//! The comparison of two programs by paired measurements: the median of the ratios, with a
//! confidence interval.
//!
//! The load of a machine changes from second to second, and by more than programs differ. So both
//! programs run once per round, close together in time, each round gives one ratio, and the result
//! is the median of these ratios.
//!
//! Its interval is a percentile interval of the bootstrap (B. Efron and R. J. Tibshirani, "An
//! Introduction to the Bootstrap", 1993, chapter 13). From the ratios of all rounds, thousands of
//! samples of the same size are drawn with replacement. The interval contains the medians of these
//! samples, except for an equal share at each end. The dice have a fixed seed, so that the same
//! rounds give the same interval.
//!
//! With a share of 2.5 % at each end, the intervals of few rounds would be too short: that of 7
//! rounds would contain the true median in 87 % of all comparisons, and that of 13 in 91 %.
//! Therefore the share is smaller, as T. C. Hesterberg proposes ("What Teachers Should Know About
//! the Bootstrap", 2015, expanded percentile intervals). It is chosen so that the interval of a
//! mean would be as long as the one from Student's t distribution. With an odd number of rounds
//! from 7 to 41, the confidence is then 93 to 98 % for any continuous distribution.

use gridspan_topology::dice::Dice;
use std::fmt;

/// Minimum number of rounds of a comparison, and of values for which an interval is given. With
/// five, all ratios are on one side of the true median in 2 / 2^5 = 6 % of all comparisons, so that
/// even the whole range has a confidence of only 94 %.
pub const ROUNDS_MIN: usize = 6;

/// Maximum number of samples for one interval. The smallest share at each end, 0.24 % for six
/// values, is then 24 medians.
const RESAMPLES_MAX: usize = 10_000;
/// Minimum number of samples, as Efron and Tibshirani advise for percentile intervals.
const RESAMPLES_MIN: usize = 1_000;
/// Number of draws above which fewer samples are drawn, so that an interval of very many values
/// takes less than a second.
const DRAWS_MAX: usize = 10_000_000;
/// The seed of the dice.
const SEED: u64 = 1_993;

/// A median and its bootstrap interval of 95 %.
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
    /// Estimates the median of `values`. Of fewer than [`ROUNDS_MIN`] values, there is no interval:
    /// the ends are the least and the greatest value. All three numbers are NaN if there are no
    /// values.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let (Some(&least), Some(&greatest)) = (sorted.first(), sorted.last()) else {
            return Self { median: f64::NAN, low: f64::NAN, high: f64::NAN };
        };
        let [lower, upper] = middle(sorted.len());
        let median = f64::midpoint(sorted[lower], sorted[upper]);
        if sorted.len() < ROUNDS_MIN {
            return Self { median, low: least, high: greatest };
        }
        let medians = resampled_medians(&sorted);
        let outside = (tail(sorted.len()) * medians.len() as f64) as usize;
        Self { median, low: medians[outside], high: medians[medians.len() - 1 - outside] }
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

/// Returns the places of the two middle ones of `count` sorted values, which are equal if `count`
/// is odd.
fn middle(count: usize) -> [usize; 2] {
    [(count - 1) / 2, count / 2]
}

/// Returns the medians of samples that are drawn with replacement from sorted values, sorted.
fn resampled_medians(sorted: &[f64]) -> Vec<f64> {
    let count = sorted.len();
    let resamples = (DRAWS_MAX / count).clamp(RESAMPLES_MIN, RESAMPLES_MAX);
    let mut dice = Dice::new(SEED);
    let mut times_drawn = vec![0_u32; count];
    let mut resample = || {
        times_drawn.fill(0);
        (0..count).for_each(|_| times_drawn[dice.below(count)] += 1);
        let [lower, upper] = middle(count).map(|rank| sorted[place_of(rank, &times_drawn)]);
        f64::midpoint(lower, upper)
    };
    let mut medians: Vec<f64> = (0..resamples).map(|_| resample()).collect();
    medians.sort_unstable_by(f64::total_cmp);
    medians
}

/// Returns the place of the value that has this rank, from 0, in a sample that contains the sorted
/// value at each place `times_drawn` times.
fn place_of(rank: usize, times_drawn: &[u32]) -> usize {
    let mut drawn = 0;
    let is_reached = |&times: &u32| {
        drawn += times as usize;
        drawn > rank
    };
    times_drawn.iter().position(is_reached).unwrap_or(times_drawn.len() - 1)
}

/// Returns the share of the medians that the interval of `count` values leaves out at each end,
/// less than 0.025 (Hesterberg, 2015). With `n` values, it is the probability that a standard
/// normal variable is above `sqrt(n / (n - 1)) t`, where `t` is the 97.5 % point of Student's t
/// distribution with `n - 1` degrees of freedom. The root corrects the bias of the bootstrap's
/// standard deviation.
fn tail(count: usize) -> f64 {
    let count = count as f64;
    let freedom = count - 1.0;
    normal_tail((count / freedom).sqrt() * student_quantile(freedom))
}

/// Returns the 97.5 % point of Student's t distribution, to three digits for 5 or more degrees of
/// freedom (M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 1964, formula
/// 26.7.5).
fn student_quantile(freedom: f64) -> f64 {
    let z = 1.959_964_f64;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

/// Returns the probability that a standard normal variable is above `z`, of 0 to 4: Simpson's rule.
fn normal_tail(z: f64) -> f64 {
    const STEPS: u32 = 100;
    let width = z / f64::from(STEPS);
    let weight = |step: u32| match step {
        0 | STEPS => 1.0,
        step if step % 2 == 1 => 4.0,
        _ => 2.0,
    };
    let density = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    let sum: f64 = (0..=STEPS).map(|step| weight(step) * density(f64::from(step) * width)).sum();
    0.5 - sum * width / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_interval_have_the_ranks_of_the_bootstrap_without_dice() {
        // For an odd number of values, the median of a sample is at most the k-th of n values with
        // the probability that at least (n + 1) / 2 of n draws, each with probability k / n, hit.
        // The expected ranks are the smallest `k` for which this probability exceeds the tail. For
        // these counts, no such probability is close to the tail.
        for (count, rank) in [(7, 1), (9, 2), (15, 4), (17, 5), (23, 7), (25, 8), (35, 12)] {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let (low, high) = (f64::from(rank), f64::from(count + 1 - rank));
            let median = f64::from(count + 1) / 2.0;
            assert_eq!(MedianEstimate::of(&values), MedianEstimate { median, low, high });
        }
    }

    #[test]
    fn fewer_values_cut_off_less() {
        // Computed by numerical integration of both densities.
        let tails = [(6, 0.002_432), (10, 0.008_551), (20, 0.015_881), (40, 0.020_258)];
        for (count, expected) in tails {
            assert!((tail(count) - expected).abs() < 5e-5, "{} of {count}", tail(count));
        }
        assert!((tail(1_000_000) - 0.025).abs() < 1e-5, "{}", tail(1_000_000));
    }

    #[test]
    fn many_values_have_the_interval_of_the_normal_approximation() {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        let MedianEstimate { low, high, .. } = MedianEstimate::of(&values);
        // The interval is 1.96 standard deviations to each side. In ranks, a standard deviation is
        // half the square root of the count. An end varies by 4 with the dice.
        assert!((low - 4_901.0).abs() <= 20.0 && (high - 5_098.0).abs() <= 20.0, "{low} {high}");
    }

    #[test]
    fn the_interval_contains_the_true_median_in_about_95_percent_of_comparisons() {
        let mut dice = Dice::new(1);
        for count in [6, 9, 13, 20] {
            // A lopsided distribution, whose median is 1/4.
            let mut comparison = || {
                let values: Vec<f64> = (0..count).map(|_| dice.unit().powi(2)).collect();
                let MedianEstimate { median, low, high } = MedianEstimate::of(&values);
                assert!(low <= median && median <= high, "{low} {median} {high}");
                low <= 0.25 && 0.25 <= high
            };
            let held = (0..200).filter(|_| comparison()).count();
            // The confidence is 96 to 98 %; 200 comparisons vary by 1.4 %.
            assert!((183..=199).contains(&held), "{held} of 200 with {count} rounds");
        }
    }

    #[test]
    fn equal_ratios_have_an_interval_without_width() {
        let ours = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0];
        let theirs = ours.map(|time| time / 2.0);
        let expected = MedianEstimate { median: 2.0, low: 2.0, high: 2.0 };
        assert_eq!(MedianEstimate::of_paired_ratio(&ours, &theirs), expected);
    }

    #[test]
    fn the_interval_depends_on_neither_the_order_of_rounds_nor_the_run() {
        let values: Vec<f64> = (0..30_u32).map(|round| f64::from(round * 7 % 30)).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let estimate = MedianEstimate::of(&values);
        assert_eq!(MedianEstimate::of(&sorted), estimate);
        assert!(estimate.low > 0.0 && estimate.high < 29.0, "{estimate:?}");
    }

    #[test]
    fn too_few_values_have_their_range_in_place_of_an_interval() {
        let estimate = MedianEstimate::of(&[5.0, 1.0, 2.0, 9.0, 3.0]);
        assert_eq!(estimate, MedianEstimate { median: 3.0, low: 1.0, high: 9.0 });
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
        // Both slow down by a factor of up to 3 in the same rounds; the ratio stays 1.1.
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
