//! Sums the forces from a cell's pairs in the order of its partners, not in the order of arrival.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::vectors::Vectors;

/// The forces on the atoms of one cell in one step that have arrived so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gather {
    /// The sum over the first `added` partners.
    sum: Vectors,
    /// Number of partners included in the sum.
    added: usize,
    /// Forces that arrived before those of earlier partners, by position of the partner.
    waiting: BTreeMap<usize, Vectors>,
}

impl Gather {
    /// Begins a step for `atoms` atoms.
    pub fn begin(&mut self, atoms: usize) {
        self.sum.reset(atoms);
        self.added = 0;
        self.waiting.clear();
    }

    /// Takes the forces of the partner at `position`. Returns whether they are the first from this
    /// partner and have one vector for each atom.
    #[must_use]
    pub fn take(&mut self, position: usize, forces: Vectors) -> bool {
        let is_due = position >= self.added && forces.len() == self.sum.len();
        if !is_due || self.waiting.insert(position, forces).is_some() {
            return false;
        }
        while let Some(next) = self.waiting.remove(&self.added) {
            self.sum.add(&next);
            self.added += 1;
        }
        true
    }

    /// Number of partners included in the sum.
    pub fn added(&self) -> usize {
        self.added
    }

    /// The sum of the forces, complete once all partners are included.
    pub fn sum(&self) -> &Vectors {
        &self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_does_not_depend_on_the_order_of_arrival() {
        // 1e16 + 1 - 1e16 depends on the order.
        let forces = [1e16, 1.0, -1e16, 3.0].map(|x| Vectors::from_iter([[x, 0.0, 0.0]]));
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let mut gather = Gather::default();
            gather.begin(1);
            for position in order {
                assert!(gather.take(position, forces[position].clone()));
            }
            assert_eq!(gather.added(), 4);
            assert_eq!(gather.sum().at(0)[0], (1e16 + 1.0 - 1e16) + 3.0);
        }
    }

    #[test]
    fn repeated_forces_and_those_of_another_length_are_refused() {
        let mut gather = Gather::default();
        gather.begin(2);
        assert!(!gather.take(0, Vectors::zeros(1)));
        assert!(gather.take(1, Vectors::zeros(2)));
        assert!(!gather.take(1, Vectors::zeros(2)));
        assert!(gather.take(0, Vectors::zeros(2)));
        assert!(!gather.take(0, Vectors::zeros(2)));
    }
}
