//! Orders drawn by seeded dice.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Dice seeded by whoever throws them.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Pcg64Mcg);

/// Vertices are visited in runs of this many neighbours in memory: a random order of single
/// vertices would miss the cache each time.
const RUN: usize = 32;

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number below `bound`, or 0 if that is 0.
    #[inline]
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.0.next_u64()) * bound as u128) >> 64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// All numbers below `count`, in shuffled runs that are shuffled inside.
    pub(crate) fn order(&mut self, count: usize) -> Vec<u32> {
        let mut runs: Vec<usize> = (0..count.div_ceil(RUN)).collect();
        self.shuffle(&mut runs);
        let mut order = Vec::with_capacity(count);
        for run in runs {
            let begin = order.len();
            order.extend((run * RUN) as u32..((run + 1) * RUN).min(count) as u32);
            self.shuffle(&mut order[begin..]);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_every_number_once() {
        let mut order = Dice::new(1).order(1000);
        assert_ne!(order[..3], [0, 1, 2]);

        order.sort_unstable();

        assert_eq!(order, (0..1000).collect::<Vec<u32>>());
    }
}
