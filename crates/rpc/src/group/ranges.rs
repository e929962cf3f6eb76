//! Sets of numbers, stored as ranges.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers. A run of consecutive numbers takes the space of one entry, whatever its
/// length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranges {
    /// The end of each range, by its first number. The ranges neither overlap nor touch.
    ends: BTreeMap<u32, u32>,
}

impl Ranges {
    /// Adds all numbers of a range.
    pub(crate) fn insert(&mut self, mut range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        // Merge all ranges that it touches, the last first.
        while let Some((&first, &end)) = self.ends.range(..=range.end).next_back()
            && end >= range.start
        {
            self.ends.remove(&first);
            range = first.min(range.start)..end.max(range.end);
        }
        self.ends.insert(range.start, range.end);
    }

    /// Adds all numbers of another set.
    pub(crate) fn merge(&mut self, other: &Self) {
        other.ranges().for_each(|range| self.insert(range));
    }

    pub(crate) fn remove(&mut self, number: u32) {
        let Some((&first, &end)) = self.ends.range(..=number).next_back() else { return };
        if number < end {
            self.ends.remove(&first);
            self.insert(first..number);
            self.insert(number + 1..end);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.ends.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// The ranges, in order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.ends.iter().map(|(&first, &end)| first..end)
    }
}

impl FromIterator<u32> for Ranges {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut ranges = Self::default();
        numbers.into_iter().for_each(|number| ranges.insert(number..number + 1));
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn adjacent_numbers_form_one_range() {
        let ranges: Ranges = [7, 3, 5, 4, 1].into_iter().collect();

        assert_eq!(ranges.ranges().collect::<Vec<_>>(), [1..2, 3..6, 7..8]);
        assert_eq!(
            [0, 3, 5, 6, 8].map(|number| ranges.contains(number)),
            [false, true, true, false, false]
        );
    }

    proptest! {
        #[test]
        fn ranges_hold_the_same_numbers_as_a_set(
            inserted in prop::collection::vec((0_u32..60, 0_u32..9), 0..40),
            removed in prop::collection::vec(0_u32..80, 0..40),
        ) {
            let (mut ranges, mut plain) = (Ranges::default(), BTreeSet::new());
            for (first, length) in inserted {
                ranges.insert(first..first + length);
                plain.extend(first..first + length);
            }
            prop_assert!((0..80).all(|number| ranges.contains(number) == plain.contains(&number)));
            for number in removed {
                ranges.remove(number);
                plain.remove(&number);
            }
            prop_assert!((0..80).all(|number| ranges.contains(number) == plain.contains(&number)));
            prop_assert_eq!(ranges.is_empty(), plain.is_empty());
            let ranges: Vec<_> = ranges.ranges().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
