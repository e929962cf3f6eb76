//! The three tasks of a step, as functions of their arguments.
//!
//! At the beginning of a step gravity is that of all matter. Then dark matter and gas are
//! accelerated, each for half of the step before and half of this one, and move for this one: the
//! leapfrog. What tasks report is of the beginning, between the halves, where positions and
//! velocities are of the same time.

use super::cells::SizeError;
use super::clock::HydroStep;
use super::expansion::gravity_at;
use super::gas::{Gas, GasError, Swept};
use super::gravity::{acceleration, energy, potential};
use super::matter::{Matter, MatterError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why a step cannot be made. What it was to change is not usable any more.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum StepError {
    /// A field is of another box.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The particles.
    #[error(transparent)]
    Matter(#[from] MatterError),
    /// The gas.
    #[error(transparent)]
    Gas(#[from] GasError),
}

/// What matter of one kind was like at the beginning of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The mass.
    pub mass: f64,
    /// The momentum of the whole.
    pub momentum: [f64; 3],
    /// The energy of motion and heat.
    pub energy: f64,
    /// How fast anything is at the end, in cells per time.
    pub speed: f64,
    /// How often the gas swept along each axis.
    pub sweeps: u32,
}

/// Gravity: the potential of both densities, and their energy in it.
///
/// # Errors
/// If a density is not of the box.
pub fn gravity(step: &HydroStep, dark: &[f64], gas: &[f64]) -> Result<(Vec<f64>, f64), StepError> {
    let potential = potential(step.problem.cells()?, [dark, gas], gravity_at(step.scale))?;
    let energy = energy([dark, gas], &potential);
    Ok((potential, energy))
}

/// Dark matter: moves the particles, and gives their density.
///
/// # Errors
/// If a particle or the potential is not of the box.
pub fn dark(
    step: &HydroStep,
    matter: &mut Matter,
    potential: &[f64],
) -> Result<(Vec<f64>, Report), StepError> {
    let (cells, mass) = (step.problem.cells()?, step.problem.particle_mass());
    matter.check(cells)?;
    let pull = acceleration(cells, potential)?;
    matter.kick(cells, &pull, step.before / 2.0);
    let (momentum, energy) = (matter.momentum(mass), matter.kinetic_energy(mass));
    matter.kick(cells, &pull, step.time / 2.0);
    matter.drift(cells, step.time);
    // What became no number is found here, not in the next step.
    matter.check(cells)?;
    let speed = matter.speed_max();
    let mass_of_all = mass * matter.positions.len() as f64;
    let report = Report { mass: mass_of_all, momentum, energy, speed, sweeps: 0 };
    Ok((matter.density(cells, mass), report))
}

/// Baryons: lets the gas flow.
///
/// # Errors
/// If the gas or the potential is not of the box, or if the gas is too fast for the step.
pub fn baryons(step: &HydroStep, gas: &mut Gas, potential: &[f64]) -> Result<Report, StepError> {
    let cells = step.problem.cells()?;
    gas.check(cells)?;
    let pull = acceleration(cells, potential)?;
    gas.kick(&pull, step.before / 2.0);
    let (mass, momentum, energy) = (gas.mass(), gas.total_momentum(), gas.total_energy());
    gas.kick(&pull, step.time / 2.0);
    let Swept { sweeps, speed } = gas.flow(cells, step.time, step.number % 2 == 1)?;
    Ok(Report { mass, momentum, energy, speed, sweeps })
}
