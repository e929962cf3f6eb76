//! The loop in one process, without servers: the reference for the other forms.

use super::clock::{Clock, HydroRun};
use super::digest::Digest;
use super::gas::Gas;
use super::matter::Matter;
use super::outcome::{End, HydroOutcome};
use super::problem::{Problem, State};
use super::step::{StepError, baryons, dark, gravity};
use std::time::Duration;

/// Runs all steps, one task after the other. Times are zero.
///
/// # Errors
/// If the problem is invalid, or if a step fails.
pub fn run(plan: &HydroRun) -> Result<HydroOutcome, StepError> {
    let (State { matter, gas, .. }, mut outcome) = advance(plan)?;
    outcome.end = survey(&plan.problem, outcome.end.scale, &matter, &gas)?;
    Ok(outcome)
}

/// Runs all steps; the caller surveys the outcome.
pub(super) fn advance(plan: &HydroRun) -> Result<(State, HydroOutcome), StepError> {
    let State { mut matter, dark: mut density, mut gas } = plan.problem.begin()?;
    let mut speed = plan.problem.first_speed()?;
    let (mut clock, mut outcome) = (Clock::new(*plan), HydroOutcome::default());
    loop {
        let steps = clock.window(speed);
        outcome.end.scale = clock.scale();
        let Some(last) = steps.last() else { break };
        for step in &steps {
            let (potential, energy) = gravity(step, &density, &gas.density)?;
            let (dark_density, of_matter) = dark(step, &mut matter, &potential)?;
            let of_gas = baryons(step, &mut gas, &potential)?;
            density = dark_density;
            if step == last {
                outcome.account.note(step, energy, &of_matter, &of_gas);
                speed = of_matter.speed.max(of_gas.speed);
            }
        }
        outcome.windows.push((steps.len() as u32, Duration::ZERO));
    }
    Ok((State { matter, dark: density, gas }, outcome))
}

/// Compares the state with the exact answer at a scale factor.
///
/// # Errors
/// If the problem is invalid.
pub fn survey(problem: &Problem, scale: f64, matter: &Matter, gas: &Gas) -> Result<End, StepError> {
    let (cells, per_axis) = (problem.cells()?, problem.per_axis as usize);
    let error = problem.pancake().error(cells, per_axis, scale, &matter.positions);
    let digests = [Digest::of_matter(matter), Digest::of_gas(gas)];
    Ok(End { scale, error, gas_mass: gas.mass(), digests })
}
