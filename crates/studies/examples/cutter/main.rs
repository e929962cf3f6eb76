//! Compares the cutter with METIS, and with the optimum where an exhaustive search finds it.
//!
//! `cargo run --release -p gridspan-studies --example cutter -- [WORD...]` prints figures of the
//! graphs whose kind or name begins with one of the words: one tab-separated line for each graph
//! and number of parts, and geometric means at the end. `small` selects graphs of 8 to 12 vertices.
//! Times are processor times of the thread; of the runs with the same seed, the shortest counts.
//! The two programs take turns. Seeds begin at 1.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a study, which prints")]

mod cases;
mod exact;
#[path = "../../../../benches/support/oracle.rs"]
mod oracle;

use cases::Case;
use gridspan_balance::cutter::{Cutter, Graph};
use oracle::Oracle;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;

/// The result for one graph and number of parts.
struct Cell {
    /// Our cut divided by that of METIS.
    cut: f64,
    /// Our processor time divided by that of METIS.
    time: f64,
    /// Greatest imbalance, ours and that of METIS.
    imbalance: [f64; 2],
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted =
        |kind: &str| words.is_empty() || words.iter().any(|w| kind.starts_with(w.as_str()));
    if is_wanted("small") {
        exact::report();
    }
    let mut kinds: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    println!("kind\tgraph\tvertices\tparts\tcut\tcpu\tours_us\timbalance\tmetis_imbalance");
    for case in cases::all().into_iter().filter(|case| is_wanted(case.kind) || is_wanted(case.name))
    {
        let graph = (case.objects)().graph().unwrap();
        let oracle = Oracle::new(&graph);
        for &parts in case.parts {
            let (cell, ours_us) = compare(&graph, &oracle, parts, &case);
            println!(
                "{}\t{}\t{}\t{parts}\t{:.3}\t{:.2}\t{ours_us:.0}\t{:.3}\t{:.3}",
                case.kind,
                case.name,
                graph.len(),
                cell.cut,
                cell.time,
                cell.imbalance[0],
                cell.imbalance[1]
            );
            kinds.entry(case.kind).or_default().push((cell.cut, cell.time));
        }
    }
    println!("\nkind\tcells\tcut\tcpu");
    for (kind, cells) in &kinds {
        let mean = |of: fn(&(f64, f64)) -> f64| {
            (cells.iter().map(|cell| of(cell).ln()).sum::<f64>() / cells.len() as f64).exp()
        };
        println!("{kind}\t{}\t{:.3}\t{:.2}", cells.len(), mean(|cell| cell.0), mean(|cell| cell.1));
    }
}

/// Returns the processor time of `run` on this thread, in microseconds.
fn processor_us(run: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let begin = now();
    run();
    now() - begin
}

fn compare(graph: &Graph, oracle: &Oracle, parts: u32, case: &Case) -> (Cell, f64) {
    let (mut ours, mut theirs) = (0.0, 0.0);
    let (mut our_time, mut their_time) = (0.0, 0.0);
    let mut worst = [0.0_f64; 2];
    for seed in 1..=case.seeds {
        let mut least = [f64::INFINITY; 2];
        for _ in 0..case.rounds {
            let mut cut = None;
            let time =
                processor_us(|| cut = Some(Cutter::new(parts).seed(seed).cut(graph).unwrap()));
            least[0] = least[0].min(time);
            let cut = cut.unwrap();
            let mut part = Vec::new();
            let time = processor_us(|| part = oracle.k_way(parts, seed, true).0);
            least[1] = least[1].min(time);
            worst = [worst[0].max(cut.imbalance), worst[1].max(imbalance(graph, &part, parts))];
            ours += cut.weight as f64 / f64::from(case.rounds);
            theirs += graph.cut(&part) as f64 / f64::from(case.rounds);
        }
        our_time += least[0];
        their_time += least[1];
    }
    // One is added to both, so that the ratio is defined for empty cuts.
    let cut = (ours + 1.0) / (theirs + 1.0);
    (Cell { cut, time: our_time / their_time, imbalance: worst }, our_time / case.seeds as f64)
}

fn imbalance(graph: &Graph, part: &[u32], parts: u32) -> f64 {
    let mut loads = vec![0; parts as usize];
    part.iter().zip(graph.loads()).for_each(|(&part, load)| loads[part as usize] += load);
    loads.into_iter().max().unwrap_or(0) as f64 * f64::from(parts) / graph.total_load() as f64
}
