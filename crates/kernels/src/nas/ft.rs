//! FT: Fourier transforms of a field that is divided among ranks (RNR-94-007, section 2.2.4).
//!
//! In space a rank has planes of equal `z`. In Fourier space it has planes of equal `x`, so that
//! the transforms along `z` are local, too. Between the two, each rank makes a block of numbers for
//! each rank, as pairs of real and imaginary parts.

use super::share::Shares;
use crate::random::NasRandom;
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftPlanner};
use std::f64::consts::PI;
use std::sync::Arc;

const SEED: u64 = 314_159_265;
const DIFFUSIVITY: f64 = 1e-6;
/// Number of terms of a checksum.
const TERMS: u32 = 1024;

/// A number of a field or a spectrum.
pub type ComplexNumber = Complex<f64>;

/// Numbers for one rank, as pairs of real and imaginary parts.
pub type NumberPairs = Vec<[f64; 2]>;

/// The transforms of a rank, and the planes of each rank.
pub struct RankTransforms {
    rank: u32,
    extents: [usize; 3],
    /// Planes of equal `z`, in space, and of equal `x`, in Fourier space.
    in_space: Shares,
    in_spectrum: Shares,
    /// By axis.
    forward: [Arc<dyn Fft<f64>>; 3],
    backward: [Arc<dyn Fft<f64>>; 3],
}

impl RankTransforms {
    /// The transforms of `rank`, one of `ranks`, for a field of these extents along `x`, `y` and
    /// `z`.
    pub fn new(extents: [u32; 3], ranks: u32, rank: u32) -> Self {
        let mut planner = FftPlanner::new();
        let sizes = extents.map(|extent| extent as usize);
        Self {
            rank,
            extents: sizes,
            in_space: Shares { count: extents[2], ranks },
            in_spectrum: Shares { count: extents[0], ranks },
            forward: sizes.map(|size| planner.plan_fft_forward(size)),
            backward: sizes.map(|size| planner.plan_fft_inverse(size)),
        }
    }

    /// Number of points of the whole field.
    pub fn points(&self) -> usize {
        self.extents.iter().product()
    }

    /// The random initial field, by `z`, `y` and `x`.
    pub fn initial(&self) -> Vec<ComplexNumber> {
        let plane = self.extents[0] * self.extents[1];
        let planes = self.in_space.of(self.rank);
        let mut random = NasRandom::new(SEED);
        random.skip(2 * plane as u64 * u64::from(planes.start));
        let count = plane * planes.len();
        (0..count)
            .map(|_| {
                let real = random.next_unit();
                ComplexNumber::new(real, random.next_unit())
            })
            .collect()
    }

    /// The first half of a transform to Fourier space: transforms a field along `x` and `y`.
    /// Returns one block for each rank: of each plane of this rank, the columns whose `x` that rank
    /// has.
    pub fn blocks_of_field(&self, mut field: Vec<ComplexNumber>) -> Vec<NumberPairs> {
        let [nx, ny, _] = self.extents;
        self.forward[0].process(&mut field);
        let mut turned = turn(&field, ny, nx);
        self.forward[1].process(&mut turned);
        let blocks = (0..self.in_space.ranks).map(|rank| {
            let columns = self.in_spectrum.of(rank);
            let columns = columns.start as usize * ny..columns.end as usize * ny;
            let planes = turned.chunks_exact(nx * ny);
            pairs(planes.flat_map(|plane| &plane[columns.clone()]))
        });
        blocks.collect()
    }

    /// The second half: transforms the [blocks](Self::blocks_of_field) that all ranks have made for
    /// this one, along `z`. Returns the spectrum by `x`, `y` and `z`.
    pub fn spectrum_of(&self, received: &[NumberPairs]) -> Vec<ComplexNumber> {
        let [_, ny, nz] = self.extents;
        let columns = self.in_spectrum.of(self.rank).len() * ny;
        let mut spectrum = vec![ComplexNumber::default(); columns * nz];
        for (rank, block) in received.iter().enumerate() {
            let planes = self.in_space.of(rank as u32);
            for (z, plane) in planes.zip(block.chunks_exact(columns.max(1))) {
                for (at, [re, im]) in plane.iter().enumerate() {
                    spectrum[at * nz + z as usize] = ComplexNumber::new(*re, *im);
                }
            }
        }
        self.forward[2].process(&mut spectrum);
        spectrum
    }

    /// The first half of a transform back: transforms a spectrum along `z`. Returns one block for
    /// each rank: of each column of this rank, the numbers whose `z` that rank has.
    pub fn blocks_of_spectrum(&self, mut spectrum: Vec<ComplexNumber>) -> Vec<NumberPairs> {
        let [_, _, nz] = self.extents;
        self.backward[2].process(&mut spectrum);
        let blocks = (0..self.in_space.ranks).map(|rank| {
            let planes = self.in_space.of(rank);
            let columns = spectrum.chunks_exact(nz);
            let planes = planes.start as usize..planes.end as usize;
            pairs(columns.flat_map(|column| &column[planes.clone()]))
        });
        blocks.collect()
    }

    /// The second half: transforms the [blocks](Self::blocks_of_spectrum) that all ranks have made
    /// for this one, along `y` and `x`, without division by the number of points. Returns the field
    /// by `z`, `y` and `x`.
    pub fn field_of(&self, received: &[NumberPairs]) -> Vec<ComplexNumber> {
        let [nx, ny, _] = self.extents;
        let planes = self.in_space.of(self.rank).len();
        let mut turned = vec![ComplexNumber::default(); planes * nx * ny];
        for (rank, block) in received.iter().enumerate() {
            let first = self.in_spectrum.of(rank as u32).start as usize * ny;
            for (column, numbers) in block.chunks_exact(planes.max(1)).enumerate() {
                for (plane, [re, im]) in numbers.iter().enumerate() {
                    turned[plane * nx * ny + first + column] = ComplexNumber::new(*re, *im);
                }
            }
        }
        self.backward[1].process(&mut turned);
        let mut field = turn(&turned, nx, ny);
        self.backward[0].process(&mut field);
        field
    }

    /// The factors by which the spectrum changes in one step of time.
    pub fn factors(&self) -> Vec<f64> {
        let [nx, ny, nz] = self.extents;
        let square = |at: usize, extent: usize| {
            let wave = (at + extent / 2) as i64 % extent as i64 - extent as i64 / 2;
            (wave * wave) as f64
        };
        let mut factors = Vec::new();
        for x in self.in_spectrum.of(self.rank) {
            for y in 0..ny {
                let plane = square(x as usize, nx) + square(y, ny);
                factors.extend(
                    (0..nz).map(|z| (-4.0 * DIFFUSIVITY * PI * PI * (plane + square(z, nz))).exp()),
                );
            }
        }
        factors
    }

    /// The sum of those elements of a checksum that this rank has: real and imaginary part.
    pub fn checksum(&self, field: &[ComplexNumber]) -> [f64; 2] {
        let [nx, ny, nz] = self.extents;
        let planes = self.in_space.of(self.rank);
        let mut sum = ComplexNumber::default();
        for term in 1..=TERMS as usize {
            let (x, y, z) = (term % nx, 3 * term % ny, 5 * term % nz);
            if planes.contains(&(z as u32)) {
                sum += field[((z - planes.start as usize) * ny + y) * nx + x];
            }
        }
        [sum.re, sum.im]
    }
}

/// Transposes each plane of `rows` by `columns` numbers.
fn turn(planes: &[ComplexNumber], rows: usize, columns: usize) -> Vec<ComplexNumber> {
    let mut turned = Vec::with_capacity(planes.len());
    for plane in planes.chunks_exact(rows * columns) {
        for column in 0..columns {
            turned.extend((0..rows).map(|row| plane[row * columns + column]));
        }
    }
    turned
}

fn pairs<'a>(numbers: impl Iterator<Item = &'a ComplexNumber>) -> NumberPairs {
    numbers.map(|number| [number.re, number.im]).collect()
}

/// Returns numbers as pairs of real and imaginary parts.
pub fn to_pairs(numbers: &[ComplexNumber]) -> NumberPairs {
    pairs(numbers.iter())
}

/// Returns the numbers of pairs of real and imaginary parts.
pub fn from_pairs(pairs: &[[f64; 2]]) -> Vec<ComplexNumber> {
    pairs.iter().map(|[re, im]| ComplexNumber::new(*re, *im)).collect()
}

/// Multiplies a spectrum with [factors](RankTransforms::factors).
pub fn evolve(spectrum: &mut [[f64; 2]], factors: &[f64]) {
    for ([re, im], factor) in spectrum.iter_mut().zip(factors) {
        (*re, *im) = (*re * factor, *im * factor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks by receiver and then by sender.
    fn exchanged(blocks: &[Vec<NumberPairs>]) -> Vec<Vec<NumberPairs>> {
        let to = |rank: usize| blocks.iter().map(|of| of[rank].clone()).collect();
        (0..blocks.len()).map(to).collect()
    }

    #[test]
    fn a_transform_and_its_inverse_give_the_field_of_any_number_of_ranks() {
        let extents = [4, 6, 8];
        let whole = RankTransforms::new(extents, 1, 0).initial();
        for ranks in 1..=4 {
            let all: Vec<_> =
                (0..ranks).map(|rank| RankTransforms::new(extents, ranks, rank)).collect();
            let there: Vec<_> =
                all.iter().map(|rank| rank.blocks_of_field(rank.initial())).collect();
            let spectra = all.iter().zip(exchanged(&there)).map(|(rank, of)| rank.spectrum_of(&of));
            let back: Vec<_> =
                all.iter().zip(spectra).map(|(rank, of)| rank.blocks_of_spectrum(of)).collect();
            let fields = all.iter().zip(exchanged(&back)).map(|(rank, of)| rank.field_of(&of));
            let found: Vec<ComplexNumber> = fields.flatten().collect();

            assert_eq!(found.len(), whole.len());
            let near = |(found, whole): (&ComplexNumber, &ComplexNumber)| {
                (found / 192.0 - whole).norm_sqr() < 1e-28
            };
            assert!(found.iter().zip(&whole).all(near), "{ranks} ranks");
        }
    }
}
