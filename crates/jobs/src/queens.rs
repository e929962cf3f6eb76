//! Counts all ways to place queens on a chess board so that none attacks another: a search whose
//! branches differ widely in size.

use crate::entry::{Entry, parse};
use clap::Parser;
use gridspan_kernels::queens::{Queens, solutions as known_solutions};
use gridspan_runtime::{Grid, Job, JobError, Merge, Search, SearchContext};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str = "Counts the ways to put queens on a board so that none attacks another";

/// Virtual time to examine a board.
const COST: Duration = Duration::from_nanos(4);

pub(crate) const ENTRY: Entry =
    Entry { name: "queens", about: ABOUT, build: |arguments| Ok(job(parse("queens", arguments)?)) };

#[derive(Clone, Copy, Debug, Parser)]
#[command(about = ABOUT)]
struct Options {
    /// Number of rows of the board, and of queens.
    #[arg(long, short, default_value_t = 13, value_parser = clap::value_parser!(u32).range(1..=18))]
    n: u32,
    /// Number of last rows that one task fills without splitting further.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=18))]
    grain: u32,
}

/// A task: a board with queens in its upper rows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Board(Queens);

impl Board {
    /// Creates an empty board of `n` rows. Boards with `grain` or fewer rows left are not split.
    ///
    /// # Panics
    ///
    /// If `n` is not from 1 to 32.
    pub fn empty(n: u32, grain: u32) -> Self {
        Self(Queens::none(n, grain))
    }
}

/// The result of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    solutions: u64,
    /// Number of boards examined.
    boards: u64,
}

impl Found {
    /// Number of solutions found.
    pub fn solutions(&self) -> u64 {
        self.solutions
    }
}

impl Merge for Found {
    fn merge(&mut self, other: Self) {
        self.solutions += other.solutions;
        self.boards += other.boards;
    }
}

impl Search for Board {
    type Total = Found;

    fn visit(self, cx: &mut SearchContext<'_, Self>) {
        let mut found = Found { solutions: 0, boards: 1 };
        let Self(queens) = self;
        if queens.is_small() {
            (found.solutions, found.boards) = queens.count();
        } else {
            queens.split().for_each(|queens| cx.spawn(Self(queens)));
        }
        cx.charge(COST * found.boards.try_into().unwrap_or(u32::MAX));
        cx.total().merge(found);
    }
}

fn job(options: Options) -> Job {
    Job::new("queens")
        .search::<Board>()
        .restartable_main(async move |grid: Grid| run(&grid, options).await)
}

async fn run(grid: &Grid, Options { n, grain }: Options) -> Result<(), JobError> {
    let pool = grid.search_pool().await?;
    let begin = grid.now().await?;
    let Found { solutions, boards } = pool.run(Board::empty(n, grain)).await?;
    let elapsed = grid.now().await?.since(begin);
    println!(
        "{n} queens on {} PEs in {:.3} ms, {:.1} million boards a second",
        grid.layout().pe_count(),
        elapsed.as_secs_f64() * 1e3,
        boards as f64 / elapsed.as_secs_f64() / 1e6
    );
    let known = known_solutions(n).ok_or("there is no known number of solutions")?;
    if solutions == known {
        println!("verified: yes ({solutions} solutions, as in OEIS A000170)");
        return Ok(());
    }
    Err(format!("verified: no ({solutions} solutions instead of {known})").into())
}
