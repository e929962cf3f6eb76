//! The frames that one side has received, in a form short enough for every heartbeat.

use serde::{Deserialize, Serialize};

/// The way in which a frame travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// In the order sent, together with the other small frames.
    Small,
    /// On a separate stream: it may overtake others and be overtaken.
    Bulk,
}

/// All frames received so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// All small frames with lower numbers were received, and no others.
    pub small: u64,
    /// All bulk frames with lower numbers were received.
    pub bulk: u64,
    /// Further bulk frames that were received: ranges `(first, end)`, ascending, with gaps between
    /// them and after `bulk`.
    pub bulk_above: Vec<(u64, u64)>,
}

impl Received {
    /// Largest distance of a bulk frame from the first missing one: 64 MiB of the smallest bulk
    /// frames, more than a fast long link holds. It limits the memory of a receiver.
    pub const BULK_AHEAD_MAX: u64 = 1024;

    /// Whether the bulk frame `number` was received.
    pub fn has_bulk(&self, number: u64) -> bool {
        number < self.bulk
            || self.bulk_above.iter().any(|&(first, end)| (first..end).contains(&number))
    }

    /// Adds the bulk frame `number`, which must be missing and less than
    /// [`BULK_AHEAD_MAX`](Self::BULK_AHEAD_MAX) ahead.
    pub(super) fn add_bulk(&mut self, number: u64) {
        debug_assert!(!self.has_bulk(number));
        let at = self.bulk_above.partition_point(|&(first, _)| first < number);
        self.bulk_above.insert(at, (number, number + 1));
        if at + 1 < self.bulk_above.len() && self.bulk_above[at + 1].0 == number + 1 {
            self.bulk_above[at].1 = self.bulk_above.remove(at + 1).1;
        }
        if at > 0 && self.bulk_above[at - 1].1 == number {
            self.bulk_above[at - 1].1 = self.bulk_above.remove(at).1;
        }
        if let Some(&(first, end)) = self.bulk_above.first()
            && first == self.bulk
        {
            self.bulk = end;
            self.bulk_above.remove(0);
        }
    }

    /// Whether the ranges are ascending, disjoint and within bounds, as a correct peer sends them.
    pub fn is_well_formed(&self) -> bool {
        let mut end_before = self.bulk;
        self.bulk_above.iter().all(|&(first, end)| {
            let fine = first > end_before && end > first;
            end_before = end;
            fine
        }) && end_before - self.bulk <= Self::BULK_AHEAD_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_join_each_other_and_the_prefix() {
        let mut received = Received::default();
        for number in [3, 1, 5, 4] {
            received.add_bulk(number);
            assert!(received.is_well_formed());
        }
        assert_eq!((received.bulk, &received.bulk_above[..]), (0, &[(1, 2), (3, 6)][..]));
        received.add_bulk(0);
        assert_eq!((received.bulk, &received.bulk_above[..]), (2, &[(3, 6)][..]));
        received.add_bulk(2);
        assert_eq!((received.bulk, received.bulk_above.len()), (6, 0));
    }

    #[test]
    fn overlapping_empty_or_distant_ranges_are_not_well_formed() {
        for ranges in [vec![(0, 1)], vec![(2, 2)], vec![(5, 6), (3, 4)], vec![(1, 1 << 40)]] {
            let received = Received { small: 0, bulk: 0, bulk_above: ranges };
            assert!(!received.is_well_formed(), "{received:?}");
        }
    }
}
