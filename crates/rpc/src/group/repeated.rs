//! Decides which calls of a group are executed after a restoration.
//!
//! Main gathers all calls of the group again, from its beginning. Servers still have the results of
//! some of them. They dropped the results of others before the checkpoint, since nothing needed
//! them any more. Such a call is executed again only if something needs its results after all, such
//! as a call whose own results were lost. That is not known when the calls are gathered, so such a
//! call is set aside until then.

use super::discovery::Gathered;
use std::collections::BTreeSet;

/// The known state of the results of calls.
pub(super) struct Results<'a> {
    /// Whether the client or a server has a result.
    pub(super) is_there: &'a dyn Fn(u32) -> bool,
    /// Whether a result was dropped after its call was executed.
    pub(super) is_dropped: &'a dyn Fn(u32) -> bool,
    /// Whether the program may still ask for a result.
    pub(super) is_named: &'a dyn Fn(u32) -> bool,
    /// The result for which the program asks.
    pub(super) wanted: Option<u32>,
}

/// Calls to execute and calls set aside. The others are not needed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Division {
    /// Calls to execute, in their order.
    pub(super) now: Vec<Gathered>,
    /// Calls that are set aside, in their order.
    pub(super) aside: Vec<Gathered>,
}

/// Divides calls. A call that makes data must come before the calls that read it.
pub(super) fn divide(calls: Vec<Gathered>, results: &Results<'_>) -> Division {
    let mut division = Division::default();
    // The data that executed calls read, and the data that calls set aside read.
    let (mut read_now, mut read_aside) = (BTreeSet::new(), BTreeSet::new());
    for call in calls.into_iter().rev() {
        let missing = call.outputs.iter().copied().filter(|&data| !(results.is_there)(data));
        let missing: Vec<u32> = missing.collect();
        let is_needed = |data: &u32| {
            !(results.is_dropped)(*data) || results.wanted == Some(*data) || read_now.contains(data)
        };
        let may_be_needed = |data: &u32| (results.is_named)(*data) || read_aside.contains(data);
        if missing.iter().any(is_needed) {
            read_now.extend(call.inputs.iter().copied());
            division.now.push(call);
        } else if missing.iter().any(may_be_needed) {
            read_aside.extend(call.inputs.iter().copied());
            division.aside.push(call);
        }
    }
    division.now.reverse();
    division.aside.reverse();
    division
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Signature, Volumes};

    /// A chain of calls from data 0, each of which makes the next number.
    fn chain(length: u32) -> Vec<Gathered> {
        let call = |input| Gathered {
            function: "next",
            signature: Signature::of::<(), ()>(),
            inputs: vec![input],
            outputs: vec![input + 1],
            work_s: None,
            volumes: Volumes::default(),
        };
        (0..length).map(call).collect()
    }

    /// The results of the calls to execute, and of those set aside. All results up to `made` were
    /// made; those in `there` exist, and the others were dropped.
    fn divided(made: u32, there: &[u32], named: &[u32], wanted: Option<u32>) -> [Vec<u32>; 2] {
        let results = Results {
            is_there: &|data| there.contains(&data),
            is_dropped: &|data| data <= made && !there.contains(&data),
            is_named: &|data| named.contains(&data),
            wanted,
        };
        let Division { now, aside } = divide(chain(5), &results);
        [now, aside].map(|calls| calls.iter().flat_map(|call| call.outputs.clone()).collect())
    }

    #[test]
    fn all_calls_of_a_new_group_are_executed() {
        assert_eq!(divided(0, &[], &[5], None), [vec![1, 2, 3, 4, 5], vec![]]);
        // The same holds if the program needs no result.
        assert_eq!(divided(0, &[], &[], None), [vec![1, 2, 3, 4, 5], vec![]]);
    }

    #[test]
    fn calls_whose_results_are_there_or_were_used_up_are_not_executed_again() {
        assert_eq!(divided(3, &[3], &[5], None), [vec![4, 5], vec![]]);
        assert_eq!(divided(5, &[5], &[5], Some(5)), [Vec::<u32>::new(), Vec::new()]);
        assert_eq!(divided(5, &[], &[], None), [Vec::<u32>::new(), Vec::new()]);
    }

    #[test]
    fn calls_for_results_that_are_lost_are_executed_again_with_those_before() {
        assert_eq!(divided(3, &[], &[5], None), [vec![1, 2, 3, 4, 5], vec![]]);
        assert_eq!(divided(3, &[2], &[5], None), [vec![3, 4, 5], vec![]]);
    }

    #[test]
    fn calls_that_may_be_needed_later_are_set_aside() {
        assert_eq!(divided(5, &[2], &[5], None), [vec![], vec![3, 4, 5]]);
        assert_eq!(divided(5, &[2], &[5], Some(5)), [vec![3, 4, 5], vec![]]);
        // Only one of two results is asked for.
        assert_eq!(divided(5, &[], &[2, 5], Some(2)), [vec![1, 2], vec![3, 4, 5]]);
    }
}
