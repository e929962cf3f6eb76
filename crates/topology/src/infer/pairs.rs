//! One number for each unordered pair of items; some may be missing.

use crate::matrix::RttMatrix;

/// Minimum round trip: a tenth of a microsecond, in milliseconds. Logarithms need a floor.
pub(in crate::infer) const LEAST_MS: f32 = 1e-4;

/// A symmetric matrix; NaN where a pair is missing, and on the diagonal.
#[derive(Clone, Debug)]
pub(in crate::infer) struct Pairs {
    items: usize,
    values: Vec<f32>,
}

impl Pairs {
    /// Creates a matrix with all pairs missing.
    pub(in crate::infer) fn new(items: usize) -> Self {
        Self { items, values: vec![f32::NAN; items * items] }
    }

    /// Takes the lesser of both directions, in milliseconds, because noise only adds.
    pub(in crate::infer) fn symmetrised(matrix: &RttMatrix) -> Self {
        let mut pairs = Self::new(matrix.nodes());
        for a in 0..matrix.nodes() {
            for b in 0..a {
                let both = [matrix.milliseconds(a, b), matrix.milliseconds(b, a)];
                if let Some(ms) = both.into_iter().flatten().reduce(f32::min) {
                    pairs.set(a, b, ms.max(LEAST_MS));
                }
            }
        }
        pairs
    }

    pub(in crate::infer) fn items(&self) -> usize {
        self.items
    }

    /// Returns the value of a pair, NaN if it is missing.
    #[inline]
    pub(in crate::infer) fn value(&self, a: usize, b: usize) -> f32 {
        self.values[a * self.items + b]
    }

    pub(in crate::infer) fn known(&self, a: usize, b: usize) -> Option<f32> {
        let value = self.value(a, b);
        (!value.is_nan()).then_some(value)
    }

    pub(in crate::infer) fn set(&mut self, a: usize, b: usize, value: f32) {
        self.values[a * self.items + b] = value;
        self.values[b * self.items + a] = value;
    }

    /// Returns all pairs of one item.
    #[inline]
    pub(in crate::infer) fn row(&self, item: usize) -> &[f32] {
        &self.values[item * self.items..(item + 1) * self.items]
    }
}

/// Returns the median of the values, or `None` if there are none; of an even number of values, the
/// lower of the two in the middle. Reorders `values`.
pub(in crate::infer) fn median(values: &mut [f32]) -> Option<f32> {
    quantile(values, 0.5)
}

/// Returns the quantile `part` of the values, or `None` if there are none. Reorders `values`.
pub(in crate::infer) fn quantile(values: &mut [f32], part: f64) -> Option<f32> {
    let last = values.len().checked_sub(1)?;
    let rank = (last as f64 * part) as usize;
    Some(*values.select_nth_unstable_by(rank, f32::total_cmp).1)
}
