//! Random order of visiting vertices, in runs that suit the cache.

use gridspan_topology::dice::Dice;

/// Number of consecutive vertices in a run. A random order of single vertices would miss the cache
/// at each visit.
const RUN: usize = 32;

/// Returns all numbers below `count` in runs. The runs, and the numbers in each run, are in random
/// order.
pub(super) fn random_order(dice: &mut Dice, count: usize) -> Vec<u32> {
    let mut runs: Vec<usize> = (0..count.div_ceil(RUN)).collect();
    dice.shuffle(&mut runs);
    let mut order = Vec::with_capacity(count);
    for run in runs {
        let begin = order.len();
        order.extend((run * RUN) as u32..((run + 1) * RUN).min(count) as u32);
        dice.shuffle(&mut order[begin..]);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_contains_every_number_once() {
        let mut order = random_order(&mut Dice::new(1), 1000);
        assert_ne!(order[..3], [0, 1, 2]);

        order.sort_unstable();

        assert_eq!(order, (0..1000).collect::<Vec<u32>>());
    }
}
