//! The loop as a group of calls (Brady et al. (2010), table III): data stays on the servers, and
//! the client receives from each window only the values that it needs to decide the next one.

use super::functions::{
    BARYONS, BEGIN_DARK, BEGIN_GAS, DARK, GRAVITY, Hydropad, SURVEY_DARK, SURVEY_GAS, ScalarField,
    VectorField,
};
use super::plain::{of_grid, wrong};
use clap::ValueEnum;
use gridspan_kernels::hydropad::clock::{Clock, HydroRun, HydroStep};
use gridspan_kernels::hydropad::outcome::{End, HydroOutcome};
use gridspan_kernels::hydropad::problem::{Problem, State};
use gridspan_kernels::hydropad::step::Report;
use gridspan_rpc::calls::{RpcError, Services};
use gridspan_rpc::group::{CallGroup, GroupRef, Lazy, Mapper};
use gridspan_runtime::{Grid, Numbers};
use gridspan_workflow::heuristics::Heuristic;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where the initial state is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum InitialState {
    /// On servers, from a few numbers.
    Made,
    /// On the client, which sends it.
    Sent,
}

/// Handles of the dark matter, its density, and the gas.
struct Universe {
    positions: Lazy<VectorField>,
    velocities: Lazy<VectorField>,
    dark: Lazy<ScalarField>,
    gas: Lazy<ScalarField>,
    momentum: Lazy<VectorField>,
    energy: Lazy<ScalarField>,
    entropy: Lazy<ScalarField>,
}

impl Universe {
    async fn new(
        group: &CallGroup<'_, Services<Hydropad>>,
        problem: &Problem,
        start: InitialState,
    ) -> Result<Self, RpcError> {
        if start == InitialState::Made {
            let problem = group.value(problem)?;
            let (positions, velocities, dark) = group.call(&BEGIN_DARK, (&problem,));
            let (gas, momentum, energy, entropy) = group.call(&BEGIN_GAS, (problem,));
            // These calls are a window by themselves: the mapper cannot compute the size of the
            // initial state from the sizes of arguments, so the state must exist before it maps
            // the first steps.
            group.run().await?;
            return Ok(Self { positions, velocities, dark, gas, momentum, energy, entropy });
        }
        let State { matter, dark, gas } = problem.begin().map_err(wrong)?;
        Ok(Self {
            positions: group.value(&Numbers::from(matter.positions))?,
            velocities: group.value(&Numbers::from(matter.velocities))?,
            dark: group.value(&Numbers::from(dark))?,
            gas: group.value(&Numbers::from(gas.density))?,
            momentum: group.value(&Numbers::from(gas.momentum))?,
            energy: group.value(&Numbers::from(gas.energy))?,
            entropy: group.value(&Numbers::from(gas.entropy))?,
        })
    }

    /// Calls the three tasks of a step. Returns the state after it and the reports of the tasks.
    fn step(
        self,
        group: &CallGroup<'_, Services<Hydropad>>,
        step: &HydroStep,
    ) -> Result<(Self, Reports), RpcError> {
        let Self { positions, velocities, dark, gas, momentum, energy, entropy } = self;
        let at = group.value(step)?;
        let (potential, gravity) = group.call(&GRAVITY, (dark, &gas, &at));
        let arguments = (positions, velocities, &potential, &at);
        let (positions, velocities, dark, of_matter) = group.call(&DARK, arguments);
        let arguments = (gas, momentum, energy, entropy, &potential, &at);
        let (gas, momentum, energy, entropy, of_gas) = group.call(&BARYONS, arguments);
        let moved = Self { positions, velocities, dark, gas, momentum, energy, entropy };
        Ok((moved, Reports { gravity, of_matter, of_gas }))
    }

    /// Compares the state with the exact answer at a scale factor.
    async fn survey(
        self,
        group: &CallGroup<'_, Services<Hydropad>>,
        problem: &Problem,
        scale: f64,
    ) -> Result<End, RpcError> {
        let Self { positions, velocities, gas, momentum, energy, entropy, .. } = self;
        let (problem, at) = (group.value(problem)?, group.value(&scale)?);
        let (error, matter) = group.call(&SURVEY_DARK, (positions, velocities, problem, at));
        let (mass, gas) = group.call(&SURVEY_GAS, (gas, momentum, energy, entropy));
        let (error, gas_mass) = (group.get(&error).await?, group.get(&mass).await?);
        let digests = [group.get(&matter).await?, group.get(&gas).await?];
        Ok(End { scale, error, gas_mass, digests })
    }
}

/// The reports of the tasks of a step.
struct Reports {
    gravity: Lazy<f64>,
    of_matter: Lazy<Report>,
    of_gas: Lazy<Report>,
}

/// The state of a group between two windows, from which a restarted main can continue.
#[derive(Serialize, Deserialize)]
pub(super) struct GroupProgress {
    group: GroupRef,
    /// Number of steps and elapsed time of each window so far.
    windows: Vec<(u32, Duration)>,
}

/// Runs all steps as a group of calls that is mapped window by window.
///
/// # Errors
/// If the problem is invalid, or a call fails.
pub async fn run(
    grid: &Grid,
    mapper: &Mapper<Services<Hydropad>>,
    heuristic: &dyn Heuristic,
    plan: &HydroRun,
    start: InitialState,
) -> Result<HydroOutcome, RpcError> {
    let saves = async |_: GroupProgress| Ok::<(), RpcError>(());
    run_from(grid, mapper, heuristic, (plan, start), None, &saves).await
}

/// Like [`run`], but continues the group of `before` if there is one. After each new window, calls
/// `saves` with the state from which a restarted main can continue.
///
/// # Errors
/// If the problem is invalid, a call fails, or `saves` does.
pub(super) async fn run_from(
    grid: &Grid,
    mapper: &Mapper<Services<Hydropad>>,
    heuristic: &dyn Heuristic,
    (plan, start): (&HydroRun, InitialState),
    before: Option<GroupProgress>,
    saves: &impl AsyncFn(GroupProgress) -> Result<(), RpcError>,
) -> Result<HydroOutcome, RpcError> {
    let (before, done) = match before {
        Some(GroupProgress { group, windows }) => (Some(group), windows),
        None => (None, Vec::new()),
    };
    let calls = async |group: &CallGroup<'_, Services<Hydropad>>| {
        advance(grid, group, (plan, start), &done, saves).await
    };
    match before {
        Some(before) => mapper.resume(&before, heuristic, calls).await,
        None => mapper.map(heuristic, calls).await,
    }
}

/// Makes the calls of all steps. The windows in `done` were executed before main was restarted:
/// their calls are the same, and their results exist.
async fn advance(
    grid: &Grid,
    group: &CallGroup<'_, Services<Hydropad>>,
    (plan, start): (&HydroRun, InitialState),
    done: &[(u32, Duration)],
    saves: &impl AsyncFn(GroupProgress) -> Result<(), RpcError>,
) -> Result<HydroOutcome, RpcError> {
    let now = async || grid.now().await.map_err(|error| of_grid(&error));
    let (mut clock, mut outcome) = (Clock::new(*plan), HydroOutcome::default());
    let mut speed = plan.problem.first_speed().map_err(wrong)?;
    let mut begin = now().await?;
    let mut universe = Universe::new(group, &plan.problem, start).await?;
    loop {
        let steps = clock.window(speed);
        let mut last = None;
        for step in &steps {
            let (moved, reports) = universe.step(group, step)?;
            (universe, last) = (moved, Some((step, reports)));
        }
        let Some((step, reports)) = last else { break };
        let gathered = group.held_bytes();
        let gravity = group.get(&reports.gravity).await?;
        let of_matter = group.get(&reports.of_matter).await?;
        let of_gas = group.get(&reports.of_gas).await?;
        outcome.account.note(step, gravity, &of_matter, &of_gas);
        speed = of_matter.speed.max(of_gas.speed);
        let end = now().await?;
        let took = match done.get(outcome.windows.len()) {
            Some(&(_, before)) => before,
            None => end.since(begin),
        };
        outcome.windows.push((steps.len() as u32, took));
        outcome.held_bytes.push(gathered.max(group.held_bytes()));
        begin = end;
        if outcome.windows.len() > done.len() {
            let windows = outcome.windows.clone();
            saves(GroupProgress { group: group.reference(), windows }).await?;
        }
    }
    outcome.end = universe.survey(group, &plan.problem, clock.scale()).await?;
    Ok(outcome)
}
