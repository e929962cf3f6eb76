//! IS: ranks integers by counting (RNR-94-007, section 2.2.5).
//!
//! Each rank starts with a block of the keys. After an exchange, it has all keys within a range of
//! values, and counts the keys of each value. The ranges have about equal numbers of keys.

use crate::block_partition::BlockPartition;
use crate::random::NasRandom;
use serde::{Deserialize, Serialize};
use std::ops::Range;

const SEED: u64 = 314_159_265;

/// Binary logarithm of the number of buckets, whose counts determine the ranges of values.
const BUCKET_BITS: u32 = 10;

/// The keys of one rank, and how they are divided.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Keys {
    keys: Vec<u32>,
    /// The indices of these keys among all.
    range: Range<u32>,
    value_bits: u32,
}

/// The result of an iteration at one rank.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The values of which this rank has all keys.
    values: Range<u32>,
    /// For each of `values`: the number of keys of all ranks that are not larger.
    counts: Vec<u32>,
    /// The keys, unsorted.
    keys: Vec<u32>,
}

impl Keys {
    /// Draws the keys of `rank`, one of `ranks`. All ranks together have `2^key_bits` keys, with
    /// values below `2^value_bits`.
    ///
    /// # Panics
    /// If `key_bits` is above 31, or `value_bits` is not from 2 to 31.
    pub fn new([key_bits, value_bits]: [u32; 2], ranks: u32, rank: u32) -> Self {
        assert!(key_bits < u32::BITS, "2^{key_bits} keys");
        assert!((2..u32::BITS).contains(&value_bits), "values below 2^{value_bits}");
        let range = BlockPartition::new(1 << key_bits, ranks).range(rank);
        let mut random = NasRandom::new(SEED);
        random.skip(4 * u64::from(range.start));
        let quarter = f64::from(1_u32 << (value_bits - 2));
        let keys = range.clone().map(|_| {
            let sum: f64 = (0..4).map(|_| random.next_unit()).sum();
            (quarter * sum) as u32
        });
        Self { keys: keys.collect(), range, value_bits }
    }

    /// Number of keys of this rank.
    pub fn count(&self) -> u32 {
        self.keys.len() as u32
    }

    /// The key with this index among all, if this rank has it.
    pub fn at(&self, index: u32) -> Option<u32> {
        let is_own = self.range.contains(&index);
        is_own.then(|| self.keys[(index - self.range.start) as usize])
    }

    /// Changes two keys, so that the ranks of keys differ in each of the `iterations` iterations.
    pub fn change(&mut self, iteration: u32, iterations: u32) {
        let largest = 1_u32 << self.value_bits;
        for (index, value) in
            [(iteration, iteration), (iteration + iterations, largest - iteration)]
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

    /// Number of keys in each bucket.
    pub fn bucket_counts(&self) -> Vec<u32> {
        // All keys are less than `2^value_bits`, so the last bucket stays empty.
        let last = self.bucket(1 << self.value_bits);
        let mut counts = vec![0_u32; last + 1];
        for key in &self.keys {
            counts[self.bucket(*key)] += 1;
        }
        counts
    }

    /// Divides the keys among ranks by their [buckets](Self::bucket_counts): `counts` has the
    /// number of keys in each bucket. `cuts` has the first bucket of each rank and, at the end, the
    /// number of buckets.
    pub fn blocks(&self, counts: &[u32], cuts: &[usize]) -> Vec<Vec<u32>> {
        let mut blocks: Vec<Vec<u32>> = cuts
            .windows(2)
            .map(|cut| Vec::with_capacity(counts[cut[0]..cut[1]].iter().sum::<u32>() as usize))
            .collect();
        let mut owners = vec![0_usize; counts.len()];
        for (owner, cut) in cuts.windows(2).enumerate() {
            owners[cut[0]..cut[1]].fill(owner);
        }
        for key in &self.keys {
            blocks[owners[self.bucket(*key)]].push(*key);
        }
        blocks
    }

    /// Ranks all keys of the buckets of `rank`. `all` has the number of keys of all ranks in each
    /// bucket, and `cuts` is as in [`blocks`](Self::blocks).
    pub fn ranked(&self, all: &[u32], cuts: &[usize], rank: u32, keys: Vec<u32>) -> Ranked {
        let me = rank as usize;
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
        Ranked { values, counts, keys }
    }
}

/// Divides the buckets so that ranks get about equal numbers of keys. Returns the first bucket of
/// each rank and, at the end, the number of buckets.
pub fn cuts(counts: &[u32], ranks: u32) -> Vec<usize> {
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

/// Number of these keys that are in order: all, if they ascend and the first is at least `below`,
/// and otherwise none.
pub fn in_order(keys: &[u32], below: u32) -> u32 {
    let ascends = keys.is_sorted() && keys.first().is_none_or(|first| *first >= below);
    if ascends { keys.len() as u32 } else { 0 }
}

impl Ranked {
    /// Number of keys of this rank.
    pub fn count(&self) -> u32 {
        self.keys.len() as u32
    }

    /// Number of keys smaller than this one; `None` unless this rank counts the keys of the next
    /// lower value.
    pub fn smaller(&self, key: u32) -> Option<u32> {
        let below = key.checked_sub(1)?;
        let at = below.checked_sub(self.values.start)? as usize;
        self.counts.get(at).copied()
    }

    /// Sorts the keys by their counts. `before` is the number of keys on lower ranks. Returns
    /// `None` if counts and keys do not agree.
    pub fn sort(&mut self, before: u32) -> Option<Vec<u32>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cut_into_parts_of_about_equal_counts() {
        assert_eq!(cuts(&[4, 4, 4, 4], 2), [0, 2, 4]);
        assert_eq!(cuts(&[9, 1, 1, 1], 3), [0, 1, 1, 4]);
        assert_eq!(cuts(&[0, 0, 5], 4), [0, 3, 3, 3, 3]);
    }

    #[test]
    #[should_panic(expected = "2^32 keys")]
    fn more_keys_than_indices_are_refused() {
        let _ = Keys::new([32, 11], 2, 0);
    }

    #[test]
    #[should_panic(expected = "values below 2^1")]
    fn values_that_have_no_quarter_are_refused() {
        let _ = Keys::new([4, 1], 2, 0);
    }

    #[test]
    fn keys_that_descend_or_begin_too_low_are_not_in_order() {
        assert_eq!(in_order(&[3, 3, 7], 3), 3);
        assert_eq!(in_order(&[3, 3, 7], 4), 0);
        assert_eq!(in_order(&[3, 2], 0), 0);
        assert_eq!(in_order(&[], 5), 0);
    }
}
