//! The three tasks of a step, as functions of their arguments.
//!
//! A step computes the gravity of all matter at its beginning. Then it accelerates dark matter and
//! gas, each for half of the preceding step and half of this one, and moves them for this step: the
//! leapfrog. Mass, momentum and energy in the reports are those at the beginning of the step,
//! between the two halves, when positions and velocities belong to the same time.

use super::cells::SizeError;
use super::clock::HydroStep;
use super::expansion::gravity_at;
use super::gas::{Gas, GasError, Swept};
use super::gravity::{acceleration, energy, potential};
use super::matter::{Matter, MatterError};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The reason that a step failed. The state that it changes is no longer usable.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum StepError {
    /// A field belongs to another box.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// An error of the particles.
    #[error(transparent)]
    Matter(#[from] MatterError),
    /// An error of the gas.
    #[error(transparent)]
    Gas(#[from] GasError),
}

/// The quantities of one kind of matter in a step. Mass, momentum and energy are those at its
/// beginning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Total mass.
    pub mass: f64,
    /// Total momentum.
    pub momentum: [f64; 3],
    /// Total energy of motion and heat.
    pub energy: f64,
    /// Largest speed at the end of the step, in cells per time.
    pub speed: f64,
    /// Number of sweeps of the gas along each axis; 0 for dark matter.
    pub sweeps: u32,
}

/// Gravity: computes the potential of both densities, and their energy in it.
///
/// # Errors
/// If a density does not have the size of the box.
pub fn gravity(step: &HydroStep, dark: &[f64], gas: &[f64]) -> Result<(Vec<f64>, f64), StepError> {
    let potential = potential(step.problem.cells()?, [dark, gas], gravity_at(step.scale))?;
    let energy = energy([dark, gas], &potential);
    Ok((potential, energy))
}

/// Dark matter: accelerates and moves the particles, and returns their density.
///
/// # Errors
/// If a particle is outside the box or has no velocity, or the potential does not have the size of
/// the box.
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
    // This finds a NaN in this step, not in the next one.
    matter.check(cells)?;
    let speed = matter.speed_max();
    let mass_of_all = mass * matter.positions.len() as f64;
    let report = Report { mass: mass_of_all, momentum, energy, speed, sweeps: 0 };
    Ok((matter.density(cells, mass), report))
}

/// Baryons: accelerates the gas and lets it flow.
///
/// # Errors
/// If the gas or the potential does not have the size of the box, if a cell is empty or becomes so,
/// or if the gas is too fast for the step.
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
