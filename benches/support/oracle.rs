//! METIS as the reference for cuts. Loads are scaled to the weights that it can represent.

use crate::Graph;
use metis::option::{Seed, UFactor};
use std::time::{Duration, Instant};

/// Maximum sum of weights: METIS adds weights in 32 bits and, on overflow, puts all vertices into
/// one part without an error.
const WEIGHT_SUM_MAX: i64 = (1 << 31) - 1;

/// A graph in the format of METIS.
pub(crate) struct Oracle {
    first: Vec<i32>,
    ends: Vec<i32>,
    edge_weights: Vec<i32>,
    loads: Vec<i32>,
}

impl Oracle {
    /// Converts a graph. Loads are divided so that their sum fits into 31 bits. Panics if an edge
    /// weight does not.
    pub(crate) fn new(graph: &Graph) -> Self {
        let divisor = graph.total_load() / (WEIGHT_SUM_MAX - graph.len() as i64) + 1;
        let loads: Vec<i32> =
            graph.loads().iter().map(|load| (load / divisor).max(1) as i32).collect();
        let sum: i64 = loads.iter().map(|&load| i64::from(load)).sum();
        assert!(sum <= WEIGHT_SUM_MAX, "METIS would fail silently");
        let (mut first, mut ends, mut edge_weights) = (vec![0], Vec::new(), Vec::new());
        for vertex in 0..graph.len() as u32 {
            for (end, weight) in graph.neighbours(vertex) {
                ends.push(end as i32);
                edge_weights.push(i32::try_from(weight).expect("weights of studies are small"));
            }
            first.push(ends.len() as i32);
        }
        Self { first, ends, edge_weights, loads }
    }

    /// Returns the parts that METIS' k-way partitioning finds with a tolerance of 3 %, and the time
    /// that it takes. Without loads, the numbers of vertices are balanced.
    pub(crate) fn k_way(&self, parts: u32, seed: u64, with_loads: bool) -> (Vec<u32>, Duration) {
        let mut part = vec![0; self.loads.len()];
        let begin = Instant::now();
        let graph = metis::Graph::new(1, parts as i32, &self.first, &self.ends)
            .expect("the rows of a graph are valid")
            .set_adjwgt(&self.edge_weights)
            .set_option(Seed(seed as i32))
            .set_option(UFactor(30));
        let graph = if with_loads { graph.set_vwgt(&self.loads) } else { graph };
        graph.part_kway(&mut part).expect("METIS has the memory it needs");
        let elapsed = begin.elapsed();
        (part.into_iter().map(|part| part as u32).collect(), elapsed)
    }
}
