//! `basicSA`: one annealing run (Gupta and Vadhiyar, 2006, section 2.2 and figure 1).

use crate::model::{NONE, Scratch, TreeCostModel};
use crate::search_budget::SearchBudget;
use gridspan_topology::dice::Dice;

const INITIAL_TEMPERATURE: f64 = 100.0;
const MIN_TEMPERATURE: f64 = 1.0;
const TEMPERATURE_FACTOR: f64 = 0.8;
const TRANSFORMS_PER_TEMPERATURE: u32 = 80;
const ACCEPTED_PER_TEMPERATURE: u32 = 20;
/// A run ends at a temperature with at most this share of accepted transforms and no new best tree.
const ACCEPTED_MIN: f64 = 0.03;
/// A tree is good if it costs at most this factor times the best cost.
const GOOD: f64 = 1.1;
/// Maximum number of good trees. The paper gives no bound; its refinement uses 25 good trees.
const GOOD_MAX: usize = 50;

/// The unit in which cost differences are divided by the temperature, which falls from 100 to 1.
/// The paper does not state it, and results depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostUnit {
    /// Percent of the initial tree's cost: the reading that makes annealing work on every network.
    #[default]
    Percent,
    /// Seconds: cost differences are then far below all temperatures, so annealing accepts nearly
    /// every tree until the end.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// A tree and its cost.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperTree {
    /// The parent of each node; `u32::MAX` for the root.
    pub parents: Vec<u32>,
    /// The cost by the model, in seconds.
    pub cost_s: f64,
}

/// The trees within 10 % of the best, best first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GoodList {
    trees: Vec<PaperTree>,
}

impl GoodList {
    /// The trees, best first.
    pub fn trees(&self) -> &[PaperTree] {
        &self.trees
    }

    fn update(&mut self, parents: &[u32], cost_s: f64) {
        let best = self.trees.first().map_or(f64::INFINITY, |tree| tree.cost_s);
        let is_full = self.trees.len() == GOOD_MAX;
        let last = self.trees.last().map_or(f64::INFINITY, |tree| tree.cost_s);
        if cost_s > GOOD * best || (is_full && cost_s >= last) {
            return;
        }
        let place = self.trees.partition_point(|tree| tree.cost_s < cost_s);
        let same = self.trees[place..].iter().take_while(|tree| tree.cost_s == cost_s);
        if same.into_iter().any(|tree| tree.parents == parents) {
            return;
        }
        self.trees.insert(place, PaperTree { parents: parents.to_vec(), cost_s });
        if place == 0 {
            self.trees.retain(|tree| tree.cost_s <= GOOD * cost_s);
        }
        self.trees.truncate(GOOD_MAX);
    }
}

/// Anneals `initial` once and returns the best tree found. Updates `good` with every tree.
pub fn basic_sa(
    model: &TreeCostModel,
    initial: &[u32],
    unit: CostUnit,
    good: &mut GoodList,
    seed: u64,
    budget: &SearchBudget<'_>,
) -> PaperTree {
    Run::new(model, initial, unit).anneal(good, &mut Dice::new(seed), budget)
}

struct Run<'a> {
    model: &'a TreeCostModel,
    scratch: Scratch,
    current: Vec<u32>,
    current_s: f64,
    next: Vec<u32>,
    best: PaperTree,
    /// Nodes from the root, exclusive, to the one that receives the message last.
    path: Vec<u32>,
    /// Cost units in a second.
    scale: f64,
}

impl<'a> Run<'a> {
    fn new(model: &'a TreeCostModel, initial: &[u32], unit: CostUnit) -> Self {
        let mut scratch = Scratch::default();
        let cost_s = model.evaluate(initial, &mut scratch);
        let scale = match unit {
            CostUnit::Percent => 100.0 / cost_s.max(f64::MIN_POSITIVE),
            CostUnit::Seconds => 1.0,
            CostUnit::Milliseconds => 1e3,
        };
        let mut run = Self {
            model,
            scratch,
            current: initial.to_vec(),
            current_s: cost_s,
            next: initial.to_vec(),
            best: PaperTree { parents: initial.to_vec(), cost_s },
            path: Vec::new(),
            scale,
        };
        run.note_path();
        run
    }

    fn note_path(&mut self) {
        self.path.clear();
        let root = self.current.iter().position(|&parent| parent == NONE).unwrap_or(0);
        let mut node = self.scratch.critical.get(root).copied().unwrap_or(NONE);
        while node != NONE {
            self.path.push(node);
            node = self.scratch.critical[node as usize];
        }
    }

    fn anneal(
        mut self,
        good: &mut GoodList,
        dice: &mut Dice,
        budget: &SearchBudget<'_>,
    ) -> PaperTree {
        budget.spend();
        good.update(&self.current, self.current_s);
        if self.current.len() < 3 {
            return self.best;
        }
        let mut temperature = INITIAL_TEMPERATURE;
        // A tree that takes no time has no critical path, and none is better.
        while temperature > MIN_TEMPERATURE && !self.path.is_empty() {
            let (accepted, is_better) = self.at(temperature, good, dice, budget);
            let share = f64::from(accepted) / f64::from(TRANSFORMS_PER_TEMPERATURE);
            if share <= ACCEPTED_MIN && !is_better {
                break;
            }
            temperature *= TEMPERATURE_FACTOR;
        }
        self.best
    }

    /// Makes the transforms at one temperature. Returns how many were accepted, and whether one was
    /// the best so far.
    fn at(
        &mut self,
        temperature: f64,
        good: &mut GoodList,
        dice: &mut Dice,
        budget: &SearchBudget<'_>,
    ) -> (u32, bool) {
        let (mut accepted, mut is_better) = (0, false);
        for _ in 0..TRANSFORMS_PER_TEMPERATURE {
            self.transform(dice);
            let cost_s = self.model.evaluate(&self.next, &mut self.scratch);
            budget.spend();
            good.update(&self.next, cost_s);
            let is_best = cost_s < self.best.cost_s;
            if is_best {
                self.best = PaperTree { parents: self.next.clone(), cost_s };
                is_better = true;
            }
            let difference = (cost_s - self.current_s) * self.scale;
            if is_best || dice.unit() < (-difference / temperature).exp() {
                self.current.copy_from_slice(&self.next);
                self.current_s = cost_s;
                self.note_path();
                accepted += 1;
            }
            if accepted == ACCEPTED_PER_TEMPERATURE || self.path.is_empty() {
                break;
            }
        }
        (accepted, is_better)
    }

    /// Makes a random node of the critical path, which is not empty, the child of another random
    /// node.
    fn transform(&mut self, dice: &mut Dice) {
        self.next.copy_from_slice(&self.current);
        let moved = self.path[dice.below(self.path.len())];
        loop {
            let parent = dice.below(self.next.len()) as u32;
            let mut above = parent;
            while above != moved && above != NONE {
                above = self.next[above as usize];
            }
            // A node below itself would not be reached. Its present parent is always possible.
            if above == NONE {
                self.next[moved as usize] = parent;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LinkMatrix, Serialisation};

    fn model() -> TreeCostModel {
        let links = LinkMatrix::new((0..6).collect(), vec![1e-3; 6], |from, to| {
            (5e-3, 1e6 * (1 + (from * 5 + to * 3) % 7) as f64)
        });
        TreeCostModel::new(&links, 100_000, Serialisation::Transfer)
    }

    #[test]
    fn the_result_is_a_tree_no_worse_than_the_first() {
        let star = [NONE, 0, 0, 0, 0, 0];
        for unit in [CostUnit::Percent, CostUnit::Seconds, CostUnit::Milliseconds] {
            let mut good = GoodList::default();
            let budget = SearchBudget::unlimited();

            let tree = basic_sa(&model(), &star, unit, &mut good, 7, &budget);

            assert!(tree.cost_s < model().completion_s(&star));
            assert_eq!(tree.cost_s, model().completion_s(&tree.parents));
            assert_eq!(model().edges(&tree.parents).len(), 5, "all are reached");
            assert!(budget.spent() <= 21 * 80 + 1, "100 x 0.8^21 is below 1");
        }
    }

    #[test]
    fn a_tree_that_takes_no_time_is_not_annealed() {
        // No bytes, no latency, and no time to begin: only the links from the root take time.
        for root_s in [0.0, 1e-3] {
            let links = LinkMatrix::new((0..4).collect(), vec![0.0; 4], |from, _| {
                (if from == 0 { root_s } else { 0.0 }, 1e6)
            });
            let model = TreeCostModel::new(&links, 0, Serialisation::Transfer);
            let (mut good, budget) = (GoodList::default(), SearchBudget::unlimited());

            let star = [NONE, 0, 0, 0];
            let tree = basic_sa(&model, &star, CostUnit::Percent, &mut good, 7, &budget);

            assert_eq!(tree.cost_s, root_s, "the root sends at least once");
            assert_eq!(model.edges(&tree.parents).len(), 3);
        }
    }

    #[test]
    fn the_good_list_holds_the_trees_within_ten_percent_of_the_best() {
        let mut good = GoodList::default();
        good.update(&[NONE, 0], 1.0);
        good.update(&[NONE, 0, 0], 1.09);
        good.update(&[NONE, 0, 1], 1.2);
        assert_eq!(good.trees().len(), 2);

        good.update(&[NONE, 2, 0], 0.95);

        let costs: Vec<f64> = good.trees().iter().map(|tree| tree.cost_s).collect();
        assert_eq!(costs, [0.95, 1.0]);
    }
}
