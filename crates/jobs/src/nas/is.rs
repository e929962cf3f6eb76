//! IS: ranks integers by counting (RNR-94-007, section 2.2.5).
//!
//! Each rank holds a block of the keys and, after an exchange, all keys of a range of values, in
//! which it counts. The ranges have about equal numbers of keys.

use super::class::{Check, ProblemClass};
use super::kernel::Kernel;
use gridspan_kernels::nas::is::{Keys, Ranked, cuts, in_order};
use gridspan_ranks::{Comm, RankError, ops};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ITERATIONS: u32 = 10;
/// Virtual time of a key in an iteration: about that of a core at 3 GHz.
const KEY_COST: Duration = Duration::from_nanos(5);

const KEY_BITS: [u32; 4] = [16, 20, 23, 25];
const VALUE_BITS: [u32; 4] = [11, 16, 19, 21];

/// A key whose rank is published, as `(index, rank, factor, shift)`: in each iteration its rank is
/// `rank + factor * (iteration + shift)`.
type TestKey = (u32, i64, i64, i64);

const TEST_KEYS: [[TestKey; 5]; 4] = [
    [
        (48_427, 0, 1, 0),
        (17_148, 18, 1, 0),
        (23_627, 346, 1, 0),
        (62_548, 64_917, -1, 0),
        (4_431, 65_463, -1, 0),
    ],
    [
        (357_773, 1_249, 1, -2),
        (934_767, 11_698, 1, -2),
        (875_723, 1_039_987, -1, 0),
        (898_999, 1_043_896, -1, 0),
        (404_505, 1_048_018, -1, 0),
    ],
    [
        (2_112_377, 104, 1, -1),
        (662_041, 17_523, 1, -1),
        (5_336_171, 123_928, 1, -1),
        (3_642_833, 8_288_932, -1, -1),
        (4_250_760, 8_388_264, -1, -1),
    ],
    [
        (41_869, 33_422_937, -1, 0),
        (812_306, 10_244, 1, 0),
        (5_102_857, 59_149, 1, 0),
        (18_232_239, 33_135_281, -1, 0),
        (26_860_214, 99, 1, 0),
    ],
];

/// Fails if there are more ranks than keys.
fn check_ranks(ranks: u32, class: ProblemClass) -> Result<(), RankError> {
    let keys: u32 = 1 << class.of(KEY_BITS);
    match ranks <= keys {
        true => Ok(()),
        false => Err(format!("{ranks} ranks for {keys} keys").into()),
    }
}

/// Draws the keys of this rank.
fn draw(world: &Comm, class: ProblemClass) -> Keys {
    Keys::new([class.of(KEY_BITS), class.of(VALUE_BITS)], world.size(), world.rank())
}

/// Ranks all keys.
async fn rank(world: &Comm, keys: &Keys) -> Result<Ranked, RankError> {
    let counts = keys.bucket_counts();
    let all = world.allreduce(&counts, ops::sum).await?;
    let cuts = cuts(&all, world.size());
    let arrived = world.alltoallv(keys.blocks(&counts, &cuts)).await?.concat();
    Ok(keys.ranked(&all, &cuts, world.rank(), arrived))
}

/// The keys whose ranks are published: each rank gives those that it has.
async fn test_keys(world: &Comm, keys: &Keys, tests: &[TestKey; 5]) -> Result<Vec<u32>, RankError> {
    let value = |(index, ..): &TestKey| keys.at(*index).unwrap_or(0);
    world.allreduce(&tests.each_ref().map(value), ops::max).await
}

/// Number of published ranks that were found in an iteration.
async fn verify(
    world: &Comm,
    ranked: &Ranked,
    values: &[u32],
    tests: &[TestKey; 5],
    iteration: u32,
) -> Result<u32, RankError> {
    let mut right = 0;
    for (value, (_, rank, factor, shift)) in values.iter().zip(tests) {
        let expected = rank + factor * (i64::from(iteration) + shift);
        right += u32::from(ranked.smaller(*value).map(i64::from) == Some(expected));
    }
    Ok(world.allreduce(&[right], ops::sum).await?[0])
}

/// The part of a rank.
#[derive(Serialize, Deserialize)]
pub(super) struct Is {
    class: ProblemClass,
    keys: Keys,
    /// Number of published ranks that were found.
    right: u32,
    /// The last iteration's result, which no later iteration needs.
    #[serde(skip)]
    ranked: Option<Ranked>,
}

impl Is {
    /// Number of keys of all ranks that are in order: those of a rank ascend, and are no smaller
    /// than those of lower ranks.
    async fn sorted(&mut self, world: &Comm) -> Result<u32, RankError> {
        let mut ranked = self.ranked.take().ok_or("no iteration")?;
        let before = world.exscan(&[ranked.count()], ops::sum).await?.map_or(0, |before| before[0]);
        let keys = ranked.sort(before).unwrap_or_default();
        let last = keys.last().copied().unwrap_or(0);
        let below = world.exscan(&[last], ops::max).await?.map_or(0, |below| below[0]);
        Ok(world.allreduce(&[in_order(&keys, below)], ops::sum).await?[0])
    }
}

impl Kernel for Is {
    const NAME: &'static str = "is";

    fn iterations(_class: ProblemClass) -> u32 {
        ITERATIONS
    }

    fn mega_operations(class: ProblemClass) -> f64 {
        f64::from(ITERATIONS) * f64::from(1_u32 << class.of(KEY_BITS)) / 1e6
    }

    async fn prepare(world: &Comm, class: ProblemClass) -> Result<Self, RankError> {
        check_ranks(world.size(), class)?;
        let keys = draw(world, class);
        // One iteration that is not timed, as in NPB.
        rank(world, &keys).await?;
        Ok(Self { class, keys, right: 0, ranked: None })
    }

    async fn iterate(&mut self, world: &Comm, iteration: u32) -> Result<(), RankError> {
        // The published ranks count iterations from 1.
        let (tests, iteration) = (self.class.of(TEST_KEYS), iteration + 1);
        self.keys.change(iteration, ITERATIONS);
        let values = test_keys(world, &self.keys, &tests).await?;
        let ranked = rank(world, &self.keys).await?;
        world.charge(KEY_COST * self.keys.count());
        self.right += verify(world, &ranked, &values, &tests, iteration).await?;
        self.ranked = Some(ranked);
        Ok(())
    }

    fn reset(&mut self, world: &Comm) {
        // Iterations have changed some keys.
        self.keys = draw(world, self.class);
        self.right = 0;
    }

    async fn checks(&mut self, world: &Comm) -> Result<Vec<Check>, RankError> {
        let (class, right) = (self.class, self.right);
        let sorted = self.sorted(world).await?;
        let total = f64::from(1_u32 << class.of(KEY_BITS));
        Ok(vec![
            Check::new("published ranks", f64::from(right), f64::from(5 * ITERATIONS), 0.0),
            Check::new("sorted keys", f64::from(sorted), total, 0.0),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_ranks_than_keys_are_refused() {
        check_ranks(1 << 16, ProblemClass::S).unwrap();
        let error = check_ranks((1 << 16) + 1, ProblemClass::S).unwrap_err();
        assert_eq!(error.to_string(), "65537 ranks for 65536 keys");
    }
}
