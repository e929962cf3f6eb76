//! The check of the conserved quantities: mass, momentum, and the energy of an expanding box.
//!
//! As gravity gets stronger with the scale factor `a`, energy is not conserved, but changes by
//! exactly `∫ W d ln a`, where `W` is the energy of gravity (the equation of Layzer and Irvine, in
//! super-comoving variables).

use super::clock::HydroStep;
use super::step::Report;

/// Sums over the steps that are reported to the client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    first: Option<Entry>,
    last: Option<Entry>,
    /// The expected change of energy from the first to the last entry.
    due: f64,
    /// The largest total momentum, relative to the momentum that all matter would have if it used
    /// all its energy to move in one direction.
    momentum: f64,
    /// Number of steps in which the solver of the gas swept along each axis more than once.
    fast_steps: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    scale: f64,
    mass: f64,
    /// The part of the mass that is gas.
    gas: f64,
    gravity: f64,
    energy: f64,
}

/// Tolerance for the rounding of momentum.
const MOMENTUM_MAX: f64 = 1e-9;
/// Tolerance for the rounding of mass.
const MASS_MAX: f64 = 1e-12;
/// Tolerance of energy, relative to the energy of gravity. With enough cells and short enough
/// steps, the error is smaller.
const ENERGY_MAX: f64 = 0.15;

impl Account {
    /// Records a step.
    pub fn note(&mut self, step: &HydroStep, gravity: f64, dark: &Report, gas: &Report) {
        let energy = dark.energy + gas.energy + gravity;
        let mass = dark.mass + gas.mass;
        let entry = Entry { scale: step.scale, mass, gas: gas.mass, gravity, energy };
        if let Some(last) = self.last {
            self.due += between(last, entry);
        }
        let squares = (0..3).map(|d| (dark.momentum[d] + gas.momentum[d]).powi(2));
        let one_way = (2.0 * mass * (dark.energy + gas.energy)).sqrt();
        let total = squares.sum::<f64>().sqrt();
        // Matter at rest may have neither momentum nor energy.
        let momentum = if total == 0.0 { 0.0 } else { total / one_way };
        self.momentum = larger(self.momentum, momentum);
        self.fast_steps += u32::from(gas.sweeps > 1);
        self.first.get_or_insert(entry);
        self.last = Some(entry);
    }

    fn ends(&self) -> Option<(Entry, Entry)> {
        self.first.zip(self.last)
    }

    /// Relative change of the total mass from the first to the last reported step.
    pub fn mass_error(&self) -> f64 {
        self.ends().map_or(0.0, |(first, last)| (last.mass / first.mass - 1.0).abs())
    }

    /// The largest total momentum, relative to the momentum that all matter would have if it used
    /// all its energy to move in one direction.
    pub fn momentum_error(&self) -> f64 {
        self.momentum
    }

    /// The error of the energy, relative to the energy of gravity at the end.
    pub fn energy_error(&self) -> f64 {
        let error = |(first, last): (Entry, Entry)| {
            ((last.energy - first.energy - self.due) / last.gravity).abs()
        };
        self.ends().map_or(0.0, error)
    }

    /// Number of reported steps in which the gas was faster than foreseen.
    pub fn fast_steps(&self) -> u32 {
        self.fast_steps
    }

    /// Change of the mass of the gas from the first reported step to the end, when it is
    /// `gas_mass`, relative to the mass of all matter.
    pub fn gas_error(&self, gas_mass: f64) -> f64 {
        self.first.map_or(0.0, |first| ((gas_mass - first.gas) / first.mass).abs())
    }

    /// Descriptions of the quantities whose error exceeds its tolerance, if the mass of the gas is
    /// `gas_mass` at the end.
    pub fn faults(&self, gas_mass: f64) -> Vec<String> {
        let checks = [
            ("mass", self.mass_error(), MASS_MAX),
            ("the gas at the end", self.gas_error(gas_mass), MASS_MAX),
            ("momentum", self.momentum_error(), MOMENTUM_MAX),
            ("energy", self.energy_error(), ENERGY_MAX),
        ];
        let faulty = checks.into_iter().filter(|(_, error, most)| error.is_nan() || error > most);
        faulty
            .map(|(what, error, most)| {
                format!("{what} is off by {error:.1e}, more than {most:.1e}")
            })
            .collect()
    }
}

/// The larger of two numbers, or NaN if one of them is NaN, unlike [`f64::max`].
fn larger(one: f64, other: f64) -> f64 {
    if one.is_nan() || one > other { one } else { other }
}

/// The integral of the energy of gravity over the logarithm of the scale factor between two
/// entries, with a power law between them.
fn between(one: Entry, other: Entry) -> f64 {
    let far = (other.scale / one.scale).ln();
    let power = (other.gravity / one.gravity).ln() / far;
    match power.is_finite() && power.abs() > 1e-6 {
        true => (other.gravity - one.gravity) / power,
        false => 0.5 * (one.gravity + other.gravity) * far,
    }
}

#[cfg(test)]
mod tests {
    use super::super::problem::Problem;
    use super::*;

    #[test]
    fn a_momentum_that_is_no_number_stays_a_fault() {
        let (problem, mut account) = (Problem::cube(4, 4), Account::default());
        let report = Report { mass: 1.0, momentum: [0.0; 3], energy: 1.0, speed: 0.1, sweeps: 0 };
        for (number, momentum) in [(0, 0.0), (1, f64::NAN), (2, 0.0)] {
            let step = HydroStep { problem, number, scale: 1.0, before: 0.0, time: 0.1 };
            let gas = Report { momentum: [momentum, 0.0, 0.0], ..report };
            account.note(&step, -1.0, &report, &gas);
        }

        let faults = account.faults(1.0);

        assert!(account.momentum_error().is_nan());
        assert!(faults.iter().any(|fault| fault.starts_with("momentum is off by")), "{faults:?}");
    }

    #[test]
    fn gravity_that_is_a_power_of_the_scale_is_integrated_exactly() {
        let entry = |scale: f64| Entry {
            scale,
            mass: 1.0,
            gas: 0.0,
            gravity: -3.0 * scale.powi(3),
            energy: 0.0,
        };
        // The integral of -3 a^3 over ln a is 0.5^3 - 2^3 = -7.875.
        assert!((between(entry(0.5), entry(2.0)) + 7.875).abs() < 1e-12);
        let flat = Entry { gravity: -2.0, ..entry(1.0) };
        let later = Entry { scale: 1.5, ..flat };
        assert!((between(flat, later) + 2.0 * 1.5_f64.ln()).abs() < 1e-12);
    }
}
