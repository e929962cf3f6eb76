//! The most profitable knapsack, by branch and bound: all tasks share the best profit found so far,
//! and prune choices that cannot exceed it.

use crate::entry::{Entry, parse};
use clap::Parser;
use gridspan_kernels::knapsack::{Instance, PartialPacking};
use gridspan_runtime::{Goal, Grid, Job, JobError, Merge, Search, SearchContext};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str = "Fills a knapsack for the most profit, by branch and bound with a shared bound";

/// Virtual time to examine a choice: about the time on a present-day core.
const COST: Duration = Duration::from_nanos(30);

pub(crate) const ENTRY: Entry = Entry {
    name: "knapsack",
    about: ABOUT,
    build: |arguments| Ok(job(parse("knapsack", arguments)?)),
};

#[derive(Clone, Copy, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Number of items to draw, whose profits grow with their weights; dynamic programming gives
    /// their optimum [default: the 24 items of instance P08 of KNAPSACK_01, whose optimum is
    /// published].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=200))]
    items: Option<u32>,
    /// With --items, the seed of the items.
    #[arg(long, default_value_t = 1, requires = "items")]
    seed: u64,
    /// Number of last items that one task decides without splitting further.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=200))]
    grain: u32,
}

/// A task: a node of the search tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Choice(pub PartialPacking);

/// The result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    profit: u64,
    /// Number of choices examined.
    examined: u64,
}

impl Found {
    /// The optimal profit.
    pub fn profit(&self) -> u64 {
        self.profit
    }

    /// Number of choices examined.
    pub fn examined(&self) -> u64 {
        self.examined
    }
}

impl Merge for Found {
    fn merge(&mut self, other: Self) {
        self.profit = self.profit.max(other.profit);
        self.examined += other.examined;
    }
}

impl Search for Choice {
    type Total = Found;

    const GOAL: Goal = Goal::Maximise;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let mut found = Found { profit: 0, examined: 1 };
        let mut share = |profit: u64| {
            found.profit = found.profit.max(profit);
            cx.improve(profit as i64);
            // A task that repeats another sees a bound that is worse by one: -1 in place of 0.
            u64::try_from(cx.bound().unwrap_or_default()).unwrap_or_default()
        };
        let Self(choice) = self;
        if choice.is_small() {
            found.examined = choice.finish(&mut share);
        } else {
            let best = share(choice.profit());
            choice.split(best).for_each(|choice| cx.spawn(Self(choice)));
        }
        cx.charge(COST * found.examined.try_into().unwrap_or(u32::MAX));
        cx.total().merge(found);
    }
}

fn job(options: Options) -> Job {
    Job::new("knapsack")
        .search::<Choice>()
        .restartable_main(async move |grid: Grid| run(&grid, options).await)
}

async fn run(grid: &Grid, options: Options) -> Result<(), JobError> {
    let (instance, known, source) = match options.items {
        None => (Instance::published(), Instance::PUBLISHED_OPTIMUM, "as published"),
        Some(items) => {
            let instance = Instance::drawn(items, options.seed);
            let best = instance.best_by_table();
            (instance, best, "by dynamic programming")
        }
    };
    let items = instance.item_count();
    let root = Choice(PartialPacking::none(instance, options.grain));
    let pool = grid.search_pool().await?;
    let begin = grid.now().await?;
    let Found { profit, examined } = pool.run(root).await?;
    let elapsed = grid.now().await?.since(begin);
    println!(
        "{items} items on {} PEs in {:.3} ms, {examined} choices examined",
        grid.layout().pe_count(),
        elapsed.as_secs_f64() * 1e3,
    );
    if profit == known {
        println!("verified: yes (profit {profit}, {source})");
        return Ok(());
    }
    Err(format!("verified: no (profit {profit} instead of {known}, {source})").into())
}
