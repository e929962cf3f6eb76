//! The functions that `gridctl rpc serve` serves: small ones to try out, and some with more
//! computation.

use gridspan_rpc::calls::{Catalogue, Function, Functions};
use std::time::Duration;

/// The functions of `gridctl rpc serve`.
pub(super) struct Toolbox;

const ADD: Function<(f64, f64), f64> = Function::new("add", |(one, other), _| Ok(one + other));
const DOT: Function<(Vec<f64>, Vec<f64>), f64> = Function::new("dot", |(one, other), _| {
    same(one.len(), other.len(), "elements of the two vectors")?;
    Ok(one.iter().zip(&other).map(|(one, other)| one * other).sum())
});
const MULTIPLY: Function<(Matrix, Matrix), Matrix> =
    Function::new("multiply", |pair, _| multiply(&pair.0, &pair.1));
const SOLVE: Function<(Matrix, Vec<f64>), Vec<f64>> =
    Function::new("solve", |(matrix, right), _| solve(matrix, right));
const PRIMES: Function<u64, u64> = Function::new("primes", |below, _| primes(below));
const SLEEP: Function<f64, f64> = Function::new("sleep", |seconds, _| {
    std::thread::sleep(pause(seconds)?);
    Ok(seconds)
});

impl Catalogue for Toolbox {
    fn functions() -> Functions {
        let functions = Functions::new().with(&ADD).with(&DOT).with(&MULTIPLY);
        functions.with(&SOLVE).with(&PRIMES).with(&SLEEP)
    }
}

/// A matrix, as its rows.
type Matrix = Vec<Vec<f64>>;

/// Largest number below which primes are counted: the sieve takes half as many bytes.
const PRIMES_BELOW_MAX: u64 = 1 << 28;

/// Largest number of elements of a product, which take 128 MB. As JSON, they must fit into an
/// answer.
const ELEMENTS_MAX: usize = 1 << 24;

/// Largest number of unknowns of a linear system. Its matrix has as many elements as the largest
/// product, and elimination takes 5 * 10^10 operations.
const UNKNOWNS_MAX: usize = 1 << 12;

/// Longest sleep, because it occupies a PE.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

fn pause(seconds: f64) -> Result<Duration, String> {
    let pause = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    match pause <= SLEEP_MAX {
        true => Ok(pause),
        false => Err(format!("sleep for {} s at most", SLEEP_MAX.as_secs())),
    }
}

fn same(one: usize, other: usize, what: &str) -> Result<(), String> {
    match one == other {
        true => Ok(()),
        false => Err(format!("{one} and {other} {what} do not go together")),
    }
}

fn multiply(left: &Matrix, right: &Matrix) -> Result<Matrix, String> {
    let width = right.first().map_or(0, Vec::len);
    for row in right {
        same(row.len(), width, "elements of two rows")?;
    }
    if left.len().saturating_mul(width) > ELEMENTS_MAX {
        return Err(format!("a product has {ELEMENTS_MAX} elements at most"));
    }
    let mut product = Vec::with_capacity(left.len());
    for row in left {
        same(row.len(), right.len(), "columns and rows")?;
        let mut sums = vec![0.0; width];
        for (factor, others) in row.iter().zip(right) {
            sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += factor * other);
        }
        product.push(sums);
    }
    Ok(product)
}

/// Solves a linear system by elimination with partial pivoting (Golub and Van Loan, "Matrix
/// Computations", algorithm 3.4.1).
fn solve(mut matrix: Matrix, mut right: Vec<f64>) -> Result<Vec<f64>, String> {
    let size = matrix.len();
    if size > UNKNOWNS_MAX {
        return Err(format!("a system has {UNKNOWNS_MAX} unknowns at most"));
    }
    same(size, right.len(), "rows and right-hand sides")?;
    for row in &matrix {
        same(row.len(), size, "columns and rows")?;
    }
    for column in 0..size {
        let by_size = |one: &usize, other: &usize| {
            matrix[*one][column].abs().total_cmp(&matrix[*other][column].abs())
        };
        let pivot = (column..size).max_by(by_size).unwrap_or(column);
        if matrix[pivot][column] == 0.0 {
            return Err(format!("the matrix is singular: column {column} depends on others"));
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (above, below) = matrix.split_at_mut(column + 1);
        let pivot_row = &above[column];
        for (row, offset) in below.iter_mut().zip(column + 1..) {
            let factor = row[column] / pivot_row[column];
            let rest = row.iter_mut().zip(pivot_row).skip(column);
            rest.for_each(|(element, pivot)| *element -= factor * pivot);
            right[offset] -= factor * right[column];
        }
    }
    for column in (0..size).rev() {
        let known: f64 = (column + 1..size).map(|other| matrix[column][other] * right[other]).sum();
        right[column] = (right[column] - known) / matrix[column][column];
    }
    Ok(right)
}

/// Counts the primes below a number with the sieve of Eratosthenes over odd numbers.
fn primes(below: u64) -> Result<u64, String> {
    if below > PRIMES_BELOW_MAX {
        return Err(format!("count primes below {PRIMES_BELOW_MAX} at most"));
    }
    if below <= 2 {
        return Ok(0);
    }
    // Index i represents the odd number 2 i + 1.
    let mut is_composite = vec![false; (below / 2) as usize];
    let mut factor = 3;
    while factor * factor < below {
        if !is_composite[(factor / 2) as usize] {
            let multiples = (factor * factor / 2..below / 2).step_by(factor as usize);
            multiples.for_each(|multiple| is_composite[multiple as usize] = true);
        }
        factor += 2;
    }
    Ok(1 + is_composite.iter().skip(1).filter(|is_composite| !**is_composite).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_primes_equal_published_ones() {
        // OEIS A006880.
        let counts = [10, 100, 1_000, 1_000_000].map(|below| primes(below).unwrap());
        assert_eq!(counts, [4, 25, 168, 78_498]);
        assert_eq!([0, 2, 3, 4, 5, 6].map(|below| primes(below).unwrap()), [0, 0, 1, 2, 2, 3]);
    }

    #[test]
    fn a_linear_system_with_a_zero_pivot_is_solved() {
        let matrix = vec![vec![0.0, 2.0], vec![4.0, 0.0]];
        assert_eq!(solve(matrix, vec![6.0, 8.0]), Ok(vec![2.0, 3.0]));
        assert!(solve(vec![vec![1.0, 1.0]; 2], vec![1.0, 1.0]).unwrap_err().contains("singular"));
        assert!(solve(vec![vec![1.0]], vec![1.0, 1.0]).unwrap_err().contains("do not go together"));
    }

    #[test]
    fn what_would_occupy_a_pe_for_long_is_refused() {
        let size = UNKNOWNS_MAX + 1;
        let refused = solve(vec![Vec::new(); size], vec![0.0; size]);
        assert!(refused.unwrap_err().contains("4096 unknowns at most"));
        assert_eq!(pause(0.25), Ok(Duration::from_millis(250)));
        for seconds in [3600.1, 1e300, -1.0, f64::NAN] {
            assert!(pause(seconds).is_err(), "{seconds}");
        }
    }

    #[test]
    fn a_product_has_the_rows_of_the_left_and_the_columns_of_the_right_matrix() {
        let product = multiply(&vec![vec![1.0, 2.0]], &vec![vec![3.0], vec![4.0]]);
        assert_eq!(product, Ok(vec![vec![11.0]]));
    }
}
