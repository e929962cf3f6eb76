//! The atoms of one cell, and their migration between cells.
//!
//! Atoms are sorted by id. The order of every sum over them, and with it every bit of the
//! trajectory, is therefore independent of the order in which migrating atoms arrive.
//!
//! Between two calls of [`CellAtoms::take_leavers`] positions are not wrapped. A periodic image
//! shifts all atoms of a cell by the same vector, so an atom that has just crossed the boundary of
//! the box must stay next to its cell until it changes cells.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::decomposition::{CellIndex, Cells};
use super::vectors::Vectors;

/// One atom on its way between cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Atom {
    /// Unique in the job.
    pub id: u32,
    /// Kind of atom, an index into the names of the system.
    pub species: u16,
    /// In sigma.
    pub position: [f64; 3],
    /// In reduced units.
    pub velocity: [f64; 3],
}

/// The atoms of one cell by ascending id. All lists have the same length, also after
/// deserialisation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Lists")]
pub struct CellAtoms {
    ids: Vec<u32>,
    species: Vec<u16>,
    positions: Vectors,
    velocities: Vectors,
}

/// The lists of a received cell have different lengths; the sender is defective or of another
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a cell has {ids} ids, {species} species, {positions} positions and {velocities} velocities; their numbers must be equal"
)]
pub struct Uneven {
    ids: usize,
    species: usize,
    positions: usize,
    velocities: usize,
}

/// An atom moved so far at once that the trajectory is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum Runaway {
    /// Its position overflowed: atoms overlap, or the time step is far too long.
    #[error(
        "the position of atom {id} is no longer finite; reduce the time step or start without overlapping atoms"
    )]
    NotFinite {
        /// Id of the atom.
        id: u32,
    },
    /// It jumped over a cell: the time step is too long, or atoms change cells too rarely.
    #[error(
        "atom {id} moved from cell {from:?} past its neighbours to {to:?}; reduce the time step or let atoms change cells more often"
    )]
    TooFar {
        /// Id of the atom.
        id: u32,
        /// The cell that it left.
        from: CellIndex,
        /// The cell that contains it now.
        to: CellIndex,
    },
    /// It strayed so far from its cell that the cells may have missed pairs.
    #[error(
        "atom {id} strayed {distance:.3} sigma from cell {from:?}, more than {most:.3}; let atoms change cells more often"
    )]
    Strayed {
        /// Id of the atom.
        id: u32,
        /// The cell it belongs to.
        from: CellIndex,
        /// Distance from the cell along one axis, in sigma.
        distance: f64,
        /// The bound in sigma; see [`Cells::stray_max`].
        most: f64,
    },
}

/// The serialised form of [`CellAtoms`], before the lengths are checked.
#[derive(Deserialize)]
struct Lists {
    ids: Vec<u32>,
    species: Vec<u16>,
    positions: Vectors,
    velocities: Vectors,
}

impl TryFrom<Lists> for CellAtoms {
    type Error = Uneven;

    fn try_from(lists: Lists) -> Result<Self, Uneven> {
        let Lists { ids, species, positions, velocities } = lists;
        if [species.len(), positions.len(), velocities.len()] == [ids.len(); 3] {
            Ok(Self { ids, species, positions, velocities })
        } else {
            Err(Uneven {
                ids: ids.len(),
                species: species.len(),
                positions: positions.len(),
                velocities: velocities.len(),
            })
        }
    }
}

impl CellAtoms {
    /// Number of atoms.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no atoms.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Ids, ascending.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Positions in sigma, by ascending id. The cell sends them to its pairs.
    pub fn positions(&self) -> &Vectors {
        &self.positions
    }

    /// Velocities by ascending id.
    pub fn velocities(&self) -> &Vectors {
        &self.velocities
    }

    /// Positions and velocities for integration. The caller must not change their lengths.
    pub(super) fn motion(&mut self) -> (&mut Vectors, &mut Vectors) {
        (&mut self.positions, &mut self.velocities)
    }

    /// Returns atom number `index` in order of ids.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    pub fn atom(&self, index: usize) -> Atom {
        Atom {
            id: self.ids[index],
            species: self.species[index],
            position: self.positions.at(index),
            velocity: self.velocities.at(index),
        }
    }

    /// Iterates over the atoms by ascending id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Atom> + '_ {
        (0..self.len()).map(|index| self.atom(index))
    }

    /// Inserts atoms, which may arrive in any order, by id.
    pub fn absorb(&mut self, arrivals: impl IntoIterator<Item = Atom>) {
        let before = self.len();
        for atom in arrivals {
            self.push(atom);
        }
        if self.len() > before && !self.ids.is_sorted() {
            let mut atoms: Vec<Atom> = self.iter().collect();
            atoms.sort_by_key(|atom| atom.id);
            self.rebuild(&atoms);
        }
    }

    /// Wraps all positions into the box, and removes the atoms that have left the cell `home`.
    /// Returns them by the cell that contains them now.
    ///
    /// # Errors
    /// If an atom went farther than a neighbouring cell, or has no finite position. The atoms of
    /// the cell are then unchanged.
    pub fn take_leavers(
        &mut self,
        cells: &Cells,
        home: CellIndex,
    ) -> Result<BTreeMap<CellIndex, Vec<Atom>>, Runaway> {
        let neighbours = cells.neighbours(home);
        let mut stayers = Vec::with_capacity(self.len());
        let mut leavers: BTreeMap<CellIndex, Vec<Atom>> = BTreeMap::new();
        for mut atom in self.iter() {
            let Atom { id, position, .. } = atom;
            if !position.iter().all(|axis| axis.is_finite()) {
                return Err(Runaway::NotFinite { id });
            }
            let to = cells.cell_of(position);
            atom.position = cells.wrap(position);
            if to == home {
                stayers.push(atom);
            } else if neighbours.binary_search(&to).is_ok() {
                leavers.entry(to).or_default().push(atom);
            } else {
                return Err(Runaway::TooFar { id, from: home, to });
            }
        }
        self.rebuild(&stayers);
        Ok(leavers)
    }

    /// Checks that no atom is farther than `most` sigma outside the cell `home`, along any axis.
    ///
    /// # Errors
    /// If an atom is farther away, or has no finite position.
    pub fn check_strays(&self, cells: &Cells, home: CellIndex, most: f64) -> Result<(), Runaway> {
        for (index, position) in self.positions.iter().enumerate() {
            let distance = cells.stray(home, position);
            // The comparison is false for NaN.
            if distance <= most {
                continue;
            }
            let id = self.ids[index];
            return Err(match distance.is_finite() {
                true => Runaway::Strayed { id, from: home, distance, most },
                false => Runaway::NotFinite { id },
            });
        }
        Ok(())
    }

    fn push(&mut self, atom: Atom) {
        self.ids.push(atom.id);
        self.species.push(atom.species);
        self.positions.push(atom.position);
        self.velocities.push(atom.velocity);
    }

    fn rebuild(&mut self, atoms: &[Atom]) {
        self.ids.clear();
        self.species.clear();
        self.positions.clear();
        self.velocities.clear();
        for &atom in atoms {
            self.push(atom);
        }
    }
}

impl FromIterator<Atom> for CellAtoms {
    fn from_iter<I: IntoIterator<Item = Atom>>(atoms: I) -> Self {
        let mut cell = Self::default();
        cell.absorb(atoms);
        cell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_are_sorted_by_id_in_any_order_of_arrival() {
        let mut one: CellAtoms = [at(5, 0.5), at(1, 0.1)].into_iter().collect();
        one.absorb([at(3, 0.3), at(0, 0.0)]);
        let other: CellAtoms =
            [at(0, 0.0), at(3, 0.3), at(1, 0.1), at(5, 0.5)].into_iter().collect();
        assert_eq!(one, other);
        assert_eq!(one.ids(), [0, 1, 3, 5]);
        assert_eq!(one.positions().x(), [0.0, 0.1, 0.3, 0.5]);
    }

    #[test]
    fn leavers_go_to_the_cell_that_contains_their_image() {
        let cells = Cells::with_dims([9.0; 3], [3; 3], 3.0).unwrap();
        let mut home: CellAtoms =
            [at(0, -0.25), at(1, 1.0), at(2, 3.0), at(3, 3.5)].into_iter().collect();
        let leavers = home.take_leavers(&cells, [0, 0, 0]).unwrap();
        assert_eq!(home.ids(), [1]);
        assert_eq!(leavers[&[1, 0, 0]], [at(2, 3.0), at(3, 3.5)]);
        assert_eq!(leavers[&[2, 0, 0]], [at(0, 8.75)]);
    }

    #[test]
    fn the_only_cell_of_a_box_keeps_its_atoms_and_wraps_them() {
        let cells = Cells::with_dims([4.0; 3], [1; 3], 3.0).unwrap();
        let mut home: CellAtoms = [at(0, 4.5)].into_iter().collect();
        assert!(home.take_leavers(&cells, [0, 0, 0]).unwrap().is_empty());
        assert_eq!(home.atom(0), at(0, 0.5));
    }

    #[test]
    fn an_atom_that_jumps_over_a_cell_is_reported_and_nothing_is_lost() {
        let cells = Cells::with_dims([15.0; 3], [5; 3], 3.0).unwrap();
        let mut home: CellAtoms = [at(4, 3.5), at(9, 7.0)].into_iter().collect();
        let before = home.clone();
        let runaway = home.take_leavers(&cells, [0, 0, 0]).unwrap_err();
        assert_eq!(runaway, Runaway::TooFar { id: 9, from: [0, 0, 0], to: [2, 0, 0] });
        assert_eq!(home, before);
    }

    #[test]
    fn an_atom_that_strays_too_far_is_reported() {
        let cells = Cells::with_dims([15.0; 3], [5; 3], 2.0).unwrap();
        let home: CellAtoms = [at(4, 2.5), at(9, 3.75)].into_iter().collect();
        assert_eq!(home.check_strays(&cells, [0, 0, 0], 0.75), Ok(()));
        let strayed = Runaway::Strayed { id: 9, from: [0, 0, 0], distance: 0.75, most: 0.5 };
        assert_eq!(home.check_strays(&cells, [0, 0, 0], 0.5), Err(strayed));
        let broken: CellAtoms = [at(4, f64::NAN)].into_iter().collect();
        let error = broken.check_strays(&cells, [0, 0, 0], 0.5);
        assert_eq!(error, Err(Runaway::NotFinite { id: 4 }));
    }

    #[test]
    fn an_overflowed_position_is_reported() {
        let cells = Cells::with_dims([15.0; 3], [5; 3], 3.0).unwrap();
        let mut home: CellAtoms = [at(4, f64::NAN)].into_iter().collect();
        assert_eq!(home.take_leavers(&cells, [0, 0, 0]), Err(Runaway::NotFinite { id: 4 }));
    }

    fn at(id: u32, x: f64) -> Atom {
        Atom { id, species: 0, position: [x, 1.0, 1.0], velocity: [f64::from(id); 3] }
    }
}
