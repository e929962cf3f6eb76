//! `random`: moves every actor to a random PE. It ignores loads and messages.

use crate::plan::Plan;
use crate::snapshot::Snapshot;
use crate::strategies::strategy::Strategy;
use gridspan_topology::PeId;
use gridspan_topology::dice::Dice;

/// Moves every migratable actor to a PE drawn uniformly from all, possibly its present one.
///
/// ```
/// use gridspan_balance::{MakeStrategy, Random, Strategy};
///
/// assert_eq!(Random::default().make(7).name(), "random"); // with the seed of the job
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    dice: Dice,
}

impl Random {
    /// Creates the strategy. The dice continue from one plan to the next.
    pub fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed) }
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn seed(&mut self, seed: u64) {
        *self = Self::new(seed);
    }

    fn predicts(&self) -> bool {
        false
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        let pes = snapshot.layout.pe_count();
        Plan::placing(snapshot, |_| PeId(self.dice.below(pes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::snapshot;

    #[test]
    fn the_same_seed_gives_the_same_plans() {
        let snapshot = snapshot(&[0; 50]);
        let (mut one, mut other) = (Random::new(1), Random::new(1));

        for _ in 0..3 {
            assert_eq!(one.plan(&snapshot), other.plan(&snapshot));
        }
    }

    #[test]
    fn another_seed_or_the_next_call_gives_another_plan() {
        let snapshot = snapshot(&[0; 50]);
        let mut random = Random::new(1);

        let first = random.plan(&snapshot);

        assert_ne!(first, random.plan(&snapshot));
        assert_ne!(first, Random::new(2).plan(&snapshot));
    }

    #[test]
    fn every_pe_gets_its_share() {
        let snapshot = snapshot(&[0; 4001]);

        let mapping = Random::new(3).plan(&snapshot).mapping(&snapshot).unwrap();

        // Standard deviation of a count: sqrt(4000 * 0.25 * 0.75) = 27.
        for pe in 0..4 {
            let count = mapping[..4000].iter().filter(|mapped| mapped.0 == pe).count();
            assert!(count.abs_diff(1000) < 110, "{count} actors on PE {pe}");
        }
    }
}
