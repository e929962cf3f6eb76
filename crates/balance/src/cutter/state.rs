//! A partition into any number of parts while it is being improved.

use super::tie::Problem;

/// The part of each vertex, the load of each part and the cost. Each move of a vertex updates all
/// of them, so that rounds look only at the border.
#[derive(Clone, Debug)]
pub(super) struct State<'a> {
    pub(super) problem: &'a Problem,
    /// Maximum load of each part.
    pub(super) limits: &'a [i64],
    pub(super) part: Vec<u32>,
    pub(super) loads: Vec<i64>,
    /// Number of neighbours of each vertex that are in other parts.
    outside: Vec<u32>,
    /// [`Problem::cost`] of `part`.
    cost: i64,
    /// Weight of the edges to each part, inside [`State::choice`]; zero between calls.
    weights: Vec<i64>,
    touched: Vec<u32>,
}

/// Best part for a vertex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Cost saved by moving there; negative if the move costs.
    pub(super) gain: i64,
    pub(super) to: u32,
}

/// The quality of a partition, the more important figure first. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// Load beyond the limits.
    pub(super) excess: i64,
    pub(super) cost: i64,
}

impl Rank {
    /// A rank that is worse than that of any partition.
    pub(super) const WORST: Self = Self { excess: i64::MAX, cost: i64::MAX };
}

impl<'a> State<'a> {
    pub(super) fn new(problem: &'a Problem, limits: &'a [i64], part: Vec<u32>) -> Self {
        let (mut outside, mut twice_cut) = (vec![0; part.len()], 0_u64);
        for (vertex, outside) in outside.iter_mut().enumerate() {
            for (end, weight) in problem.graph.neighbours(vertex as u32) {
                let is_cut = part[end as usize] != part[vertex];
                *outside += u32::from(is_cut);
                twice_cut += if is_cut { weight as u64 } else { 0 };
            }
        }
        let cost = (twice_cut / 2) as i64 + problem.pulls(&part);
        Self::with(problem, limits, part, outside, cost)
    }

    /// Projects the partition to the finer graph, in which vertex `v` belongs to vertex `map[v]` of
    /// this one.
    pub(super) fn project<'b>(self, finer: &'b Problem, map: &[u32]) -> State<'b>
    where
        'a: 'b,
    {
        let part: Vec<u32> = map.iter().map(|&coarse| self.part[coarse as usize]).collect();
        let outside_of = |(vertex, &coarse): (usize, &u32)| {
            if self.outside[coarse as usize] == 0 {
                return 0;
            }
            let ends = finer.graph.neighbours(vertex as u32).map(|(end, _)| end);
            ends.filter(|&end| part[end as usize] != part[vertex]).count() as u32
        };
        let outside = map.iter().enumerate().map(outside_of).collect();
        // Edges inside a coarse vertex are not cut, so the cut stays the same. The ties of its
        // finer vertices were merged, so their pulls are added up again.
        let cost = self.cost - self.problem.pulls(&self.part) + finer.pulls(&part);
        State::with(finer, self.limits, part, outside, cost)
    }

    fn with(
        problem: &'a Problem,
        limits: &'a [i64],
        part: Vec<u32>,
        outside: Vec<u32>,
        cost: i64,
    ) -> Self {
        let loads = loads(problem, limits.len(), &part);
        let (weights, touched) = (vec![0; limits.len()], Vec::new());
        Self { problem, limits, part, loads, outside, cost, weights, touched }
    }

    pub(super) fn parts(&self) -> usize {
        self.limits.len()
    }

    /// Returns the load of a part beyond its limit.
    #[inline]
    pub(super) fn excess_of(&self, part: u32) -> i64 {
        (self.loads[part as usize] - self.limits[part as usize]).max(0)
    }

    pub(super) fn excess(&self) -> i64 {
        (0..self.parts() as u32).map(|part| self.excess_of(part)).sum()
    }

    pub(super) fn rank(&self) -> Rank {
        Rank { excess: self.excess(), cost: self.cost }
    }

    /// Returns the load that a part can still take; negative if it has too much.
    #[inline]
    pub(super) fn room(&self, part: u32) -> i64 {
        self.limits[part as usize] - self.loads[part as usize]
    }

    /// Returns the cost of the partition: the cut, and the pulls of vertices that are away from
    /// home.
    pub(super) fn cost(&self) -> i64 {
        self.cost
    }

    pub(super) fn shift(&mut self, vertex: u32, to: u32) {
        let from = std::mem::replace(&mut self.part[vertex as usize], to);
        if from == to {
            return;
        }
        let load = self.problem.graph.load(vertex);
        self.loads[from as usize] -= load;
        self.loads[to as usize] += load;
        let mut outside = 0;
        for (end, weight) in self.problem.graph.neighbours(vertex) {
            let part = self.part[end as usize];
            outside += u32::from(part != to);
            if part == from {
                self.outside[end as usize] += 1;
                self.cost += weight;
            } else if part == to {
                self.outside[end as usize] -= 1;
                self.cost -= weight;
            }
        }
        self.outside[vertex as usize] = outside;
        let tie = self.problem.tie(vertex);
        self.cost += tie.worth_in(from) - tie.worth_in(to);
    }

    /// Returns whether a neighbour is in another part.
    #[inline]
    pub(super) fn is_border(&self, vertex: u32) -> bool {
        self.outside[vertex as usize] > 0
    }

    /// Returns the best other part with room among the parts of the neighbours and the home; among
    /// equals, the one with the most room. `None` if there is none, or the vertex is fixed.
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

    /// Returns the cost of leaving: the weight that ties a vertex to its part.
    pub(super) fn hold(&self, vertex: u32) -> i64 {
        let here = self.part[vertex as usize];
        let edges = self.problem.graph.neighbours(vertex);
        let inside = edges.filter(|&(end, _)| self.part[end as usize] == here);
        let weight: i64 = inside.map(|(_, weight)| weight).sum();
        weight + self.problem.tie(vertex).worth_in(here)
    }
}

/// Returns the load of each part.
pub(super) fn loads(problem: &Problem, parts: usize, part: &[u32]) -> Vec<i64> {
    let mut loads = vec![0; parts];
    for (&part, &load) in part.iter().zip(problem.graph.loads()) {
        loads[part as usize] += load;
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::super::tie::Tie;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn updated_costs_and_borders_agree_with_a_recount(
            edges in prop::collection::vec((0..12_u32, 0..12_u32, 1..9_u64), 0..40),
            homes in prop::collection::vec((0..3_u32, 0..5_u64), 12),
            moves in prop::collection::vec((0..12_u32, 0..3_u32), 0..30),
        ) {
            let graph = Graph::new(&[1; 12], &edges).unwrap();
            let ties = homes.iter().map(|&(home, pull)| Tie { home, pull }).collect();
            let problem = Problem { graph, ties };
            let mut state = State::new(&problem, &[12; 3], vec![0; 12]);

            moves.iter().for_each(|&(vertex, to)| state.shift(vertex, to));

            prop_assert_eq!(state.cost(), problem.cost(&state.part));
            for vertex in 0..12 {
                let mut ends = problem.graph.neighbours(vertex).map(|(end, _)| end as usize);
                let is_border = ends.any(|end| state.part[end] != state.part[vertex as usize]);
                prop_assert_eq!(state.is_border(vertex), is_border);
            }
        }
    }
}
