//! Cuts small graphs: a tabu search over moves and exchanges, and for the smallest graphs a search
//! of all partitions.
//!
//! Multilevel refinement moves one vertex at a time and only to parts with room, so on a graph of a
//! few dozen vertices it stops at cuts that an exchange would improve. The tabu search considers
//! every move and every exchange, makes the best one even if it raises the cost, and then keeps the
//! moved vertices in place for some steps (F. Glover, "Tabu search, part I", 1989; for partitions
//! U. Benlic and J.-K. Hao, "An effective multilevel tabu search approach for balanced graph
//! partitioning", 2011). Then a branch and bound starts from the best partition known. It proves
//! that this partition is optimal, finds a better one, or ends after [`NODES_MAX`] steps.

use super::state::{Rank, State};
use super::tie::Problem;
use gridspan_topology::dice::Dice;

/// Maximum number of vertices of a small graph: a step of the tabu search looks at all pairs.
pub(super) const VERTICES_MAX: usize = 64;
/// Maximum number of entries in the table of vertices and parts of a small graph.
const TABLE_MAX: usize = 2048;
/// Steps of the tabu search per vertex: 50 vertices take about a millisecond.
const STEPS_PER_VERTEX: usize = 8;
/// The tabu search ends earlier after this many steps per vertex without a better partition.
const PATIENCE_PER_VERTEX: usize = 2;
/// Minimum number of steps for which a moved vertex stays. A random number of steps, up to the same
/// number, is added.
const TENURE: usize = 4;
/// Maximum size of a partition in bits, vertices times log2(parts), for which the exact search
/// runs.
const BITS_MAX: f64 = 36.0;
/// Maximum number of steps of the exact search, about a tenth of a millisecond: strategies cut
/// small jobs a dozen times for each plan.
const NODES_MAX: usize = 1_000;

/// Returns whether a graph cut into `parts` parts is small.
pub(super) fn is_small(problem: &Problem, parts: usize) -> bool {
    problem.len() <= VERTICES_MAX && problem.len() * parts <= TABLE_MAX
}

/// Replaces the partition of `state` by the best one found that is not worse.
pub(super) fn improve(state: &mut State<'_>, dice: &mut Dice) {
    if state.parts() < 2 || state.part.len() < 2 {
        return;
    }
    tabu(state, dice);
    let bits = (state.part.len() as f64) * (state.parts() as f64).log2();
    if bits <= BITS_MAX {
        exact(state);
    }
}

/// A change of a partition: one vertex moves to a part, or two change places.
#[derive(Clone, Copy, Debug)]
enum Change {
    Move(u32, u32),
    Exchange(u32, u32),
}

fn tabu(state: &mut State<'_>, dice: &mut Dice) {
    let vertices = state.part.len();
    let mut table = Table::new(state);
    let mut free_at = vec![0_usize; vertices];
    let (mut best, mut kept, mut found_at) = (state.rank(), state.part.clone(), 0);
    for step in 1..=vertices * STEPS_PER_VERTEX {
        let is_perfect = best == (Rank { excess: 0, cost: 0 });
        if is_perfect || step - found_at > vertices * PATIENCE_PER_VERTEX {
            break;
        }
        let Some(change) = table.best_change(state, &free_at, step, best, dice) else { continue };
        let moved = match change {
            Change::Move(vertex, to) => [Some((vertex, to)), None],
            Change::Exchange(one, other) => {
                let part = |vertex: u32| state.part[vertex as usize];
                [Some((one, part(other))), Some((other, part(one)))]
            }
        };
        for (vertex, to) in moved.into_iter().flatten() {
            table.shift(state, vertex, to);
            free_at[vertex as usize] = step + TENURE + dice.below(TENURE + 1);
        }
        if state.rank() < best {
            (best, kept, found_at) = (state.rank(), state.part.clone(), step);
        }
    }
    (0..).zip(&kept).for_each(|(vertex, &to)| state.shift(vertex, to));
}

/// The weights between each vertex and each part, and between each pair of vertices.
struct Table {
    parts: usize,
    /// Weight of the edges into each part and the pull home, with one row per vertex.
    hold: Vec<i64>,
    /// Weight of the edge of each pair.
    edges: Vec<i64>,
}

impl Table {
    fn new(state: &State<'_>) -> Self {
        let (parts, vertices) = (state.parts(), state.part.len());
        let mut hold = vec![0; vertices * parts];
        let mut edges = vec![0; vertices * vertices];
        for vertex in 0..vertices {
            for (end, weight) in state.problem.graph.neighbours(vertex as u32) {
                hold[vertex * parts + state.part[end as usize] as usize] += weight;
                edges[vertex * vertices + end as usize] = weight;
            }
            let tie = state.problem.tie(vertex as u32);
            hold[vertex * parts + tie.home as usize] += tie.worth_in(tie.home);
        }
        Self { parts, hold, edges }
    }

    fn shift(&mut self, state: &mut State<'_>, vertex: u32, to: u32) {
        let from = state.part[vertex as usize];
        for (end, weight) in state.problem.graph.neighbours(vertex) {
            self.hold[end as usize * self.parts + from as usize] -= weight;
            self.hold[end as usize * self.parts + to as usize] += weight;
        }
        state.shift(vertex, to);
    }

    /// Returns the cost of moving a vertex from its part to another.
    #[inline]
    fn cost(&self, vertex: usize, from: u32, to: u32) -> i64 {
        let row = vertex * self.parts;
        self.hold[row + from as usize] - self.hold[row + to as usize]
    }

    /// Returns the change that leads to the best rank; ties are broken by dice. Vertices that are
    /// not free yet may change only for a better rank than the best so far.
    fn best_change(
        &self,
        state: &State<'_>,
        free_at: &[usize],
        step: usize,
        best: Rank,
        dice: &mut Dice,
    ) -> Option<Change> {
        let now = state.rank();
        let mut found = Found { now, best, dice, change: None, rank: Rank::WORST, equals: 1 };
        let partners = self.partners(state);
        let movable = |&vertex: &usize| !state.problem.is_fixed(vertex as u32);
        for one in (0..state.part.len()).filter(movable) {
            let (from, load) = (state.part[one], state.problem.graph.load(one as u32));
            let is_free = free_at[one] <= step;
            for to in (0..self.parts as u32).filter(|&to| to != from) {
                let cost = self.cost(one, from, to);
                if found.may_take(cost) {
                    let excess = excess_by(state, from, to, load);
                    found.look(Change::Move(one as u32, to), excess, cost, is_free);
                }
            }
            let cost_min = |to: u32| {
                let partner = partners[to as usize * self.parts + from as usize];
                self.cost(one, from, to).saturating_add(partner)
            };
            let parts = (0..self.parts as u32).filter(|&to| to != from);
            if !found.may_take(parts.map(cost_min).min().unwrap_or(i64::MAX)) {
                continue;
            }
            for other in (one + 1..state.part.len()).filter(|&other| state.part[other] != from) {
                let to = state.part[other];
                // Both costs count the edge between the two as saved, but it remains cut. The terms
                // are added one by one, so that no sum overflows.
                let edge = self.edges[one * state.part.len() + other];
                let cost = self.cost(one, from, to) + self.cost(other, to, from) + edge + edge;
                if found.may_take(cost) && movable(&other) {
                    let load = load - state.problem.graph.load(other as u32);
                    let excess = excess_by(state, from, to, load);
                    let change = Change::Exchange(one as u32, other as u32);
                    found.look(change, excess, cost, is_free && free_at[other] <= step);
                }
            }
        }
        found.change
    }

    /// Returns the least cost of moving any vertex from one part to another, with one row for each
    /// part that vertices leave; [`i64::MAX`] where no vertex can move.
    fn partners(&self, state: &State<'_>) -> Vec<i64> {
        let mut least = vec![i64::MAX; self.parts * self.parts];
        for (vertex, &from) in state.part.iter().enumerate() {
            if !state.problem.is_fixed(vertex as u32) {
                let row = &mut least[from as usize * self.parts..][..self.parts];
                for (to, least) in (0..).zip(row) {
                    *least = self.cost(vertex, from, to).min(*least);
                }
            }
        }
        least
    }
}

/// The best change found so far in one step.
struct Found<'a> {
    /// The rank before the step.
    now: Rank,
    /// The best rank of all steps.
    best: Rank,
    dice: &'a mut Dice,
    change: Option<Change>,
    rank: Rank,
    /// Number of changes of this rank found.
    equals: usize,
}

impl Found<'_> {
    /// Returns whether a change with this cost may be as good as the one found. If neither rank
    /// has an excess, no change can reduce it, so a cost that is too high excludes the change.
    #[inline]
    fn may_take(&self, cost: i64) -> bool {
        self.now.excess > 0
            || self.rank.excess > 0
            || self.now.cost.saturating_add(cost) <= self.rank.cost
    }

    /// Takes a change that is better than the one found, or one of equal rank by dice.
    fn look(&mut self, change: Change, excess: i64, cost: i64, is_free: bool) {
        let rank = Rank { excess: self.now.excess + excess, cost: self.now.cost + cost };
        if rank > self.rank || (!is_free && rank >= self.best) {
            return;
        }
        self.equals = if rank == self.rank { self.equals + 1 } else { 1 };
        if self.equals == 1 || self.dice.below(self.equals) == 0 {
            (self.change, self.rank) = (Some(change), rank);
        }
    }
}

/// Returns the increase of the excess if `load` moves from a part to another.
fn excess_by(state: &State<'_>, from: u32, to: u32, load: i64) -> i64 {
    let over = |part: u32, more: i64| (more - state.room(part)).max(0);
    over(from, -load) + over(to, load) - over(from, 0) - over(to, 0)
}

/// Searches the partitions within the limits for one that costs less than the present one. The
/// present cost does not count if the present partition exceeds the limits.
fn exact(state: &mut State<'_>) {
    let problem = state.problem;
    let are_alike = problem.ties.is_empty() && state.limits.iter().all(|&l| l == state.limits[0]);
    let mut search = Exact {
        problem,
        order: order(problem),
        parts: state.parts(),
        are_alike,
        room: state.limits.to_vec(),
        hold: vec![0; state.part.len() * state.parts()],
        part: vec![0; state.part.len()],
        best: if state.excess() > 0 { i64::MAX } else { state.cost() },
        found: None,
        nodes: 0,
    };
    for vertex in 0..problem.len() {
        let tie = problem.tie(vertex as u32);
        search.hold[vertex * search.parts + tie.home as usize] += tie.worth_in(tie.home);
    }
    search.place(0, 0, 0);
    if let Some(found) = search.found {
        (0..).zip(&found).for_each(|(vertex, &to)| state.shift(vertex, to));
    }
}

/// Returns an order of the vertices in which the next one has the heaviest edges to those before
/// it, so that expensive prefixes are cut off early.
fn order(problem: &Problem) -> Vec<u32> {
    let mut tied = vec![0_i64; problem.len()];
    let mut rest: Vec<u32> = (0..problem.len() as u32).collect();
    let mut order = Vec::with_capacity(rest.len());
    while let Some(at) = (0..rest.len()).max_by_key(|&at| {
        let vertex = rest[at];
        (tied[vertex as usize], problem.graph.degree(vertex), u32::MAX - vertex)
    }) {
        let vertex = rest.swap_remove(at);
        order.push(vertex);
        problem.graph.neighbours(vertex).for_each(|(end, weight)| tied[end as usize] += weight);
    }
    order
}

struct Exact<'a> {
    problem: &'a Problem,
    order: Vec<u32>,
    parts: usize,
    /// Whether parts differ only in their numbers; then only the first of the empty parts is tried.
    are_alike: bool,
    room: Vec<i64>,
    /// Weight of the edges from each vertex to the placed vertices of each part, and its pull home.
    hold: Vec<i64>,
    part: Vec<u32>,
    /// Cost of the best partition known; the search looks only for cheaper ones.
    best: i64,
    found: Option<Vec<u32>>,
    nodes: usize,
}

impl Exact<'_> {
    /// Places the vertices from position `depth` of the order on. The earlier ones cost `cost` and
    /// are in the first `used` parts.
    fn place(&mut self, depth: usize, cost: i64, used: usize) {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return;
        }
        let Some(&vertex) = self.order.get(depth) else {
            if cost < self.best {
                (self.best, self.found) = (cost, Some(self.part.clone()));
            }
            return;
        };
        if cost + self.at_least(depth) >= self.best {
            return;
        }
        let (row, load) = (vertex as usize * self.parts, self.problem.graph.load(vertex));
        let sum: i64 = self.hold[row..row + self.parts].iter().sum();
        let tie = self.problem.tie(vertex);
        let end = if self.are_alike { self.parts.min(used + 1) } else { self.parts };
        let is_allowed = |to: &usize| !tie.is_fixed() || *to == tie.home as usize;
        let mut choices: Vec<usize> = (0..end).filter(is_allowed).collect();
        choices.sort_by_key(|&to| -self.hold[row + to]);
        for to in choices {
            if self.room[to] < load {
                continue;
            }
            let cost = cost + sum - self.hold[row + to];
            self.put(vertex, to, 1);
            self.part[vertex as usize] = to as u32;
            self.place(depth + 1, cost, used.max(to + 1));
            self.put(vertex, to, -1);
        }
    }

    /// Puts a vertex into a part, or removes it if `sign` is -1.
    fn put(&mut self, vertex: u32, to: usize, sign: i64) {
        self.room[to] -= sign * self.problem.graph.load(vertex);
        for (end, weight) in self.problem.graph.neighbours(vertex) {
            self.hold[end as usize * self.parts + to] += sign * weight;
        }
    }

    /// Returns a lower bound of the cost of the vertices not placed yet: each can be in one part
    /// only, so that its edges to the placed vertices of all other parts are cut.
    fn at_least(&self, depth: usize) -> i64 {
        let least = |&vertex: &u32| {
            let row = &self.hold[vertex as usize * self.parts..][..self.parts];
            row.iter().sum::<i64>() - row.iter().max().copied().unwrap_or(0)
        };
        self.order[depth..].iter().map(least).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::super::tie::Tie;
    use super::*;

    /// Returns a random graph with some fixed vertices.
    fn drawn(dice: &mut Dice, parts: usize) -> (Problem, Vec<u32>) {
        let vertices = 4 + dice.below(20_usize);
        let mut edges = Vec::new();
        for to in 1..vertices {
            for from in (0..to).filter(|_| dice.below(3_u32) == 0).collect::<Vec<_>>() {
                edges.push((from as u32, to as u32, 1 + dice.below(9_u64)));
            }
        }
        let loads: Vec<u64> = (0..vertices).map(|_| 1 + dice.below(5_u64)).collect();
        let part: Vec<u32> = (0..vertices).map(|_| dice.below(parts) as u32).collect();
        let tie = |&home: &u32| match dice.below(5_u32) {
            0 => Tie::fixed(home),
            pull => Tie { home, pull: pull as u64 },
        };
        let ties = part.iter().map(tie).collect();
        (Problem { graph: Graph::new(&loads, &edges).unwrap(), ties }, part)
    }

    #[test]
    fn the_best_change_agrees_with_an_exhaustive_search() {
        let mut dice = Dice::new(1);
        for _ in 0..200 {
            let parts = 2 + dice.below(3);
            let (problem, part) = drawn(&mut dice, parts);
            let limit = problem.graph.total_load() / parts as i64 + dice.below(9_u32) as i64;
            let limits = vec![limit; parts];
            let state = State::new(&problem, &limits, part);
            let rank_after = |shifts: &[(usize, u32)]| {
                let mut then = state.clone();
                shifts.iter().for_each(|&(vertex, to)| then.shift(vertex as u32, to));
                then.rank()
            };
            let mut least: Option<Rank> = None;
            let movable: Vec<usize> =
                (0..problem.len()).filter(|&at| !problem.is_fixed(at as u32)).collect();
            for &one in &movable {
                let from = state.part[one];
                let moves =
                    (0..parts as u32).filter(|&to| to != from).map(|to| rank_after(&[(one, to)]));
                let others = movable.iter().filter(|&&other| state.part[other] != from);
                let exchanges =
                    others.map(|&other| rank_after(&[(one, state.part[other]), (other, from)]));
                least = least.into_iter().chain(moves).chain(exchanges).min();
            }

            let free_at = vec![0; problem.len()];
            let table = Table::new(&state);
            let change = table.best_change(&state, &free_at, 1, Rank::WORST, &mut dice);

            let found = change.map(|change| match change {
                Change::Move(vertex, to) => rank_after(&[(vertex as usize, to)]),
                Change::Exchange(one, other) => {
                    let (one, other) = (one as usize, other as usize);
                    rank_after(&[(one, state.part[other]), (other, state.part[one])])
                }
            });
            assert_eq!(found, least);
        }
    }
}
