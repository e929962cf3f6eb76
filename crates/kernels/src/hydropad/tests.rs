//! The physics against exact solutions: shock tubes, pancakes, and conserved quantities.

use super::cells::Cells;
use super::clock::HydroRun;
use super::gas::Gas;
use super::problem::{Problem, State};
use super::serial::{self, advance};
use std::f64::consts::TAU;

/// The density at `x / t` in the exact solution of Sod's tube for an exponent of 5/3. The states
/// between the waves solve Riemann's problem by bisection (Toro, "Riemann Solvers and Numerical
/// Methods for Fluid Dynamics", section 4).
fn sod_density(speed: f64) -> f64 {
    let g: f64 = 5.0 / 3.0;
    let (left, right): ((f64, f64), (f64, f64)) = ((1.0, 1.0), (0.125, 0.1));
    let sound = |(density, pressure): (f64, f64)| (g * pressure / density).sqrt();
    let through_fan =
        |p: f64| 2.0 * sound(left) / (g - 1.0) * ((p / left.1).powf((g - 1.0) / (2.0 * g)) - 1.0);
    let through_shock = |p: f64| {
        let (a, b) = (2.0 / ((g + 1.0) * right.0), (g - 1.0) / (g + 1.0) * right.1);
        (p - right.1) * (a / (p + b)).sqrt()
    };
    let (mut low, mut high) = (right.1, left.1);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if through_fan(middle) + through_shock(middle) > 0.0 { high = middle } else { low = middle }
    }
    let (p, u) = (low, through_shock(low));
    let ratio = (g - 1.0) / (g + 1.0);
    let behind_fan = left.0 * (p / left.1).powf(1.0 / g);
    let behind_shock = right.0 * (p / right.1 + ratio) / (ratio * p / right.1 + 1.0);
    let shock = sound(right) * ((g + 1.0) / (2.0 * g) * p / right.1 + (g - 1.0) / (2.0 * g)).sqrt();
    match speed {
        s if s < -sound(left) => left.0,
        s if s < u - sound((behind_fan, p)) => {
            let part = 2.0 / (g + 1.0) - ratio * s / sound(left);
            left.0 * part.powf(2.0 / (g - 1.0))
        }
        s if s < u => behind_fan,
        s if s < shock => behind_shock,
        _ => right.0,
    }
}

/// The mean error of the density in the right half of a tube of `count` cells along an axis after a
/// time of 0.1 of its length. The tube is dense in its middle half, so that the wave to the right
/// starts at 3/4.
fn sod_error(axis: usize, count: usize) -> f64 {
    let mut axes = [1; 3];
    axes[axis] = count;
    let cells = Cells::new(axes).unwrap();
    let is_dense = |i: usize| (count / 4..3 * count / 4).contains(&i);
    let density = (0..count).map(|i| if is_dense(i) { 1.0 } else { 0.125 }).collect();
    let pressure: Vec<f64> = (0..count).map(|i| if is_dense(i) { 1.0 } else { 0.1 }).collect();
    let mut gas = Gas::new(density, &vec![[0.0; 3]; count], &pressure);
    let (mass, all) = (gas.mass(), gas.total_energy());
    let time = 0.1 * count as f64;
    let mut passed = 0.0;
    while passed < time {
        let step = (0.8 / gas.speed()).min(time - passed);
        gas.flow(cells, step, false).unwrap();
        passed += step;
    }
    assert!(
        (gas.mass() / mass - 1.0).abs() < 1e-13 && (gas.total_energy() / all - 1.0).abs() < 1e-13
    );
    let error = |i: usize| {
        let place = i as f64 + 0.5 - 0.75 * count as f64;
        (gas.density[i] - sod_density(place / time)).abs()
    };
    (count / 2..count).map(error).sum::<f64>() / (count / 2) as f64
}

#[test]
fn the_shock_tube_of_sod_converges_to_the_exact_solution_along_every_axis() {
    let errors = [100, 200, 400].map(|count| sod_error(0, count));
    assert!(errors[1] < 0.6 * errors[0] && errors[2] < 0.6 * errors[1], "{errors:?}");
    assert!(errors[2] < 0.0045, "{errors:?}");
    assert_eq!(sod_error(1, 100), errors[0]);
    assert_eq!(sod_error(2, 100), errors[0]);
}

#[test]
fn a_highly_supersonic_gas_keeps_its_pressure() {
    let count = 64;
    let cells = Cells::new([count, 1, 1]).unwrap();
    let wave = |i: usize| (TAU * i as f64 / count as f64).sin();
    let density: Vec<f64> = (0..count).map(|i| 1.0 + 0.3 * wave(i)).collect();
    let mut gas = Gas::new(density.clone(), &vec![[1.0, 0.5, 0.0]; count], &vec![1e-10; count]);

    // The gas flows once around the box. Heat is the tenth digit of the energy.
    for _ in 0..128 {
        gas.flow(cells, 0.5, false).unwrap();
    }

    let wrong = |i: usize| (gas.pressure(i) * 1e10 - 1.0).abs();
    let worst = (0..count).map(wrong).fold(0.0, f64::max);
    assert!(worst < 0.05, "{worst}");
    let moved = (0..count).map(|i| (gas.density[i] - density[i]).abs()).fold(0.0, f64::max);
    assert!(moved < 0.03, "{moved}");
}

/// A run over a slab of `count` cells with one wave, to a scale factor.
fn slab(count: u32, baryons: f64, ends_at: f64) -> HydroRun {
    let cube = Problem::cube(count, count);
    let problem = Problem { axes: [count, 1, 1], waves: [1, 0, 0], baryons, ends_at, ..cube };
    HydroRun { problem, steps: 10_000, window: 1 }
}

#[test]
fn a_pancake_of_dark_matter_converges_to_the_exact_solution() {
    let error = |count: u32| serial::run(&slab(count, 1e-6, 0.8)).unwrap().end.error;
    let errors = [32, 64, 128].map(error);
    assert!(errors[0] < 0.06, "in cells: {errors:?}");
    // In edges of the box, half the cell size reduces the error to two fifths or less.
    assert!(errors[1] < 0.8 * errors[0] && errors[2] < 0.8 * errors[1], "{errors:?}");
}

#[test]
fn gas_of_low_pressure_moves_like_dark_matter() {
    let error = |count: u32| {
        let plan = slab(count, 0.15, 0.5);
        let (State { gas, .. }, outcome) = advance(&plan).unwrap();
        let (cells, scale) = (plan.problem.cells().unwrap(), outcome.end.scale);
        let exact = plan.problem.pancake().gas(cells, 0.15, 1e-9, scale);
        let wrong = gas.density.iter().zip(&exact.density).map(|(a, b)| (a / b - 1.0).abs());
        wrong.sum::<f64>() / f64::from(count)
    };
    let errors = [32, 64, 128].map(error);
    assert!(errors[2] < 0.01, "{errors:?}");
    assert!(errors[1] < 0.6 * errors[0] && errors[2] < 0.6 * errors[1], "{errors:?}");
}

#[test]
fn an_oblique_wave_is_accurate_with_at_least_as_many_particles_as_cells() {
    for per_axis in [16, 24, 32] {
        let problem = Problem { ends_at: 0.6, ..Problem::cube(16, per_axis) };
        let outcome = serial::run(&HydroRun { problem, steps: 1000, window: 10 }).unwrap();
        assert!(outcome.end.error < 0.12, "{per_axis}: {}", outcome.end.error);
        assert_eq!(outcome.faults(), Vec::<String>::new());
    }
}

#[test]
fn gas_that_is_lost_in_the_last_step_is_a_fault() {
    // With one window, only the beginning of the last step is reported.
    let plan = HydroRun { steps: 4, window: 4, ..slab(16, 0.15, 0.8) };
    let mut outcome = serial::run(&plan).unwrap();
    assert_eq!(outcome.faults(), Vec::<String>::new());

    outcome.end.gas_mass *= 1.0 - 1e-9;

    assert!(outcome.faults()[0].starts_with("the gas at the end is off by"));
}

#[test]
fn mass_and_momentum_are_conserved_and_energy_obeys_layzer_and_irvine() {
    let account = |count: u32| serial::run(&slab(count, 0.15, 0.8)).unwrap().account;
    let (coarse, fine) = (account(32), account(128));
    for account in [&coarse, &fine] {
        assert!(account.mass_error() < 1e-13 && account.momentum_error() < 1e-12, "{account:?}");
    }
    assert!(coarse.energy_error() < 0.02, "{}", coarse.energy_error());
    assert!(fine.energy_error() < 0.005, "{}", fine.energy_error());
}
