//! The outcome of a run and the check of its correctness.

use super::account::Account;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A run of Hydropad.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HydroOutcome {
    /// Number of steps and elapsed time of each window.
    pub windows: Vec<(u32, Duration)>,
    /// For each window of a group, the largest number of bytes that the client held.
    pub held_bytes: Vec<u64>,
    /// Check of the conserved quantities.
    pub account: Account,
    /// State at the end of the run.
    pub end: End,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The scale factor.
    pub scale: f64,
    /// Deviation of particles from their exact positions: the root mean square, in cells.
    pub error: f64,
    /// The mass of the gas.
    pub gas_mass: f64,
    /// The digests of particles and gas.
    pub digests: [u64; 2],
}

/// Largest deviation of particles from their exact positions, in cells, for a wave of at least
/// about eight cells that has not broken yet.
const ERROR_MAX: f64 = 0.25;

impl HydroOutcome {
    /// Returns the number of steps.
    pub fn steps(&self) -> u32 {
        self.windows.iter().map(|(steps, _)| steps).sum()
    }

    /// Returns the elapsed time of all windows.
    pub fn took(&self) -> Duration {
        self.windows.iter().map(|(_, took)| *took).sum()
    }

    /// Returns the time of a step once data is on the servers that need it: the mean over all
    /// windows but the first, if there are several.
    pub fn settled_step(&self) -> Duration {
        let settled = &self.windows[usize::from(self.windows.len() > 1)..];
        let steps: u32 = settled.iter().map(|(steps, _)| steps).sum();
        settled.iter().map(|(_, took)| *took).sum::<Duration>() / steps.max(1)
    }

    /// Descriptions of the errors that exceed their tolerance.
    pub fn faults(&self) -> Vec<String> {
        let End { error, gas_mass, .. } = self.end;
        let mut faults = self.account.faults(gas_mass);
        if error.is_nan() || error > ERROR_MAX {
            faults.push(format!(
                "particles are {error:.2} cells from their places, more than {ERROR_MAX}"
            ));
        }
        faults
    }
}
