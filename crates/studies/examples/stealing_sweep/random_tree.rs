//! Random trees of tasks of random lengths, drawn from a seed.

use gridspan_runtime::{Merge, Search, SearchContext};
use gridspan_topology::dice;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The growth of a tree and the times of its tasks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    /// Mean time of a task, in nanoseconds.
    pub(crate) grain_ns: u64,
    /// Whether tasks take a tenth of the mean or, one in eleven, ten times the mean, instead of
    /// exactly the mean.
    pub(crate) is_uneven: bool,
}

/// The rule for the number of children of a task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// All tasks are children of the root.
    Flat { tasks: u32 },
    /// Every task above `depth` has `children` children.
    Full { children: u32, depth: u32 },
    /// Each task above `depth` has up to twice `mean` children, drawn uniformly; the root has twice
    /// `mean`.
    Geometric { mean: u32, depth: u32 },
    /// The root has `roots` children; every other task has 4 children or, mostly, none: 0.97 on
    /// average.
    Binomial { roots: u32 },
    /// A trunk of `length` tasks, each of which has a full binary tree of `depth` beside it.
    Trunk { length: u32, depth: u32 },
}

/// One task.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RandomTree {
    shape: Shape,
    hash: u64,
    depth: u32,
    /// In a trunk: whether it is part of the trunk itself.
    is_trunk: bool,
}

/// Number of tasks, and the sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Census {
    tasks: u64,
    sum: u64,
}

impl Merge for Census {
    fn merge(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl Shape {
    /// Returns the census of the tree, counted without running tasks.
    pub(crate) fn census(self) -> Census {
        let mut census = Census::default();
        let mut open = vec![RandomTree::root(self)];
        while let Some(task) = open.pop() {
            census.merge(Census { tasks: 1, sum: task.hash });
            open.extend(task.children());
        }
        census
    }

    /// Returns the time of all tasks, one after the other.
    pub(crate) fn work(self) -> Duration {
        let mut work = Duration::ZERO;
        let mut open = vec![RandomTree::root(self)];
        while let Some(task) = open.pop() {
            work += task.takes();
            open.extend(task.children());
        }
        work
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, seed, grain_ns, is_uneven } = self;
        let spread = if *is_uneven { "uneven" } else { "even" };
        write!(f, "{kind:?}, {grain_ns} ns {spread}, seed {seed}")
    }
}

impl RandomTree {
    pub(crate) fn root(shape: Shape) -> Self {
        Self { shape, hash: mix(shape.seed), depth: 0, is_trunk: true }
    }

    fn children(self) -> impl Iterator<Item = Self> {
        let depth = self.depth;
        let below = |limit: u32, children: u32| if depth < limit { children } else { 0 };
        let drawn = self.hash >> 11;
        let count = match self.shape.kind {
            Kind::Flat { tasks } => below(1, tasks),
            Kind::Full { children, depth: limit } => below(limit, children),
            Kind::Geometric { mean, depth: limit } => below(
                limit,
                if depth == 0 { mean * 2 } else { (drawn % u64::from(2 * mean + 1)) as u32 },
            ),
            Kind::Binomial { roots } if depth == 0 => roots,
            Kind::Binomial { .. } => {
                if drawn % 10_000 < 2_425 {
                    4
                } else {
                    0
                }
            }
            Kind::Trunk { length, depth: _ } if self.is_trunk => below(length, 2),
            // Depths start again from 0 in the trees beside the trunk.
            Kind::Trunk { depth: limit, .. } => below(limit, 2),
        };
        (0..count).map(move |child| {
            let is_trunk = self.is_trunk && child == 0;
            let is_beside =
                matches!(self.shape.kind, Kind::Trunk { .. }) && self.is_trunk && !is_trunk;
            let depth = if is_beside { 0 } else { depth + 1 };
            let hash = mix(self.hash ^ u64::from(child).wrapping_mul(0xA24B_AED4_963E_E407));
            Self { hash, depth, is_trunk, ..self }
        })
    }

    fn takes(self) -> Duration {
        let mean = self.shape.grain_ns;
        // In tenths of the mean: 1, or 100 for one task in eleven, which gives 10 on average.
        let tenths = match self.shape.is_uneven {
            true => 1 + 99 * u64::from(mix(self.hash).is_multiple_of(11)),
            false => 10,
        };
        Duration::from_nanos(mean * tenths / 10)
    }
}

impl Search for RandomTree {
    type Total = Census;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(self.takes());
        cx.total().merge(Census { tasks: 1, sum: self.hash });
        self.children().for_each(|child| cx.spawn(child));
    }
}

/// Returns the number that SplitMix64 draws in this state.
pub(crate) fn mix(state: u64) -> u64 {
    dice::mix(state.wrapping_add(dice::GOLDEN_GAMMA))
}
