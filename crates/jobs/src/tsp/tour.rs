//! Partial tours as tasks.

use gridspan_kernels::tsp::{Best, PartialTour};
use gridspan_runtime::{Goal, Merge, Search, SearchContext};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Virtual time to examine a path: about the time on a present-day core.
const COST: Duration = Duration::from_nanos(300);

/// A task: a partial tour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path(pub PartialTour);

/// The total of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShortestTour(pub Best);

impl Merge for ShortestTour {
    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
    }
}

impl Search for Path {
    type Total = ShortestTour;

    const GOAL: Goal = Goal::Minimise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let Self(path) = self;
        let Some(sample) = path.sample() else {
            return cx.fail(
                "received a path that is in no known sample; start all nodes from one build",
            );
        };
        let mut best = Best::default();
        let mut share = |length: u32| {
            if length < u32::MAX {
                cx.improve(length.into());
            }
            cx.bound().map_or(u32::MAX, |bound| bound as u32)
        };
        // A shorter tour may have been found since this path was spawned.
        let known = share(u32::MAX);
        if path.lower(sample) >= known {
            best.examined = 1;
        } else if path.is_small(sample) {
            path.finish(sample, &mut best, &mut share);
        } else {
            best.examined = 1;
            // The newest task runs first, so the path to the nearest city is spawned last.
            for path in path.split(sample, known).into_iter().rev() {
                cx.spawn(Self(path));
            }
        }
        cx.charge(COST * best.examined.try_into().unwrap_or(u32::MAX));
        cx.total().0.merge(best);
    }
}
