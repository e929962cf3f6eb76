//! Counts all ways to place queens on a chess board so that none attacks another: a search whose
//! branches differ widely in size.

use crate::entry::{Entry, parse};
use clap::Parser;
use gridspan_runtime::{Grid, Job, JobError, Merge, Search, SearchContext};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const ABOUT: &str = "Counts the ways to put queens on a board so that none attacks another";

/// Number of solutions on boards of 1 to 18 rows. Source: OEIS A000170.
const SOLUTIONS: [u64; 18] = [
    1,
    0,
    0,
    2,
    10,
    4,
    40,
    92,
    352,
    724,
    2680,
    14_200,
    73_712,
    365_596,
    2_279_184,
    14_772_512,
    95_815_104,
    666_090_624,
];

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

/// A board with queens in its upper rows, represented by the fields of the next row that they
/// attack.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Board {
    rows_left: u32,
    grain: u32,
    /// All fields of a row, as bits.
    all: u32,
    /// Fields attacked along the columns, as bits.
    columns: u32,
    /// Fields attacked along the diagonals downwards to the left, as bits.
    left: u32,
    /// Fields attacked along the diagonals downwards to the right, as bits.
    right: u32,
}

impl Board {
    /// Creates an empty board of `n` rows. Boards with `grain` or fewer rows left are not split.
    pub fn empty(n: u32, grain: u32) -> Self {
        let all = u32::MAX >> (32 - n);
        Self { rows_left: n, grain, all, columns: 0, left: 0, right: 0 }
    }

    /// Iterates over the boards with one more queen.
    fn next(self) -> impl Iterator<Item = Self> {
        let mut free = self.all & !(self.columns | self.left | self.right);
        std::iter::from_fn(move || {
            let queen = free & free.wrapping_neg();
            free ^= queen;
            (queen != 0).then(|| Self {
                rows_left: self.rows_left - 1,
                columns: self.columns | queen,
                left: (self.left | queen) << 1,
                right: (self.right | queen) >> 1,
                ..self
            })
        })
    }

    /// Returns the number of solutions below this board, and of boards examined.
    fn count(self) -> (u64, u64) {
        if self.rows_left == 0 {
            return (1, 1);
        }
        self.next().map(Self::count).fold((0, 1), |(a, b), (c, d)| (a + c, b + d))
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

/// Returns the number of solutions on a board of `n` rows, from 1 to 18. Source: OEIS A000170.
pub fn solutions(n: u32) -> Option<u64> {
    SOLUTIONS.get(n.checked_sub(1)? as usize).copied()
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
        if self.rows_left > self.grain {
            self.next().for_each(|board| cx.spawn(board));
        } else {
            (found.solutions, found.boards) = self.count();
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
    let known = SOLUTIONS[n as usize - 1];
    if solutions == known {
        println!("verified: yes ({solutions} solutions, as in OEIS A000170)");
        return Ok(());
    }
    Err(format!("verified: no ({solutions} solutions instead of {known})").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gridspan_runtime::driver::embedded;

    #[test]
    fn the_known_numbers_of_solutions_are_found() {
        for n in 1..=9 {
            assert_eq!(Board::empty(n, 0).count().0, SOLUTIONS[n as usize - 1], "{n} queens");
        }
    }

    #[test]
    fn searches_of_any_grain_find_the_solutions_on_any_number_of_pes() {
        for (n, grain, pes) in [(1, 1, 1), (8, 1, 3), (10, 5, 2), (6, 18, 2)] {
            embedded::run(job(Options { n, grain }), pes).unwrap();
        }
    }
}
