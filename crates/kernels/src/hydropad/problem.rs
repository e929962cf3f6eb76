//! The problem: a box, its initial content, and the time span.

use super::cells::{Cells, SizeError};
use super::gas::Gas;
use super::matter::Matter;
use super::pancake::Pancake;
use super::tvd::GAMMA;
use serde::{Deserialize, Serialize};

/// Scale factor at which matter from both sides of a wave meets.
const MEETS_AT: f64 = 1.0;

/// Initial speed of sound in edges of the box per time, slow enough for the gas to fall like dark
/// matter.
const SOUND: f64 = 1e-3;

/// A box of dark matter and gas in which a plane wave grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Cells along each axis.
    pub axes: [u32; 3],
    /// Particles along each axis of more than one cell.
    pub per_axis: u32,
    /// Mass of the gas as a part of the mass of all matter.
    pub baryons: f64,
    /// Waves along each axis.
    pub waves: [u32; 3],
    /// Initial scale factor.
    pub begins_at: f64,
    /// Final scale factor; less than 1, where the wave breaks.
    pub ends_at: f64,
}

/// Dark matter and its density, and the gas.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Particles.
    pub matter: Matter,
    /// The density of the particles.
    pub dark: Vec<f64>,
    /// The gas.
    pub gas: Gas,
}

impl Problem {
    /// Creates a cube of `edge` cells and `per_axis` particles along each edge, with one wave along
    /// each axis.
    pub fn cube(edge: u32, per_axis: u32) -> Self {
        let (baryons, waves) = (0.15, [1, 1, 1]);
        Self { axes: [edge; 3], per_axis, baryons, waves, begins_at: 0.1, ends_at: 0.8 }
    }

    /// Returns the box.
    ///
    /// # Errors
    /// If it is empty or too large.
    pub fn cells(&self) -> Result<Cells, SizeError> {
        Cells::new(self.axes.map(|count| count as usize))
    }

    /// Returns the wave in the box.
    pub fn pancake(&self) -> Pancake {
        Pancake { waves: self.waves, meets_at: MEETS_AT }
    }

    /// Returns the mass of a particle, relative to a mean mass of 1 per cell.
    pub fn particle_mass(&self) -> f64 {
        let cells = self.axes.map(f64::from);
        let particles =
            self.axes.map(|count| if count > 1 { f64::from(self.per_axis) } else { 1.0 });
        (1.0 - self.baryons) * cells.iter().product::<f64>() / particles.iter().product::<f64>()
    }

    /// Returns the speed of sound in gas of mean density at the beginning, in cells per time.
    fn sound(&self) -> f64 {
        SOUND * self.axes.iter().copied().max().map_or(0.0, f64::from)
    }

    /// Returns an upper bound of the initial speed, in cells per time, which does not need the
    /// initial state.
    ///
    /// # Errors
    /// Like [`Self::cells`].
    pub fn first_speed(&self) -> Result<f64, SizeError> {
        let falls = self.pancake().speed(self.cells()?, self.begins_at);
        // The speed of sound is proportional to the cube root of the density. This is the maximum
        // density, relative to the mean.
        let densest = 1.0 / (1.0 - self.begins_at / MEETS_AT);
        Ok(falls + self.sound() * densest.cbrt())
    }

    /// Makes the initial dark matter and its density.
    ///
    /// # Errors
    /// Like [`Self::cells`], and if there are no particles or too many.
    pub fn begin_matter(&self) -> Result<(Matter, Vec<f64>), SizeError> {
        let cells = self.cells()?;
        // Particles have the same limit as cells.
        Cells::new(self.axes.map(|count| if count > 1 { self.per_axis as usize } else { 1 }))?;
        let matter = self.pancake().matter(cells, self.per_axis as usize, self.begins_at);
        let density = matter.density(cells, self.particle_mass());
        Ok((matter, density))
    }

    /// Makes the initial gas.
    ///
    /// # Errors
    /// Like [`Self::cells`].
    pub fn begin_gas(&self) -> Result<Gas, SizeError> {
        let pressure = self.baryons * self.sound().powi(2) / GAMMA;
        Ok(self.pancake().gas(self.cells()?, self.baryons, pressure, self.begins_at))
    }

    /// Makes the initial state.
    ///
    /// # Errors
    /// Like [`Self::begin_matter`].
    pub fn begin(&self) -> Result<State, SizeError> {
        let (matter, dark) = self.begin_matter()?;
        Ok(State { matter, dark, gas: self.begin_gas()? })
    }
}
