//! What is computed: a box, what is in it, and when.

use super::cells::{Cells, SizeError};
use super::gas::Gas;
use super::matter::Matter;
use super::pancake::Pancake;
use super::tvd::GAMMA;
use serde::{Deserialize, Serialize};

/// The scale factor at which matter of both sides of a wave meets.
const MEETS_AT: f64 = 1.0;

/// How fast sound is at first, in edges of the box per time: so slow that gas falls as dark matter
/// does.
const SOUND: f64 = 1e-3;

/// A box of dark matter and gas in which a plane wave grows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// Cells along each axis.
    pub axes: [u32; 3],
    /// Particles along each axis of more than one cell.
    pub per_axis: u32,
    /// Which part of all matter is gas.
    pub baryons: f64,
    /// Waves along each axis.
    pub waves: [u32; 3],
    /// The scale factor at the beginning.
    pub begins_at: f64,
    /// The scale factor at the end; before 1, where the wave breaks.
    pub ends_at: f64,
}

/// Dark matter, gas, and the density of the former.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Particles.
    pub matter: Matter,
    /// Their density.
    pub dark: Vec<f64>,
    /// The gas.
    pub gas: Gas,
}

impl Problem {
    /// A cube of so many cells and particles along each edge, with one wave across.
    pub fn cube(edge: u32, per_axis: u32) -> Self {
        let (baryons, waves) = (0.15, [1, 1, 1]);
        Self { axes: [edge; 3], per_axis, baryons, waves, begins_at: 0.1, ends_at: 0.8 }
    }

    /// Its box.
    ///
    /// # Errors
    /// If it is empty or too large.
    pub fn cells(&self) -> Result<Cells, SizeError> {
        Cells::new(self.axes.map(|count| count as usize))
    }

    /// The wave in it.
    pub fn pancake(&self) -> Pancake {
        Pancake { waves: self.waves, meets_at: MEETS_AT }
    }

    /// The mass of a particle, where that of a cell is 1 in the mean.
    pub fn particle_mass(&self) -> f64 {
        let cells = self.axes.map(f64::from);
        let particles =
            self.axes.map(|count| if count > 1 { f64::from(self.per_axis) } else { 1.0 });
        (1.0 - self.baryons) * cells.iter().product::<f64>() / particles.iter().product::<f64>()
    }

    /// How fast sound is in gas of mean density at the beginning, in cells per time.
    fn sound(&self) -> f64 {
        SOUND * self.axes.iter().copied().max().map_or(0.0, f64::from)
    }

    /// How fast anything moves at the beginning, at most, in cells per time: known before anything
    /// is made.
    ///
    /// # Errors
    /// As [`Self::cells`].
    pub fn first_speed(&self) -> Result<f64, SizeError> {
        let falls = self.pancake().speed(self.cells()?, self.begins_at);
        // Sound goes with the third root of density, which is nowhere higher than this.
        let densest = 1.0 / (1.0 - self.begins_at / MEETS_AT);
        Ok(falls + self.sound() * densest.cbrt())
    }

    /// The dark matter at the beginning, and its density.
    ///
    /// # Errors
    /// As [`Self::cells`], and if there are no particles or too many.
    pub fn begin_matter(&self) -> Result<(Matter, Vec<f64>), SizeError> {
        let cells = self.cells()?;
        // As many particles as cells may be.
        Cells::new(self.axes.map(|count| if count > 1 { self.per_axis as usize } else { 1 }))?;
        let matter = self.pancake().matter(cells, self.per_axis as usize, self.begins_at);
        let density = matter.density(cells, self.particle_mass());
        Ok((matter, density))
    }

    /// The gas at the beginning.
    ///
    /// # Errors
    /// As [`Self::cells`].
    pub fn begin_gas(&self) -> Result<Gas, SizeError> {
        let pressure = self.baryons * self.sound().powi(2) / GAMMA;
        Ok(self.pancake().gas(self.cells()?, self.baryons, pressure, self.begins_at))
    }

    /// How it is at the beginning.
    ///
    /// # Errors
    /// As [`Self::cells`].
    pub fn begin(&self) -> Result<State, SizeError> {
        let (matter, dark) = self.begin_matter()?;
        Ok(State { matter, dark, gas: self.begin_gas()? })
    }
}
