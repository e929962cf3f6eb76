//! EP (embarrassingly parallel): counts pairs of normal deviates by their size (RNR-94-007, section
//! 2.2.1).

use super::class::{Check, ProblemClass};
use super::kernel::Kernel;
use gridspan_kernels::nas::ep::{BLOCK_BITS, DeviateStatistics};
use gridspan_ranks::{Comm, RankError, ops};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Virtual time of a block: about that of a core at 3 GHz.
const BLOCK_COST: Duration = Duration::from_micros(1300);
/// Number of parts into which a rank divides its blocks, each of which ends at a migration point.
const ITERATIONS: u32 = 64;

const PAIR_BITS: [u32; 4] = [24, 25, 28, 30];
const SUMS: [[f64; 2]; 4] = [
    [-3.24783465203474e3, -6.958407078382297e3],
    [-2.863319731645753e3, -6.320053679109499e3],
    [-4.295875165629892e3, -1.580732573678431e4],
    [4.033815542441498e4, -2.660669192809235e4],
];
const TOLERANCE: f64 = 1e-8;

/// The part of a rank.
#[derive(Serialize, Deserialize)]
pub(super) struct Ep {
    class: ProblemClass,
    tally: DeviateStatistics,
}

impl Kernel for Ep {
    const NAME: &'static str = "ep";

    fn iterations(_class: ProblemClass) -> u32 {
        ITERATIONS
    }

    fn mega_operations(class: ProblemClass) -> f64 {
        2_f64.powi(class.of(PAIR_BITS) as i32 + 1) / 1e6
    }

    async fn prepare(_world: &Comm, class: ProblemClass) -> Result<Self, RankError> {
        Ok(Self { class, tally: DeviateStatistics::default() })
    }

    async fn iterate(&mut self, world: &Comm, iteration: u32) -> Result<(), RankError> {
        let blocks = 1_u64 << (self.class.of(PAIR_BITS) - BLOCK_BITS);
        let parts = u64::from(world.size()) * u64::from(ITERATIONS);
        let part = u64::from(world.rank()) * u64::from(ITERATIONS) + u64::from(iteration);
        for block in blocks * part / parts..blocks * (part + 1) / parts {
            self.tally.add_block(block);
            world.charge(BLOCK_COST);
            // The PE handles the messages that have arrived meanwhile.
            world.yield_now().await;
        }
        Ok(())
    }

    async fn end(&mut self, world: &Comm) -> Result<(), RankError> {
        let DeviateStatistics { sums, pairs } = &mut self.tally;
        *sums = fixed(world.allreduce(sums, ops::sum).await?)?;
        *pairs = fixed(world.allreduce(pairs, ops::sum).await?)?;
        Ok(())
    }

    fn reset(&mut self, _world: &Comm) {
        self.tally = DeviateStatistics::default();
    }

    async fn checks(&mut self, _world: &Comm) -> Result<Vec<Check>, RankError> {
        let DeviateStatistics { sums, pairs } = self.tally;
        let published = self.class.of(SUMS);
        let counted: u64 = pairs.iter().sum();
        Ok(vec![
            Check::new("sum of x", sums[0], published[0], TOLERANCE),
            Check::new("sum of y", sums[1], published[1], TOLERANCE),
            Check::new("pairs", counted as f64, self.class.of(PAIRS), 0.0),
        ])
    }
}

fn fixed<T, const N: usize>(numbers: Vec<T>) -> Result<[T; N], RankError> {
    numbers.try_into().map_err(|_| "a sum has another length".into())
}

/// Pairs inside of the unit circle.
const PAIRS: [f64; 4] = [13_176_389.0, 26_354_769.0, 210_832_767.0, 843_345_606.0];
