//! A partition into any number of parts while it is being improved.

use super::tie::Problem;

/// Which vertex is in which part, and how full the parts are.
#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    pub(super) problem: &'a Problem,
    /// The most each part may weigh.
    pub(super) limits: &'a [i64],
    pub(super) part: Vec<u32>,
    pub(super) loads: Vec<i64>,
    /// The weight of the edges to each part; zero between calls.
    weights: Vec<i64>,
    touched: Vec<u32>,
}

/// Where a vertex would best go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// What going there saves; negative if it costs.
    pub(super) gain: i64,
    pub(super) to: u32,
}

/// How good a partition is: less is better, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The load beyond the limits.
    pub(super) excess: i64,
    pub(super) cost: i64,
}

impl<'a> State<'a> {
    pub(super) fn new(problem: &'a Problem, limits: &'a [i64], part: Vec<u32>) -> Self {
        let mut loads = vec![0; limits.len()];
        for (&part, &load) in part.iter().zip(problem.graph.loads()) {
            loads[part as usize] += load;
        }
        let weights = vec![0; limits.len()];
        Self { problem, limits, part, loads, weights, touched: Vec::new() }
    }

    pub(super) fn parts(&self) -> usize {
        self.limits.len()
    }

    /// The load beyond the limit of a part.
    #[inline]
    pub(super) fn excess_of(&self, part: u32) -> i64 {
        (self.loads[part as usize] - self.limits[part as usize]).max(0)
    }

    pub(super) fn excess(&self) -> i64 {
        (0..self.parts() as u32).map(|part| self.excess_of(part)).sum()
    }

    pub(super) fn rank(&self) -> Rank {
        Rank { excess: self.excess(), cost: self.problem.cost(&self.part) }
    }

    /// What a part can still take; negative if it has too much.
    #[inline]
    pub(super) fn room(&self, part: u32) -> i64 {
        self.limits[part as usize] - self.loads[part as usize]
    }

    #[inline]
    pub(super) fn shift(&mut self, vertex: u32, to: u32) {
        let load = self.problem.graph.load(vertex);
        let from = std::mem::replace(&mut self.part[vertex as usize], to);
        self.loads[from as usize] -= load;
        self.loads[to as usize] += load;
    }

    /// Whether a neighbour is in another part.
    pub(super) fn is_border(&self, vertex: u32) -> bool {
        let here = self.part[vertex as usize];
        self.problem.graph.neighbours(vertex).any(|(end, _)| self.part[end as usize] != here)
    }

    /// The best other part among those of the neighbours and the home, if it has room; among
    /// equals the one with most room. `None` for a fixed vertex and where no such part has room.
    #[inline]
    pub(super) fn choice(&mut self, vertex: u32) -> Option<Choice> {
        let tie = self.problem.tie(vertex);
        if tie.is_fixed() {
            return None;
        }
        let mut touched = std::mem::take(&mut self.touched);
        for (end, weight) in self.problem.graph.neighbours(vertex) {
            let part = self.part[end as usize];
            if self.weights[part as usize] == 0 {
                touched.push(part);
            }
            self.weights[part as usize] += weight;
        }
        if tie.pull > 0 {
            if self.weights[tie.home as usize] == 0 {
                touched.push(tie.home);
            }
            self.weights[tie.home as usize] += tie.pull as i64;
        }
        let here = self.part[vertex as usize];
        let stay = self.weights[here as usize];
        let load = self.problem.graph.load(vertex);
        let mut best: Option<(i64, i64, u32)> = None;
        for part in touched.drain(..) {
            let weight = std::mem::take(&mut self.weights[part as usize]);
            let room = self.room(part);
            if part != here
                && room >= load
                && best.is_none_or(|best| (weight, room) > (best.0, best.1))
            {
                best = Some((weight, room, part));
            }
        }
        self.touched = touched;
        best.map(|(weight, _, to)| Choice { gain: weight - stay, to })
    }

    /// The cost of leaving: what ties a vertex to its part.
    pub(super) fn hold(&self, vertex: u32) -> i64 {
        let here = self.part[vertex as usize];
        let edges = self.problem.graph.neighbours(vertex);
        let inside = edges.filter(|&(end, _)| self.part[end as usize] == here);
        let weight: i64 = inside.map(|(_, weight)| weight).sum();
        weight + self.problem.tie(vertex).worth_in(here)
    }
}
