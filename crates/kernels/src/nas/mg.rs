//! MG: the steps of V-cycles on a periodic cube (RNR-94-007, section 2.2.2).
//!
//! Each step takes the planes of a rank, with copies of all other planes that it reads.

use super::planes::{Around, Planes};
use crate::random::NasRandom;

const SEED: u64 = 314_159_265;

/// Weights of the operator, for each shell around a point.
const OPERATOR: [f64; 4] = [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0];
/// Weights of the smoother of the smaller problems, for each shell around a point.
pub const SMALL_SMOOTHER: [f64; 4] = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0];
/// Weights of the smoother of the larger problems, for each shell around a point.
pub const LARGE_SMOOTHER: [f64; 4] = [-3.0 / 17.0, 1.0 / 33.0, -1.0 / 61.0, 0.0];
/// Weights of the shells around a fine point; the weighted sum is the value of the coarser point.
const PROJECTION: [f64; 4] = [0.5, 0.25, 0.125, 0.0625];

fn weighted(weights: &[f64; 4], shells: [f64; 4]) -> f64 {
    weights.iter().zip(shells).map(|(weight, shell)| weight * shell).sum()
}

/// Returns the random values of `points` points, each with its number. The first has the number
/// `first`.
pub fn random_field(first: usize, points: usize) -> Vec<[f64; 2]> {
    let mut random = NasRandom::new(SEED);
    random.skip(first as u64);
    (0..points).map(|at| [random.next_unit(), (first + at) as f64]).collect()
}

/// Sorts points by their values, the largest first.
pub fn sort_largest_first(field: &mut [[f64; 2]]) {
    field.sort_unstable_by(|a, b| b[0].total_cmp(&a[0]));
}

/// Changes the signs of all values.
pub fn negate(field: &mut [[f64; 2]]) {
    field.iter_mut().for_each(|point| point[0] = -point[0]);
}

/// `residual -= A solution`. The solution has copies of the planes next to its own.
pub fn subtract_operator(residual: &mut Planes, solution: &Planes) {
    let (extent, mut sums) = (solution.extent, Around::new(solution.extent));
    let rows = residual.values.chunks_exact_mut(extent).enumerate();
    for (at, row) in rows {
        let plane = i64::from(solution.own.start) + (at / extent) as i64;
        solution.around(plane, at % extent, &mut sums);
        for (x, value) in row.iter_mut().enumerate() {
            *value -= weighted(&OPERATOR, sums.shells(x));
        }
    }
}

/// `solution += S residual`. The residual has copies of the planes next to its own.
pub fn smooth(solution: &mut Planes, residual: &Planes, smoother: &[f64; 4]) {
    let (extent, mut sums) = (residual.extent, Around::new(residual.extent));
    for (at, row) in solution.values.chunks_exact_mut(extent).enumerate() {
        let plane = i64::from(residual.own.start) + (at / extent) as i64;
        residual.around(plane, at % extent, &mut sums);
        for (x, value) in row.iter_mut().enumerate() {
            *value += weighted(smoother, sums.shells(x));
        }
    }
}

/// Projects a level to the next coarser one: coarse point `j` lies at fine point `2 j + 1`. For
/// coarse planes `p`, the finer level needs the planes `2 p` to `2 p + 2`.
pub fn project(coarse: &mut Planes, fine: &Planes) {
    let (extent, mut sums) = (coarse.extent, Around::new(fine.extent));
    for (at, row) in coarse.values.chunks_exact_mut(extent).enumerate() {
        let plane = i64::from(coarse.own.start) + (at / extent) as i64;
        fine.around(2 * plane + 1, 2 * (at % extent) + 1, &mut sums);
        for (x, value) in row.iter_mut().enumerate() {
            *value = weighted(&PROJECTION, sums.shells(2 * x + 1));
        }
    }
}

/// Adds the values of a level to the next finer one. Between coarse points, it adds the mean of the
/// nearest ones. For fine planes `p`, the coarser level needs the planes around them.
pub fn interpolate(fine: &mut Planes, coarse: &Planes) {
    let (extent, narrow) = (fine.extent, coarse.extent);
    let mut sums = vec![0.0; narrow];
    for (at, row) in fine.values.chunks_exact_mut(extent).enumerate() {
        let plane = i64::from(fine.own.start) + (at / extent) as i64;
        let (planes, rows) = (between(plane), between((at % extent) as i64));
        sums.fill(0.0);
        for plane in planes {
            let plane = coarse.plane(plane);
            for row in rows {
                let row = row.rem_euclid(narrow as i64) as usize * narrow;
                let row = &plane[row..row + narrow];
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
        }
        // Each sum has four terms, some of which may be the same point.
        for (x, value) in row.iter_mut().enumerate() {
            let [one, other] = between(x as i64).map(|x| x.rem_euclid(narrow as i64) as usize);
            *value += 0.125 * (sums[one] + sums[other]);
        }
    }
}

/// The two coarser points around a point, which are equal for a point that lies on one.
fn between(point: i64) -> [i64; 2] {
    [(point - 1).div_euclid(2), point.div_euclid(2)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_points_lie_on_coarser_ones_and_even_ones_between() {
        assert_eq!([0, 1, 2, 3].map(between), [[-1, 0], [0, 0], [0, 1], [1, 1]]);
    }
}
