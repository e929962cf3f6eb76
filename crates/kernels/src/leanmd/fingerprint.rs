//! A hash over the successive states of a cell: two runs with equal fingerprints have the same
//! trajectory, bit for bit.

use serde::{Deserialize, Serialize};

use super::atoms::CellAtoms;

/// An odd multiplier with well-distributed bits: the golden ratio in 64 bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Number of hashes computed in parallel.
const LANES: usize = 4;

/// The hash of a cell's atoms at all steps so far. It detects differences, but does not withstand
/// an adversary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFingerprint(pub u64);

impl StateFingerprint {
    /// Adds a state: ids, positions and velocities. Takes a few ns per atom.
    pub fn add(&mut self, atoms: &CellAtoms) {
        self.mix(atoms.len() as u64);
        atoms.ids().iter().for_each(|&id| self.mix(u64::from(id)));
        for list in [atoms.positions(), atoms.velocities()] {
            for axis in [list.x(), list.y(), list.z()] {
                self.mix_numbers(axis);
            }
        }
    }

    /// Combines the fingerprints of all cells, which must be in order.
    pub fn of_all(cells: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        cells.into_iter().for_each(|cell| all.mix(cell.0));
        all
    }

    /// Mixes in numbers with several independent hashes, which the processor computes in parallel:
    /// within one hash, each multiplication waits for the previous one.
    fn mix_numbers(&mut self, numbers: &[f64]) {
        let (chunks, rest) = numbers.as_chunks::<LANES>();
        let mut lanes = [*self; LANES];
        for chunk in chunks {
            for (lane, number) in lanes.iter_mut().zip(chunk) {
                lane.mix(number.to_bits());
            }
        }
        lanes.into_iter().for_each(|lane| self.mix(lane.0));
        rest.iter().for_each(|number| self.mix(number.to_bits()));
    }

    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(FACTOR);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leanmd::atoms::Atom;

    #[test]
    fn one_changed_bit_changes_the_fingerprint() {
        let mut prints = Vec::new();
        for (x, vx) in [(1.0, 0.0), (1.0_f64.next_up(), 0.0), (1.0, -0.0)] {
            let mut print = StateFingerprint::default();
            print.add(&one(x, vx));
            print.add(&one(2.0, 0.0));
            prints.push(print);
        }
        assert!(prints[0] != prints[1] && prints[0] != prints[2] && prints[1] != prints[2]);
    }

    #[test]
    fn the_order_of_states_and_of_cells_changes_the_fingerprint() {
        let (mut here, mut there) = (StateFingerprint::default(), StateFingerprint::default());
        here.add(&one(1.0, 0.0));
        there.add(&one(2.0, 0.0));
        assert_ne!(
            StateFingerprint::of_all([here, there]),
            StateFingerprint::of_all([there, here])
        );
        here.add(&one(2.0, 0.0));
        there.add(&one(1.0, 0.0));
        assert_ne!(here, there);
    }

    #[test]
    fn every_number_of_a_long_list_changes_the_fingerprint() {
        let print = |changed: Option<usize>| {
            let numbers: Vec<f64> =
                (0..11).map(|at| if changed == Some(at) { 0.5 } else { at as f64 }).collect();
            let mut print = StateFingerprint::default();
            print.mix_numbers(&numbers);
            print
        };
        assert!((0..11).all(|at| print(Some(at)) != print(None)));
    }

    fn one(x: f64, vx: f64) -> CellAtoms {
        let atom = Atom { id: 7, species: 0, position: [x, 0.0, 0.0], velocity: [vx, 0.0, 0.0] };
        [atom].into_iter().collect()
    }
}
