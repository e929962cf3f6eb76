//! What a run has come to, and whether it is right.

use super::account::Account;
use std::time::Duration;

/// A run of Hydropad.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HydroOutcome {
    /// Of each window, how many steps it had and how long it took.
    pub windows: Vec<(u32, Duration)>,
    /// Of each window of a group, the most that the client kept for it, in bytes.
    pub held_bytes: Vec<u64>,
    /// What was kept.
    pub account: Account,
    /// How it was at the end.
    pub end: End,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct End {
    /// The scale factor.
    pub scale: f64,
    /// How far particles are from where they must be: the root of the mean square, in cells.
    pub error: f64,
    /// The mass of the gas.
    pub gas_mass: f64,
    /// The digests of particles and gas.
    pub digests: [u64; 2],
}

/// Particles of a wave of at least some eight cells are this near to their places until it breaks.
const ERROR_MAX: f64 = 0.25;

impl HydroOutcome {
    /// How many steps were made.
    pub fn steps(&self) -> u32 {
        self.windows.iter().map(|(steps, _)| steps).sum()
    }

    /// How long all of them took.
    pub fn took(&self) -> Duration {
        self.windows.iter().map(|(_, took)| *took).sum()
    }

    /// How long a step takes once data is where it is needed: the mean of all windows but the
    /// first, if there are others.
    pub fn settled_step(&self) -> Duration {
        let settled = &self.windows[usize::from(self.windows.len() > 1)..];
        let steps: u32 = settled.iter().map(|(steps, _)| steps).sum();
        settled.iter().map(|(_, took)| *took).sum::<Duration>() / steps.max(1)
    }

    /// What is not as it must be.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.account.faults();
        let End { error, .. } = self.end;
        if error.is_nan() || error > ERROR_MAX {
            faults.push(format!(
                "particles are {error:.2} cells from their places, more than {ERROR_MAX}"
            ));
        }
        faults
    }
}
