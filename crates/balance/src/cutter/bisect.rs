//! Multilevel bisection, with several tries on the smallest graph.

use super::coarsen::{CoarsenRule, coarsen, project_down};
use super::heap::GainHeap;
use super::order::random_order;
use super::side::{SideRank, Sides};
use super::tie::Problem;
use gridspan_topology::dice::Dice;

/// How to cut a graph in two.
#[derive(Clone, Copy, Debug)]
pub(super) struct BisectRule {
    /// Load that each side should have.
    pub(super) targets: [i64; 2],
    /// Maximum load that each side may have.
    pub(super) limits: [i64; 2],
    /// Number of bisections tried on the smallest graph.
    pub(super) tries: usize,
    /// Maximum number of bisections of the whole graph, each by different coarse graphs.
    pub(super) repeats: usize,
}

/// Coarsening stops at this number of vertices.
const COARSEST: usize = 60;
const PASSES_COARSE: usize = 6;
const PASSES: usize = 4;

/// Returns the side of each vertex. Fixed vertices are on the side of their home.
pub(super) fn bisect(problem: &Problem, rule: BisectRule, dice: &mut Dice) -> Vec<u32> {
    let mut heaps = [GainHeap::new(problem.len()), GainHeap::new(problem.len())];
    let mut best: Option<(SideRank, Vec<u32>)> = None;
    for _ in 0..rule.repeats.max(1) {
        let found = bisect_once(problem, rule, dice, &mut heaps);
        let is_found_again = best.as_ref().is_some_and(|best| found.0.is_as_good(best.0));
        if best.as_ref().is_none_or(|best| found.0 < best.0) {
            best = Some(found);
        }
        // If different coarse graphs lead to the same result, it is most likely the best.
        if is_found_again {
            break;
        }
    }
    best.map(|(_, side)| side).unwrap_or_default()
}

fn bisect_once(
    problem: &Problem,
    rule: BisectRule,
    dice: &mut Dice,
    heaps: &mut [GainHeap; 2],
) -> (SideRank, Vec<u32>) {
    let levels = coarsen(problem, &[], CoarsenRule { vertices: COARSEST, rounds: 2 }, dice);
    let coarsest = levels.last().map_or(problem, |level| &level.problem);
    // An imbalance on a coarser graph can be evened out on a finer one.
    let first_limits =
        if levels.is_empty() { rule.limits } else { loosened(coarsest, rule).limits };
    let mut side = first_sides(coarsest, BisectRule { limits: first_limits, ..rule }, dice, heaps);
    for (depth, level) in levels.iter().enumerate().rev() {
        side = project_down(&side, &level.map);
        let finer = if depth == 0 { problem } else { &levels[depth - 1].problem };
        let most = loosened(finer, rule).limits;
        let limits = if depth == 0 { rule.limits } else { most };
        let mut sides = Sides::new(finer, side, limits, most);
        sides.refine(PASSES, heaps);
        if depth == 0 {
            return (sides.rank(), sides.side);
        }
        side = sides.side;
    }
    let sides = Sides::new(problem, side, rule.limits, rule.limits);
    (sides.rank(), sides.side)
}

/// Returns `rule` with limits of at least the target plus twice the heaviest vertex: otherwise
/// heavy vertices could not move.
fn loosened(problem: &Problem, rule: BisectRule) -> BisectRule {
    let heaviest = problem.graph.loads().iter().copied().max().unwrap_or(0);
    let limit = |side: usize| {
        rule.limits[side].max(rule.targets[side].saturating_add(heaviest.saturating_mul(2)))
    };
    BisectRule { limits: [limit(0), limit(1)], ..rule }
}

/// Returns the best of several tries on a small graph.
fn first_sides(
    problem: &Problem,
    rule: BisectRule,
    dice: &mut Dice,
    heaps: &mut [GainHeap; 2],
) -> Vec<u32> {
    let mut best: Option<(SideRank, Vec<u32>)> = None;
    let most = loosened(problem, rule).limits;
    let growth = BisectRule { limits: most, ..rule };
    for _ in 0..rule.tries.max(1) {
        let side = grow(problem, growth, dice, &mut heaps[0]);
        let mut sides = Sides::new(problem, side, rule.limits, most);
        sides.refine(PASSES_COARSE, heaps);
        let rank = sides.rank();
        if best.as_ref().is_none_or(|best| rank < best.0) {
            best = Some((rank, sides.side));
        }
    }
    best.map(|(_, side)| side).unwrap_or_default()
}

/// Grows side 0 from a random vertex until it has its target load. Each step adds the vertex that
/// is tied most to side 0. All other vertices are on side 1.
fn grow(problem: &Problem, rule: BisectRule, dice: &mut Dice, heap: &mut GainHeap) -> Vec<u32> {
    let graph = &problem.graph;
    let vertices = graph.len();
    let mut side: Vec<u32> = vec![1; vertices];
    let mut load = 0;
    heap.clear();
    let order = random_order(dice, vertices);
    let mut order = order.into_iter();
    let join = |vertex: u32, side: &mut Vec<u32>, heap: &mut GainHeap| {
        heap.remove(vertex);
        side[vertex as usize] = 0;
        for (end, weight) in graph.neighbours(vertex) {
            if side[end as usize] == 1 && !problem.is_fixed(end) {
                if heap.contains(end) {
                    heap.add_twice(end, weight);
                } else {
                    let outside: i64 = graph.neighbours(end).map(|(_, weight)| weight).sum();
                    let tie = problem.tie(end);
                    heap.set(end, weight - (outside - weight) + tie.worth_in(0) - tie.worth_in(1));
                }
            }
        }
        graph.load(vertex)
    };
    for vertex in 0..vertices as u32 {
        if problem.is_fixed(vertex) && problem.tie(vertex).home == 0 {
            load += join(vertex, &mut side, heap);
        }
    }
    while load < rule.targets[0] {
        let next = match heap.pop() {
            Some((_, vertex)) => vertex,
            None => match order.find(|&v| side[v as usize] == 1 && !problem.is_fixed(v)) {
                Some(vertex) => vertex,
                None => break,
            },
        };
        let after = load + graph.load(next);
        if after > rule.limits[0] && after - rule.targets[0] > rule.targets[0] - load {
            continue;
        }
        load += join(next, &mut side, heap);
    }
    side
}
