//! A liquid droplet in its vapour: the standard system of the LeanMD job, with cells whose work
//! differs by a factor of a hundred.
//!
//! The system of Koenig and Kalé (2007) is a solvated biomolecule of about 30,000 atoms with about
//! 3,000 pairs of cells, dense in the middle and thin outside. The droplet has the same size and
//! imbalance without a force field: cells in the middle contain about 430 atoms, cells in the
//! corners about 4.
//!
//! Placement is not random: the liquid takes the lattice sites of a face-centred cubic crystal
//! nearest to the middle, and the vapour takes evenly chosen sites of a coarse grid outside the
//! liquid. So no two atoms overlap.

use serde::{Deserialize, Serialize};

use super::system::{FCC_BASIS, System, SystemError, check_atoms, positive};

/// The parameters of a droplet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Droplet {
    /// Number of atoms, liquid and vapour together.
    pub atoms: u32,
    /// Number of atoms in the vapour.
    pub vapour: u32,
    /// Density of the liquid in atoms / sigma^3.
    pub density: f64,
    /// Lengths of the box in sigma; the droplet is at its centre.
    pub lengths: [f64; 3],
    /// Temperature in epsilon / k.
    pub temperature: f64,
}

/// Cutoff for [`Droplet::STANDARD`] in sigma: twice the usual 2.5, because a surface is sensitive
/// to the cutoff.
pub const STANDARD_CUTOFF: f64 = 5.0;

/// Time step for [`Droplet::STANDARD`] in reduced units.
pub const STANDARD_DT: f64 = 0.004;

/// Minimum distance (sigma) between atoms of the vapour, and between vapour and liquid, at which
/// the force is weak and attractive.
const CLEARANCE: f64 = 1.5;

impl Droplet {
    /// A droplet of the size of the system in Koenig and Kalé (2007): its radius is 20.3 sigma, and
    /// it is 7.5 sigma away from its periodic image. Density and temperature are those of the
    /// liquid at its triple point; the vapour has 0.008 atoms / sigma^3.
    pub const STANDARD: Self =
        Self { atoms: 30_000, vapour: 600, density: 0.8442, lengths: [48.0; 3], temperature: 0.7 };

    /// The standard droplet scaled to another number of atoms: same densities, same shape.
    pub fn of_size(atoms: u32) -> Self {
        let scale = f64::from(atoms) / f64::from(Self::STANDARD.atoms);
        Self {
            atoms,
            vapour: (f64::from(Self::STANDARD.vapour) * scale) as u32,
            lengths: Self::STANDARD.lengths.map(|length| length * scale.cbrt()),
            ..Self::STANDARD
        }
    }

    /// Radius of the liquid in sigma.
    pub fn radius(&self) -> f64 {
        (0.75 / std::f64::consts::PI * f64::from(self.atoms.saturating_sub(self.vapour))
            / self.density)
            .cbrt()
    }

    /// Places the atoms: the liquid first, from the middle outwards, then the vapour.
    ///
    /// # Errors
    /// If there are no or too many atoms, a parameter is not a positive finite number, or a part
    /// does not fit into the box.
    pub fn build(&self) -> Result<System, SystemError> {
        check_atoms(self.atoms as usize)?;
        positive("density", self.density)?;
        for length in self.lengths {
            positive("box length", length)?;
        }
        let shortest = self.lengths.iter().copied().fold(f64::INFINITY, f64::min);
        if self.vapour > self.atoms || 2.0 * self.radius() + CLEARANCE > shortest {
            return Err(SystemError::Fit { what: "the droplet", lengths: self.lengths });
        }
        let mut positions = self.liquid();
        let reach =
            positions.last().map_or(0.0, |&outermost| self.radius_squared_of(outermost).sqrt());
        positions.extend(self.vapour_sites(reach + CLEARANCE, shortest)?);
        let mut system = System::at_rest(positions, self.lengths);
        system.draw_velocities(self.temperature)?;
        Ok(system)
    }

    /// Returns the lattice sites nearest to the middle, by distance and then in lattice order.
    fn liquid(&self) -> Vec<[f64; 3]> {
        let edge = (4.0 / self.density).cbrt();
        let around = (self.radius() / edge).ceil() as i32 + 1;
        let mut sites = Vec::new();
        for x in -around..=around {
            for y in -around..=around {
                for z in -around..=around {
                    sites.extend(FCC_BASIS.map(|basis| {
                        let cell = [x, y, z];
                        std::array::from_fn(|axis| {
                            self.lengths[axis] / 2.0
                                + (f64::from(cell[axis]) + basis[axis] + 0.25) * edge
                        })
                    }));
                }
            }
        }
        sites.sort_by(|&a, &b| self.radius_squared_of(a).total_cmp(&self.radius_squared_of(b)));
        sites.truncate((self.atoms - self.vapour) as usize);
        sites
    }

    /// Returns evenly chosen sites of the coarsest cubic grid that has enough sites farther than
    /// `clear` sigma from the middle.
    fn vapour_sites(&self, clear: f64, shortest: f64) -> Result<Vec<[f64; 3]>, SystemError> {
        let wanted = self.vapour as usize;
        let finest = (shortest / CLEARANCE).floor() as u32;
        for divisions in 1..=finest {
            let counts = self
                .lengths
                .map(|length| (length / shortest * f64::from(divisions)).floor() as u32);
            let sites = self.grid(counts, clear);
            if sites.len() >= wanted {
                return Ok((0..wanted)
                    .map(|number| sites[number * sites.len() / wanted])
                    .collect());
            }
        }
        Err(SystemError::Fit { what: "the vapour", lengths: self.lengths })
    }

    fn grid(&self, counts: [u32; 3], clear: f64) -> Vec<[f64; 3]> {
        let along = |axis: usize, index: u32| {
            (f64::from(index) + 0.5) * self.lengths[axis] / f64::from(counts[axis])
        };
        let mut sites = Vec::new();
        for x in 0..counts[0] {
            for y in 0..counts[1] {
                sites.extend((0..counts[2]).map(|z| [along(0, x), along(1, y), along(2, z)]));
            }
        }
        sites.retain(|&site| self.radius_squared_of(site) > clear * clear);
        sites
    }

    fn radius_squared_of(&self, position: [f64; 3]) -> f64 {
        (0..3).map(|axis| (position[axis] - self.lengths[axis] / 2.0).powi(2)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leanmd::decomposition::Cells;
    use crate::leanmd::pair::pair_forces;
    use crate::leanmd::potential::{LennardJones, Truncation};

    #[test]
    fn the_cells_of_the_standard_droplet_have_uneven_numbers_of_atoms() {
        let system = Droplet::STANDARD.build().unwrap();
        let cells = Cells::with_dims(system.lengths, [6, 6, 6], STANDARD_CUTOFF).unwrap();
        let mut sizes: Vec<usize> =
            system.distribute(&cells).iter().map(|atoms| atoms.len()).collect();
        sizes.sort_unstable();
        assert_eq!(system.len(), 30_000);
        assert_eq!(cells.pairs().len(), 3024);
        assert!(
            sizes[0] < 10 && (400..=500).contains(&sizes[215]),
            "{} to {}",
            sizes[0],
            sizes[215]
        );
    }

    #[test]
    fn no_two_atoms_overlap() {
        let system = Droplet { vapour: 100, lengths: [20.0, 24.0, 22.0], ..Droplet::of_size(1500) }
            .build()
            .unwrap();
        // With this cutoff, pairs closer than 1.1 sigma are counted. Neighbours in the crystal are
        // 1.19 sigma apart.
        let cells = Cells::for_cutoff(system.lengths, 2.5).unwrap();
        let law = LennardJones::new(1.1, Truncation::Truncated).unwrap();
        let atoms = system.distribute(&cells);
        let touching: u64 = cells
            .pairs()
            .iter()
            .map(|pair| {
                let (a, b) = (&atoms[cells.number(pair.a)], &atoms[cells.number(pair.b)]);
                pair_forces(
                    pair,
                    &cells,
                    &law,
                    a.positions(),
                    b.positions(),
                    &mut Default::default(),
                )
                .sums
                .pairs
            })
            .sum();
        assert_eq!(touching, 0);
    }

    #[test]
    fn building_twice_gives_the_same_bits() {
        assert_eq!(Droplet::of_size(2000).build(), Droplet::of_size(2000).build());
    }

    #[test]
    fn droplets_that_do_not_fit_into_the_box_are_refused() {
        let tight = Droplet { lengths: [40.0; 3], ..Droplet::STANDARD };
        assert_eq!(
            tight.build(),
            Err(SystemError::Fit { what: "the droplet", lengths: [40.0; 3] })
        );
        let crowded =
            Droplet { atoms: 40_000, vapour: 39_000, lengths: [30.0; 3], ..Droplet::STANDARD };
        assert_eq!(
            crowded.build(),
            Err(SystemError::Fit { what: "the vapour", lengths: [30.0; 3] })
        );
    }
}
