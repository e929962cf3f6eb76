//! An initial state that a Jacobi sweep only scales, which gives the exact solution after any
//! number of sweeps.
//!
//! On a square of `n` by `n` inner points with a boundary of zeros,
//! `sin(pi i / (n + 1)) sin(pi j / (n + 1))` is an eigenvector of the sweep with the eigenvalue
//! `cos(pi / (n + 1))`, for `i` and `j` from 1 to `n`. Source: any text on iterative methods, such
//! as Briggs, Henson and McCormick, "A Multigrid Tutorial", chapter 2.

use std::f64::consts::PI;

use super::block::Block;

/// Tolerance for the error due to rounding after a few hundred sweeps.
pub const TOLERANCE: f64 = 1e-13;

/// Returns an upper bound of the error due to rounding after `sweeps` sweeps.
///
/// A sweep rounds three times, each time by at most 2^-53 of a value of at most 1. The mean of
/// errors is no larger than the largest of them, so earlier errors do not grow. The power in the
/// exact solution has an error that grows as much with every sweep.
pub fn error_max(sweeps: u64) -> f64 {
    5e-16 * (sweeps as f64 + 10.0)
}

/// Returns the value of the mode at a point (row, column), both from 0.
pub fn value(n: usize, row: usize, col: usize) -> f64 {
    let angle = PI / (n as f64 + 1.0);
    (angle * (row as f64 + 1.0)).sin() * (angle * (col as f64 + 1.0)).sin()
}

/// Returns the factor by which `sweeps` sweeps scale the mode: `cos(pi / (n + 1))^sweeps`.
pub fn factor(n: usize, sweeps: u64) -> f64 {
    (PI / (n as f64 + 1.0)).cos().powf(sweeps as f64)
}

/// Creates the part of the mode that starts at point (`first_row`, `first_col`) of the square.
///
/// # Errors
/// If the block is empty or too large.
pub fn block(
    n: usize,
    first_row: usize,
    first_col: usize,
    rows: usize,
    cols: usize,
) -> Result<Block, super::block::BlockError> {
    Block::new(rows, cols, |row, col| value(n, first_row + row, first_col + col))
}

/// Returns the largest difference between a block that starts at point (`first_row`, `first_col`)
/// and the exact solution after `sweeps` sweeps.
pub fn error(block: &Block, n: usize, first_row: usize, first_col: usize, sweeps: u64) -> f64 {
    let factor = factor(n, sweeps);
    let mut most = 0.0_f64;
    for row in 0..block.rows() {
        for (col, &found) in block.row(row).iter().enumerate() {
            let off = (found - factor * value(n, first_row + row, first_col + col)).abs();
            // A NaN counts as an infinite error.
            most = if off.is_nan() { f64::INFINITY } else { most.max(off) };
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_sweeps_of_64_scale_by_0_7916() {
        assert!((factor(64, 200) - 0.791_606_298_028_829_8).abs() < 1e-15);
        assert_eq!(factor(64, 0), 1.0);
    }

    #[test]
    fn two_hundred_sweeps_have_only_rounding_errors() {
        let mut square = block(64, 0, 0, 64, 64).unwrap();
        (0..200).for_each(|_| {
            square.sweep();
        });
        let error = error(&square, 64, 0, 0, 200);
        assert!(error < 1.5e-14, "{error}");
    }

    #[test]
    fn the_exact_solution_fits_only_its_own_number_of_sweeps() {
        let mut square = block(10, 0, 0, 10, 10).unwrap();
        for sweep in 1..=50 {
            square.sweep();
            assert!(error(&square, 10, 0, 0, sweep) < TOLERANCE);
            assert!(error(&square, 10, 0, 0, sweep + 1) > 1e-4);
        }
    }

    #[test]
    fn the_error_bound_holds_and_detects_a_missing_sweep() {
        for (n, sweeps) in [(64, 0), (64, 200), (20, 1000)] {
            let mut square = block(n, 0, 0, n, n).unwrap();
            (0..sweeps).for_each(|_| {
                square.sweep();
            });
            assert!(error(&square, n, 0, 0, sweeps) <= error_max(sweeps), "{n} {sweeps}");
            assert!(
                error(&square, n, 0, 0, sweeps + 1) > 100.0 * error_max(sweeps),
                "{n} {sweeps}"
            );
        }
    }

    #[test]
    fn a_nan_counts_as_an_infinite_error() {
        let broken = Block::new(2, 2, |_, col| if col == 0 { f64::NAN } else { 0.0 }).unwrap();
        assert_eq!(error(&broken, 2, 0, 0, 1), f64::INFINITY);
    }
}
