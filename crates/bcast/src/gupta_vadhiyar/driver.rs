//! `driverSA`: many annealing runs, first from random trees, then from good ones (Gupta and
//! Vadhiyar, 2006, section 2.3 and figure 2).

use super::anneal::{CostUnit, GoodList, PaperTree, basic_sa};
use crate::model::{NONE, TreeCostModel};
use crate::search_budget::SearchBudget;
use gridspan_topology::dice::Dice;

/// Number of runs from random trees if no duration is given.
const RANDOM_RUNS: u32 = 50;
/// Number of runs from good trees if no duration is given.
const REFINE_RUNS: u32 = 25;
/// The first phase ends when the best tree has not changed for this multiple of the remaining
/// budget.
const UNCHANGED: f64 = 1.5;

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// The best tree.
    pub tree: PaperTree,
    /// Annealing runs from random trees.
    pub random_runs: u32,
    /// Annealing runs from good trees.
    pub refine_runs: u32,
}

/// Searches for a tree over all nodes of the model. With `root: None`, as in a pool without the
/// root of the broadcast, each random tree draws its own root. A limited budget is the paper's
/// `time_duration`; its end does not interrupt a run. Panics if the model has no nodes.
pub fn driver_sa(
    model: &TreeCostModel,
    root: Option<u32>,
    unit: CostUnit,
    seed: u64,
    budget: &SearchBudget<'_>,
) -> Searched {
    assert!(!model.is_empty(), "a tree has a root");
    let mut dice = Dice::new(seed);
    let mut good = GoodList::default();
    let mut best: Option<PaperTree> = None;
    let (mut random_runs, mut refine_runs) = (0, 0);
    let mut changed_at = budget.elapsed();
    let mut run = |initial: &[u32], good: &mut GoodList, dice: &mut Dice| {
        let run_seed = dice.below(usize::MAX) as u64;
        let tree = basic_sa(model, initial, unit, good, run_seed, budget);
        let is_better = best.as_ref().is_none_or(|best| tree.cost_s < best.cost_s);
        if is_better {
            best = Some(tree);
        }
        is_better
    };
    loop {
        let initial = random_tree(model.len(), root, &mut dice);
        if run(&initial, &mut good, &mut dice) {
            changed_at = budget.elapsed();
        }
        random_runs += 1;
        let is_enough = match budget.limit() {
            None => random_runs == RANDOM_RUNS,
            Some(_) => budget.elapsed() - changed_at >= UNCHANGED * budget.remaining(),
        };
        if is_enough {
            break;
        }
    }
    while match budget.limit() {
        None => refine_runs < REFINE_RUNS,
        Some(_) => !budget.is_over(),
    } {
        let trees = good.trees();
        let initial = trees[refine_runs as usize % trees.len()].parents.clone();
        run(&initial, &mut good, &mut dice);
        refine_runs += 1;
    }
    let tree = best.unwrap_or_else(|| good.trees()[0].clone());
    Searched { tree, random_runs, refine_runs }
}

/// Returns a tree with the nodes in random order, each below a random earlier one.
fn random_tree(count: usize, root: Option<u32>, dice: &mut Dice) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    dice.shuffle(&mut order);
    if let Some(root) = root
        && let Some(place) = order.iter().position(|&node| node == root)
    {
        order.swap(0, place);
    }
    let mut parents = vec![NONE; count];
    for at in 1..count {
        parents[order[at] as usize] = order[dice.below(at)];
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::uniform_links;
    use crate::model::{LinkMatrix, Serialisation, exact_optimum_s};

    fn model(nodes: usize, seed: u64) -> TreeCostModel {
        TreeCostModel::new(&uniform_links(nodes, seed), 1_000_000, Serialisation::Transfer)
    }

    #[test]
    fn without_a_duration_fifty_random_runs_and_twenty_five_refinements_are_made() {
        let model = model(6, 1);

        let searched = driver_sa(&model, Some(2), CostUnit::Percent, 3, &SearchBudget::unlimited());

        assert_eq!((searched.random_runs, searched.refine_runs), (50, 25));
        assert_eq!(searched.tree.parents[2], NONE);
        let optimum = exact_optimum_s(&model, 2);
        assert!(searched.tree.cost_s >= optimum - 1e-9);
        assert!(searched.tree.cost_s <= 1.01 * optimum, "75 runs find the best of 1296 trees");
    }

    #[test]
    fn a_duration_is_divided_between_both_phases() {
        let budget = SearchBudget::evaluations(30_000);

        let searched = driver_sa(&model(12, 2), Some(0), CostUnit::Percent, 3, &budget);

        assert!(budget.spent() >= 30_000 && budget.spent() < 30_000 + 1_700);
        assert!(searched.random_runs > 3 && searched.refine_runs > 3, "{searched:?}");
    }

    #[test]
    fn a_single_node_needs_no_search() {
        let links = LinkMatrix::new(vec![0], vec![0.0], |_, _| (0.0, 1.0));
        let model = TreeCostModel::new(&links, 1, Serialisation::Transfer);

        let searched = driver_sa(&model, None, CostUnit::Percent, 1, &SearchBudget::unlimited());

        assert_eq!(searched.tree, PaperTree { parents: vec![NONE], cost_s: 0.0 });
    }
}
