//! The messages to single members that come before a broadcast, counted by its sender.

use crate::address::index::Key;
use serde::{Deserialize, Serialize};

/// Members, each with the number of messages that come before the broadcast. Often a sender has
/// sent one message to each member before it broadcasts, so neighbours with equal numbers are one
/// entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Earlier(Vec<Run>);

/// Members of consecutive keys, with one number of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    first: Key,
    members: u128,
    messages: u64,
}

impl Run {
    fn is_continued_by(&self, key: Key, messages: u64) -> bool {
        self.messages == messages && self.first.0.checked_add(self.members) == Some(key.0)
    }
}

impl Earlier {
    /// Returns the number of bytes it holds, for the memory budget.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Creates it from members in the order of their keys, each once.
    pub(crate) fn from_sorted(members: impl IntoIterator<Item = (Key, u64)>) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        for (key, messages) in members {
            match runs.last_mut() {
                Some(run) if run.is_continued_by(key, messages) => run.members += 1,
                _ => runs.push(Run { first: key, members: 1, messages }),
            }
        }
        Self(runs)
    }

    /// Returns the number of messages to this member that come before the broadcast, counted over
    /// all that the sender has sent to it in the broadcast's channel. Zero for a member that is not
    /// named: all messages to it came before an earlier broadcast. Takes time logarithmic in the
    /// number of runs.
    pub(crate) fn messages(&self, key: Key) -> u64 {
        let Self(runs) = self;
        let after = runs.partition_point(|run| run.first <= key);
        let run = runs[..after].last().filter(|run| key.0 - run.first.0 < run.members);
        run.map_or(0, |run| run.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::codec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn each_member_gets_its_number(
            named in prop::collection::btree_map(0..60u128, 1..3u64, 0..40)
        ) {
            let earlier = Earlier::from_sorted(named.iter().map(|(&key, &number)| (Key(key), number)));
            for key in 0..61 {
                prop_assert_eq!(earlier.messages(Key(key)), named.get(&key).copied().unwrap_or(0));
            }
        }
    }

    #[test]
    fn a_scatter_over_a_box_of_indices_is_one_run_for_each_row() {
        let rows = (0..3u128).flat_map(|row| (0..1000).map(move |column| (row << 32) + column));
        let earlier = Earlier::from_sorted(rows.map(|key| (Key(key), 5)));
        assert!(codec::encode(&earlier).len() < 50);
        assert_eq!(earlier.messages(Key((2 << 32) + 999)), 5);
        assert_eq!(earlier.messages(Key((2 << 32) + 1000)), 0);
    }

    #[test]
    fn the_smallest_and_largest_keys_do_not_overflow() {
        let ends = BTreeMap::from([(0, 1), (u128::MAX - 1, 4), (u128::MAX, 4)]);
        let earlier = Earlier::from_sorted(ends.into_iter().map(|(key, n)| (Key(key), n)));
        assert_eq!(earlier.messages(Key(u128::MAX)), 4);
        let hostile = Earlier(vec![Run { first: Key(7), members: u128::MAX, messages: 2 }]);
        assert_eq!((hostile.messages(Key(6)), hostile.messages(Key(u128::MAX))), (0, 2));
    }
}
