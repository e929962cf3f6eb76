//! Small vectors of numbers, written so that the compiler generates vector instructions.
//!
//! They are plain arrays with loops of constant length: no `unsafe`, no processor features beyond
//! the baseline, and the same bits on every processor, because no operation is contracted or
//! reordered.

use std::ops::{Add, Div, Mul, Sub};

/// Numbers per vector: as many as in two vector registers of the baseline. With one register per
/// vector, the latency of the division shows; with four, the registers are exhausted.
pub(crate) const LANES: usize = 4;

/// [`LANES`] numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(32))]
pub(crate) struct Lanes(pub(crate) [f64; LANES]);

impl Lanes {
    pub(crate) const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    pub(crate) fn splat(value: f64) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub(crate) fn sqrt(self) -> Self {
        Self(self.0.map(f64::sqrt))
    }

    /// Returns 1 in the lanes that are below those of `other`, and 0 in the rest; numbers rather
    /// than flags, because with flags the compiler may generate branches.
    #[inline(always)]
    pub(crate) fn below(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { 1.0 } else { 0.0 })
    }

    /// Whether any lane is below that of `other`.
    #[inline(always)]
    pub(crate) fn any_below(self, other: Self) -> bool {
        let mut any = false;
        for lane in 0..LANES {
            any |= self.0[lane] < other.0[lane];
        }
        any
    }

    /// Returns the smaller value in each lane, or the value of `other` if one is NaN, like the
    /// instruction of the processor.
    #[inline(always)]
    pub(crate) fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    /// Returns the values in the lanes up to and including `lane`, and zero in those after it.
    #[inline(always)]
    pub(crate) fn up_to(self, lane: usize) -> Self {
        Self(std::array::from_fn(|own| if own <= lane { self.0[own] } else { 0.0 }))
    }

    /// Returns the sum over the lanes. Adds the upper half to the lower half until one lane
    /// remains.
    #[inline(always)]
    pub(crate) fn sum(self) -> f64 {
        let mut values = self.0;
        let mut width = LANES / 2;
        while width > 0 {
            for lane in 0..width {
                values[lane] += values[lane + width];
            }
            width /= 2;
        }
        values[0]
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        Self(std::array::from_fn(|lane| f(self.0[lane], other.0[lane])))
    }
}

macro_rules! lanewise {
    ($operation:ident, $method:ident, $symbol:tt) => {
        impl $operation for Lanes {
            type Output = Self;

            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                self.zip(other, |a, b| a $symbol b)
            }
        }
    };
}

lanewise!(Add, add, +);
lanewise!(Sub, sub, -);
lanewise!(Mul, mul, *);
lanewise!(Div, div, /);

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Lanes = Lanes([1.0, 2.0, 3.0, 4.0]);

    #[test]
    fn operations_work_lane_by_lane() {
        assert_eq!(SOME * SOME - SOME, Lanes([0.0, 2.0, 6.0, 12.0]));
        assert_eq!((SOME * SOME).sqrt() / SOME + Lanes::ZERO, Lanes::splat(1.0));
    }

    #[test]
    fn comparisons_give_weights_and_nan_is_below_nothing() {
        assert_eq!(
            Lanes([1.0, 3.0, f64::NAN, 2.0]).below(Lanes::splat(2.5)),
            Lanes([1.0, 0.0, 0.0, 1.0])
        );
        assert!(!Lanes::splat(f64::NAN).any_below(SOME) && SOME.any_below(Lanes::splat(1.5)));
        assert_eq!(Lanes::splat(f64::NAN).min(SOME), SOME);
    }

    #[test]
    fn sum_adds_all_lanes() {
        assert_eq!(SOME.sum(), 10.0);
        assert_eq!(SOME.up_to(1), Lanes([1.0, 2.0, 0.0, 0.0]));
    }
}
