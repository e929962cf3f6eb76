//! Tasks within one process: the cost of a task, and the speed-up on two PEs.
//!
//! `cargo bench --bench tasks`; a word after `--` selects figures, as in `-- fib`.

#[path = "support/forks.rs"]
mod forks;
#[allow(dead_code, reason = "each bench uses a part")]
#[path = "support/suite.rs"]
mod suite;

use gridspan_studies::figures::FigureUnit;
use suite::{Contender, Suite};

/// Goal for spawning and joining: the time divided by rayon's.
const RAYON_RATIO: f64 = 1.5;
/// Goal for two PEs: the rate divided by that of the program without tasks.
const SPEED_UP: f64 = 1.9;

fn main() {
    let mut suite = Suite::new("tasks");
    let n = suite.choose(32, 16);
    for (title, workers) in [("fib, a task, one PE", 1), ("fib, a task, two PEs", 2)] {
        let contenders = vec![
            Contender::new("gridspan", || forks::fib(n, workers)),
            Contender::new("rayon", || forks::fib_rayon(n, workers)).goal(RAYON_RATIO),
            Contender::new("recursion without tasks", || forks::fib_serial(n)),
        ];
        suite.compare(title, FigureUnit::Time, contenders);
    }
    let tree = "T1";
    for (title, workers) in [("uts T1, nodes, one PE", 1), ("uts T1, nodes, two PEs", 2)] {
        let mut serial = Contender::new("without tasks", || forks::uts_serial(tree));
        let mut contenders = vec![
            Contender::new("gridspan", || forks::uts(tree, workers)),
            Contender::new("rayon", || forks::uts_rayon(tree, workers)),
        ];
        if workers > 1 {
            serial = serial.goal(SPEED_UP);
            // The upper bound on this machine: as many threads that share nothing.
            let apart = || forks::uts_apart(tree, workers);
            contenders.push(Contender::new("a tree for each thread, without tasks", apart));
        }
        contenders.push(serial);
        suite.compare(title, FigureUnit::Rate, contenders);
    }
    suite.finish();
}
