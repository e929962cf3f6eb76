//! The graph of ranks that wait for each other, and the ranks in it that can never go on.
//!
//! A rank that waits has an edge to each rank that can end its wait. It may need only one of them,
//! as a receive from any source does. So it can go on as long as a path over its edges leads to a
//! rank that runs. The ranks without such a path are in a deadlock. If each wait has one edge, they
//! are the ranks that lead to a cycle or to a rank that has ended; otherwise, those that lead only
//! to a knot (Holt, "Some deadlock properties of computer systems", 1972; Chandy, Misra and Haas,
//! "Distributed deadlock detection", 1983, on the communication model).

use crate::runs::{Run, ranks};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a rank waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WaitState {
    /// It runs, or waits for something that other ranks do not decide.
    #[default]
    Runs,
    /// It has waited, since its change number `epoch`, until one of the ranks in `until` acts. The
    /// ranks in `targets` have the windows for whose locks it waits: when another rank releases
    /// such a lock, the target sends the grant.
    Waits { epoch: u64, until: Vec<Run>, targets: Vec<u32> },
    /// It sends no more: it has ended, or waits at a migration point for all others.
    Ended,
}

impl WaitState {
    /// The number of the change since which the rank waits; `None` if it does not.
    pub(crate) fn epoch(&self) -> Option<u64> {
        match self {
            Self::Waits { epoch, .. } => Some(*epoch),
            Self::Runs | Self::Ended => None,
        }
    }
}

/// The waiting ranks that no rank can ever wake. A rank that is not listed runs.
pub(crate) fn stuck(states: &BTreeMap<u32, WaitState>) -> BTreeSet<u32> {
    let known: Vec<u32> = states
        .iter()
        .filter(|(_, state)| **state != WaitState::Runs)
        .map(|(rank, _)| *rank)
        .collect();
    let begins_before = |end: u64| known.partition_point(|rank| u64::from(*rank) < end) as u64;
    // Whether some rank of a run is not listed.
    let has_other = |(first, count): &Run| {
        let (first, end) = (u64::from(*first), u64::from(*first) + u64::from(*count));
        begins_before(end) - begins_before(first) < u64::from(*count)
    };
    let mut left = BTreeSet::new();
    let mut waiters = Waiters::default();
    let mut woken = Vec::new();
    for (rank, state) in states {
        if let WaitState::Waits { until, .. } = state {
            match until.iter().any(has_other) {
                true => woken.push(*rank),
                false => {
                    left.insert(*rank);
                    waiters.add(*rank, until);
                }
            }
        }
    }
    while let Some(rank) = woken.pop() {
        for waiter in waiters.take(rank) {
            if left.remove(&waiter) {
                woken.push(waiter);
            }
        }
    }
    left
}

/// The waiting ranks, by the ranks for which they wait.
#[derive(Default)]
struct Waiters<'a> {
    /// Those that wait for few ranks.
    of: BTreeMap<u32, Vec<u32>>,
    /// Those that wait for many, each with the ranks for which it waits.
    wide: Vec<(u32, &'a [Run])>,
}

/// Largest number of ranks that count as few.
const FEW: u32 = 4;

impl<'a> Waiters<'a> {
    fn add(&mut self, rank: u32, until: &'a [Run]) {
        let count = until.iter().fold(0, |sum: u32, (_, count)| sum.saturating_add(*count));
        if count <= FEW {
            ranks(until).for_each(|other| self.of.entry(other).or_default().push(rank));
        } else {
            self.wide.push((rank, until));
        }
    }

    /// Takes those that wait for a rank.
    fn take(&mut self, rank: u32) -> Vec<u32> {
        let mut taken = self.of.remove(&rank).unwrap_or_default();
        let is_in = |run: &Run| rank.checked_sub(run.0).is_some_and(|at| at < run.1);
        let wide = self.wide.extract_if(.., |(_, until)| until.iter().any(is_in));
        taken.extend(wide.map(|(waiter, _)| waiter));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(until: &[Run]) -> WaitState {
        WaitState::Waits { epoch: 0, until: until.to_vec(), targets: vec![] }
    }

    fn found(states: &[(u32, WaitState)]) -> Vec<u32> {
        stuck(&states.iter().cloned().collect()).into_iter().collect()
    }

    #[test]
    fn ranks_in_a_cycle_and_those_that_wait_for_it_are_stuck() {
        let cycle = [(0, waits(&[(2, 1)])), (2, waits(&[(5, 1)])), (5, waits(&[(0, 1)]))];
        assert_eq!(found(&cycle), [0, 2, 5]);
        let behind = [&cycle[..], &[(7, waits(&[(5, 1)])), (8, waits(&[(9, 1)]))]].concat();
        // Rank 9 runs.
        assert_eq!(found(&behind), [0, 2, 5, 7]);
        assert!(found(&cycle[1..]).is_empty());
        assert_eq!(found(&[(3, waits(&[(3, 1)]))]), [3]);
    }

    #[test]
    fn a_rank_that_needs_one_of_many_is_stuck_in_a_knot_only() {
        let any = waits(&[(0, 3)]);
        let knot = [(0, any.clone()), (1, any.clone()), (2, any)];
        assert_eq!(found(&knot), [0, 1, 2]);
        // Rank 2 may still send to the others.
        assert!(found(&[&knot[..2], &[(2, waits(&[(4, 1)]))]].concat()).is_empty());
        // Two ranks wait for each other, and another for them or a rank that runs.
        let out = [(0, waits(&[(1, 1)])), (1, waits(&[(0, 1)])), (2, waits(&[(0, 2), (6, 1)]))];
        assert_eq!(found(&out), [0, 1]);
    }

    #[test]
    fn ranks_that_have_ended_wake_none() {
        assert_eq!(found(&[(0, waits(&[(1, 1)])), (1, WaitState::Ended)]), [0]);
        let some = [(0, waits(&[(1, 3)])), (1, WaitState::Ended), (3, waits(&[(0, 1)]))];
        assert!(found(&some).is_empty());
        assert!(found(&[(0, waits(&[(1, 1)])), (1, WaitState::Runs)]).is_empty());
        assert!(found(&[(1, WaitState::Ended)]).is_empty());
    }

    proptest! {
        #[test]
        fn stuck_ranks_are_those_without_a_way_to_one_that_runs(
            states in prop::collection::btree_map(0_u32..12, prop_oneof![
                4 => prop::collection::vec((0_u32..12, 1_u32..7), 1..3).prop_map(|runs| waits(&runs)),
                1 => Just(WaitState::Ended),
                1 => Just(WaitState::Runs),
            ], 0..12),
        ) {
            let runs = |rank: u32| states.get(&rank).is_none_or(|state| *state == WaitState::Runs);
            // There are fewer than 20 ranks, so 20 steps find a path of any length.
            let mut reach: BTreeSet<u32> = (0..20).filter(|rank| runs(*rank)).collect();
            for _ in 0..20 {
                for (rank, state) in &states {
                    if let WaitState::Waits { until, .. } = state
                        && ranks(until).any(|other| reach.contains(&other))
                    {
                        reach.insert(*rank);
                    }
                }
            }
            let is_waiting = |state: &WaitState| matches!(state, WaitState::Waits { .. });
            let expected: BTreeSet<u32> = states
                .iter()
                .filter(|(rank, state)| is_waiting(state) && !reach.contains(rank))
                .map(|(rank, _)| *rank)
                .collect();
            prop_assert_eq!(stuck(&states), expected);
        }
    }
}
