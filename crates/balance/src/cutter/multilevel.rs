//! The multilevel scheme: coarsen, cut where the graph is small, refine on the way back.

use super::coarsen::{Coarse, CoarsenRule, coarsen};
use super::rebalance;
use super::recursive::{RecursiveRule, recursive};
use super::refine::{Effort, refine};
use super::relabel::relabel;
use super::small;
use super::state::{State, loads};
use super::targets::Bounds;
use super::tie::Problem;
use gridspan_topology::dice::Dice;

/// Approximate number of vertices per part of the coarsest graph.
const VERTICES_PER_PART: usize = 32;
/// Minimum number of vertices of the coarsest graph.
const COARSEST_MIN: usize = 512;

/// Partitions a graph from scratch.
pub(super) fn from_scratch(problem: &Problem, bounds: &Bounds, dice: &mut Dice) -> Vec<u32> {
    let parts = bounds.limits.len();
    let vertices = (parts * VERTICES_PER_PART).max(COARSEST_MIN);
    let levels = coarsen(problem, &[], coarsen_rule(problem, vertices), dice);
    let coarsest = levels.last().map_or(problem, |level| &level.problem);
    let (tries, repeats) = match parts {
        // The search of small graphs can begin anywhere, so that few tries suffice.
        _ if small::is_small(problem, parts) => (2, 1),
        0..=8 => (10, 4),
        _ => (6, 2),
    };
    let rule = RecursiveRule { targets: &bounds.targets, limits: &bounds.limits, tries, repeats };
    let part = recursive(coarsest, rule, dice);
    let part = rename(coarsest, bounds, part);
    climb(problem, &levels, bounds, part, dice).part
}

/// Improves a partition over coarse graphs that do not mix its parts (a V-cycle). Its rank never
/// becomes worse, although the cost may rise where overfull parts shed load.
pub(super) fn from_partition(
    problem: &Problem,
    bounds: &Bounds,
    part: Vec<u32>,
    dice: &mut Dice,
) -> Vec<u32> {
    let vertices = (bounds.limits.len() * VERTICES_PER_PART).max(COARSEST_MIN);
    let levels = coarsen(problem, &part, coarsen_rule(problem, vertices), dice);
    let before = State::new(problem, &bounds.limits, part.clone()).rank();
    let mut coarse = part.clone();
    for level in &levels {
        let mut up = vec![0; level.problem.len()];
        for (&part, &cluster) in coarse.iter().zip(&level.map) {
            up[cluster as usize] = part;
        }
        coarse = up;
    }
    let after = climb(problem, &levels, bounds, coarse, dice);
    if after.rank() <= before { after.part } else { part }
}

/// Brings all parts under their limits, if it can.
fn repair(state: &mut State<'_>) {
    for cure in [rebalance::shed, rebalance::exchange, rebalance::repack] {
        if state.excess() == 0 {
            return;
        }
        cure(state);
    }
}

fn coarsen_rule(problem: &Problem, vertices: usize) -> CoarsenRule {
    let rounds = if problem.len() > 300_000 { 2 } else { 3 };
    CoarsenRule { vertices, rounds }
}

/// Refines from the coarsest graph, of which `part` is a partition, to the finest.
fn climb<'a>(
    problem: &'a Problem,
    levels: &'a [Coarse],
    bounds: &'a Bounds,
    part: Vec<u32>,
    dice: &mut Dice,
) -> State<'a> {
    let coarsest = levels.last().map_or(problem, |level| &level.problem);
    let mut state = State::new(coarsest, &bounds.limits, part);
    for depth in (0..=levels.len()).rev() {
        if let Some(level) = levels.get(depth) {
            let here = if depth == 0 { problem } else { &levels[depth - 1].problem };
            state = state.project(here, &level.map);
        }
        rebalance::shed(&mut state);
        let effort = effort(state.problem);
        refine(&mut state, effort, dice);
    }
    repair(&mut state);
    if small::is_small(problem, state.parts()) {
        small::improve(&mut state, dice);
    }
    state
}

fn effort(problem: &Problem) -> Effort {
    match problem.len() {
        0..=5_000 => {
            Effort { greedy_rounds: 2, search_rounds: 3, patience: 15, looks_per_edge: 32 }
        }
        5_001..=200_000 => {
            Effort { greedy_rounds: 2, search_rounds: 2, patience: 12, looks_per_edge: 5 }
        }
        _ => Effort { greedy_rounds: 2, search_rounds: 0, patience: 0, looks_per_edge: 0 },
    }
}

/// Maximum number of parts that are renamed: the table of pulls has an entry for each part and
/// name. With more parts, only the bisections match names to homes.
const RENAMED_MAX: usize = 2048;

/// Renames parts to satisfy as much weight of pulls as possible. A part may get another name only
/// if the targets of the two are close.
fn rename(problem: &Problem, bounds: &Bounds, part: Vec<u32>) -> Vec<u32> {
    let parts = bounds.limits.len();
    if problem.ties.iter().all(|tie| tie.pull == 0) || !(2..=RENAMED_MAX).contains(&parts) {
        return part;
    }
    let mut kept = vec![vec![0_i64; parts]; parts];
    let mut has_fixed = vec![false; parts];
    for (&part, tie) in part.iter().zip(&problem.ties) {
        if tie.is_fixed() {
            has_fixed[part as usize] = true;
        } else {
            kept[part as usize][tie.home as usize] += tie.pull as i64;
        }
    }
    let loads = loads(problem, parts, &part);
    let fits = |part: usize, name: usize| {
        part == name
            || !has_fixed[part]
                && !has_fixed[name]
                && loads[part] <= bounds.limits[name].max(bounds.limits[part])
                && bounds.targets[name].abs_diff(bounds.targets[part])
                    <= bounds.limits[name].abs_diff(bounds.targets[name])
    };
    let row = |(part, row): (usize, Vec<i64>)| {
        let row = row.into_iter().enumerate();
        row.map(|(name, kept)| fits(part, name).then_some(kept)).collect()
    };
    let kept: Vec<Vec<Option<i64>>> = kept.into_iter().enumerate().map(row).collect();
    let names = relabel(&kept);
    part.iter().map(|&part| names[part as usize]).collect()
}
