//! The whole computation in one loop on one thread, the reference that the actors must reproduce
//! bit for bit.

use serde::{Deserialize, Serialize};

use super::atoms::{CellAtoms, Runaway};
use super::decomposition::{CellPair, Cells};
use super::fingerprint::StateFingerprint;
use super::force::{PairSums, Scratch};
use super::integrate::{Motion, drift, kick};
use super::pair::pair_forces;
use super::potential::LennardJones;
use super::system::System;
use super::vectors::Vectors;

/// The state of the system after a number of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Number of completed steps.
    pub step: u64,
    /// Potential energy, virial and pairs within the cutoff, without long-range correction.
    pub sums: PairSums,
    /// Kinetic energy and momentum.
    pub motion: Motion,
}

impl Observation {
    /// Returns the potential plus the kinetic energy in epsilon, constant up to the error of the
    /// integration.
    pub fn energy(&self) -> f64 {
        self.sums.energy + self.motion.kinetic
    }

    /// Returns the pressure in epsilon / sigma^3 for a box of `volume` sigma^3, from the virial
    /// theorem.
    pub fn pressure(&self, volume: f64) -> f64 {
        (2.0 * self.motion.kinetic + self.sums.virial) / (3.0 * volume)
    }
}

/// A run in progress.
#[derive(Clone, Debug)]
pub struct Serial {
    cells: Cells,
    pairs: Vec<CellPair>,
    law: LennardJones,
    dt: f64,
    migrate_every: u64,
    step: u64,
    names: Vec<String>,
    atoms: Vec<CellAtoms>,
    fingerprints: Vec<StateFingerprint>,
    forces: Vec<Vectors>,
    sums: PairSums,
    scratch: Scratch,
}

impl Serial {
    /// Distributes the atoms over the cells and computes the initial forces; `dt` is the time step
    /// in reduced units.
    ///
    /// The edges of `cells` must be at least the cutoff of `law`, or pairs are missed.
    pub fn new(system: &System, cells: Cells, law: LennardJones, dt: f64) -> Self {
        let atoms = system.distribute(&cells);
        let mut run = Self {
            pairs: cells.pairs(),
            cells,
            law,
            dt,
            migrate_every: 1,
            step: 0,
            names: system.names.clone(),
            fingerprints: vec![StateFingerprint::default(); atoms.len()],
            forces: vec![Vectors::default(); atoms.len()],
            atoms,
            sums: PairSums::default(),
            scratch: Scratch::default(),
        };
        run.compute_forces();
        run.take_fingerprints();
        run
    }

    /// Lets atoms change cells every `steps` steps (at least 1) instead of in every step.
    pub fn migrating_every(mut self, steps: u64) -> Self {
        self.migrate_every = steps.max(1);
        self
    }

    /// Does one step of velocity Verlet; atoms change cells between drift and forces.
    ///
    /// # Errors
    /// If an atom went farther than a neighbouring cell, strayed too far in a step without changes
    /// of cells, or has no finite position; the run is then no longer usable.
    pub fn step(&mut self) -> Result<(), Runaway> {
        for (atoms, forces) in self.atoms.iter_mut().zip(&self.forces) {
            kick(atoms, forces, self.dt / 2.0);
            drift(atoms, self.dt);
        }
        self.step += 1;
        if self.step.is_multiple_of(self.migrate_every) {
            self.migrate()?;
        } else {
            self.check_strays()?;
        }
        self.compute_forces();
        for (atoms, forces) in self.atoms.iter_mut().zip(&self.forces) {
            kick(atoms, forces, self.dt / 2.0);
        }
        self.take_fingerprints();
        Ok(())
    }

    /// Returns energies, momentum and pairs, summed cell by cell and pair by pair in order.
    pub fn observe(&self) -> Observation {
        let mut motion = Motion::default();
        for atoms in &self.atoms {
            motion.add(Motion::of(atoms));
        }
        Observation { step: self.step, sums: self.sums, motion }
    }

    /// Returns the hash of all states of each cell so far.
    pub fn fingerprints(&self) -> &[StateFingerprint] {
        &self.fingerprints
    }

    /// Returns the atoms of each cell, by ascending cell number.
    pub fn atoms(&self) -> &[CellAtoms] {
        &self.atoms
    }

    /// Returns the system, with atoms by id.
    pub fn system(&self) -> System {
        let mut atoms: Vec<_> = self.atoms.iter().flat_map(CellAtoms::iter).collect();
        atoms.sort_by_key(|atom| atom.id);
        System {
            positions: atoms.iter().map(|atom| atom.position).collect(),
            velocities: atoms.iter().map(|atom| atom.velocity).collect(),
            species: atoms.iter().map(|atom| atom.species).collect(),
            names: self.names.clone(),
            lengths: self.cells.lengths(),
        }
    }

    fn take_fingerprints(&mut self) {
        for (fingerprint, atoms) in self.fingerprints.iter_mut().zip(&self.atoms) {
            fingerprint.add(atoms);
        }
    }

    fn check_strays(&self) -> Result<(), Runaway> {
        let most = self.cells.stray_max(self.law.cutoff());
        let mut all = self.cells.indices().zip(&self.atoms);
        all.try_for_each(|(home, atoms)| atoms.check_strays(&self.cells, home, most))
    }

    fn migrate(&mut self) -> Result<(), Runaway> {
        for home in self.cells.indices() {
            let number = self.cells.number(home);
            for (to, leavers) in self.atoms[number].take_leavers(&self.cells, home)? {
                self.atoms[self.cells.number(to)].absorb(leavers);
            }
        }
        Ok(())
    }

    /// Computes all pairs in order of A and B, so that each cell sums the forces in the order of
    /// its partners.
    fn compute_forces(&mut self) {
        for (forces, atoms) in self.forces.iter_mut().zip(&self.atoms) {
            forces.reset(atoms.len());
        }
        self.sums = PairSums::default();
        for pair in &self.pairs {
            let (a, b) = (self.cells.number(pair.a), self.cells.number(pair.b));
            let (on_a, on_b) = (self.atoms[a].positions(), self.atoms[b].positions());
            let found = pair_forces(pair, &self.cells, &self.law, on_a, on_b, &mut self.scratch);
            self.forces[a].add(&found.on_a);
            if a != b {
                self.forces[b].add(&found.on_b);
            }
            self.sums.add(found.sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leanmd::io;
    use crate::leanmd::potential::Truncation;

    fn golden(dt: f64) -> Serial {
        let system = System::uniform_fcc(5, 0.8442, 1.44).unwrap();
        let law = LennardJones::new(2.5, Truncation::LinearForceShift).unwrap();
        Serial::new(&system, Cells::for_cutoff(system.lengths, 2.5).unwrap(), law, dt)
    }

    #[test]
    fn the_crystal_of_500_atoms_starts_with_the_reference_energies() {
        let start = golden(0.001).observe();
        assert_eq!(start.sums.pairs, 13_500);
        for (found, expected) in [
            (start.sums.energy, -5.6932782757),
            (start.motion.kinetic, 2.1556800000),
            (start.energy(), -3.5375982757),
        ] {
            assert!(
                (found / 500.0 - expected).abs() < 5e-11,
                "{} instead of {expected}",
                found / 500.0
            );
        }
    }

    #[test]
    fn the_drift_of_the_energy_falls_with_the_square_of_the_step() {
        for (steps, dt, expected) in [(100, 0.004, 2.55e-4), (200, 0.002, 6.36e-5)] {
            let drift = drift_over(&mut golden(dt), steps);
            assert!((drift / expected - 1.0).abs() < 0.005, "dt {dt}: {drift}");
        }
    }

    #[test]
    fn the_crystal_has_the_reference_energy_at_time_0_4_and_keeps_its_momentum() {
        let mut run = golden(0.001);
        let drift = drift_over(&mut run, 400);
        let end = run.observe();
        assert!((drift / 1.59e-5 - 1.0).abs() < 0.005, "{drift}");
        assert!(
            (end.sums.energy / 500.0 + 4.6963183751).abs() < 1e-9,
            "{}",
            end.sums.energy / 500.0
        );
        assert!(
            end.motion.momentum.iter().all(|axis| axis.abs() < 1e-13),
            "{:?}",
            end.motion.momentum
        );
    }

    #[test]
    fn the_reference_configuration_has_the_energies_published_by_nist() {
        let nist =
            io::read(include_bytes!("../../data/nist-lj-4.xyz"), Some("nist-lj-4.xyz")).unwrap();
        let system = nist.into_system(None).unwrap();
        for (cutoff, truncation, energy, virial) in [
            (3.0, Truncation::Truncated, -16.790, -46.249),
            (4.0, Truncation::Truncated, -17.060, -47.869),
            (3.0, Truncation::LinearForceShift, -15.001, -43.096),
        ] {
            let law = LennardJones::new(cutoff, truncation).unwrap();
            for dims in [[1; 3], [2; 3], [2, 1, 2]] {
                let sums = Serial::new(
                    &system,
                    Cells::with_dims(system.lengths, dims, cutoff).unwrap(),
                    law,
                    0.001,
                )
                .observe()
                .sums;
                assert!(
                    (sums.energy - energy).abs() < 5.1e-4,
                    "{cutoff} {truncation:?} {dims:?}: {}",
                    sums.energy
                );
                assert!(
                    (sums.virial - virial).abs() < 5.1e-4,
                    "{cutoff} {truncation:?} {dims:?}: {}",
                    sums.virial
                );
            }
        }
    }

    #[test]
    fn the_number_of_cells_does_not_change_the_physics() {
        let system = System::uniform_fcc(6, 0.7, 1.0).unwrap();
        let law = LennardJones::new(2.5, Truncation::LinearForceShift).unwrap();
        let energies = [[1, 1, 1], [2, 3, 1], [4, 4, 4]].map(|dims| {
            let mut run = Serial::new(
                &system,
                Cells::with_dims(system.lengths, dims, 2.5).unwrap(),
                law,
                0.004,
            );
            (0..25).for_each(|_| run.step().unwrap());
            run.observe().sums
        });
        for other in &energies[1..] {
            assert_eq!(other.pairs, energies[0].pairs);
            assert!(
                (other.energy - energies[0].energy).abs() < 1e-8
                    && (other.virial - energies[0].virial).abs() < 1e-7
            );
        }
    }

    #[test]
    fn no_atom_is_lost_when_atoms_change_cells() {
        let mut run = golden(0.004);
        (0..100).for_each(|_| run.step().unwrap());
        let system = run.system();
        assert_eq!((system.len(), run.observe().motion.atoms), (500, 500));
        assert!(run.atoms().iter().all(|cell| cell.ids().is_sorted()));
    }

    #[test]
    fn rare_changes_of_cells_keep_the_energy_or_are_reported() {
        let run = |dims, every, steps| {
            let system = System::uniform_fcc(5, 0.8442, 1.44).unwrap();
            let law = LennardJones::new(2.5, Truncation::LinearForceShift).unwrap();
            let cells = Cells::with_dims(system.lengths, dims, 2.5).unwrap();
            let mut run = Serial::new(&system, cells, law, 0.004).migrating_every(every);
            (0..steps).try_for_each(|_| run.step()).map(|()| run.observe().energy())
        };
        let [often, rarely] = [1, 20].map(|every| run([2; 3], every, 40).unwrap());
        assert!((often - rarely).abs() < 1e-8, "{often} and {rarely}");
        assert!(matches!(run([3; 3], 100, 99), Err(Runaway::Strayed { .. })));
    }

    /// The largest relative change of the energy over a number of steps.
    fn drift_over(run: &mut Serial, steps: u32) -> f64 {
        let start = run.observe().energy();
        (0..steps).fold(0.0, |most: f64, _| {
            run.step().unwrap();
            most.max(((run.observe().energy() - start) / start).abs())
        })
    }
}
