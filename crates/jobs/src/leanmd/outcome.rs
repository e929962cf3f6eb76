//! The outcome of a run, and checks of its validity.

use std::fmt;
use std::time::Duration;

use gridspan_kernels::leanmd::fingerprint::StateFingerprint;
use gridspan_kernels::leanmd::potential::Truncation;
use gridspan_kernels::leanmd::serial::{Observation, Serial};
use gridspan_kernels::leanmd::system::System;
use serde::{Deserialize, Serialize};

use super::schedule::Schedule;

/// Bound of the energy error, as a share of kinetic plus absolute potential energy, in units of
/// `dt^2`.
///
/// Velocity Verlet conserves the energy of a system that differs from the given one by order `dt^2`
/// (Allen and Tildesley, section 3.2), so the error oscillates within a bound of that order and
/// does not grow. The published crystal of 500 atoms, hotter than most, has an error of 2.55e-4 of
/// its total energy at `dt` 0.004, which is 7 `dt^2` in this measure; the bound is eight times as
/// large. The bound shrinks with the square of `dt`, so a run with a small `dt` detects an error
/// that does not.
pub const ENERGY_ERROR_PER_DT2: f64 = 60.0;

/// Bound of the change of the momentum, which is only rounding, as a share of the largest momentum
/// that atoms of the same kinetic energy can have.
pub const MOMENTUM_ERROR_MAX: f64 = 1e-10;

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MdOutcome {
    /// The reported states, from the start to the last step.
    pub observations: Vec<Observation>,
    /// Time at which each step was completed, in ns since the job began. The first entry is that of
    /// the initial forces.
    pub done_ns: Vec<f64>,
    /// Time at which main sent the start message to the actors, in ns since the job began.
    pub begin_ns: f64,
    /// Number of pairs of atoms within the cutoff, over all steps.
    pub pairs_computed: u64,
    /// A hash of each cell's states at all steps.
    pub fingerprints: Vec<StateFingerprint>,
}

/// The changes of conserved quantities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conservation {
    /// Largest change of the energy, as a share of kinetic plus absolute potential energy.
    pub energy_error: f64,
    /// Bound of `energy_error`; `None` if the potential is discontinuous.
    pub energy_error_max: Option<f64>,
    /// Largest change of the momentum, as a share of the largest momentum that atoms of the same
    /// kinetic energy can have.
    pub momentum_error: f64,
    /// Number of atoms at the start, and a different number found later.
    pub atoms: (u64, Option<u64>),
}

impl MdOutcome {
    /// Returns the virtual or wall time of each step.
    pub fn step_times(&self) -> Vec<Duration> {
        let step = |pair: &[f64]| Duration::from_nanos((pair[1] - pair[0]).max(0.0) as u64);
        self.done_ns.windows(2).map(step).collect()
    }

    /// Returns the median of the [`step_times`](Self::step_times); zero without steps.
    pub fn median_step(&self) -> Duration {
        let mut steps = self.step_times();
        steps.sort_unstable();
        steps.get(steps.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the time from the start message to the last step.
    pub fn elapsed(&self) -> Duration {
        let end = self.done_ns.last().copied().unwrap_or(self.begin_ns);
        Duration::from_nanos((end - self.begin_ns).max(0.0) as u64)
    }

    /// Returns the number of pairs of atoms within the cutoff per second.
    pub fn pairs_per_second(&self) -> f64 {
        self.pairs_computed as f64 / self.elapsed().as_secs_f64().max(1e-9)
    }

    /// Compares all reported states with the first.
    pub fn conservation(&self, schedule: &Schedule) -> Conservation {
        let start = self.observations.first().copied().unwrap_or_default();
        let energy_scale = start.motion.kinetic + start.sums.energy.abs();
        let atoms = start.motion.atoms;
        let mut found = Conservation {
            energy_error: 0.0,
            energy_error_max: (schedule.law.truncation() != Truncation::Truncated)
                .then_some(ENERGY_ERROR_PER_DT2 * schedule.dt * schedule.dt),
            momentum_error: 0.0,
            atoms: (atoms, None),
        };
        for later in &self.observations {
            let energy =
                (later.energy() - start.energy()).abs() / energy_scale.max(f64::MIN_POSITIVE);
            // Of N atoms with kinetic energy K, momenta add up to at most sqrt(2 K N).
            let scale = (2.0 * later.motion.kinetic * atoms as f64).sqrt().max(f64::MIN_POSITIVE);
            let change = (0..3)
                .map(|axis| (later.motion.momentum[axis] - start.motion.momentum[axis]).abs())
                .fold(0.0, larger);
            found.energy_error = larger(found.energy_error, energy);
            found.momentum_error = larger(found.momentum_error, change / scale);
            if later.motion.atoms != atoms {
                found.atoms.1 = Some(later.motion.atoms);
            }
        }
        found
    }

    /// Repeats the run on one thread and compares every bit.
    ///
    /// # Errors
    /// If a value differs, or the serial run fails; the message states which.
    pub fn compare_with_serial(&self, system: &System, schedule: &Schedule) -> Result<(), String> {
        let Schedule { cells, law, dt, migrate_every, .. } = *schedule;
        let mut serial = Serial::new(system, cells, law, dt).migrating_every(migrate_every);
        let mut reported = self.observations.iter();
        for step in 0..=schedule.steps {
            if step > 0 {
                serial.step().map_err(|runaway| format!("the serial run: {runaway}"))?;
            }
            if schedule.reports_at(step) {
                let (found, expected) = (reported.next(), serial.observe());
                if found.is_none_or(|found| bits(found) != bits(&expected)) {
                    return Err(format!("step {step} is {found:?} and serially {expected:?}"));
                }
            }
        }
        let cells = self.fingerprints.iter().zip(serial.fingerprints());
        match cells.enumerate().find(|(_, (found, expected))| found != expected) {
            Some((cell, _)) => Err(format!("the trajectory of cell {cell} is not the serial one")),
            None if self.fingerprints.len() != serial.fingerprints().len() => {
                Err("some cells gave no trajectory".to_owned())
            }
            None => Ok(()),
        }
    }
}

impl Conservation {
    /// Whether everything is within its bounds.
    pub fn is_fine(&self) -> bool {
        self.energy_error_max.is_none_or(|most| self.energy_error <= most)
            && self.momentum_error <= MOMENTUM_ERROR_MAX
            && self.atoms.1.is_none()
    }
}

impl fmt::Display for Conservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { energy_error, energy_error_max, momentum_error, atoms: (atoms, later) } = self;
        write!(f, "energy error {energy_error:.1e}")?;
        match energy_error_max {
            Some(most) => write!(f, " of at most {most:.1e}")?,
            None => f.write_str(", which a truncated potential does not bound")?,
        }
        write!(f, ", momentum error {momentum_error:.1e}, {atoms} atoms")?;
        later.map_or(Ok(()), |later| write!(f, " and later {later}"))
    }
}

/// Returns the larger number, or NaN if either is NaN, which counts as the worst.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn bits(observation: &Observation) -> [u64; 9] {
    let Observation { step, sums, motion } = observation;
    let [x, y, z] = motion.momentum.map(f64::to_bits);
    let [energy, virial] = [sums.energy, sums.virial].map(f64::to_bits);
    [step, &sums.pairs, &motion.atoms, &energy, &virial, &motion.kinetic.to_bits(), &x, &y, &z]
        .map(|&n| n)
}

#[cfg(test)]
mod tests;
