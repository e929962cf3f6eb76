//! Count, mean, variance and range of contributed numbers.

use super::exact::ExactSum;
use serde::{Deserialize, Serialize};

/// Describes the numbers that members contributed under [`Op::Statistics`](super::Op::Statistics).
///
/// Sums of numbers and of their squares are exact until the end, so that the result depends neither
/// on the order of the contributions nor on how far the mean is from zero. Integers beyond 2^53 are
/// rounded first. If squares overflow, as they may for numbers beyond 1e150, the variance is NaN.
///
/// ```
/// # use gridspan::{embed::Runner, prelude::*};
/// # #[derive(Serialize, Deserialize)]
/// # struct Cell(u64);
/// impl Actor for Cell {
///     # type Index = Ix1;
///     # type Init = ();
///     # type Message = u64;
///     # fn create((): (), _cx: &mut Context<Self>) -> Self { Cell(0) }
///     fn handle(&mut self, _number: u64, cx: &mut Context<Self>) {
///         cx.contribute(Op::Statistics, f64::from(cx.index().0), To::main());
///     }
/// }
/// # let job = Job::new("cells").actor::<Cell>().main(async |grid: Grid| {
/// let cells = grid.create::<Cell>(Ix1::range(5), |_| ()).await?;
/// cells.broadcast(0);
/// let of_indices: Statistics = cells.reduction(Op::Statistics).await?;
/// assert_eq!((of_indices.count, of_indices.mean, of_indices.variance), (5, 2.0, 2.0));
/// # Ok(())
/// # });
/// # Runner::on_threads(2).run(job).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Statistics {
    /// The number of contributions.
    pub count: u64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The mean square of the deviations from the mean.
    pub variance: f64,
    /// The smallest number, in IEEE 754 total order.
    pub min: f64,
    /// The largest number, in IEEE 754 total order.
    pub max: f64,
}

impl Statistics {
    /// Computes the statistics that a reduction of these numbers gives; `None` if there are none.
    ///
    /// ```
    /// use gridspan_runtime::Statistics;
    ///
    /// let numbers = Statistics::of(&[2.0, 4.0, 9.0]).unwrap();
    /// assert_eq!((numbers.count, numbers.mean, numbers.max), (3, 5.0, 9.0));
    /// ```
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let moments = numbers.iter().map(|&number| Moments::new(number));
        let all = moments.reduce(|mut all, one| {
            all.merge(&one);
            all
        });
        Some(all?.finish())
    }

    /// The square root of the [`variance`](Self::variance).
    pub fn standard_deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// The unbiased estimate of the variance of the population from which these numbers are a
    /// sample; NaN for fewer than two numbers.
    pub fn sample_variance(&self) -> f64 {
        match self.count < 2 {
            true => f64::NAN,
            false => self.variance * (self.count as f64 / (self.count - 1) as f64),
        }
    }
}

/// Sums and range from which statistics are computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moments {
    count: u64,
    sum: ExactSum,
    squares: ExactSum,
    min: f64,
    max: f64,
}

impl Moments {
    /// Creates the moments of one number.
    pub(super) fn new(number: f64) -> Self {
        let (mut sum, mut squares) = (ExactSum::default(), ExactSum::default());
        sum.add(number);
        squares.add_product(number, number);
        Self { count: 1, sum, squares, min: number, max: number }
    }

    /// Adds the moments of other numbers.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
        self.min = std::cmp::min_by(self.min, other.min, f64::total_cmp);
        self.max = std::cmp::max_by(self.max, other.max, f64::total_cmp);
    }

    pub(super) fn finish(&self) -> Statistics {
        let count = self.count as f64;
        // The variance is (n · Σx² - (Σx)²) / n². The difference is exact before it is rounded.
        let mut difference = self.squares.times(count);
        let parts = self.sum.parts();
        for &one in parts {
            for &other in parts {
                difference.add_product(-one, other);
            }
        }
        let (total, difference) = (self.sum.total(), difference.total());
        // If squares have overflowed, the difference is infinite or NaN.
        let variance = match total.is_finite() && difference.is_finite() {
            true => (difference / count / count).clamp(0.0, f64::INFINITY),
            false => f64::NAN,
        };
        let (mean, min, max) = (total / count, self.min, self.max);
        Statistics { count: self.count, mean, variance, min, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::exact::two_product;

    fn of(numbers: &[f64]) -> Statistics {
        Statistics::of(numbers).unwrap()
    }

    #[test]
    fn mean_and_variance_match_known_values() {
        let found = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);

        let expected = Statistics { count: 8, mean: 5.0, variance: 4.0, min: 2.0, max: 9.0 };
        assert_eq!(found, expected);
        assert_eq!(found.standard_deviation(), 2.0);
        assert_eq!(found.sample_variance(), 32.0 / 7.0);
        assert!(of(&[3.0]).sample_variance().is_nan());
    }

    #[test]
    fn a_large_mean_does_not_reduce_precision() {
        // As in NIST's data set NumAcc4, whose standard deviation is 0.1 around 10,000,000.2.
        let mut numbers = vec![10_000_000.2];
        (0..500).for_each(|_| numbers.extend([10_000_000.1, 10_000_000.3]));

        let found = of(&numbers);

        let deviation = (found.sample_variance().sqrt() - 0.1).abs();
        assert!(deviation < 1e-8, "the numbers themselves are rounded to 2e-9: {deviation:e}");
        numbers.reverse();
        assert_eq!(of(&numbers), found);
    }

    #[test]
    fn infinite_numbers_and_overflow_give_a_nan_variance() {
        let found = of(&[1.0, f64::INFINITY]);
        assert_eq!((found.mean, found.max, found.count), (f64::INFINITY, f64::INFINITY, 2));
        assert!(found.variance.is_nan());
        assert!(of(&[1e200, 3e200]).variance.is_nan(), "squares overflow");
        assert!(of(&[1e155, -1e155]).variance.is_nan(), "and so they do if the mean is zero");
    }

    #[test]
    fn the_product_of_two_numbers_is_exact_in_two_parts() {
        let (one, other) = (1.0 + f64::EPSILON, 1.0 - f64::EPSILON);
        let (high, low) = two_product(one, other);
        assert_eq!((high, low), (1.0, -f64::EPSILON * f64::EPSILON));
    }
}
