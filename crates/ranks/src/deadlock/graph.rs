//! The graph of ranks that wait for each other, and the ranks in it that can never go on.
//!
//! A waiting rank has lists of ranks, and goes on once one rank of each list has acted. A receive
//! from any source has one list, of all senders; a wait for several receives has one list for each.
//! A rank can go on if each of its lists has a rank that runs or can go on. The other ranks are in
//! a deadlock. If each rank waits for one other, they lead to a cycle or to a rank that has ended;
//! if each has one list, they lead only to a knot (Holt, "Some deadlock properties of computer
//! systems", 1972; Chandy, Misra and Haas, "Distributed deadlock detection", 1983, on the
//! communication model; Knapp, "Deadlock detection in distributed databases", 1987, on the AND-OR
//! model).

use crate::runs::{Run, ranks};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a rank waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WaitState {
    /// It runs, or waits for something that other ranks do not decide.
    #[default]
    Runs,
    /// It has waited since its change number `epoch`: one rank of each list in `until` must act.
    /// The ranks in `targets` have the windows for whose locks it waits: when another rank releases
    /// such a lock, the target sends the grant.
    Waits { epoch: u64, until: Vec<Vec<Run>>, targets: Vec<u32> },
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

/// The waiting ranks that no rank can ever wake, each with the shortest of its lists in which no
/// rank can go on. A rank that is not listed runs.
pub(crate) fn stuck(states: &BTreeMap<u32, WaitState>) -> BTreeMap<u32, Vec<Run>> {
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
    // The number of lists of each rank in which no rank is known to go on.
    let mut left: BTreeMap<u32, usize> = BTreeMap::new();
    // The other lists: the rank, and the position of the list.
    let mut met: BTreeSet<(u32, usize)> = BTreeSet::new();
    let mut waiters = Waiters::default();
    let mut woken = Vec::new();
    for (rank, state) in states {
        let WaitState::Waits { until, .. } = state else { continue };
        let mut unmet = 0;
        for (at, list) in until.iter().enumerate() {
            if list.iter().any(has_other) {
                met.insert((*rank, at));
            } else {
                waiters.add((*rank, at), list);
                unmet += 1;
            }
        }
        match unmet {
            0 => woken.push(*rank),
            _ => drop(left.insert(*rank, unmet)),
        }
    }
    while let Some(rank) = woken.pop() {
        for (waiter, at) in waiters.take(rank) {
            if !met.insert((waiter, at)) {
                continue;
            }
            let Some(unmet) = left.get_mut(&waiter) else { continue };
            *unmet -= 1;
            if *unmet == 0 {
                left.remove(&waiter);
                woken.push(waiter);
            }
        }
    }
    let shortest = |rank: u32| {
        let Some(WaitState::Waits { until, .. }) = states.get(&rank) else { return None };
        let unmet = until.iter().enumerate().filter(|(at, _)| !met.contains(&(rank, *at)));
        let (_, list) = unmet.min_by_key(|(_, list)| count(list))?;
        Some((rank, list.clone()))
    };
    left.into_keys().filter_map(shortest).collect()
}

/// Number of ranks in a list, which may have some of them twice.
fn count(list: &[Run]) -> u32 {
    list.iter().fold(0, |sum: u32, (_, count)| sum.saturating_add(*count))
}

/// The lists of waiting ranks, by the ranks in them. Each is named by the rank that waits and its
/// position.
#[derive(Default)]
struct Waiters<'a> {
    /// Those with few ranks.
    of: BTreeMap<u32, Vec<(u32, usize)>>,
    /// Those with many.
    wide: Vec<((u32, usize), &'a [Run])>,
}

/// Largest number of ranks that count as few.
const FEW: u32 = 4;

impl<'a> Waiters<'a> {
    fn add(&mut self, waiter: (u32, usize), list: &'a [Run]) {
        if count(list) <= FEW {
            ranks(list).for_each(|other| self.of.entry(other).or_default().push(waiter));
        } else {
            self.wide.push((waiter, list));
        }
    }

    /// Takes those with a rank.
    fn take(&mut self, rank: u32) -> Vec<(u32, usize)> {
        let mut taken = self.of.remove(&rank).unwrap_or_default();
        let is_in = |run: &Run| rank.checked_sub(run.0).is_some_and(|at| at < run.1);
        let wide = self.wide.extract_if(.., |(_, list)| list.iter().any(is_in));
        taken.extend(wide.map(|(waiter, _)| waiter));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(until: &[Run]) -> WaitState {
        waits_for_all(&[until])
    }

    fn waits_for_all(lists: &[&[Run]]) -> WaitState {
        let until = lists.iter().map(|list| list.to_vec()).collect();
        WaitState::Waits { epoch: 0, until, targets: vec![] }
    }

    fn found(states: &[(u32, WaitState)]) -> Vec<u32> {
        stuck(&states.iter().cloned().collect()).into_keys().collect()
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
    fn a_rank_that_needs_all_of_several_is_stuck_if_it_needs_one_that_is() {
        // Rank 9 runs.
        let all = waits_for_all(&[&[(9, 1)], &[(0, 2), (9, 1)], &[(1, 1)]]);
        let cycle = [(0, all.clone()), (1, waits(&[(0, 1)]))];
        assert_eq!(found(&cycle), [0, 1]);
        let held = stuck(&cycle.iter().cloned().collect());
        assert_eq!(held, BTreeMap::from([(0, vec![(1, 1)]), (1, vec![(0, 1)])]));
        // Rank 1 needs rank 0 or one that runs, so both go on, one after the other.
        assert!(found(&[(0, all), (1, waits(&[(0, 1), (9, 1)]))]).is_empty());
    }

    #[test]
    fn ranks_that_have_ended_wake_none() {
        assert_eq!(found(&[(0, waits(&[(1, 1)])), (1, WaitState::Ended)]), [0]);
        let some = [(0, waits(&[(1, 3)])), (1, WaitState::Ended), (3, waits(&[(0, 1)]))];
        assert!(found(&some).is_empty());
        assert!(found(&[(0, waits(&[(1, 1)])), (1, WaitState::Runs)]).is_empty());
        assert!(found(&[(1, WaitState::Ended)]).is_empty());
    }

    /// Lists of one or two runs of ranks.
    fn lists() -> impl Strategy<Value = Vec<Run>> {
        prop::collection::vec((0_u32..12, 1_u32..7), 1..3)
    }

    proptest! {
        #[test]
        fn stuck_ranks_are_those_without_a_way_to_one_that_runs(
            states in prop::collection::btree_map(0_u32..12, prop_oneof![
                4 => prop::collection::vec(lists(), 1..4).prop_map(|until| {
                    WaitState::Waits { epoch: 0, until, targets: vec![] }
                }),
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
                        && until.iter().all(|list| ranks(list).any(|at| reach.contains(&at)))
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
            let found = stuck(&states);
            let mut held_by = found.values().flat_map(|list| ranks(list));
            prop_assert!(held_by.all(|rank| !reach.contains(&rank)));
            prop_assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), expected);
        }
    }
}
