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
//! and nothing at `r >= rc`. Source: Allen and Tildesley, "Computer Simulation of Liquids",
//! sections 2.8 and 5.2.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How the potential ends at the cutoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Truncation {
    /// Cut, nothing else: energy and force jump.
    Truncated,
    /// Lowered so that the energy ends at zero: the force jumps.
    EnergyShift,
    /// Lowered and tilted so that energy and force end at zero.
    LinearForceShift,
}

/// The cutoff is not a length.
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
    /// A potential that ends at `cutoff` (sigma).
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

    /// Where the potential ends, in sigma.
    pub fn cutoff(&self) -> f64 {
        self.cutoff
    }

    /// How the potential ends.
    pub fn truncation(&self) -> Truncation {
        self.truncation
    }

    /// What the truncation subtracts: the energy at the cutoff and the force at the cutoff, each
    /// zero where it is left alone.
    pub fn shift(&self) -> (f64, f64) {
        let (energy, force_over_r) = full(self.cutoff * self.cutoff);
        match self.truncation {
            Truncation::Truncated => (0.0, 0.0),
            Truncation::EnergyShift => (energy, 0.0),
            Truncation::LinearForceShift => (energy, force_over_r * self.cutoff),
        }
    }

    /// Energy (epsilon) and force over distance (epsilon / sigma^2, positive when repulsive) at the
    /// squared distance `r2`: the readable form of what [`force`](super::force) computes, many pairs
    /// at a time.
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

/// Energy and force over distance without a cutoff.
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
    fn a_linear_force_shift_ends_smoothly() {
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
    fn nothing_acts_at_the_cutoff_or_beyond() {
        assert_eq!(potential(Truncation::Truncated).at_squared(6.25), (0.0, 0.0));
    }

    #[test]
    fn a_cutoff_that_is_no_length_is_refused() {
        for cutoff in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(LennardJones::new(cutoff, Truncation::Truncated).is_err());
        }
    }
}
