//! The main loop with plain GridRPC calls (Brady et al. (2010), table I): every call receives its
//! data from the client and returns its results to it.

use super::functions::{BARYONS, DARK, GRAVITY, Hydropad};
use gridspan_kernels::hydropad::account::Account;
use gridspan_kernels::hydropad::clock::{Clock, HydroRun};
use gridspan_kernels::hydropad::gas::Gas;
use gridspan_kernels::hydropad::matter::Matter;
use gridspan_kernels::hydropad::outcome::HydroOutcome;
use gridspan_kernels::hydropad::problem::State;
use gridspan_kernels::hydropad::serial::survey;
use gridspan_rpc::calls::{Config, GridRpc, RpcError, Services};
use gridspan_runtime::{Grid, GridError, Numbers};

pub(super) fn of_grid(error: &GridError) -> RpcError {
    RpcError::Other { reason: error.to_string() }
}

pub(super) fn wrong(error: impl std::fmt::Display) -> RpcError {
    RpcError::Other { reason: error.to_string() }
}

/// Runs all steps as calls from a client.
///
/// # Errors
/// If the problem is invalid, or a call fails.
pub async fn run(
    grid: &Grid,
    services: &Services<Hydropad>,
    plan: &HydroRun,
) -> Result<HydroOutcome, RpcError> {
    let mut rpc = GridRpc::new(services);
    rpc.initialize(&Config::default())?;
    let gravity = rpc.handle(&GRAVITY).await?;
    let dark = rpc.handle(&DARK).await?;
    let baryons = rpc.handle(&BARYONS).await?;
    let State { matter, dark: density, gas } = plan.problem.begin().map_err(wrong)?;
    let mut speed = plan.problem.first_speed().map_err(wrong)?;
    let mut density = Numbers::from(density);
    let mut matter = (Numbers::from(matter.positions), Numbers::from(matter.velocities));
    let mut flow = (Numbers::from(gas.momentum), gas.energy.into(), gas.entropy.into());
    let mut gas_density = Numbers::from(gas.density);
    let (mut clock, mut account, mut windows) = (Clock::new(*plan), Account::default(), Vec::new());
    loop {
        let steps = clock.window(speed);
        let Some(last) = steps.last() else { break };
        let begin = grid.now().await.map_err(|error| of_grid(&error))?;
        for &step in &steps {
            let (potential, energy) =
                rpc.call(&gravity, &(density, gas_density.clone(), step)).await?;
            let (positions, velocities) = matter;
            let arguments = (positions, velocities, potential.clone(), step);
            let moving = rpc.call_async(&dark, &arguments).await?;
            let (momentum, heat, entropy) = flow;
            let arguments = (gas_density, momentum, heat, entropy, potential, step);
            let flowing = rpc.call_async(&baryons, &arguments).await?;
            let (positions, velocities, dark_density, of_matter) = rpc.wait(&moving).await?;
            let (now_gas, momentum, heat, entropy, of_gas) = rpc.wait(&flowing).await?;
            (matter, density) = ((positions, velocities), dark_density);
            (gas_density, flow) = (now_gas, (momentum, heat, entropy));
            if step == *last {
                account.note(&step, energy, &of_matter, &of_gas);
                speed = of_matter.speed.max(of_gas.speed);
            }
        }
        let end = grid.now().await.map_err(|error| of_grid(&error))?;
        windows.push((steps.len() as u32, end.since(begin)));
    }
    rpc.finalize().await?;
    let matter = Matter { positions: matter.0.to_vec(), velocities: matter.1.to_vec() };
    let (density, momentum) = (gas_density.to_vec(), flow.0.to_vec());
    let gas = Gas { density, momentum, energy: flow.1.to_vec(), entropy: flow.2.to_vec() };
    let end = survey(&plan.problem, clock.scale(), &matter, &gas).map_err(wrong)?;
    Ok(HydroOutcome { windows, account, end, ..HydroOutcome::default() })
}
