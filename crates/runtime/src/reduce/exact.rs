//! Sums of `f64` that do not depend on the order of their terms.

use serde::{Deserialize, Serialize};

/// An exact sum of finite `f64` values, kept as an expansion of non-overlapping parts in increasing
/// magnitude (J. R. Shewchuk, "Adaptive precision floating-point arithmetic", 1997, section 2).
/// [`total`](Self::total) rounds once, so that any order and grouping of the terms gives the same
/// bits, even if sums of some of the terms are beyond the range of `f64`.
///
/// ```
/// use gridspan::ExactSum;
///
/// let mut sum = ExactSum::default();
/// for term in [1e100, 1.0, -1e100] {
///     sum.add(term);
/// }
/// assert_eq!(sum.total(), 1.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct ExactSum {
    parts: Vec<f64>,
    /// The plain sum of the terms that are infinite or NaN. Without such terms: how many times
    /// 2^1024 must be added to the parts, since sums of finite terms have overflowed.
    special: f64,
}

/// The fields of a sum from the network.
#[derive(Deserialize)]
struct Parts {
    parts: Vec<f64>,
    special: f64,
}

/// Number of parts above which a sum is packed: parts of 53 bits that do not overlap cover the
/// 2,098 bits from the largest to the smallest `f64`. There may be more, of fewer bits each, if
/// terms come by increasing magnitude.
const PARTS_MAX: usize = 40;
/// Largest number of parts of a sum from the network, more than a packed one has.
const RECEIVED_MAX: usize = 64;
/// 2^1023, half of the least power of two that overflows.
const HALF_RANGE: f64 = f64::from_bits(0x7fe0_0000_0000_0000);

impl TryFrom<Parts> for ExactSum {
    type Error = &'static str;

    fn try_from(Parts { parts, special }: Parts) -> Result<Self, &'static str> {
        match parts.len() <= RECEIVED_MAX && parts.iter().all(|part| part.is_finite()) {
            true => Ok(Self { parts, special }),
            false => Err("an exact sum has at most 64 parts, all finite"),
        }
    }
}

impl ExactSum {
    /// Adds one term. Costs one exact addition per part; there are rarely more than three.
    pub fn add(&mut self, term: f64) {
        if !term.is_finite() {
            self.special += term;
            return;
        }
        self.grow(term);
        if self.parts.len() > PARTS_MAX {
            self.pack();
        }
    }

    /// Reduces the number of parts: adds them again, by decreasing magnitude, so that each part
    /// gets as many bits as it can have.
    #[cold]
    fn pack(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        parts.iter().rev().for_each(|&part| self.grow(part));
    }

    /// Adds a finite term to the parts.
    fn grow(&mut self, term: f64) {
        let mut carry = term;
        let mut kept = 0;
        for position in 0..self.parts.len() {
            let part = self.parts[position];
            let (mut sum, mut error) = two_sum(carry, part);
            if !sum.is_finite() {
                (sum, error) = self.overflow(carry, part);
            }
            if error != 0.0 {
                self.parts[kept] = error;
                kept += 1;
            }
            carry = sum;
        }
        self.parts.truncate(kept);
        if carry != 0.0 {
            self.parts.push(carry);
        }
    }

    /// Adds two finite numbers whose sum overflows: counts one 2^1024, with the sign of the sum,
    /// and returns the rest, as `two_sum` does. The larger number is at least 2^1023, so that all
    /// differences are exact.
    #[cold]
    fn overflow(&mut self, a: f64, b: f64) -> (f64, f64) {
        let (large, small) = if a.abs() < b.abs() { (b, a) } else { (a, b) };
        self.special += 1.0_f64.copysign(large);
        let half = HALF_RANGE.copysign(large);
        two_sum(large - half - half, small)
    }

    /// Adds the product of two numbers, which is exact unless it over- or underflows.
    pub(super) fn add_product(&mut self, a: f64, b: f64) {
        let (high, low) = two_product(a, b);
        self.add(high);
        if high.is_finite() {
            self.add(low);
        }
    }

    /// Returns the sum multiplied by a number.
    pub(super) fn times(&self, factor: f64) -> Self {
        // If sums have overflowed, so that 2^1024 was counted, the product becomes infinite.
        let special = if self.special == 0.0 { self.special } else { self.special * f64::INFINITY };
        let mut product = Self { parts: Vec::new(), special: special * factor };
        self.parts.iter().for_each(|&part| product.add_product(part, factor));
        product
    }

    /// Returns numbers that add up to the sum of all finite terms, unless sums of some of them
    /// were beyond the range.
    pub(super) fn parts(&self) -> &[f64] {
        &self.parts
    }

    /// Adds all terms of another sum.
    pub fn merge(&mut self, other: &Self) {
        self.special += other.special;
        for &part in &other.parts {
            self.add(part);
        }
    }

    /// Returns the sum, rounded to nearest, ties to even.
    pub fn total(&self) -> f64 {
        if !self.special.is_finite() {
            return self.special;
        }
        if self.special != 0.0 {
            return self.total_beyond();
        }
        let Some((&last, rest)) = self.parts.split_last() else { return 0.0 };
        rounded(last, rest.iter().rev().copied())
    }

    /// The total of the parts and a multiple of 2^1024. It is within the range of `f64` only if the
    /// multiple is a single one and the parts have the other sign. Then half of the total is
    /// computed first.
    #[cold]
    fn total_beyond(&self) -> f64 {
        let sign = 1.0_f64.copysign(self.special);
        let last = self.parts.last().copied().unwrap_or_default();
        if self.special.abs() > 1.0 || last * sign >= 0.0 {
            return f64::INFINITY * sign;
        }
        // Only the signs of parts below one affect the result. They are not halved, since the
        // smallest would become zero.
        let halved = |&part: &f64| if part.abs() < 1.0 { part } else { part / 2.0 };
        rounded(HALF_RANGE.copysign(sign), self.parts.iter().rev().map(halved)) * 2.0
    }
}

/// Returns the rounded sum of parts that do not overlap, by decreasing magnitude.
fn rounded(first: f64, mut rest: impl Iterator<Item = f64>) -> f64 {
    let mut high = first;
    let mut low = 0.0;
    for part in rest.by_ref() {
        (high, low) = two_sum(high, part);
        if low != 0.0 {
            break;
        }
    }
    // If the sum is exactly half-way, the remaining parts decide the direction.
    if let Some(below) = rest.next()
        && (low > 0.0) == (below > 0.0)
        && low != 0.0
    {
        let doubled = low * 2.0;
        let (rounded, rest) = two_sum(high, doubled);
        if rest == 0.0 && rounded - high == doubled {
            high = rounded;
        }
    }
    high
}

/// Returns the rounded sum of two numbers and its exact rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    (sum, error)
}

/// Returns the rounded product of two numbers and its exact rounding error.
pub(super) fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::codec::{decode, encode};
    use proptest::prelude::*;

    fn sum(terms: &[f64]) -> f64 {
        let mut sum = ExactSum::default();
        terms.iter().for_each(|&term| sum.add(term));
        sum.total()
    }

    #[test]
    fn cancellation_loses_nothing() {
        assert_eq!(sum(&[1e100, 1.0, -1e100]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e16, 1.0, 1e-16]), 10000000000000002.0);
        assert_eq!(sum(&[]), 0.0);
    }

    #[test]
    fn infinite_and_nan_terms_give_an_infinite_or_nan_total() {
        assert_eq!(sum(&[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    #[test]
    fn sums_of_some_terms_may_be_beyond_the_range() {
        const MAX: f64 = f64::MAX;
        for terms in [[1e308, 1e308, -1e308], [1e308, -1e308, 1e308], [-1e308, 1e308, 1e308]] {
            assert_eq!(sum(&terms), 1e308);
        }
        assert_eq!(sum(&[1e308, 1e308]), f64::INFINITY);
        assert_eq!(sum(&[-MAX, -MAX, -MAX, MAX]), f64::NEG_INFINITY);
        assert_eq!(sum(&[MAX, MAX, MAX, 1.0, -MAX, -MAX, -MAX]), 1.0);
        // The least number that is rounded to infinity, and the numbers next to it.
        let half_unit = (MAX - MAX.next_down()) / 2.0;
        for tiny in [5e-324, -5e-324] {
            let expected = if tiny > 0.0 { f64::INFINITY } else { MAX };
            assert_eq!(sum(&[tiny, MAX, half_unit]), expected);
            assert_eq!(sum(&[MAX, half_unit, tiny]), expected);
            assert_eq!(sum(&[MAX, half_unit, MAX, tiny, -MAX]), expected);
        }
        assert_eq!(sum(&[MAX, half_unit]), f64::INFINITY);

        let mut both = ExactSum::default();
        for (one, other) in [(MAX, 2.0), (MAX, 3.0), (-MAX, 4.0)] {
            let mut part = ExactSum::default();
            part.add(one);
            part.add(other);
            both.merge(&decode("a sum", &encode(&part)).unwrap());
        }
        both.add(-MAX);
        assert_eq!((both.total(), both.special), (9.0, 0.0));
    }

    #[test]
    fn a_sum_of_terms_by_increasing_magnitude_has_few_parts_and_can_be_sent() {
        let terms: Vec<f64> = (-700..700).map(|power| f64::from(power).exp()).collect();
        let mut all = ExactSum::default();
        for &term in &terms {
            all.add(term);
            assert!(all.parts.len() <= PARTS_MAX, "{} parts up to {term:e}", all.parts.len());
        }
        let sent: ExactSum = decode("a sum", &encode(&all)).unwrap();

        let mut reversed = ExactSum::default();
        terms.iter().rev().for_each(|&term| reversed.add(term));
        assert_eq!(sent.total().to_bits(), reversed.total().to_bits());
        reversed.merge(&ExactSum {
            parts: sent.parts.iter().map(|part| -part).collect(),
            special: 0.0,
        });
        assert!(reversed.parts.is_empty(), "the two sums are equal before they are rounded");
    }

    proptest! {
        #[test]
        fn any_order_and_grouping_gives_the_same_bits(
            terms in prop::collection::vec(-1e12f64..1e12, 0..60),
            cut in 0usize..60,
        ) {
            let mut reversed = terms.clone();
            reversed.reverse();
            let cut = cut.min(terms.len());
            let (mut left, mut right) = (ExactSum::default(), ExactSum::default());
            terms[..cut].iter().for_each(|&term| left.add(term));
            terms[cut..].iter().for_each(|&term| right.add(term));
            right.merge(&left);
            prop_assert_eq!(sum(&terms).to_bits(), sum(&reversed).to_bits());
            prop_assert_eq!(sum(&terms).to_bits(), right.total().to_bits());
        }

        #[test]
        fn large_terms_have_the_sum_of_small_ones_at_another_scale(
            shares in prop::collection::vec(-1.0f64..1.0, 0..60),
        ) {
            let terms: Vec<f64> = shares.iter().map(|share| share * f64::MAX).collect();
            let small: Vec<f64> = terms.iter().map(|term| term / 64.0).collect();
            prop_assert_eq!(sum(&terms).to_bits(), (sum(&small) * 64.0).to_bits());
        }

        #[test]
        fn integers_sum_exactly(terms in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 0..100)) {
            let floats: Vec<f64> = terms.iter().map(|&term| term as f64 * 0.5).collect();
            prop_assert_eq!(sum(&floats), terms.iter().sum::<i64>() as f64 * 0.5);
        }
    }
}
