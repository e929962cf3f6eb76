//! EP: counts pairs of normal deviates by their size (RNR-94-007, section 2.2.1).

use crate::random::NasRandom;
use serde::{Deserialize, Serialize};

const SEED: u64 = 271_828_183;

/// Binary logarithm of the number of pairs in a block.
pub const BLOCK_BITS: u32 = 16;

/// Number of counters, one for each integer part of the larger absolute deviate of a pair.
pub const ANNULI: usize = 10;

/// Sums of deviates and numbers of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviateStatistics {
    /// The sums of the first and of the second deviate of all pairs.
    pub sums: [f64; 2],
    /// Number of pairs, by the integer part of the larger absolute deviate.
    pub pairs: [u64; ANNULI],
}

impl DeviateStatistics {
    /// Adds the pairs of one block.
    pub fn add_block(&mut self, block: u64) {
        let mut random = NasRandom::new(SEED);
        random.skip(block << (BLOCK_BITS + 1));
        for _ in 0..1_u32 << BLOCK_BITS {
            let (x, y) = (2.0 * random.next_unit() - 1.0, 2.0 * random.next_unit() - 1.0);
            let square = x * x + y * y;
            if square <= 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                let (x, y) = (x * factor, y * factor);
                // The largest deviate that the stream can give is below 10.
                self.pairs[(x.abs().max(y.abs()) as usize).min(ANNULI - 1)] += 1;
                self.sums[0] += x;
                self.sums[1] += y;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviates_of_a_block_are_normal() {
        let mut tally = DeviateStatistics::default();
        tally.add_block(3);
        let pairs: u64 = tally.pairs.iter().sum();
        let share = |annulus: usize| tally.pairs[annulus] as f64 / pairs as f64;

        // A quarter of pi of all points lie in the circle.
        assert!((pairs as f64 / 65_536.0 - std::f64::consts::FRAC_PI_4).abs() < 0.01, "{pairs}");
        // Both deviates are below 1 with a probability of 0.6827 squared, and below 2 of 0.9545.
        assert!((share(0) - 0.466).abs() < 0.01 && (share(1) - 0.445).abs() < 0.01);
        // The standard deviation of a sum is the root of the number of pairs.
        assert!(tally.sums.iter().all(|sum| sum.abs() < 4.0 * (pairs as f64).sqrt()));
    }
}
