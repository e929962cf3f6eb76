//! Gravity: the potential of a density in a periodic box, by Fourier transforms.
//!
//! `∇²φ = g (ρ - mean)` becomes `-k² φ_k = g ρ_k` for every wave, so the solution is exact for all
//! waves that the cells resolve (Hockney and Eastwood, "Computer Simulation Using Particles", 1988,
//! section 6). The transforms use only instructions that all processors have: the same densities
//! give the same bits on every server.

use super::cells::{Cells, SizeError};
use rustfft::num_complex::Complex64;
use rustfft::{Fft, FftDirection, FftPlannerScalar};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Edge of the squares of a transpose, in values; two squares fit into the first-level cache.
const TILE: usize = 16;

/// Computes the potential of the sum of two densities, in cells² per time²: its Laplacian is
/// `strength` times the contrast. The mean exerts no force and is left out.
///
/// # Errors
/// If a density does not have one value for each cell.
pub fn potential(
    cells: Cells,
    densities: [&[f64]; 2],
    strength: f64,
) -> Result<Vec<f64>, SizeError> {
    for density in densities {
        cells.check(density.len())?;
    }
    let sums = densities[0].iter().zip(densities[1]).map(|(one, other)| one + other);
    let mut waves: Vec<Complex64> = sums.map(|sum| Complex64::new(sum, 0.0)).collect();
    let mut spare = vec![Complex64::default(); waves.len()];
    transform(cells, &mut waves, &mut spare, FftDirection::Forward);
    let squares = cells.axes().map(squared_wave_numbers);
    let scale = -strength / cells.count() as f64;
    for (wave, [i, j, k]) in waves.iter_mut().zip(cells.iter()) {
        let square = squares[0][i] + squares[1][j] + squares[2][k];
        *wave *= if square > 0.0 { scale / square } else { 0.0 };
    }
    transform(cells, &mut waves, &mut spare, FftDirection::Inverse);
    Ok(waves.into_iter().map(|wave| wave.re).collect())
}

/// Returns the squares of the wave numbers along an axis, in radians² per cell², in the order of a
/// transform.
fn squared_wave_numbers(count: usize) -> Vec<f64> {
    let wave_number = |i: usize| i.min(count - i) as f64 * TAU / count as f64;
    (0..count).map(|i| wave_number(i).powi(2)).collect()
}

/// Transforms along each axis: three times, it transforms along the last axis, and then rotates the
/// axes so that the next one is last.
fn transform(
    cells: Cells,
    waves: &mut Vec<Complex64>,
    spare: &mut Vec<Complex64>,
    direction: FftDirection,
) {
    let mut planner = FftPlannerScalar::new();
    for count in cells.axes().into_iter().rev() {
        let along: Arc<dyn Fft<f64>> = planner.plan_fft(count, direction);
        along.process(waves);
        transpose(waves, spare, count);
        std::mem::swap(waves, spare);
    }
}

/// Transposes a matrix that has `columns` columns.
fn transpose(from: &[Complex64], to: &mut [Complex64], columns: usize) {
    let rows = from.len() / columns;
    for first_row in (0..rows).step_by(TILE) {
        for first_column in (0..columns).step_by(TILE) {
            for row in first_row..rows.min(first_row + TILE) {
                for column in first_column..columns.min(first_column + TILE) {
                    to[column * rows + row] = from[row * columns + column];
                }
            }
        }
    }
}

/// Computes the acceleration in each cell: minus the gradient of the potential, of fourth order in
/// the size of cells.
///
/// # Errors
/// If the potential does not have one value for each cell.
pub fn acceleration(cells: Cells, potential: &[f64]) -> Result<Vec<[f64; 3]>, SizeError> {
    cells.check(potential.len())?;
    let mut acceleration = vec![[0.0; 3]; potential.len()];
    let mut line = Vec::new();
    for (axis, stride) in cells.strides().into_iter().enumerate() {
        let count = cells.axes()[axis];
        for start in cells.lines(axis) {
            // Two more cells at each end, so that the outer cells are no special case.
            line.clear();
            let around = (0..count + 4).map(|i| (i + 2 * count - 2) % count);
            line.extend(around.map(|i| potential[start + i * stride]));
            for (i, near) in line.windows(5).enumerate() {
                let steep = 8.0 * (near[1] - near[3]) - (near[0] - near[4]);
                acceleration[start + i * stride][axis] = steep / 12.0;
            }
        }
    }
    Ok(acceleration)
}

/// Returns the energy of gravity in the box: half the sum of density times potential.
pub fn energy(densities: [&[f64]; 2], potential: &[f64]) -> f64 {
    let sums = densities[0].iter().zip(densities[1]).map(|(one, other)| one + other);
    0.5 * sums.zip(potential).map(|(density, potential)| density * potential).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane_wave(cells: Cells, waves: [usize; 3]) -> Vec<f64> {
        let axes = cells.axes();
        let phase = |cell: [usize; 3]| {
            (0..3).map(|d| TAU * (waves[d] * cell[d]) as f64 / axes[d] as f64).sum::<f64>()
        };
        cells.iter().map(|cell| phase(cell).cos()).collect()
    }

    #[test]
    fn plane_waves_of_any_direction_are_solved_to_rounding_error() {
        let cells = Cells::new([12, 16, 10]).unwrap();
        let nothing = vec![0.5; cells.count()];
        for waves in [[1, 0, 0], [0, 3, 0], [2, 1, 4], [5, 7, 3]] {
            let density = plane_wave(cells, waves);
            let numbers = [0, 1, 2].map(|d| TAU * waves[d] as f64 / cells.axes()[d] as f64);
            let square: f64 = numbers.iter().map(|number| number * number).sum();

            let found = potential(cells, [&density, &nothing], 3.0).unwrap();

            let expected = density.iter().map(|value| -3.0 * value / square);
            let error = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(error < 1e-13, "{waves:?}: {error}");
        }
    }

    #[test]
    fn the_error_of_the_acceleration_falls_with_the_fourth_power_of_the_cell_size() {
        let error = |count: usize| {
            let cells = Cells::new([count, 1, 1]).unwrap();
            let wave = TAU / count as f64;
            let potential: Vec<f64> = (0..count).map(|i| (wave * i as f64).sin()).collect();
            let found = acceleration(cells, &potential).unwrap();
            let error = |i: usize| (found[i][0] / wave + (wave * i as f64).cos()).abs();
            assert!(found.iter().all(|a| a[1] == 0.0 && a[2] == 0.0));
            (0..count).map(error).fold(0.0, f64::max)
        };
        let ratio = error(16) / error(32);
        assert!((15.0..17.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn fields_and_boxes_of_the_wrong_size_are_refused() {
        let cells = Cells::cube(4).unwrap();
        assert!(potential(cells, [&[0.0; 64], &[0.0; 63]], 1.0).is_err());
        assert!(acceleration(cells, &[0.0; 65]).is_err());
        assert!(Cells::cube(0).is_err() && Cells::cube(1 << 20).is_err());
    }
}
