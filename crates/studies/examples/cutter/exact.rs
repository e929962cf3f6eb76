//! Graphs small enough that trying every assignment finds the best cut.

use crate::oracle::Oracle;
use gridspan_balance::cutter::{Cutter, Graph};
use gridspan_studies::graphs::{ObjectGraph, grid_2d, path, random, tree, weighted};

/// Builds a graph of this number of vertices from a seed.
type Generator = fn(u32, u64) -> ObjectGraph;

/// Numbers of vertices.
const SIZES: std::ops::RangeInclusive<u32> = 8..=12;
/// Number of graphs of each kind and size.
const SEEDS: u64 = 20;

/// Prints how far the cutter and METIS are above the best cut whose loads are at most the cutter's
/// greatest load, and how often METIS exceeds that load.
pub(crate) fn report() {
    println!("kind\tparts\tgraphs\tours_above\tmetis_above\tmetis_over_limit");
    let kinds: [(&str, Generator); 5] = [
        ("path", |n, seed| weighted_edges(&path(&vec![1; n as usize - 1]), seed)),
        ("tree", |n, seed| weighted_edges(&tree(n, seed), seed)),
        ("random", |n, seed| random(n, 3.0, seed)),
        ("random weighted", |n, seed| weighted(&random(n, 3.5, seed), 20, seed)),
        ("grid", |n, seed| weighted_edges(&grid_2d(2, n / 2), seed)),
    ];
    for (kind, make) in kinds {
        for parts in [2, 3, 4] {
            let (mut graphs, mut over) = (0, 0);
            let mut sums = [0.0_f64; 2];
            for (vertices, seed) in SIZES.flat_map(|n| (1..=SEEDS).map(move |seed| (n, seed))) {
                let graph = make(vertices, seed).graph().unwrap();
                let cut = Cutter::new(parts).seed(seed).cut(&graph).unwrap();
                let theirs = Oracle::new(&graph).k_way(parts, seed, true).0;
                // The tolerance may be impossible to keep, so the optimum is the best cut with at
                // most the cutter's greatest load.
                let limit = *cut.loads.iter().max().unwrap() as i64;
                let best = optimum(&graph, parts, limit);
                if load_max(&graph, &theirs, parts) > limit {
                    over += 1;
                }
                graphs += 1;
                sums[0] += ratio(cut.weight, best);
                sums[1] += ratio(graph.cut(&theirs), best);
            }
            let above = sums.map(|sum| (sum / f64::from(graphs) - 1.0) * 100.0);
            println!("{kind}\t{parts}\t{graphs}\t{:.2} %\t{:.2} %\t{over}", above[0], above[1]);
        }
    }
}

fn weighted_edges(graph: &ObjectGraph, seed: u64) -> ObjectGraph {
    ObjectGraph { loads: graph.loads.clone(), ..weighted(graph, 10, seed) }
}

fn ratio(cut: u64, best: u64) -> f64 {
    (cut as f64 + 1.0) / (best as f64 + 1.0)
}

fn load_max(graph: &Graph, part: &[u32], parts: u32) -> i64 {
    let mut loads = vec![0; parts as usize];
    part.iter().zip(graph.loads()).for_each(|(&part, load)| loads[part as usize] += load);
    loads.into_iter().max().unwrap_or(0)
}

/// Returns the least weight of a cut with no part above `limit`.
fn optimum(graph: &Graph, parts: u32, limit: i64) -> u64 {
    fn place(
        graph: &Graph,
        part: &mut Vec<u32>,
        loads: &mut [i64],
        limit: i64,
        cut: i64,
        best: &mut i64,
    ) {
        let vertex = part.len() as u32;
        if cut >= *best {
            return;
        }
        if part.len() == graph.len() {
            *best = cut;
            return;
        }
        // Parts are interchangeable, so of the empty parts only the first is tried.
        let used = part.iter().max().map_or(0, |most| *most as usize + 1);
        for to in 0..loads.len().min(used + 1) {
            if loads[to] + graph.load(vertex) > limit {
                continue;
            }
            let cut_here: i64 = graph
                .neighbours(vertex)
                .filter(|&(end, _)| end < vertex && part[end as usize] != to as u32)
                .map(|(_, weight)| weight)
                .sum();
            loads[to] += graph.load(vertex);
            part.push(to as u32);
            place(graph, part, loads, limit, cut + cut_here, best);
            part.pop();
            loads[to] -= graph.load(vertex);
        }
    }
    let mut best = i64::MAX;
    place(graph, &mut Vec::new(), &mut vec![0; parts as usize], limit, 0, &mut best);
    best as u64
}
