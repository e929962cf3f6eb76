//! Task pools that run concurrently with each other and with the rest of the job.

use super::ledger;
use gridspan_runtime::{
    Grid, JobError, Merge, PeId, Search, SearchContext, Step, Task, TaskContext,
};
use serde::{Deserialize, Serialize};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Maximum number of teeth. The largest tree has `2^TEETH_MAX` nodes.
const TEETH_MAX: u64 = 9;
/// Virtual time that each node of a tree takes.
const COST: Duration = Duration::from_micros(200);

/// A tree of `2^teeth` nodes: deep, narrow, and uneven.
#[derive(Serialize, Deserialize)]
pub(super) struct Comb {
    teeth: u32,
}

/// Number of visited nodes.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Nodes(u64);

impl Merge for Nodes {
    fn merge(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Search for Comb {
    type Total = Nodes;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        cx.charge(COST);
        cx.total().0 += 1;
        (0..self.teeth).for_each(|teeth| cx.spawn(Self { teeth }));
    }
}

/// The same tree, counted from the leaves up: each node returns the size of its subtree to its
/// parent.
impl Task for Comb {
    type Output = u64;
    type Join = u64;

    fn run(self, cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        cx.charge(COST);
        (0..self.teeth).for_each(|teeth| cx.spawn(Self { teeth }));
        Step::Sync(1)
    }

    fn collect(sum: &mut u64, _child: u32, output: u64) {
        *sum += output;
    }

    fn joined(sum: u64, _cx: &mut TaskContext<'_, Self>) -> Step<Self> {
        Step::Done(sum)
    }
}

/// Counts two trees, one by tasks and one by a search, in pools that are open at the same time.
/// Each starts on a random PE.
pub(super) async fn count_trees(grid: &Grid) -> Result<(), JobError> {
    let pes = u64::from(grid.layout().pe_count());
    let [one, other] = [(); 2].map(|()| {
        ledger::with(|ledger| {
            let dice = &mut ledger.dice;
            (PeId(dice.below(pes) as u32), 1 + dice.below(TEETH_MAX) as u32)
        })
    });
    let tasks = grid.task_pool::<Comb>().await?;
    let searches = grid.search_pool::<Comb>().await?;
    let (counted, visited) = both(
        tasks.run_on(one.0, Comb { teeth: one.1 }),
        searches.run_on(other.0, Comb { teeth: other.1 }),
    )
    .await;
    let (counted, visited) = (counted?, visited?.0);
    tasks.close();
    searches.close();
    ledger::with(|ledger| {
        ledger.actions.tasks += counted + visited;
        ledger.actions.pools += 2;
        for (count, teeth) in [(counted, one.1), (visited, other.1)] {
            if count != 1 << teeth {
                ledger.violated(format!("a tree of 2^{teeth} nodes was counted as {count}"));
            }
        }
    });
    Ok(())
}

/// Runs two futures concurrently, and returns both results.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(move |cx| {
        if first.is_none()
            && let Poll::Ready(value) = one.as_mut().poll(cx)
        {
            first = Some(value);
        }
        if second.is_none()
            && let Poll::Ready(value) = other.as_mut().poll(cx)
        {
            second = Some(value);
        }
        match (first.take(), second.take()) {
            (Some(one), Some(other)) => Poll::Ready((one, other)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
