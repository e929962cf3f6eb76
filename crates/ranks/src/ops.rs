//! Operators of reductions.
//!
//! An operator is any function that combines two slices of equal length into the first, element by
//! element: `left = left ∘ right`. A reduction may combine parts of a long vector separately. The
//! operator must be associative; it need not be commutative, since reductions combine ranks in
//! their order. Numbers that belong together, such as those of a matrix, are one element.
//!
//! ```
//! use gridspan::ranks::{self, ops};
//!
//! /// Multiplies matrices of two rows, which does not commute.
//! fn product(left: &mut [[i64; 4]], right: &[[i64; 4]]) {
//!     for (left, [e, f, g, h]) in left.iter_mut().zip(right) {
//!         let [a, b, c, d] = *left;
//!         *left = [a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h];
//!     }
//! }
//!
//! let job = ranks::run(5, async |world| {
//!     let step = [1, world.rank() as i64, 0, 1];
//!     // Shears add up: 0 + 1 + 2 + 3 + 4.
//!     assert_eq!(world.allreduce(&[step], product).await?, [[1, 10, 0, 1]]);
//!     assert_eq!(world.allreduce(&[world.rank()], ops::max).await?, [4]);
//!     Ok(())
//! });
//! # gridspan::embed::Runner::on_threads(2).run(job).unwrap();
//! ```

use std::ops::{AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, MulAssign};

/// An operator over slices of `T`. Every function with these arguments is one.
///
/// ```
/// use gridspan::ranks::{Operator, ops};
///
/// fn reduced(op: impl Operator<f64>) -> f64 {
///     let mut left = [1.5];
///     ops::reduce_local(&mut left, &[2.0], op);
///     left[0]
/// }
/// assert_eq!((reduced(ops::sum), reduced(ops::min)), (3.5, 1.5));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operator over slices of `{T}`",
    label = "expected a function of `&mut [{T}]` and `&[{T}]`",
    note = "write one of `ranks::ops`, such as `ops::sum`, or a function that puts the combination of two slices into the first"
)]
pub trait Operator<T>: Fn(&mut [T], &[T]) + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<T, F: Fn(&mut [T], &[T]) + Send + Sync> Operator<T> for F {}

fn each<T: Copy>(left: &mut [T], right: &[T], combine: impl Fn(&mut T, T)) {
    left.iter_mut().zip(right).for_each(|(left, right)| combine(left, *right));
}

/// Adds. Integers that overflow wrap in release builds and panic otherwise, as in Rust.
pub fn sum<T: Copy + AddAssign>(left: &mut [T], right: &[T]) {
    each(left, right, |left, right| *left += right);
}

/// Multiplies.
pub fn product<T: Copy + MulAssign>(left: &mut [T], right: &[T]) {
    each(left, right, |left, right| *left *= right);
}

/// Takes the larger one, or the left one if they do not compare, as with a NaN.
pub fn max<T: Copy + PartialOrd>(left: &mut [T], right: &[T]) {
    each(left, right, |left, right| {
        if right > *left {
            *left = right;
        }
    });
}

/// Takes the smaller one, or the left one if they do not compare, as with a NaN.
pub fn min<T: Copy + PartialOrd>(left: &mut [T], right: &[T]) {
    each(left, right, |left, right| {
        if right < *left {
            *left = right;
        }
    });
}

/// Each element is a pair of a value and a place. Takes the pair with the larger value or, if the
/// values are equal, the one with the smaller place.
pub fn max_loc<T: Copy + PartialOrd>(left: &mut [[T; 2]], right: &[[T; 2]]) {
    each(left, right, |left, right| {
        if right[0] > left[0] || (right[0] == left[0] && right[1] < left[1]) {
            *left = right;
        }
    });
}

/// Each element is a pair of a value and a place. Takes the pair with the smaller value or, if the
/// values are equal, the one with the smaller place.
pub fn min_loc<T: Copy + PartialOrd>(left: &mut [[T; 2]], right: &[[T; 2]]) {
    each(left, right, |left, right| {
        if right[0] < left[0] || (right[0] == left[0] && right[1] < left[1]) {
            *left = right;
        }
    });
}

/// Keeps the bits that are set in both.
pub fn bit_and<T: Copy + BitAndAssign>(left: &mut [T], right: &[T]) {
    each(left, right, |left, right| *left &= right);
}

/// Keeps the bits that are set in either.
pub fn bit_or<T: Copy + BitOrAssign>(left: &mut [T], right: &[T]) {
    each(left, right, |left, right| *left |= right);
}

/// Keeps the bits that are set in exactly one.
pub fn bit_xor<T: Copy + BitXorAssign>(left: &mut [T], right: &[T]) {
    each(left, right, |left, right| *left ^= right);
}

/// One if both are not zero, and zero otherwise.
pub fn logical_and<T: Copy + PartialEq + From<bool>>(left: &mut [T], right: &[T]) {
    let zero = T::from(false);
    each(left, right, |left, right| *left = T::from(*left != zero && right != zero));
}

/// One if either is not zero, and zero otherwise.
pub fn logical_or<T: Copy + PartialEq + From<bool>>(left: &mut [T], right: &[T]) {
    let zero = T::from(false);
    each(left, right, |left, right| *left = T::from(*left != zero || right != zero));
}

/// One if exactly one is not zero, and zero otherwise.
pub fn logical_xor<T: Copy + PartialEq + From<bool>>(left: &mut [T], right: &[T]) {
    let zero = T::from(false);
    each(left, right, |left, right| *left = T::from((*left != zero) != (right != zero)));
}

/// Combines two slices of one rank: `left = left ∘ right`.
pub fn reduce_local<T>(left: &mut [T], right: &[T], op: impl Operator<T>) {
    op(left, right);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced<T: Copy>(left: T, right: T, op: impl Operator<T>) -> T {
        let mut left = [left];
        reduce_local(&mut left, &[right], op);
        left[0]
    }

    #[test]
    fn operators_combine_element_by_element() {
        assert_eq!((reduced(3, 4, sum), reduced(3, 4, product)), (7, 12));
        assert_eq!((reduced(3, 4, max), reduced(3, 4, min)), (4, 3));
        assert_eq!(
            (reduced(6, 3, bit_and), reduced(6, 3, bit_or), reduced(6, 3, bit_xor)),
            (2, 7, 5)
        );
        assert_eq!((reduced(6, 0, logical_and), reduced(6, 0, logical_or)), (0, 1));
        assert_eq!((reduced(6, 2, logical_xor), reduced(0, 2, logical_xor)), (0, 1));
        assert!(reduced(f64::NAN, 1.0, max).is_nan());
    }

    #[test]
    fn equal_values_are_located_at_the_first_place() {
        assert_eq!(reduced([5, 9], [5, 2], max_loc), [5, 2]);
        assert_eq!(reduced([5, 1], [6, 2], max_loc), [6, 2]);
        assert_eq!(reduced([5, 1], [6, 2], min_loc), [5, 1]);
    }
}
