//! The tasks of Hydropad as remote functions, with formulas of their costs.
//!
//! The formulas give seconds on one core of a 2020s server, measured on boxes of 48³ to 100³ cells,
//! which exceed the cache; a server's speed is relative to that core. The tasks of steps and
//! surveys have two formulas each. One is over the arguments, for single calls. The other is over
//! the sizes of the arguments in bytes, for groups, because the client does not have the arguments
//! of a group.

use gridspan_kernels::hydropad::clock::HydroStep;
use gridspan_kernels::hydropad::digest::Digest;
use gridspan_kernels::hydropad::gas::Gas;
use gridspan_kernels::hydropad::matter::Matter;
use gridspan_kernels::hydropad::problem::Problem;
use gridspan_kernels::hydropad::step::{self, Report, StepError};
use gridspan_rpc::calls::{Catalogue, Function, Functions, Work};
use gridspan_runtime::Numbers;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A number for each cell.
pub type ScalarField = Numbers<f64>;
/// A vector for each cell or particle.
pub type VectorField = Numbers<[f64; 3]>;

/// Dark matter before a step: positions, velocities, the potential, and the parameters of the step.
pub type DarkNow = (VectorField, VectorField, ScalarField, HydroStep);
/// Dark matter after a step: positions, velocities, density, and the report.
pub type DarkThen = (VectorField, VectorField, ScalarField, Report);
/// The gas before a step: density, momentum, energy, modified entropy, the potential, and the
/// parameters of the step.
pub type GasNow = (ScalarField, VectorField, ScalarField, ScalarField, ScalarField, HydroStep);
/// The gas after a step: density, momentum, energy, modified entropy, and the report.
pub type GasThen = (ScalarField, VectorField, ScalarField, ScalarField, Report);

/// Computes the initial positions, velocities and density of a problem's dark matter.
pub const BEGIN_DARK: Function<(Problem,), (VectorField, VectorField, ScalarField)> =
    Function::new("begin dark", begin_dark)
        .costs("60e-9 * p", &["p"], |(problem,)| vec![f64::from(problem.per_axis).powi(3)]);

/// Computes the initial density, momentum, energy and modified entropy of a problem's gas.
pub const BEGIN_GAS: Function<(Problem,), (ScalarField, VectorField, ScalarField, ScalarField)> =
    Function::new("begin gas", begin_gas).costs("150e-9 * n", &["n"], |(problem,)| {
        vec![problem.axes.iter().copied().map(f64::from).product()]
    });

/// Computes the gravitational potential of the densities of dark matter and gas, and their energy
/// in it.
pub const GRAVITY: Function<(ScalarField, ScalarField, HydroStep), (ScalarField, f64)> =
    Function::new("gravity", gravity)
        .costs("2.4e-9 * n * log2(n)", &["n"], |(dark, ..)| vec![dark.len() as f64])
        .computes("2.4e-9 * in0 / 8 * log2(in0 / 8)")
        .gives(&["in0", "8"]);

/// A step of dark matter.
pub const DARK: Function<DarkNow, DarkThen> = Function::new("dark", dark)
    .costs("88e-9 * p + 12e-9 * n", &["n", "p"], |(all, _, n, _)| {
        vec![n.len() as f64, all.len() as f64]
    })
    .computes("88e-9 * in0 / 24 + 12e-9 * in2 / 8")
    .gives(&["in0", "in1", "in2", "50"]);

/// A step of the gas.
pub const BARYONS: Function<GasNow, GasThen> = Function::new("baryons", baryons)
    .costs("240e-9 * n", &["n"], |(density, ..)| vec![density.len() as f64])
    .computes("240e-9 * in0 / 8")
    .gives(&["in0", "in1", "in2", "in3", "50"]);

/// Computes the deviation of the particles from their exact positions at a scale factor, and their
/// digest.
pub const SURVEY_DARK: Function<(VectorField, VectorField, Problem, f64), (f64, u64)> =
    Function::new("survey dark", survey_dark)
        .costs("40e-9 * p", &["p"], |(all, ..)| vec![all.len() as f64])
        .computes("40e-9 * in0 / 24")
        .gives(&["8", "10"]);

/// Computes the mass of a gas and its digest.
pub const SURVEY_GAS: Function<(ScalarField, VectorField, ScalarField, ScalarField), (f64, u64)> =
    Function::new("survey gas", survey_gas)
        .costs("10e-9 * n", &["n"], |(density, ..)| vec![density.len() as f64])
        .computes("10e-9 * in0 / 8")
        .gives(&["8", "10"]);

/// The functions of Hydropad.
#[derive(Clone, Copy, Debug)]
pub struct Hydropad;

impl Catalogue for Hydropad {
    fn functions() -> Functions {
        Functions::new()
            .with_parts(&BEGIN_DARK)
            .with_parts(&BEGIN_GAS)
            .with_parts(&GRAVITY)
            .with_parts(&DARK)
            .with_parts(&BARYONS)
            .with_parts(&SURVEY_DARK)
            .with_parts(&SURVEY_GAS)
    }
}

/// Charges the call with the time that its formula gives. The call takes this time in the
/// simulator; elsewhere the time counts as load only.
fn takes<I, O>(function: &Function<I, O>, arguments: &I, work: &mut Work) -> Result<(), String>
where
    I: DeserializeOwned,
    O: Serialize,
{
    let seconds = function.work_s(arguments).map_err(|error| error.to_string())?;
    work.emulate(Duration::from_secs_f64(seconds.unwrap_or_default()));
    Ok(())
}

fn why(error: impl Into<StepError>) -> String {
    error.into().to_string()
}

fn begin_dark(
    arguments: (Problem,),
    work: &mut Work,
) -> Result<(VectorField, VectorField, ScalarField), String> {
    takes(&BEGIN_DARK, &arguments, work)?;
    let (matter, density) = arguments.0.begin_matter().map_err(why)?;
    Ok((matter.positions.into(), matter.velocities.into(), density.into()))
}

fn begin_gas(
    arguments: (Problem,),
    work: &mut Work,
) -> Result<(ScalarField, VectorField, ScalarField, ScalarField), String> {
    takes(&BEGIN_GAS, &arguments, work)?;
    let Gas { density, momentum, energy, entropy } = arguments.0.begin_gas().map_err(why)?;
    Ok((density.into(), momentum.into(), energy.into(), entropy.into()))
}

fn gravity(
    arguments: (ScalarField, ScalarField, HydroStep),
    work: &mut Work,
) -> Result<(ScalarField, f64), String> {
    takes(&GRAVITY, &arguments, work)?;
    let (dark, gas, step) = arguments;
    let (potential, energy) = step::gravity(&step, &dark, &gas).map_err(why)?;
    Ok((potential.into(), energy))
}

fn dark(arguments: DarkNow, work: &mut Work) -> Result<DarkThen, String> {
    takes(&DARK, &arguments, work)?;
    let (positions, velocities, potential, step) = arguments;
    let mut matter = Matter { positions: positions.to_vec(), velocities: velocities.to_vec() };
    let (density, report) = step::dark(&step, &mut matter, &potential).map_err(why)?;
    Ok((matter.positions.into(), matter.velocities.into(), density.into(), report))
}

fn baryons(arguments: GasNow, work: &mut Work) -> Result<GasThen, String> {
    takes(&BARYONS, &arguments, work)?;
    let (density, momentum, energy, entropy, potential, step) = arguments;
    let mut gas = gas_of(&density, &momentum, &energy, &entropy);
    let report = step::baryons(&step, &mut gas, &potential).map_err(why)?;
    Ok((gas.density.into(), gas.momentum.into(), gas.energy.into(), gas.entropy.into(), report))
}

fn survey_dark(
    arguments: (VectorField, VectorField, Problem, f64),
    work: &mut Work,
) -> Result<(f64, u64), String> {
    takes(&SURVEY_DARK, &arguments, work)?;
    let (positions, velocities, problem, scale) = arguments;
    let matter = Matter { positions: positions.to_vec(), velocities: velocities.to_vec() };
    let cells = problem.cells().map_err(why)?;
    matter.check(cells).map_err(why)?;
    let per_axis = problem.per_axis as usize;
    let error = problem.pancake().error(cells, per_axis, scale, &matter.positions);
    Ok((error, Digest::of_matter(&matter)))
}

fn survey_gas(
    arguments: (ScalarField, VectorField, ScalarField, ScalarField),
    work: &mut Work,
) -> Result<(f64, u64), String> {
    takes(&SURVEY_GAS, &arguments, work)?;
    let (density, momentum, energy, entropy) = arguments;
    let gas = gas_of(&density, &momentum, &energy, &entropy);
    Ok((gas.mass(), Digest::of_gas(&gas)))
}

fn gas_of(
    density: &ScalarField,
    momentum: &VectorField,
    energy: &ScalarField,
    entropy: &ScalarField,
) -> Gas {
    Gas {
        density: density.to_vec(),
        momentum: momentum.to_vec(),
        energy: energy.to_vec(),
        entropy: entropy.to_vec(),
    }
}
