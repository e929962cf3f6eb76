//! IS: ranks integers by counting (RNR-94-007, section 2.2.5).
//!
//! Each rank holds a block of the keys and, after an exchange, all keys of a range of values, in
//! which it counts. The ranges have about equal numbers of keys.

use super::class::{Check, ProblemClass};
use super::kernel::Kernel;
use crate::block_partition::BlockPartition;
use crate::random::NasRandom;
use gridspan_ranks::{Comm, RankError, ops};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

const SEED: u64 = 314_159_265;
const ITERATIONS: u32 = 10;
/// Number of buckets by whose counts the ranges of values are chosen, as a power of two.
const BUCKET_BITS: u32 = 10;
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

/// The keys of one rank, and how they are divided.
#[derive(Serialize, Deserialize)]
struct Keys {
    keys: Vec<u32>,
    /// The indices of these keys among all.
    range: Range<u32>,
    value_bits: u32,
}

/// What a rank knows after an iteration.
struct Ranked {
    /// The values of which this rank has all keys.
    values: Range<u32>,
    /// By value, beginning with the first: number of keys of all ranks that are not larger.
    counts: Vec<u32>,
    /// The keys, unsorted.
    keys: Vec<u32>,
}

impl Keys {
    fn new(world: &Comm, class: ProblemClass) -> Self {
        let (key_bits, value_bits) = (class.of(KEY_BITS), class.of(VALUE_BITS));
        let range = BlockPartition::new(1 << key_bits, world.size()).range(world.rank());
        let mut random = NasRandom::new(SEED);
        random.skip(4 * u64::from(range.start));
        let quarter = f64::from(1_u32 << (value_bits - 2));
        let keys = range.clone().map(|_| {
            let sum: f64 = (0..4).map(|_| random.next_unit()).sum();
            (quarter * sum) as u32
        });
        Self { keys: keys.collect(), range, value_bits }
    }

    /// Changes two keys, so that each iteration has other ranks.
    fn change(&mut self, iteration: u32) {
        let largest = 1_u32 << self.value_bits;
        for (index, value) in
            [(iteration, iteration), (iteration + ITERATIONS, largest - iteration)]
        {
            if self.range.contains(&index) {
                self.keys[(index - self.range.start) as usize] = value;
            }
        }
    }

    /// The number of a key's bucket.
    fn bucket(&self, key: u32) -> usize {
        (key >> self.value_bits.saturating_sub(BUCKET_BITS)) as usize
    }

    /// Ranks all keys.
    async fn rank(&self, world: &Comm) -> Result<Ranked, RankError> {
        // All keys are less than `2^value_bits`, so the last bucket stays empty.
        let last = self.bucket(1 << self.value_bits);
        let mut counts = vec![0_u32; last + 1];
        for key in &self.keys {
            counts[self.bucket(*key)] += 1;
        }
        let all = world.allreduce(&counts, ops::sum).await?;
        let cuts = cuts(&all, world.size());
        let mut blocks: Vec<Vec<u32>> = cuts
            .windows(2)
            .map(|cut| Vec::with_capacity(counts[cut[0]..cut[1]].iter().sum::<u32>() as usize))
            .collect();
        let mut owners = vec![0_usize; last + 1];
        for (owner, cut) in cuts.windows(2).enumerate() {
            owners[cut[0]..cut[1]].fill(owner);
        }
        for key in &self.keys {
            blocks[owners[self.bucket(*key)]].push(*key);
        }
        let keys = world.alltoallv(blocks).await?.concat();
        let me = world.rank() as usize;
        let before: u32 = all[..cuts[me]].iter().sum();
        let bits = self.value_bits.saturating_sub(BUCKET_BITS);
        let values = (cuts[me] as u32) << bits..(cuts[me + 1] as u32) << bits;
        let mut counts = vec![0_u32; values.len()];
        for key in &keys {
            counts[(key - values.start) as usize] += 1;
        }
        let mut sum = before;
        for count in &mut counts {
            sum += *count;
            *count = sum;
        }
        Ok(Ranked { values, counts, keys })
    }
}

/// The first bucket of each rank, and the end: cuts the buckets so that ranks get about equal
/// numbers of keys.
fn cuts(counts: &[u32], ranks: u32) -> Vec<usize> {
    let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let mut cuts = vec![0];
    let mut sum = 0_u64;
    for (bucket, count) in counts.iter().enumerate() {
        while (cuts.len() as u64) < u64::from(ranks)
            && sum * u64::from(ranks) >= total * cuts.len() as u64
        {
            cuts.push(bucket);
        }
        sum += u64::from(*count);
    }
    cuts.resize(ranks as usize, counts.len());
    cuts.push(counts.len());
    cuts
}

impl Ranked {
    /// Number of keys smaller than this one, if this rank counts it.
    fn smaller(&self, key: u32) -> Option<u32> {
        let below = key.checked_sub(1)?;
        let at = below.checked_sub(self.values.start)? as usize;
        self.counts.get(at).copied()
    }

    /// Sorts the keys by their counts. `before` is the number of keys on lower ranks. Returns
    /// `None` if counts and keys do not agree.
    fn sort(&mut self, before: u32) -> Option<Vec<u32>> {
        let mut sorted = vec![0; self.keys.len()];
        for key in &self.keys {
            let at = key.checked_sub(self.values.start)? as usize;
            let count = self.counts.get_mut(at)?;
            *count = count.checked_sub(1)?;
            *sorted.get_mut(count.checked_sub(before)? as usize)? = *key;
        }
        Some(sorted)
    }
}

/// The keys whose ranks are published: each rank gives those that it has.
async fn test_keys(world: &Comm, keys: &Keys, tests: &[TestKey; 5]) -> Result<Vec<u32>, RankError> {
    let value = |(index, ..): &TestKey| match keys.range.contains(index) {
        true => keys.keys[(index - keys.range.start) as usize],
        false => 0,
    };
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
        let counted = ranked.keys.len() as u32;
        let before = world.exscan(&[counted], ops::sum).await?.map_or(0, |before| before[0]);
        let keys = ranked.sort(before).unwrap_or_default();
        let last = keys.last().copied().unwrap_or(0);
        let below = world.exscan(&[last], ops::max).await?.map_or(0, |below| below[0]);
        let ascends = keys.is_sorted() && keys.first().is_none_or(|first| *first >= below);
        let in_order = if ascends { keys.len() as u32 } else { 0 };
        Ok(world.allreduce(&[in_order], ops::sum).await?[0])
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
        let keys = Keys::new(world, class);
        // One iteration that is not timed, as in NPB.
        keys.rank(world).await?;
        Ok(Self { class, keys, right: 0, ranked: None })
    }

    async fn iterate(&mut self, world: &Comm, iteration: u32) -> Result<(), RankError> {
        // The published ranks count iterations from 1.
        let (tests, iteration) = (self.class.of(TEST_KEYS), iteration + 1);
        self.keys.change(iteration);
        let values = test_keys(world, &self.keys, &tests).await?;
        let ranked = self.keys.rank(world).await?;
        world.charge(KEY_COST * self.keys.keys.len() as u32);
        self.right += verify(world, &ranked, &values, &tests, iteration).await?;
        self.ranked = Some(ranked);
        Ok(())
    }

    fn reset(&mut self, world: &Comm) {
        // Iterations have changed some keys.
        self.keys = Keys::new(world, self.class);
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
    fn buckets_are_cut_into_parts_of_about_equal_counts() {
        assert_eq!(cuts(&[4, 4, 4, 4], 2), [0, 2, 4]);
        assert_eq!(cuts(&[9, 1, 1, 1], 3), [0, 1, 1, 4]);
        assert_eq!(cuts(&[0, 0, 5], 4), [0, 3, 3, 3, 3]);
    }
}
