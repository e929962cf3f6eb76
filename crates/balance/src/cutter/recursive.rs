//! Recursive bisection of a small graph into all parts.

use super::bisect::{BisectRule, bisect};
use super::tie::{Problem, Tie};
use gridspan_topology::dice::Dice;
use std::ops::Range;

/// Bounds of the parts and effort of each bisection.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecursiveRule<'a> {
    /// Target load of each part.
    pub(super) targets: &'a [i64],
    /// Maximum load of each part.
    pub(super) limits: &'a [i64],
    pub(super) tries: usize,
    pub(super) repeats: usize,
}

/// Returns the part of each vertex.
pub(super) fn recursive(problem: &Problem, rule: RecursiveRule<'_>, dice: &mut Dice) -> Vec<u32> {
    let mut part = vec![0; problem.len()];
    let all: Vec<u32> = (0..problem.len() as u32).collect();
    let mut recursion = Recursion { rule, part: &mut part, dice };
    recursion.split(problem, &all, 0..rule.targets.len());
    part
}

struct Recursion<'a> {
    rule: RecursiveRule<'a>,
    part: &'a mut [u32],
    dice: &'a mut Dice,
}

impl Recursion<'_> {
    /// Assigns the vertices of `problem`, whose numbers in the whole graph are `names`, to the
    /// parts of a range.
    fn split(&mut self, problem: &Problem, names: &[u32], parts: Range<usize>) {
        if parts.len() <= 1 || names.is_empty() {
            for &name in names {
                self.part[name as usize] = parts.start as u32;
            }
            return;
        }
        let middle = parts.start + parts.len() / 2;
        let (low, high) = (parts.start..middle, middle..parts.end);
        let sided = problem_of_sides(problem, &parts, middle);
        let side = bisect(&sided, self.bisect_rule(&sided, &low, &high), self.dice);
        drop(sided);
        for (number, parts) in [(0, low), (1, high)] {
            let (inner, inner_names) = part_of(problem, names, &side, number);
            self.split(&inner, &inner_names, parts);
        }
    }

    /// Returns the targets and limits of a bisection. Divides the present load in proportion to the
    /// targets of the parts, and the tolerance into equal factors, one for each level of bisections
    /// that is left.
    fn bisect_rule(
        &self,
        problem: &Problem,
        low: &Range<usize>,
        high: &Range<usize>,
    ) -> BisectRule {
        let total = problem.graph.total_load();
        let sum = |all: &[i64], parts: &Range<usize>| {
            all[parts.clone()].iter().map(|&x| x as f64).sum::<f64>()
        };
        let (rule, depth) = (&self.rule, (high.len() as f64).log2().ceil() + 1.0);
        let wanted = [sum(rule.targets, low), sum(rule.targets, high)];
        let all = (wanted[0] + wanted[1]).max(f64::MIN_POSITIVE);
        let first = ((total as f64 * (wanted[0] / all)) as i64).min(total);
        let targets = [first, total - first];
        let mut limits = [0; 2];
        for (side, parts) in [low, high].into_iter().enumerate() {
            let room = sum(rule.limits, parts) / (targets[side] as f64).max(1.0);
            let factor = room.max(1.0).powf(1.0 / depth);
            limits[side] = (targets[side] as f64 * factor).ceil().min(2_f64.powi(62)) as i64;
        }
        BisectRule { targets, limits, tries: rule.tries, repeats: rule.repeats }
    }
}

/// Returns the same graph, with ties to sides instead of parts.
fn problem_of_sides(problem: &Problem, parts: &Range<usize>, middle: usize) -> Problem {
    let side_tie = |tie: &Tie| {
        if tie.is_fixed() {
            Tie::fixed(u32::from(tie.home as usize >= middle))
        } else if parts.contains(&(tie.home as usize)) {
            Tie { home: u32::from(tie.home as usize >= middle), pull: tie.pull }
        } else {
            Tie::FREE
        }
    };
    Problem { graph: problem.graph.clone(), ties: problem.ties.iter().map(side_tie).collect() }
}

/// Returns the graph of one side, and the numbers of its vertices in the whole graph.
fn part_of(problem: &Problem, names: &[u32], side: &[u32], number: u32) -> (Problem, Vec<u32>) {
    let vertices: Vec<u32> =
        (0..side.len() as u32).filter(|&vertex| side[vertex as usize] == number).collect();
    let ties = if problem.ties.is_empty() {
        Vec::new()
    } else {
        vertices.iter().map(|&vertex| problem.tie(vertex)).collect()
    };
    let inner_names = vertices.iter().map(|&vertex| names[vertex as usize]).collect();
    (Problem { graph: problem.graph.induced(&vertices), ties }, inner_names)
}
