//! The dice of the campaign.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::Duration;

/// Seeded dice with the throws that a campaign needs.
pub(super) struct Dice(Pcg64Mcg);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Uniform in `0..end`; zero if `end` is.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        ((self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64) < probability
    }

    /// One of them. Panics if there is none.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Up to `longest`, short spans as likely as long ones on a logarithmic scale.
    pub(super) fn span(&mut self, longest: Duration) -> Duration {
        let halvings = self.below(16) as u32;
        let longest = longest.as_nanos() as u64 >> halvings;
        Duration::from_nanos(self.below(longest + 1))
    }
}
