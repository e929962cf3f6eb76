//! The work of one cell pair: from the positions of two cells to the forces on both.

use serde::{Deserialize, Serialize};

use super::decomposition::{CellPair, Cells};
use super::force::{PairSums, Scratch, between, within};
use super::potential::LennardJones;
use super::vectors::Vectors;

/// The results of a pair for its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairForces {
    /// Forces on the atoms of cell A, in the order of its positions.
    pub on_a: Vectors,
    /// Forces on the atoms of cell B; empty for a cell with itself, whose forces are all in `on_a`.
    pub on_b: Vectors,
    /// Energy, virial and number of the pairs of atoms.
    pub sums: PairSums,
}

/// Computes a cell pair over all its images. For a cell with itself, `b` is not used.
pub fn pair_forces(
    pair: &CellPair,
    cells: &Cells,
    law: &LennardJones,
    a: &Vectors,
    b: &Vectors,
    scratch: &mut Scratch,
) -> PairForces {
    let same = pair.a == pair.b;
    let mut forces = PairForces {
        on_a: Vectors::zeros(a.len()),
        on_b: Vectors::zeros(if same { 0 } else { b.len() }),
        sums: PairSums::default(),
    };
    for &image in &pair.images {
        let shift = cells.shift(image);
        let sums = if !same {
            between(law, a, b, shift, &mut forces.on_a, &mut forces.on_b, scratch)
        } else if image == [0, 0, 0] {
            within(law, a, &mut forces.on_a, scratch)
        } else {
            let mut on_image = Vectors::zeros(a.len());
            let sums = between(law, a, a, shift, &mut forces.on_a, &mut on_image, scratch);
            forces.on_a.add(&on_image);
            sums
        };
        forces.sums.add(sums);
    }
    forces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leanmd::potential::Truncation;

    #[test]
    fn a_cell_interacts_with_its_own_images() {
        // Two atoms on a line, at a distance of 1 through the boundary and 3 inside: in a box of
        // one cell both distances are within 3.5.
        let cells = Cells::with_dims([4.0; 3], [1; 3], 3.5).unwrap();
        let law = LennardJones::new(3.5, Truncation::Truncated).unwrap();
        let atoms: Vectors = [[0.5, 2.0, 2.0], [3.5, 2.0, 2.0]].into_iter().collect();
        let pair = &cells.pairs()[0];
        let forces =
            pair_forces(pair, &cells, &law, &atoms, &Vectors::default(), &mut Scratch::default());
        assert_eq!((pair.images.len(), forces.sums.pairs), (14, 2));
        let (near, far) = (law.at_squared(1.0), law.at_squared(9.0));
        assert!((forces.sums.energy - near.0 - far.0).abs() < 1e-14);
        let expected = near.1 - 3.0 * far.1;
        assert!(
            (forces.on_a.at(0)[0] - expected).abs() < 1e-13
                && (forces.on_a.at(1)[0] + expected).abs() < 1e-13
        );
    }

    #[test]
    fn forces_on_both_cells_cancel() {
        let cells = Cells::with_dims([6.0; 3], [2; 3], 3.0).unwrap();
        let law = LennardJones::new(3.0, Truncation::LinearForceShift).unwrap();
        let a: Vectors = [[0.5, 1.0, 1.0], [2.8, 0.3, 1.7]].into_iter().collect();
        let b: Vectors = [[3.9, 1.0, 1.0], [5.8, 0.3, 1.7]].into_iter().collect();
        let pairs = cells.pairs();
        let pair = pairs.iter().find(|pair| (pair.a, pair.b) == ([0, 0, 0], [1, 0, 0])).unwrap();
        let forces = pair_forces(pair, &cells, &law, &a, &b, &mut Scratch::default());
        let (on_a, on_b) = (forces.on_a.total(), forces.on_b.total());
        assert!((0..3).all(|axis| (on_a[axis] + on_b[axis]).abs() < 1e-13));
        // The fourth pair is exactly at the cutoff.
        assert_eq!(forces.sums.pairs, 3);
    }
}
