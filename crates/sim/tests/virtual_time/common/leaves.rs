//! A tree whose best leaf is sought by branch and bound, as a search or as tasks.

use gridspan_runtime::{
    Goal, JobError, Merge, Search, SearchContext, Step, Task, TaskContext, TaskPoolRef,
};
use gridspan_topology::dice::Dice;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A node of a complete binary tree whose leaves have values that a seed determines.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Leaves {
    seed: u64,
    /// A 1, and after it one bit for each step from the root.
    path: u64,
    /// Number of levels below.
    height: u32,
    /// Values are below this number.
    values: u64,
    cost: Duration,
}

impl Leaves {
    /// Greatest height at which a node knows the best value below, and is pruned by it.
    const KNOWN: u32 = 2;

    /// The root of a tree whose nodes each take `cost`. With few `values`, several leaves have the
    /// same value.
    pub fn new(seed: u64, height: u32, values: u64, cost: Duration) -> Self {
        Self { seed, path: 1, height, values, cost }
    }

    fn children(self) -> [Self; 2] {
        [0, 1].map(|bit| Self { path: self.path << 1 | bit, height: self.height - 1, ..self })
    }

    /// The value of the leaf at a path.
    fn value_at(self, path: u64) -> i64 {
        let mut dice = Dice::new(self.seed ^ path.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.below(self.values) as i64
    }

    /// Returns the best value of all leaves below, by visiting each.
    fn best(self) -> i64 {
        match self.height {
            0 => self.value_at(self.path),
            _ => self.children().map(Self::best).into_iter().fold(i64::MIN, i64::max),
        }
    }

    /// Whether no leaf below is better than this value, as far as the node knows.
    fn is_pruned_by(self, bound: Option<i64>) -> bool {
        self.height <= Self::KNOWN && bound.is_some_and(|bound| self.best() <= bound)
    }

    /// Fails unless a search of this tree has found its best value, and a leaf that has it.
    pub fn check(self, found: Found) -> Result<(), JobError> {
        let best = self.best();
        match found.0 {
            Some((value, path)) if value == best && self.value_at(path) == best => Ok(()),
            other => Err(format!("found {other:?} instead of {best}").into()),
        }
    }
}

/// The best value of a leaf that was found, with the path of the leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Found(Option<(i64, u64)>);

impl Merge for Found {
    fn merge(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }
}

impl Search for Leaves {
    type Total = Found;

    const GOAL: Goal = Goal::Maximise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(self.cost);
        if self.is_pruned_by(cx.bound()) {
            return;
        }
        if self.height == 0 {
            let value = self.best();
            cx.improve(value);
            return cx.total().merge(Found(Some((value, self.path))));
        }
        self.children().into_iter().for_each(|child| cx.spawn(child));
    }
}

/// The same tree: each node returns the best leaf of its subtree to its parent.
impl Task for Leaves {
    type Output = Found;
    type Join = Found;

    const GOAL: Goal = Goal::Maximise;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(self.cost);
        if self.is_pruned_by(cx.bound()) {
            return Step::Done(Found::default());
        }
        if self.height == 0 {
            let value = self.best();
            cx.improve(value);
            return Step::Done(Found(Some((value, self.path))));
        }
        self.children().into_iter().for_each(|child| cx.spawn(child));
        Step::Sync(Found::default())
    }

    fn collect(best: &mut Found, _child: u32, output: Found) {
        best.merge(output);
    }

    fn joined(best: Found, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(best)
    }
}

/// The upper part of a tree of leaves, whose tasks call the pool of the lower part.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Upper {
    pub lower: TaskPoolRef<Leaves>,
    pub tree: Leaves,
    /// Number of levels of the upper part.
    pub levels: u32,
}

impl Task for Upper {
    type Output = Found;
    type Join = Found;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(self.tree.cost);
        match self.levels {
            0 => cx.spawn_in(self.lower, self.tree, |found| found),
            levels => self
                .tree
                .children()
                .into_iter()
                .for_each(|tree| cx.spawn(Self { tree, levels: levels - 1, ..self })),
        }
        Step::Sync(Found::default())
    }

    fn collect(best: &mut Found, _child: u32, output: Found) {
        best.merge(output);
    }

    fn joined(best: Found, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(best)
    }
}
