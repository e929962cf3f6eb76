//! Velocity Verlet integration of the atoms of one cell, with all masses 1, and the sums over their
//! motion.
//!
//! A step consists of a [`kick`] by half a step, a [`drift`] by a whole one, new forces, and a
//! [`kick`] by half a step. Source: Swope, Andersen, Berens and Wilson, J. Chem. Phys. 76, 637
//! (1982). The error of the energy falls with the square of the step.

use serde::{Deserialize, Serialize};

use super::atoms::CellAtoms;
use super::vectors::Vectors;

/// Sums over the motion of a set of atoms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Motion {
    /// Number of atoms.
    pub atoms: u64,
    /// Kinetic energy in epsilon.
    pub kinetic: f64,
    /// Sum of the velocities; constant, and zero for the built-in systems.
    pub momentum: [f64; 3],
}

impl Motion {
    /// Returns the sums over the atoms of one cell, in their order.
    pub fn of(atoms: &CellAtoms) -> Self {
        let velocities = atoms.velocities();
        Self {
            atoms: atoms.len() as u64,
            kinetic: velocities.squared() / 2.0,
            momentum: velocities.total(),
        }
    }

    /// Adds the sums of another set of atoms.
    pub fn add(&mut self, other: Motion) {
        self.atoms += other.atoms;
        self.kinetic += other.kinetic;
        for (to, from) in self.momentum.iter_mut().zip(other.momentum) {
            *to += from;
        }
    }

    /// Returns the temperature in epsilon / k: twice the kinetic energy over `3 (N - 1)` degrees of
    /// freedom, as the centre of mass is at rest; 0 for fewer than two atoms.
    pub fn temperature(&self) -> f64 {
        if self.atoms < 2 { 0.0 } else { self.kinetic / (1.5 * (self.atoms - 1) as f64) }
    }
}

/// Changes velocities by `forces` (in the order of the atoms) acting for the time `dt`.
pub fn kick(atoms: &mut CellAtoms, forces: &Vectors, dt: f64) {
    atoms.motion().1.add_scaled(dt, forces);
}

/// Moves atoms by their velocities for the time `dt`, without wrapping them into the box.
pub fn drift(atoms: &mut CellAtoms, dt: f64) {
    let (positions, velocities) = atoms.motion();
    positions.add_scaled(dt, velocities);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leanmd::atoms::Atom;

    #[test]
    fn a_step_in_a_constant_field_is_exact() {
        let mut atoms = one([1.0, 0.0, 0.0], [2.0, 0.0, -1.0]);
        let field: Vectors = [[0.0, -8.0, 0.0]].into_iter().collect();
        kick(&mut atoms, &field, 0.25);
        drift(&mut atoms, 0.5);
        kick(&mut atoms, &field, 0.25);
        assert_eq!(atoms.positions().at(0), [2.0, -1.0, -0.5]);
        assert_eq!(atoms.velocities().at(0), [2.0, -4.0, -1.0]);
    }

    #[test]
    fn the_error_of_an_oscillator_falls_with_the_square_of_the_step() {
        let drifted = |steps: u32| {
            let dt = 1.0 / f64::from(steps);
            let mut atoms = one([1.0, 0.0, 0.0], [0.0; 3]);
            for _ in 0..steps {
                let before = spring(&atoms);
                kick(&mut atoms, &before, dt / 2.0);
                drift(&mut atoms, dt);
                let after = spring(&atoms);
                kick(&mut atoms, &after, dt / 2.0);
            }
            (atoms.positions().x()[0] - 1.0_f64.cos()).abs()
        };
        let ratio = drifted(50) / drifted(100);
        assert!((ratio - 4.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn temperature_counts_the_degrees_of_freedom_without_the_centre_of_mass() {
        let mut motion = Motion::of(&one([0.0; 3], [3.0, 0.0, 0.0]));
        motion.add(Motion::of(&one([0.0; 3], [-3.0, 0.0, 0.0])));
        assert_eq!(motion, Motion { atoms: 2, kinetic: 9.0, momentum: [0.0; 3] });
        assert_eq!(motion.temperature(), 6.0);
        assert_eq!(Motion::default().temperature(), 0.0);
    }

    fn one(position: [f64; 3], velocity: [f64; 3]) -> CellAtoms {
        [Atom { id: 0, species: 0, position, velocity }].into_iter().collect()
    }

    fn spring(atoms: &CellAtoms) -> Vectors {
        atoms.positions().iter().map(|position| position.map(|axis| -axis)).collect()
    }
}
