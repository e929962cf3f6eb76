//! A multilevel partitioner: cuts a graph into parts of given shares so that little edge weight is
//! cut and few vertices move.
//!
//! Weights have 64 bits, shares are any non-negative numbers, vertices can be tied to homes, and
//! dice are seeded. If the imbalance exceeds the tolerance, [`Cut::obstacle`] gives the reason.
//! [`Cutter`] holds the parameters; [`Cutter::cut`] and [`Cutter::recut`] cut a graph.
//!
//! - `graph.rs`, `tie.rs`: the input. `targets.rs`: targets and limits of the parts' loads.
//! - `cluster.rs`, `coarsen.rs`: smaller graphs. `bisect.rs`, `side.rs`, `recursive.rs`: the first
//!   cut, of the smallest graph. `refine.rs` over `state.rs`: refinement on the way back.
//!   `small.rs`: a nearly exact search for small graphs. `rebalance.rs`: keeps the limits at any
//!   cost. `relabel.rs`: names of parts. `order.rs`: the order in which vertices are visited.
//!   `multilevel.rs`: all steps together.

mod bisect;
mod cluster;
mod coarsen;
mod graph;
mod heap;
mod multilevel;
mod order;
mod rebalance;
mod recursive;
mod refine;
mod relabel;
mod side;
mod small;
mod state;
mod targets;
mod tie;

pub(crate) use coarsen::clusters;
pub use graph::{Graph, GraphError, MAX_WEIGHT_SUM};
pub use targets::Obstacle;
pub use tie::Tie;

use gridspan_topology::dice::Dice;
use thiserror::Error;
use tie::Problem;

/// Parameters of a cut.
#[derive(Clone, Debug)]
pub struct Cutter<'a> {
    shares: Vec<f64>,
    tolerance: f64,
    ties: &'a [Tie],
    v_cycles: u32,
    seed: u64,
}

/// Result of a cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The part of each vertex.
    pub part: Vec<u32>,
    /// Weight of the edges that are cut.
    pub weight: u64,
    /// Load of each part.
    pub loads: Vec<u64>,
    /// Maximum load of a part divided by its share of the whole: 1 at best. Infinite where a part
    /// without a share has a load.
    pub imbalance: f64,
    /// Reason why the imbalance exceeds the tolerance; `None` if it does not.
    pub obstacle: Option<Obstacle>,
}

/// Why a graph was not cut.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum CutError {
    /// There are no parts, or none has a share.
    #[error("no part has a share; ask for at least one")]
    NoParts,
    /// A share is negative or not finite.
    #[error("part {part} has the share {share}; write a finite number that is not negative")]
    Share {
        /// The part.
        part: usize,
        /// The value refused.
        share: f64,
    },
    /// The tolerance is negative or not finite.
    #[error("the tolerance is {tolerance}; write a number from 0, such as 0.03")]
    Tolerance {
        /// The value refused.
        tolerance: f64,
    },
    /// A list does not have one entry for each vertex.
    #[error("there are {count} {what} for {vertices} vertices; give one for each")]
    Length {
        /// Name of the list.
        what: &'static str,
        /// Number of entries.
        count: usize,
        /// Number of vertices.
        vertices: usize,
    },
    /// A home or a start is a part that does not exist.
    #[error("vertex {vertex} names part {part}, but there are {parts} parts, numbered from 0")]
    NoSuchPart {
        /// The vertex.
        vertex: usize,
        /// The part refused.
        part: u32,
        /// Number of parts.
        parts: usize,
    },
    /// The total weight of ties and edges is too great.
    #[error(transparent)]
    TooHeavy(#[from] GraphError),
}

impl<'a> Cutter<'a> {
    /// Creates a cutter for `parts` parts of equal share, with a tolerance of 0.03, no ties, no
    /// V-cycles and seed 0.
    pub fn new(parts: u32) -> Self {
        Self::with_shares(vec![1.0; parts as usize])
    }

    /// Creates a cutter with one part for each share; shares are relative to each other.
    pub fn with_shares(shares: Vec<f64>) -> Self {
        Self { shares, tolerance: 0.03, ties: &[], v_cycles: 0, seed: 0 }
    }

    /// Sets the fraction of its share by which a part's load may exceed the share: a finite number
    /// of at least 0. A limit is never less than the share rounded up.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Sets the home and the pull of each vertex; an empty list sets none.
    #[must_use]
    pub fn ties(mut self, ties: &'a [Tie]) -> Self {
        self.ties = ties;
        self
    }

    /// Sets the number of V-cycles. Each coarsens the graph again and refines the result, in about
    /// half of the time of the first cut.
    #[must_use]
    pub fn v_cycles(mut self, v_cycles: u32) -> Self {
        self.v_cycles = v_cycles;
        self
    }

    /// Sets the seed of the dice.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Cuts from scratch. If no vertex has a load, the numbers of vertices are balanced.
    ///
    /// # Errors
    ///
    /// [`CutError`] if a setting of the cutter is invalid or does not fit the graph, or the weights
    /// of edges and ties together are too great.
    pub fn cut(&self, graph: &Graph) -> Result<Cut, CutError> {
        self.run(graph, None)
    }

    /// Improves `start`; if little needs to change, few vertices move.
    ///
    /// # Errors
    ///
    /// Those of [`cut`](Self::cut), and [`CutError`] if `start` does not name an existing part for
    /// each vertex.
    pub fn recut(&self, graph: &Graph, start: &[u32]) -> Result<Cut, CutError> {
        self.run(graph, Some(start))
    }

    fn run(&self, graph: &Graph, start: Option<&[u32]>) -> Result<Cut, CutError> {
        let shares = self.checked_shares(graph, start)?;
        if graph.is_empty() {
            return Ok(measured(graph, &shares, Vec::new(), None));
        }
        let counted = (graph.total_load() == 0).then(|| graph.counting_vertices());
        let mut problem =
            Problem { graph: counted.unwrap_or_else(|| graph.clone()), ties: self.ties.to_vec() };
        let homes: Vec<u32> = match start {
            Some(start) => start.to_vec(),
            None => self.ties.iter().map(|tie| tie.home).collect(),
        };
        let (mut bounds, heavy) = targets::bounds(&problem, &shares, self.tolerance, &homes);
        if !heavy.is_empty() {
            problem.ties.resize(graph.len(), Tie::FREE);
            heavy.iter().for_each(|&(v, part)| problem.ties[v as usize] = Tie::fixed(part));
        }
        let mut dice = Dice::new(self.seed);
        let mut part = match start {
            None => multilevel::from_scratch(&problem, &bounds, &mut dice),
            Some(start) => {
                let mut start = start.to_vec();
                let fixed = problem.ties.iter().enumerate().filter(|(_, tie)| tie.is_fixed());
                fixed.for_each(|(vertex, tie)| start[vertex] = tie.home);
                multilevel::from_partition(&problem, &bounds, start, &mut dice)
            }
        };
        for _ in 0..self.v_cycles {
            part = multilevel::from_partition(&problem, &bounds, part, &mut dice);
        }
        let loads = state::loads(&problem, bounds.limits.len(), &part);
        let over = loads.iter().zip(&bounds.tolerated).map(|(load, limit)| (load - limit).max(0));
        let excess: i64 = over.sum();
        if excess > 0 {
            bounds.obstacle.get_or_insert(Obstacle::TooTight { excess });
        }
        Ok(measured(&problem.graph, &shares, part, bounds.obstacle))
    }

    /// Checks that all parameters fit together, and returns the shares scaled to a sum of one.
    fn checked_shares(&self, graph: &Graph, start: Option<&[u32]>) -> Result<Vec<f64>, CutError> {
        let (parts, vertices) = (self.shares.len(), graph.len());
        for (part, &share) in self.shares.iter().enumerate() {
            if !(share >= 0.0 && share.is_finite()) {
                return Err(CutError::Share { part, share });
            }
        }
        let most = self.shares.iter().copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return Err(CutError::NoParts);
        }
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return Err(CutError::Tolerance { tolerance: self.tolerance });
        }
        let named = [
            ("ties", (!self.ties.is_empty()).then_some(self.ties.len())),
            ("parts", start.map(<[u32]>::len)),
        ];
        for (what, count) in named {
            if let Some(count) = count.filter(|&count| count != vertices) {
                return Err(CutError::Length { what, count, vertices });
            }
        }
        let homes = self.ties.iter().map(|tie| tie.home);
        let places = start.unwrap_or_default().iter().copied();
        let wrong = homes.chain(places).enumerate().find(|entry| entry.1 as usize >= parts);
        if let Some((at, part)) = wrong {
            return Err(CutError::NoSuchPart { vertex: at % vertices.max(1), part, parts });
        }
        let edges = (0..vertices as u32).flat_map(|vertex| {
            let later = graph.neighbours(vertex).filter(move |&(end, _)| end > vertex);
            later.map(|(_, weight)| weight as u64)
        });
        let pulls = self.ties.iter().filter(|tie| !tie.is_fixed()).map(|tie| tie.pull);
        if !self.ties.is_empty() {
            graph::checked_sum(edges.chain(pulls), "the weights of edges and ties")?;
        }
        // Dividing by the greatest first keeps the sum finite.
        let sum: f64 = self.shares.iter().map(|share| share / most).sum();
        Ok(self.shares.iter().map(|share| share / most / sum).collect())
    }
}

fn measured(graph: &Graph, shares: &[f64], part: Vec<u32>, obstacle: Option<Obstacle>) -> Cut {
    let mut loads = vec![0_u64; shares.len()];
    for (&part, &load) in part.iter().zip(graph.loads()) {
        loads[part as usize] += load as u64;
    }
    let total = graph.total_load() as f64;
    let fullness = |(&load, &share): (&u64, &f64)| {
        if load == 0 { 0.0 } else { load as f64 / (total * share) }
    };
    let imbalance = loads.iter().zip(shares).map(fullness).fold(0.0, f64::max);
    Cut { weight: graph.cut(&part), part, loads, imbalance, obstacle }
}

#[cfg(test)]
mod tests;
