//! The numbers of particles that start in each cell: the four clouds of the Parallel Research
//! Kernels.
//!
//! The expected number of a cell depends on its column; the actual number is drawn from a linear
//! congruential generator, two draws per cell, column by column and upwards in each column.
//! Skipping draws reaches any column directly, so every actor places its own particles without
//! communication, and all actors together place the same particles as one alone.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::field::Field;
use super::particle::{Particle, SPEED_MAX, Velocity};

/// Maximum number of particles: at 80 bytes each, they take 80 GB.
pub const PARTICLES_MAX: u64 = 1_000_000_000;

/// The shape of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum CloudShape {
    /// Each column has `rho` times the particles of the one to its left; `rho` is positive and not
    /// 1.
    Geometric {
        /// The factor.
        rho: f64,
    },
    /// The squared cosine of an angle that grows from 0 to pi over the columns.
    Sinusoidal,
    /// Falls linearly with the column, as `beta - alpha x` with x from 0 to 1; `beta` is positive
    /// and at least `alpha`.
    Linear {
        /// The slope.
        alpha: f64,
        /// The start.
        beta: f64,
    },
    /// Uniform inside a rectangle of cells, including its bounds, and empty outside.
    Patch {
        /// First column.
        left: u32,
        /// Last column.
        right: u32,
        /// First row.
        bottom: u32,
        /// Last row.
        top: u32,
    },
}

/// The parameters of a cloud of particles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cloud {
    /// Approximate number of particles; the draws determine the actual number.
    pub particles: u64,
    /// Distribution of the particles.
    pub shape: CloudShape,
    /// Velocity of the particles.
    pub speed: Velocity,
}

/// The cloud cannot be placed in the square.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CloudError {
    /// The number of particles is 0 or more than [`PARTICLES_MAX`].
    #[error("the cloud has {particles} particles; it must have between 1 and {PARTICLES_MAX}")]
    Particles {
        /// The requested number.
        particles: u64,
    },
    /// A parameter of the shape is out of bounds.
    #[error("{what}")]
    Shape {
        /// The requirement on the parameter.
        what: &'static str,
    },
    /// Particles would be faster than [`SPEED_MAX`].
    #[error("k is {k} and m is {m}; neither may exceed {SPEED_MAX}")]
    Speed {
        /// The requested `k`.
        k: u32,
        /// The requested `m`.
        m: i32,
    },
}

impl Cloud {
    /// The reference problem of the Parallel Research Kernels, for a square of 1000 cells: a
    /// million particles, `rho` 0.99.
    pub const REFERENCE: Self = Self {
        particles: 1_000_000,
        shape: CloudShape::Geometric { rho: 0.99 },
        speed: Velocity { k: 1, m: 2 },
    };

    /// Checks that the cloud can be placed in the square.
    ///
    /// # Errors
    /// If a parameter is out of bounds.
    pub fn check(&self, field: &Field) -> Result<(), CloudError> {
        if !(1..=PARTICLES_MAX).contains(&self.particles) {
            return Err(CloudError::Particles { particles: self.particles });
        }
        let Velocity { k, m } = self.speed;
        if k > SPEED_MAX || m.unsigned_abs() > SPEED_MAX {
            return Err(CloudError::Speed { k, m });
        }
        let wrong = |what| Err(CloudError::Shape { what });
        match self.shape {
            CloudShape::Geometric { rho } if !(rho.is_finite() && rho > 0.0 && rho != 1.0) => {
                wrong("rho of a geometric cloud must be positive and not 1; 0.99 is usual")
            }
            CloudShape::Linear { alpha, beta }
                if !(alpha.is_finite() && beta.is_finite() && beta > 0.0 && beta >= alpha) =>
            {
                wrong(
                    "a linear cloud must not become negative: beta must be positive and at least alpha",
                )
            }
            CloudShape::Patch { left, right, bottom, top }
                if left > right
                    || bottom > top
                    || right >= field.cells()
                    || top >= field.cells() =>
            {
                wrong(
                    "a patch must lie inside the square, left not after right and bottom not above top",
                )
            }
            _ => {
                let ends = self.mean(0, field) + self.mean(field.cells() - 1, field);
                // Both comparisons are false for NaN.
                match ends > 0.0 && ends < f64::INFINITY {
                    true => Ok(()),
                    false => wrong(
                        "numbers this large leave the cloud without particles; use a rho nearer to 1, or smaller alpha and beta",
                    ),
                }
            }
        }
    }

    /// Returns the expected number of particles in a cell of `column`; for a patch, in a cell
    /// inside it.
    pub fn mean(&self, column: u32, field: &Field) -> f64 {
        let (wanted, edge, x) =
            (self.particles as f64, f64::from(field.cells()), f64::from(column));
        match self.shape {
            CloudShape::Geometric { rho } => {
                let first = wanted * ((1.0 - rho) / (1.0 - rho.powf(edge))) / edge;
                first * rho.powf(x)
            }
            CloudShape::Sinusoidal => {
                let cosine = (x * (std::f64::consts::PI / (edge - 1.0))).cos();
                2.0 * cosine * cosine * wanted / (edge * edge)
            }
            CloudShape::Linear { alpha, beta } => {
                let step = 1.0 / edge;
                let total = beta * edge - alpha * 0.5 * step * edge * (edge - 1.0);
                wanted * ((beta - alpha * step * x) / total) / edge
            }
            CloudShape::Patch { left, right, bottom, top } => {
                wanted / (f64::from(right - left + 1) * f64::from(top - bottom + 1))
            }
        }
    }

    /// Iterates over the cells of some columns: `(column, row, particles)`, column by column,
    /// without empty cells.
    pub fn counts(
        &self,
        columns: Range<u32>,
        field: &Field,
    ) -> impl Iterator<Item = (u32, u32, u64)> + use<> {
        self.counts_in(columns, 0..field.cells(), field)
    }

    /// Like [`counts`](Self::counts), but for some rows only.
    pub fn counts_in(
        &self,
        columns: Range<u32>,
        rows: Range<u32>,
        field: &Field,
    ) -> impl Iterator<Item = (u32, u32, u64)> + use<> {
        let (cloud, field) = (*self, *field);
        columns.flat_map(move |column| {
            let mut dice = Dice::new();
            let before = u64::from(field.cells()) * u64::from(column) + u64::from(rows.start);
            dice.skip(2 * before);
            let mean = cloud.mean(column, &field);
            rows.clone().filter_map(move |row| {
                let drawn = dice.draw(mean);
                (cloud.shape.has(column, row) && drawn > 0).then_some((column, row, drawn))
            })
        })
    }

    /// Returns the number of particles in the whole cloud. Takes time linear in the number of
    /// cells.
    pub fn placed(&self, field: &Field) -> u64 {
        self.counts(0..field.cells(), field).map(|(_, _, particles)| particles).sum()
    }

    /// Places the particles that start in some `columns`, with ids from `first_id`, which is the
    /// number of particles in the columns to the left.
    pub fn place(&self, columns: Range<u32>, first_id: u64, field: &Field) -> Vec<Particle> {
        self.place_in(columns, 0..field.cells(), first_id, field)
    }

    /// Places the particles that start in some `columns` and `rows`, with ids from `first_id`.
    pub fn place_in(
        &self,
        columns: Range<u32>,
        rows: Range<u32>,
        first_id: u64,
        field: &Field,
    ) -> Vec<Particle> {
        let mut particles = Vec::new();
        for (column, row, count) in self.counts_in(columns, rows, field) {
            for _ in 0..count {
                let id = first_id + particles.len() as u64;
                particles.push(Particle::in_cell(id, column, row, self.speed, field));
            }
        }
        particles
    }
}

impl CloudShape {
    /// Whether particles can start in a cell.
    fn has(&self, column: u32, row: u32) -> bool {
        match *self {
            Self::Patch { left, right, bottom, top } => {
                (left..=right).contains(&column) && (bottom..=top).contains(&row)
            }
            _ => true,
        }
    }
}

/// The generator of the Parallel Research Kernels: `s <- a s + c mod 2^64`.
#[derive(Clone, Copy, Debug)]
struct Dice {
    state: u64,
}

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
const SEED: u64 = 27_182_818_285;

/// Standard deviation, as a share of the mean, of the normal distribution from which numbers with a
/// mean of at least 1 are drawn.
const SPREAD: f64 = 0.15;

impl Dice {
    fn new() -> Self {
        Self { state: SEED }
    }

    fn next(&mut self) -> u64 {
        self.state = MULTIPLIER.wrapping_mul(self.state).wrapping_add(INCREMENT);
        self.state
    }

    /// Skips `count` numbers, by repeated squaring of the step.
    fn skip(&mut self, mut count: u64) {
        let (mut factor, mut addend) = (MULTIPLIER, INCREMENT);
        while count > 0 {
            if count & 1 == 1 {
                self.state = factor.wrapping_mul(self.state).wrapping_add(addend);
            }
            addend = addend.wrapping_mul(factor.wrapping_add(1));
            factor = factor.wrapping_mul(factor);
            count >>= 1;
        }
    }

    /// Draws an integer with the mean `mean`. For means of at least 1, it is rounded from a normal
    /// distribution; for others, it is 1 with probability `mean`, or 0. Takes two draws.
    fn draw(&mut self, mean: f64) -> u64 {
        let (first, second) = (self.next(), self.next());
        if mean >= 1.0 {
            let unit = |number: u64| (number % u64::MAX) as f64 * (1.0 / u64::MAX as f64);
            let bell = (-2.0 * unit(first).ln()).sqrt()
                * (2.0 * std::f64::consts::PI * unit(second)).cos();
            (bell * mean * SPREAD + mean + 0.5) as u64
        } else {
            let most = u64::from(u32::MAX);
            u64::from(second % most <= (mean * most as f64) as u64)
        }
    }
}

#[cfg(test)]
mod tests;
