//! Baryons: a gas under gravity and its own pressure.
//!
//! A step accelerates the gas by gravity and then sweeps along one axis after the other,
//! alternately forwards and backwards (Strang splitting); `tvd` computes a sweep.

use super::cells::{Cells, SizeError};
use super::tvd::{Cell, GAMMA, Line};
use thiserror::Error;

/// Largest motion in a sweep, in cells.
pub const COURANT: f64 = 0.8;

/// Maximum number of sweeps along each axis in a step.
const SWEEPS_MAX: f64 = 64.0;

/// Pressure is computed from the energy where heat is more than this part of the energy, and
/// otherwise from the entropy.
const HEAT_READABLE: f64 = 1e-3;

/// Entropy is recomputed where heat is more than this part of the largest energy in the cell and
/// its neighbours, as behind a shock.
const HEAT_SHOCKED: f64 = 0.1;

/// The reason that a gas cannot be computed further. The gas is no longer usable.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GasError {
    /// A field belongs to another box.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A cell has a density or pressure that is not positive, or a value that is not finite.
    #[error(
        "cell {cell} has a density of {density} and a pressure of {pressure}; take smaller time steps"
    )]
    Empty {
        /// Position of the cell in the field.
        cell: usize,
        /// Its density.
        density: f64,
        /// Its pressure.
        pressure: f64,
    },
    /// The gas would pass too many cells in a step.
    #[error("the gas would pass {cells:.1} cells in a step; take smaller time steps")]
    Fast {
        /// Number of cells.
        cells: f64,
    },
}

/// A gas in a box: the conserved quantities of each cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Gas {
    /// Mass in a cell.
    pub density: Vec<f64>,
    /// Momentum in a cell: mass times velocity.
    pub momentum: Vec<[f64; 3]>,
    /// Energy of motion and heat in a cell.
    pub energy: Vec<f64>,
    /// Modified entropy in a cell: the pressure, divided by the density to the power of 2/3.
    pub entropy: Vec<f64>,
}

/// The sweeps of a step, and the speed after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swept {
    /// Number of sweeps along each axis.
    pub sweeps: u32,
    /// Largest speed after the step, in cells per time.
    pub speed: f64,
}

impl Gas {
    /// Creates a gas from densities, velocities and pressures.
    pub fn new(density: Vec<f64>, velocity: &[[f64; 3]], pressure: &[f64]) -> Self {
        let momentum =
            density.iter().zip(velocity).map(|(mass, velocity)| velocity.map(|v| mass * v));
        let momentum: Vec<[f64; 3]> = momentum.collect();
        let heat = pressure.iter().map(|pressure| pressure / (GAMMA - 1.0));
        let energy = (0..density.len()).map(|i| motion(density[i], momentum[i])).zip(heat);
        let energy = energy.map(|(motion, heat)| motion + heat).collect();
        let entropy = density.iter().zip(pressure).map(|(&mass, pressure)| pressure / power(mass));
        let entropy = entropy.collect();
        Self { density, momentum, energy, entropy }
    }

    /// Checks that the fields have the size of the box, and that every cell has a positive density
    /// and pressure.
    ///
    /// # Errors
    /// If a field has another size, or a cell has a density or pressure that is not positive, or a
    /// value that is not finite.
    pub fn check(&self, cells: Cells) -> Result<(), GasError> {
        for found in
            [self.density.len(), self.momentum.len(), self.energy.len(), self.entropy.len()]
        {
            cells.check(found)?;
        }
        for cell in 0..cells.count() {
            let (density, pressure) = (self.density[cell], self.pressure(cell));
            let all = density + pressure + self.energy[cell];
            if !(density > 0.0 && pressure > 0.0 && all.is_finite()) {
                return Err(GasError::Empty { cell, density, pressure });
            }
        }
        Ok(())
    }

    /// Returns the pressure in a cell.
    pub fn pressure(&self, cell: usize) -> f64 {
        let (density, energy) = (self.density[cell], self.energy[cell]);
        let heat = energy - motion(density, self.momentum[cell]);
        match heat > HEAT_READABLE * energy {
            true => (GAMMA - 1.0) * heat,
            false => self.entropy[cell] * power(density),
        }
    }

    /// Returns the largest speed along an axis, in cells per time: that of the gas plus that of
    /// sound.
    pub fn speed(&self) -> f64 {
        let speed = |cell: usize| {
            let density = self.density[cell];
            let fastest =
                self.momentum[cell].iter().fold(0.0, |most: f64, part| most.max(part.abs()));
            fastest / density + (GAMMA * self.pressure(cell) / density).sqrt()
        };
        (0..self.density.len()).map(speed).fold(0.0, f64::max)
    }

    /// Accelerates the gas for a time. Its heat does not change.
    pub fn kick(&mut self, acceleration: &[[f64; 3]], time: f64) {
        let Self { density, momentum, energy, .. } = self;
        for (cell, acceleration) in acceleration.iter().enumerate() {
            let before = motion(density[cell], momentum[cell]);
            for d in 0..3 {
                momentum[cell][d] += density[cell] * acceleration[d] * time;
            }
            energy[cell] += motion(density[cell], momentum[cell]) - before;
        }
    }

    /// Lets the gas flow for a time, divided into as many sweeps as its speed demands.
    ///
    /// # Errors
    /// If it is too fast, or if a cell becomes empty. The gas is not usable then.
    pub fn flow(&mut self, cells: Cells, time: f64, backwards: bool) -> Result<Swept, GasError> {
        let (mut left, mut sweeps, mut speed) = (time, 0, self.speed());
        while left > 0.0 {
            let parts = (left * speed / COURANT).ceil().max(1.0);
            if parts.is_nan() || f64::from(sweeps) + parts > SWEEPS_MAX {
                return Err(GasError::Fast { cells: time * speed });
            }
            let part = if parts > 1.0 { left / parts } else { left };
            self.sweep(cells, part, backwards ^ (sweeps % 2 == 1));
            self.check(cells)?;
            (left, sweeps, speed) = (left - part, sweeps + 1, self.speed());
        }
        Ok(Swept { sweeps, speed })
    }

    fn sweep(&mut self, cells: Cells, time: f64, backwards: bool) {
        let mut line = Line::default();
        for axis in if backwards { [2, 1, 0] } else { [0, 1, 2] } {
            // A single cell is its own neighbour: its outflow returns to it.
            if cells.axes()[axis] > 1 {
                self.sweep_along(cells, axis, time, &mut line);
            }
        }
        self.renew_entropy(cells);
    }

    fn sweep_along(&mut self, cells: Cells, axis: usize, time: f64, line: &mut Line) {
        let (count, stride) = (cells.axes()[axis], cells.strides()[axis]);
        // The component along the line comes first.
        let turned = [0, 1, 2].map(|d| (axis + d) % 3);
        for start in cells.lines(axis) {
            line.cells.clear();
            line.cells.extend((0..count).map(|i| self.cell(start + i * stride, turned)));
            line.compute(time);
            let mut entering = line.fluxes[count - 1];
            for (i, &leaving) in line.fluxes.iter().enumerate() {
                let cell = start + i * stride;
                let change = |part: usize| time * (entering[part] - leaving[part]);
                self.density[cell] += change(0);
                for (part, d) in turned.into_iter().enumerate() {
                    self.momentum[cell][d] += change(1 + part);
                }
                self.energy[cell] += change(4);
                self.entropy[cell] += change(5);
                entering = leaving;
            }
        }
    }

    fn cell(&self, cell: usize, turned: [usize; 3]) -> Cell {
        let density = self.density[cell];
        Cell {
            density,
            velocity: turned.map(|d| self.momentum[cell][d] / density),
            pressure: self.pressure(cell),
            entropy: self.entropy[cell] / density,
        }
    }

    /// Recomputes the entropy where a shock has produced heat.
    fn renew_entropy(&mut self, cells: Cells) {
        let (axes, strides) = (cells.axes(), cells.strides());
        for (at, place) in cells.iter().enumerate() {
            let mut largest = self.energy[at];
            for d in 0..3 {
                let line = at - place[d] * strides[d];
                let above = line + (place[d] + 1) % axes[d] * strides[d];
                let below = line + (place[d] + axes[d] - 1) % axes[d] * strides[d];
                largest = largest.max(self.energy[above]).max(self.energy[below]);
            }
            let heat = self.energy[at] - motion(self.density[at], self.momentum[at]);
            if heat > HEAT_SHOCKED * largest {
                self.entropy[at] = (GAMMA - 1.0) * heat / power(self.density[at]);
            }
        }
    }

    /// Returns the mass in the box.
    pub fn mass(&self) -> f64 {
        self.density.iter().sum()
    }

    /// Returns the total momentum.
    pub fn total_momentum(&self) -> [f64; 3] {
        [0, 1, 2].map(|d| self.momentum.iter().map(|momentum| momentum[d]).sum())
    }

    /// Returns the total energy of motion and heat.
    pub fn total_energy(&self) -> f64 {
        self.energy.iter().sum()
    }
}

fn motion(density: f64, momentum: [f64; 3]) -> f64 {
    0.5 * momentum.iter().map(|part| part * part).sum::<f64>() / density
}

/// Returns the density to the power of 2/3, the factor between modified entropy and pressure.
fn power(density: f64) -> f64 {
    let root = density.cbrt();
    root * root
}
