//! The paper's broadcast advisor: anneals trees for predicted sizes ahead of the broadcasts (Gupta
//! and Vadhiyar, 2006, section 2.5).
//!
//! While no application runs, the advisor anneals for the sizes from 1 KB to 2 MB in turn, without
//! a time limit. While an application broadcasts, a linear regression over all broadcasts so far
//! predicts the size of the next one and the time until it begins. Within that time, the advisor
//! anneals for the predicted size, for twice that size, and for half of it.

use super::anneal::{CostUnit, PaperTree};
use super::clustered::clustered_sa;
use crate::model::LinkMatrix;
use crate::search_budget::SearchBudget;
use std::collections::BTreeMap;

const IDLE_SIZE_MIN: u64 = 1 << 10;
const IDLE_SIZE_MAX: u64 = 2 << 20;
/// Maximum number of broadcasts that the regression uses: the paper uses all, but memory is
/// bounded. Later broadcasts are ignored until [`PaperAdvisor::forget`].
const HISTORY_MAX: usize = 100_000;

/// The result of one step of the advisor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// The size that the tree was made for.
    pub bytes: u64,
    /// The cost of that tree, in seconds.
    pub cost_s: f64,
}

/// The advisor: one tree for each size it has annealed.
#[derive(Clone, Debug)]
pub struct PaperAdvisor {
    root: u32,
    unit: CostUnit,
    seed: u64,
    /// Start time in seconds, and size in bytes, of each broadcast.
    history: Vec<(f64, u64)>,
    trees: BTreeMap<u64, PaperTree>,
    idle_size: u64,
    turn: usize,
}

impl PaperAdvisor {
    /// Creates an advisor for the broadcasts of `root`.
    pub fn new(root: u32, unit: CostUnit, seed: u64) -> Self {
        Self {
            root,
            unit,
            seed,
            history: Vec::new(),
            trees: BTreeMap::new(),
            idle_size: IDLE_SIZE_MIN,
            turn: 0,
        }
    }

    /// Notes that a broadcast of `bytes` began.
    pub fn observe(&mut self, at_s: f64, bytes: u64) {
        if self.history.len() < HISTORY_MAX {
            self.history.push((at_s, bytes));
        }
        self.turn = 0;
    }

    /// Forgets all broadcasts, since the application has ended.
    pub fn forget(&mut self) {
        self.history.clear();
    }

    /// Predicts the size of the next broadcast and the gap before it in seconds. Returns `None`
    /// when idle, and the last size without a gap after a single broadcast.
    pub fn predict(&self) -> Option<(u64, Option<f64>)> {
        let &(_, last) = self.history.last()?;
        let sizes: Vec<f64> = self.history.iter().map(|&(_, bytes)| bytes as f64).collect();
        let gaps: Vec<f64> = self.history.windows(2).map(|two| two[1].0 - two[0].0).collect();
        let bytes = regress(&sizes).map_or(last, |bytes| bytes.max(1.0) as u64);
        Some((bytes, regress(&gaps).or(gaps.first().copied()).map(|gap| gap.max(0.0))))
    }

    /// Anneals a tree for the next size in turn. While an application broadcasts, three calls, one
    /// for each size, share `budget`: the caller derives it from the predicted gap. While idle, a
    /// call ignores the limit of `budget`.
    pub fn step(&mut self, links: &LinkMatrix, budget: &SearchBudget<'_>) -> Tried {
        let (bytes, budget) = match self.predict() {
            None => {
                let bytes = self.idle_size;
                self.idle_size = if bytes == IDLE_SIZE_MAX { IDLE_SIZE_MIN } else { bytes * 2 };
                (bytes, budget.part(None))
            }
            Some((next, _)) => {
                let sizes = [next, next.saturating_mul(2), next.div_ceil(2)];
                let left = sizes.len() - self.turn % sizes.len();
                let bytes = sizes[self.turn % sizes.len()];
                self.turn += 1;
                (bytes, budget.fraction(1.0 / left as f64))
            }
        };
        self.seed = self.seed.wrapping_add(1);
        let tree = clustered_sa(links, self.root, bytes, self.unit, self.seed, &budget);
        let cost_s = tree.cost_s;
        self.trees.insert(bytes, tree);
        Tried { bytes, cost_s }
    }

    /// Drops all trees, for an application that starts on another network.
    pub fn drop_trees(&mut self) {
        self.trees.clear();
    }

    /// Returns the tree of the size nearest in ratio; `None` before the first step.
    pub fn tree(&self, bytes: u64) -> Option<&PaperTree> {
        let distance = |size: u64| (size.max(1) as f64 / bytes.max(1) as f64).ln().abs();
        let nearest = self.trees.iter().min_by(|one, other| {
            distance(*one.0).total_cmp(&distance(*other.0)).then(one.0.cmp(other.0))
        });
        nearest.map(|(_, tree)| tree)
    }
}

/// Returns the value at the next position on the least-squares line through all values; `None` for
/// fewer than two.
fn regress(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean_x = (count - 1.0) / 2.0;
    let mean_y = values.iter().sum::<f64>() / count;
    let (mut xy, mut xx) = (0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let x = at as f64 - mean_x;
        xy += x * (value - mean_y);
        xx += x * x;
    }
    Some(mean_y + xy / xx * (count - mean_x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::grid_links;

    #[test]
    fn sizes_and_gaps_on_a_line_are_predicted() {
        let mut advisor = PaperAdvisor::new(0, CostUnit::Percent, 1);
        assert_eq!(advisor.predict(), None);
        for (at_s, bytes) in [(0.0, 1000), (10.0, 900), (18.0, 800), (24.0, 700)] {
            advisor.observe(at_s, bytes);
        }

        let (bytes, gap_s) = advisor.predict().unwrap();

        assert_eq!(bytes, 600);
        assert!((gap_s.unwrap() - 4.0).abs() < 1e-9);
    }

    #[test]
    fn it_cycles_through_all_sizes_when_idle_and_around_the_next_size_when_busy() {
        let links = grid_links(2, 2, 1);
        let mut advisor = PaperAdvisor::new(0, CostUnit::Percent, 1);
        let budget = SearchBudget::unlimited();
        let idle: Vec<u64> = (0..13).map(|_| advisor.step(&links, &budget).bytes).collect();
        let powers: Vec<u64> = (10..=21).chain([10]).map(|power| 1 << power).collect();
        assert_eq!(idle, powers);

        advisor.observe(0.0, 5000);
        let busy: Vec<u64> = (0..4).map(|_| advisor.step(&links, &budget).bytes).collect();

        assert_eq!(busy, [5000, 10_000, 2500, 5000]);
        assert_eq!(advisor.tree(5200).unwrap().parents.len(), 4);
    }
}
