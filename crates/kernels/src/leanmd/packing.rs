//! Atoms as a list of numbers, the form in which they move between cells and to main.

use super::atoms::{Atom, CellAtoms};

/// Numbers per atom: id, species, position, velocity.
pub const ATOM_NUMBERS: usize = 8;

/// Packs atoms; 32-bit ids are exact as floating-point numbers.
pub fn pack(atoms: &[Atom]) -> Vec<f64> {
    atoms.iter().copied().flat_map(numbers).collect()
}

/// Packs all atoms of a cell, by ascending id.
pub fn pack_cell(atoms: &CellAtoms) -> Vec<f64> {
    atoms.iter().flat_map(numbers).collect()
}

/// Unpacks atoms. Numbers that are too few for another atom are ignored.
pub fn unpack(numbers: &[f64]) -> Vec<Atom> {
    numbers.as_chunks::<ATOM_NUMBERS>().0.iter().copied().map(atom).collect()
}

fn numbers(
    Atom { id, species, position: [x, y, z], velocity: [vx, vy, vz] }: Atom,
) -> [f64; ATOM_NUMBERS] {
    [f64::from(id), f64::from(species), x, y, z, vx, vy, vz]
}

fn atom([id, species, x, y, z, vx, vy, vz]: [f64; ATOM_NUMBERS]) -> Atom {
    Atom { id: id as u32, species: species as u16, position: [x, y, z], velocity: [vx, vy, vz] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_and_unpacking_preserve_atoms() {
        let atom = Atom {
            id: u32::MAX,
            species: 3,
            position: [0.1, -2.5, 1e-300],
            velocity: [-0.0, 1.0, 2.0],
        };
        let other = Atom { id: 7, ..atom };
        assert_eq!(unpack(&pack(&[atom, other])), [atom, other]);
        let cell: CellAtoms = [atom, other].into_iter().collect();
        assert_eq!(unpack(&pack_cell(&cell)), [other, atom]);
    }
}
