//! Tasks and searches give the same wherever they run.
#![allow(missing_docs)]

use gridspan_runtime::driver::embedded;
use gridspan_runtime::{Job, Merge, Search, SearchContext, Step, Task, TaskContext};
use serde::{Deserialize, Serialize};

/// The Fibonacci number of an index, by as many tasks as its value times 3.2.
#[derive(Serialize, Deserialize)]
struct Fib(u32);

impl Task for Fib {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        if self.0 < 2 {
            return Step::Done(self.0.into());
        }
        cx.spawn(Fib(self.0 - 1));
        cx.spawn(Fib(self.0 - 2));
        Step::Sync(0)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

/// The digits of a number of some length, in order: outputs have to come back to the right child.
#[derive(Serialize, Deserialize)]
struct Digits {
    from: u32,
    to: u32,
}

impl Task for Digits {
    type Output = String;
    type Join = [String; 2];

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        let Self { from, to } = self;
        if to - from == 1 {
            return Step::Done((from % 10).to_string());
        }
        let middle = from.midpoint(to);
        cx.spawn(Self { from, to: middle });
        cx.spawn(Self { from: middle, to });
        Step::Sync(Default::default())
    }

    fn collect(parts: &mut [String; 2], child: u32, output: String) {
        parts[child as usize] = output;
    }

    fn joined(parts: [String; 2], _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(parts.concat())
    }
}

/// A node of a ternary tree.
#[derive(Serialize, Deserialize)]
struct Node {
    depth: u32,
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Census {
    nodes: u64,
    leaves: u64,
    deepest: u32,
}

impl Merge for Census {
    fn merge(&mut self, other: Self) {
        self.nodes += other.nodes;
        self.leaves += other.leaves;
        self.deepest = self.deepest.max(other.deepest);
    }
}

impl Search for Node {
    type Total = Census;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let depth = self.depth;
        let is_leaf = depth == 9;
        let census = cx.total();
        census.nodes += 1;
        census.leaves += u64::from(is_leaf);
        census.deepest = census.deepest.max(depth);
        if !is_leaf {
            (0..3).for_each(|_| cx.spawn(Node { depth: depth + 1 }));
        }
    }
}

fn everywhere(make: impl Fn() -> Job) {
    for pes in [1, 3] {
        embedded::run(make(), pes).unwrap();
    }
    #[cfg(feature = "net")]
    {
        let spec = "[site.here]\nhosts = [\"h[1-2]\"]\npes = 2\n[site.there]\nhosts = [\"t\"]\n\
                    [wan]\nlatency = \"3ms\"\n";
        let spec = gridspan_topology::GridSpec::from_toml(spec).unwrap();
        embedded::run_emulated(make(), &spec).unwrap();
    }
}

#[test]
fn tasks_fork_and_join() {
    everywhere(|| {
        Job::new("fib").tasks::<Fib>().main(async |grid| {
            assert_eq!(grid.run_tasks(Fib(22)).await?, 17_711);
            let pool = grid.task_pool().await?;
            let (small, large) = (pool.run(Fib(10)), pool.run(Fib(20)));
            assert_eq!((large.await?, small.await?), (6765, 55));
            Ok(())
        })
    });
}

#[test]
fn children_are_told_apart() {
    everywhere(|| {
        Job::new("digits").tasks::<Digits>().main(async |grid| {
            let digits = grid.run_tasks(Digits { from: 0, to: 3000 }).await?;
            assert_eq!(digits, "0123456789".repeat(300));
            Ok(())
        })
    });
}

#[test]
fn a_search_visits_every_node_once() {
    everywhere(|| {
        Job::new("census").search::<Node>().main(async |grid| {
            let census = grid.run_search(Node { depth: 0 }).await?;
            let leaves = 3u64.pow(9);
            let nodes = (3 * leaves - 1) / 2;
            assert_eq!(census, Census { nodes, leaves, deepest: 9 });
            Ok(())
        })
    });
}
