//! The Lennard-Jones potential, and the three ways of cutting it off.
//!
//! Reduced units: lengths in sigma, energies in epsilon, masses 1. With `r` the distance and `rc`
//! the cutoff:
//!
//! - truncated: `u(r) = 4 (r^-12 - r^-6)`
//! - energy shift: `u(r) - u(rc)`; the energy is continuous, the force is not
//! - linear force shift: `u(r) - u(rc) - (r - rc) u'(rc)`; both are continuous, so that the energy
//!   is conserved
//!
//! and zero at `r >= rc`. Source: Allen and Tildesley, "Computer Simulation of Liquids", sections
//! 2.8 and 5.2.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The form of the potential at the cutoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truncation {
    /// Truncated only: energy and force are discontinuous.
    Truncated,
    /// Shifted to zero energy at the cutoff: the force is discontinuous.
    EnergyShift,
    /// Shifted and tilted to zero energy and force at the cutoff.
    LinearForceShift,
}

/// The cutoff is not positive and finite.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("the cutoff is {cutoff} sigma; it must be a positive finite number, usually 2.5 to 5")]
pub struct CutoffError {
    cutoff: f64,
}

/// A pair potential with its cutoff.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LennardJones {
    cutoff: f64,
    truncation: Truncation,
}

impl LennardJones {
    /// Creates a potential that ends at `cutoff` (sigma).
    ///
    /// # Errors
    /// If the cutoff is not a positive finite number.
    pub fn new(cutoff: f64, truncation: Truncation) -> Result<Self, CutoffError> {
        if cutoff.is_finite() && cutoff > 0.0 {
            Ok(Self { cutoff, truncation })
        } else {
            Err(CutoffError { cutoff })
        }
    }

    /// Cutoff in sigma.
    pub fn cutoff(&self) -> f64 {
        self.cutoff
    }

    /// Form of the potential at the cutoff.
    pub fn truncation(&self) -> Truncation {
        self.truncation
    }

    /// Returns the values that the truncation subtracts: the energy and the force at the cutoff,
    /// each zero if the truncation does not change it.
    pub fn shift(&self) -> (f64, f64) {
        let (energy, force_over_r) = full(self.cutoff * self.cutoff);
        match self.truncation {
            Truncation::Truncated => (0.0, 0.0),
            Truncation::EnergyShift => (energy, 0.0),
            Truncation::LinearForceShift => (energy, force_over_r * self.cutoff),
        }
    }

    /// Returns the energy (epsilon) and the force over distance (epsilon / sigma^2, positive when
    /// repulsive) at the squared distance `r2`: the readable form of the computation in
    /// [`force`](super::force), which handles many pairs at once.
    #[cfg(test)]
    pub(super) fn at_squared(&self, r2: f64) -> (f64, f64) {
        if r2 >= self.cutoff * self.cutoff {
            return (0.0, 0.0);
        }
        let r = r2.sqrt();
        let (energy, force_over_r) = full(r2);
        let (energy_shift, force_shift) = self.shift();
        (energy - energy_shift + (r - self.cutoff) * force_shift, force_over_r - force_shift / r)
    }
}

/// Returns the energy and the force over distance without a cutoff.
fn full(r2: f64) -> (f64, f64) {
    let inverse = 1.0 / r2;
    let inverse_6 = inverse * inverse * inverse;
    (4.0 * inverse_6 * (inverse_6 - 1.0), 24.0 * inverse_6 * (2.0 * inverse_6 - 1.0) * inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn potential(truncation: Truncation) -> LennardJones {
        LennardJones::new(2.5, truncation).unwrap()
    }

    #[test]
    fn the_minimum_is_minus_one_at_the_sixth_root_of_two() {
        let (energy, force) = potential(Truncation::Truncated).at_squared(2.0_f64.powf(1.0 / 3.0));
        assert!((energy + 1.0).abs() < 1e-14 && force.abs() < 1e-13);
    }

    #[test]
    fn energy_and_force_are_continuous_at_the_cutoff_with_a_linear_force_shift() {
        let (energy, force) =
            potential(Truncation::LinearForceShift).at_squared(2.5_f64.powi(2) * (1.0 - 1e-12));
        assert!(energy.abs() < 1e-12 && force.abs() < 1e-12);
    }

    #[test]
    fn the_force_is_the_slope_of_the_energy() {
        for truncation in
            [Truncation::Truncated, Truncation::EnergyShift, Truncation::LinearForceShift]
        {
            let (law, r, h) = (potential(truncation), 1.3_f64, 1e-5);
            let slope =
                (law.at_squared((r + h).powi(2)).0 - law.at_squared((r - h).powi(2)).0) / (2.0 * h);
            assert!((slope + law.at_squared(r * r).1 * r).abs() < 1e-8, "{truncation:?}");
        }
    }

    #[test]
    fn energy_and_force_are_zero_at_the_cutoff() {
        assert_eq!(potential(Truncation::Truncated).at_squared(6.25), (0.0, 0.0));
    }

    #[test]
    fn cutoffs_that_are_not_positive_and_finite_are_refused() {
        for cutoff in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LennardJones::new(cutoff, Truncation::Truncated).is_err());
        }
    }
}
