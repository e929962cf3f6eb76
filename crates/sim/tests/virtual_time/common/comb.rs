//! A tree whose nodes are counted, as a search or as tasks.

use gridspan_runtime::{Merge, PeId, Search, SearchContext, Step, Task, TaskContext};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::time::Duration;

thread_local! {
    /// The runs so far; a simulation has one thread.
    static RUNS: RefCell<Vec<Run>> = const { RefCell::new(Vec::new()) };
}

/// A run of a node of the tree.
#[derive(Clone, Copy)]
pub struct Run {
    pub path: u32,
    pub pe: PeId,
    /// Virtual time of the run in nanoseconds.
    pub ns: u64,
}

/// Takes all runs in this thread since the last call.
pub fn take_runs() -> Vec<Run> {
    RUNS.take()
}

/// A binomial tree of `2^teeth` nodes: deep, narrow, and uneven. The path of a child is that of its
/// parent with one more bit, below the other bits.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Comb {
    path: u32,
    teeth: u32,
    cost: Duration,
}

impl Comb {
    /// The root of a tree whose nodes each take `cost`.
    pub fn new(teeth: u32, cost: Duration) -> Self {
        Self { path: 0, teeth, cost }
    }

    fn children(self) -> impl Iterator<Item = Self> {
        (0..self.teeth).map(move |teeth| Self { path: self.path | 1 << teeth, teeth, ..self })
    }

    fn note(self, pe: PeId, ns: u64) {
        RUNS.with_borrow_mut(|runs| runs.push(Run { path: self.path, pe, ns }));
    }
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Nodes(pub u64);

impl Merge for Nodes {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Search for Comb {
    type Total = Nodes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        self.note(cx.pe(), cx.now().0);
        cx.charge(self.cost);
        cx.total().0 += 1;
        self.children().for_each(|child| cx.spawn(child));
    }
}

/// The same tree, counted from the leaves up: each node returns the size of its subtree to its
/// parent.
impl Task for Comb {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        self.note(cx.pe(), cx.now().0);
        cx.charge(self.cost);
        self.children().for_each(|child| cx.spawn(child));
        Step::Sync(1)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}
