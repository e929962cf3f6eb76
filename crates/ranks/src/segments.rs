//! Partial results of a reduction whose association does not depend on where they are combined.
//!
//! The ranks are the leaves of a binary tree: a segment of level `j` and number `k` has the ranks
//! from `k 2^j` up to `(k + 1) 2^j`, as far as they exist. A partial result is a set of segments
//! with their values. Two siblings combine as soon as they meet, wherever that is, the lower ranks
//! on the left; a segment whose sibling has no ranks counts as its parent. So the order of
//! operations, and with it each bit of a sum, follows from the number of ranks alone, not from the
//! places of the ranks or the times of messages, and operators need not commute. The values of
//! ranks that lie together, as those of a site mostly do, combine into few segments.

use std::collections::BTreeMap;

/// Level and number of a segment.
pub(crate) type SegmentKey = (u32, u32);

/// Segments over a number of ranks.
#[derive(Debug)]
pub(crate) struct Segments<V> {
    ranks: u32,
    found: BTreeMap<SegmentKey, V>,
}

impl<V> Segments<V> {
    /// No segments yet, over at least one rank.
    pub(crate) fn new(ranks: u32) -> Self {
        Self { ranks, found: BTreeMap::new() }
    }

    /// Adds a segment, and combines it with its siblings as far as they are known. `combine` gets
    /// the value of lower ranks first.
    pub(crate) fn add<E>(
        &mut self,
        (mut level, mut number): SegmentKey,
        mut value: V,
        mut combine: impl FnMut(V, V) -> Result<V, E>,
    ) -> Result<(), E> {
        while !self.is_all(level) {
            let sibling = number ^ 1;
            let sibling_begins = u64::from(sibling) << level;
            if sibling_begins < u64::from(self.ranks) {
                let Some(other) = self.found.remove(&(level, sibling)) else { break };
                let (left, right) = if sibling < number { (other, value) } else { (value, other) };
                value = combine(left, right)?;
            }
            (level, number) = (level + 1, number / 2);
        }
        self.found.insert((level, number), value);
        Ok(())
    }

    /// Whether a segment of this level has all ranks.
    fn is_all(&self, level: u32) -> bool {
        1_u64.checked_shl(level).is_none_or(|size| size >= u64::from(self.ranks))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&SegmentKey, &V)> {
        self.found.iter()
    }

    /// The value of all ranks, if all have been added.
    pub(crate) fn into_total(mut self) -> Option<V> {
        let ((level, _), value) = self.found.pop_first()?;
        (self.found.is_empty() && self.is_all(level)).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    /// The association that the tree prescribes, as text.
    fn expected(begin: u32, size: u32, ranks: u32) -> String {
        if size == 1 {
            return begin.to_string();
        }
        let left = expected(begin, size / 2, ranks);
        match begin + size / 2 < ranks {
            true => format!("({left} {})", expected(begin + size / 2, size / 2, ranks)),
            false => left,
        }
    }

    fn add(segments: &mut Segments<String>, key: SegmentKey, value: String) {
        let combine = |left, right| Ok::<_, Infallible>(format!("({left} {right})"));
        segments.add(key, value, combine).unwrap();
    }

    proptest! {
        #[test]
        fn the_association_follows_from_the_number_of_ranks(
            ranks in 1_u32..40,
            order in Just((0_u32..40).collect::<Vec<_>>()).prop_shuffle(),
            groups in 1_usize..5,
        ) {
            // Each of these collects the values of some ranks, and `all` collects theirs.
            let mut partial: Vec<_> = (0..groups).map(|_| Segments::new(ranks)).collect();
            for (at, rank) in order.into_iter().filter(|rank| *rank < ranks).enumerate() {
                add(&mut partial[at % groups], (0, rank), rank.to_string());
            }
            let mut all = Segments::new(ranks);
            for one in partial {
                for (key, value) in one.iter() {
                    add(&mut all, *key, value.clone());
                }
            }
            let total = all.into_total();
            prop_assert_eq!(total, Some(expected(0, ranks.next_power_of_two(), ranks)));
        }
    }

    #[test]
    fn ranks_that_lie_together_make_few_segments() {
        let mut segments = Segments::new(1000);
        for rank in 0..500 {
            add(&mut segments, (0, rank), String::new());
        }
        // 500 = 256 + 128 + 64 + 32 + 16 + 4.
        assert_eq!(segments.iter().count(), 6);
        assert_eq!(segments.into_total(), None);
    }
}
