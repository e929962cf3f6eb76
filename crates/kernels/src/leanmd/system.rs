//! All atoms of a run in one place: the initial state of a job, and the form in which it is
//! written.
//!
//! Reduced Lennard-Jones units throughout: lengths in sigma, energies in epsilon, masses 1, times
//! in `sigma sqrt(m / epsilon)`, temperatures in `epsilon / k`. Files in other units are read
//! without conversion and can be [scaled](System::scale_lengths).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::atoms::{Atom, CellAtoms};
use super::decomposition::Cells;
use crate::random::NasRandom;

/// Seed of the NAS stream from which the velocities of the built-in systems are drawn.
pub const VELOCITY_SEED: u64 = 271_828_183;

/// Maximum number of atoms: ids have 32 bits, and this number already needs 25 GB.
pub const ATOMS_MAX: usize = 1 << 28;

/// Maximum number of trailing zero bits of a seed of velocities. With that many, the stream repeats
/// after four million numbers. The stream of seed 0 has only zeros, which would leave all atoms at
/// rest.
const SEED_ZEROS_MAX: u32 = 22;

/// Positions of the four atoms of a face-centred cubic cell, in cell edges.
pub(super) const FCC_BASIS: [[f64; 3]; 4] =
    [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]];

/// Atoms in a periodic box. The id of an atom is its index. Positions, velocities and species have
/// the same length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// Positions in sigma, inside the box or outside.
    pub positions: Vec<[f64; 3]>,
    /// Velocities in reduced units.
    pub velocities: Vec<[f64; 3]>,
    /// Species of each atom, an index into `names`.
    pub species: Vec<u16>,
    /// Names of the species, usually chemical symbols.
    pub names: Vec<String>,
    /// Lengths of the box in sigma.
    pub lengths: [f64; 3],
}

/// The requested system is impossible.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SystemError {
    /// There are no atoms, or too many.
    #[error("the system would have {atoms} atoms; it must have between 1 and {ATOMS_MAX}")]
    Atoms {
        /// The requested number of atoms.
        atoms: usize,
    },
    /// A parameter is not a positive finite number.
    #[error("the {what} is {value}; it must be a positive finite number")]
    Parameter {
        /// Name of the parameter.
        what: &'static str,
        /// The given value.
        value: f64,
    },
    /// The box is unknown: neither the file nor the caller gives it.
    #[error("the file does not give the box; pass its three lengths")]
    NoBox,
    /// The parts do not fit into the box.
    #[error("{what} does not fit into the box of {lengths:?}; use a larger box or fewer atoms")]
    Fit {
        /// Name of the part.
        what: &'static str,
        /// Lengths of the box in sigma.
        lengths: [f64; 3],
    },
}

impl System {
    /// Creates a face-centred cubic crystal of `cells`^3 cells with four atoms each, at `density`
    /// (atoms / sigma^3) in a cube, with velocities of `temperature`: 5 cells at density 0.8442 and
    /// temperature 1.44 give the 500-atom system of the tests.
    ///
    /// Cells are in order with the last index fastest, and the atoms of a cell in the order of the
    /// basis `000, 0 1/2 1/2, 1/2 0 1/2, 1/2 1/2 0`; each atom is a quarter of a cell edge from its
    /// lattice point along all axes.
    ///
    /// # Errors
    /// If there would be no or too many atoms, or a parameter is not a positive finite number.
    pub fn uniform_fcc(cells: u32, density: f64, temperature: f64) -> Result<Self, SystemError> {
        positive("density", density)?;
        let atoms = (cells as usize)
            .checked_pow(3)
            .and_then(|cells| cells.checked_mul(4))
            .unwrap_or(usize::MAX);
        check_atoms(atoms)?;
        let edge = (4.0 / density).cbrt();
        let place = |cell: [u32; 3], basis: [f64; 3]| {
            std::array::from_fn(|axis| (f64::from(cell[axis]) + basis[axis] + 0.25) * edge)
        };
        let mut positions = Vec::with_capacity(atoms);
        for x in 0..cells {
            for y in 0..cells {
                for z in 0..cells {
                    positions.extend(FCC_BASIS.map(|basis| place([x, y, z], basis)));
                }
            }
        }
        let mut system = Self::at_rest(positions, [edge * f64::from(cells); 3]);
        system.draw_velocities(temperature)?;
        Ok(system)
    }

    /// Compresses the atoms smoothly around the middle of the box, along each axis by a wave as
    /// long as the box, until the highest density is `contrast` (at least 1) times the lowest.
    #[must_use]
    pub fn pressed(mut self, contrast: f64) -> Self {
        // Along one axis, adding `a / turn * sin(turn * x)` to `x` stretches distances by `1 + a`
        // where the sine rises most steeply, and compresses them by `1 - a` where it falls most
        // steeply.
        let of_axis = contrast.cbrt();
        let steepest = (of_axis - 1.0) / (of_axis + 1.0);
        for position in &mut self.positions {
            for (x, length) in position.iter_mut().zip(self.lengths) {
                let turn = std::f64::consts::TAU / length;
                *x += steepest / turn * (*x * turn).sin();
            }
        }
        self
    }

    /// Creates atoms of one species, "Ar", at rest.
    pub fn at_rest(positions: Vec<[f64; 3]>, lengths: [f64; 3]) -> Self {
        let atoms = positions.len();
        Self {
            positions,
            velocities: vec![[0.0; 3]; atoms],
            species: vec![0; atoms],
            names: vec!["Ar".to_owned()],
            lengths,
        }
    }

    /// Number of atoms.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are no atoms.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Volume of the box in sigma^3.
    pub fn volume(&self) -> f64 {
        self.lengths.iter().product()
    }

    /// [Draws](Self::draw_velocities_from) velocities from the stream of [`VELOCITY_SEED`].
    ///
    /// # Errors
    /// If the temperature is not a positive finite number.
    pub fn draw_velocities(&mut self, temperature: f64) -> Result<(), SystemError> {
        self.draw_velocities_from(VELOCITY_SEED, temperature)
    }

    /// Draws the velocity of each atom, with components uniform from the NAS stream of `seed` (x,
    /// y, z, atom by atom). The total momentum is zero, and the velocities are scaled to exactly
    /// `temperature`, counted over `3 (N - 1)` degrees of freedom. If a seed has more than 22
    /// trailing zero bits, as 0 has, the next number is the seed instead.
    ///
    /// # Errors
    /// If the temperature is not a positive finite number.
    pub fn draw_velocities_from(&mut self, seed: u64, temperature: f64) -> Result<(), SystemError> {
        positive("temperature", temperature)?;
        let is_short = seed.trailing_zeros() > SEED_ZEROS_MAX;
        let mut random = NasRandom::new(if is_short { seed | 1 } else { seed });
        for velocity in &mut self.velocities {
            *velocity = std::array::from_fn(|_| random.next_unit() - 0.5);
        }
        let count = self.velocities.len() as f64;
        let mean: [f64; 3] = std::array::from_fn(|axis| {
            self.velocities.iter().map(|velocity| velocity[axis]).sum::<f64>() / count
        });
        for velocity in &mut self.velocities {
            *velocity = std::array::from_fn(|axis| velocity[axis] - mean[axis]);
        }
        let squared: f64 = self.velocities.iter().flatten().map(|axis| axis * axis).sum();
        let factor =
            if squared > 0.0 { (3.0 * (count - 1.0) * temperature / squared).sqrt() } else { 0.0 };
        self.velocities.iter_mut().flatten().for_each(|axis| *axis *= factor);
        Ok(())
    }

    /// Divides positions, velocities and the lengths of the box by `sigma`, which converts lengths
    /// in angstrom into reduced units.
    ///
    /// # Errors
    /// If `sigma` is not a positive finite number.
    pub fn scale_lengths(&mut self, sigma: f64) -> Result<(), SystemError> {
        positive("length unit", sigma)?;
        let vectors = self.positions.iter_mut().chain(&mut self.velocities);
        vectors.flatten().chain(&mut self.lengths).for_each(|axis| *axis /= sigma);
        Ok(())
    }

    /// Returns the atoms of each cell, by ascending cell number, with positions wrapped into the
    /// box.
    ///
    /// # Panics
    /// If the lists have different lengths.
    pub fn distribute(&self, cells: &Cells) -> Vec<CellAtoms> {
        let mut members: Vec<Vec<Atom>> = vec![Vec::new(); cells.count()];
        for (index, &position) in self.positions.iter().enumerate() {
            let atom = Atom {
                id: index as u32,
                species: self.species[index],
                position: cells.wrap(position),
                velocity: self.velocities[index],
            };
            members[cells.number(cells.cell_of(position))].push(atom);
        }
        members.into_iter().map(|atoms| atoms.into_iter().collect()).collect()
    }
}

/// Rejects a value that is not a positive finite number.
pub(super) fn positive(what: &'static str, value: f64) -> Result<(), SystemError> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(SystemError::Parameter { what, value })
    }
}

/// Rejects systems of no or too many atoms.
pub(super) fn check_atoms(atoms: usize) -> Result<(), SystemError> {
    if (1..=ATOMS_MAX).contains(&atoms) { Ok(()) } else { Err(SystemError::Atoms { atoms }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_hundred_atoms_fill_a_cube_of_8_397981() {
        let system = System::uniform_fcc(5, 0.8442, 1.44).unwrap();
        assert_eq!(system.len(), 500);
        assert!((system.lengths[0] - 8.397981).abs() < 5e-7);
        assert!((system.len() as f64 / system.volume() - 0.8442).abs() < 1e-12);
    }

    #[test]
    fn the_layer_distances_of_a_pressed_crystal_differ_by_the_cube_root_of_the_contrast() {
        let layers = |contrast: f64| {
            let system = System::uniform_fcc(40, 0.8442, 1.44).unwrap().pressed(contrast);
            let mut layers: Vec<f64> =
                system.positions.iter().map(|position| position[0]).collect();
            layers.sort_unstable_by(f64::total_cmp);
            layers.dedup();
            let gaps = layers.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > 1e-9);
            gaps.fold((f64::MAX, 0.0_f64), |(least, most), gap| (least.min(gap), most.max(gap)))
        };
        let (least, most) = layers(8.0);
        assert!((most / least - 2.0).abs() < 0.01, "{least} and {most}");
        let (least, most) = layers(1.0);
        assert!((most - least).abs() < 1e-9);
    }

    #[test]
    fn velocities_have_the_requested_temperature_and_no_momentum() {
        let system = System::uniform_fcc(5, 0.8442, 1.44).unwrap();
        let kinetic: f64 = system.velocities.iter().flatten().map(|axis| axis * axis / 2.0).sum();
        assert!((kinetic / 500.0 - 2.15568).abs() < 1e-12);
        for axis in 0..3 {
            assert!(
                system.velocities.iter().map(|velocity| velocity[axis]).sum::<f64>().abs() < 1e-13
            );
        }
    }

    #[test]
    fn every_seed_draws_velocities_of_the_requested_temperature() {
        let mut system = System::uniform_fcc(3, 0.8442, 1.44).unwrap();
        for seed in [0, 1, 2, 1 << 22, 1 << 23, 1 << 45, 1 << 46, u64::MAX] {
            system.draw_velocities_from(seed, 0.7).unwrap();
            let squared: f64 = system.velocities.iter().flatten().map(|axis| axis * axis).sum();
            let temperature = squared / (3.0 * 107.0);
            assert!((temperature - 0.7).abs() < 1e-12, "{seed}: {temperature}");
        }
    }

    #[test]
    fn every_atom_is_in_exactly_one_cell() {
        let system = System::uniform_fcc(5, 0.8442, 1.44).unwrap();
        let cells = Cells::for_cutoff(system.lengths, 2.5).unwrap();
        let mut ids: Vec<u32> =
            system.distribute(&cells).iter().flat_map(|cell| cell.ids().to_vec()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..500).collect::<Vec<u32>>());
    }

    #[test]
    fn scale_lengths_converts_angstrom_into_sigma() {
        let mut system = System::at_rest(vec![[3.4, 6.8, 0.0]], [34.0; 3]);
        system.scale_lengths(3.4).unwrap();
        assert_eq!((system.positions[0], system.lengths), ([1.0, 2.0, 0.0], [10.0; 3]));
    }

    #[test]
    fn impossible_systems_are_refused() {
        assert_eq!(System::uniform_fcc(0, 0.8442, 1.44), Err(SystemError::Atoms { atoms: 0 }));
        assert!(matches!(
            System::uniform_fcc(u32::MAX, 0.8442, 1.44),
            Err(SystemError::Atoms { .. })
        ));
        assert!(matches!(
            System::uniform_fcc(5, -1.0, 1.44),
            Err(SystemError::Parameter { what: "density", .. })
        ));
        assert!(matches!(
            System::uniform_fcc(5, 1.0, f64::NAN),
            Err(SystemError::Parameter { what: "temperature", .. })
        ));
    }
}
