//! `clusteredSA`: anneals many nodes in pools, and then the roots of the pools (Gupta and Vadhiyar,
//! 2006, section 2.4 and figure 4).
//!
//! Interpretations: the cost of a combined tree is that of the model over the whole tree; pools of
//! one node each are annealed as one pool; the pass that counts pools in advance takes the first
//! node of a pool as its root, unless the pool has the root of the tree.

use super::anneal::{CostUnit, PaperTree};
use super::driver::driver_sa;
use super::pools::form_pools;
use crate::model::{LinkMatrix, NONE, Serialisation, TreeCostModel};
use crate::search_budget::SearchBudget;

const PERCENTAGES: [f64; 4] = [10.0, 25.0, 50.0, 75.0];
/// Number of nodes up to which annealing finds the best trees.
const POOL_MAX: usize = 16;
/// Maximum number of levels of recursion.
const LEVELS_MAX: u32 = 20;

/// Returns a tree over all nodes of `links` for a message of `bytes` from `root`. A limited budget
/// is divided evenly between the pools.
pub fn clustered_sa(
    links: &LinkMatrix,
    root: u32,
    bytes: u64,
    unit: CostUnit,
    seed: u64,
    budget: &SearchBudget<'_>,
) -> PaperTree {
    let nodes: Vec<u32> = (0..links.len() as u32).collect();
    let pools = count_pools(links, root, &nodes, 0);
    let search = Search {
        links,
        root,
        bytes,
        unit,
        share: budget.limit().map(|limit| limit / f64::from(pools.max(1))),
        budget,
        whole: TreeCostModel::new(links, bytes, Serialisation::Transfer),
    };
    let mut draws = seed;
    let parents = search.cluster(&nodes, &mut draws, 0);
    PaperTree { cost_s: search.whole.completion_s(&parents), parents }
}

/// The pool sets to try: those with pools of at most 16 nodes, or all if there are none.
fn pool_sets(links: &LinkMatrix, nodes: &[u32]) -> Vec<Vec<Vec<u32>>> {
    let mut sets: Vec<_> =
        PERCENTAGES.iter().map(|&percent| form_pools(links, nodes, percent)).collect();
    let is_small = |set: &Vec<Vec<u32>>| set.iter().all(|pool| pool.len() <= POOL_MAX);
    if sets.iter().any(is_small) {
        sets.retain(is_small);
    }
    // Percentages that give the same pools would repeat the search.
    sets.dedup();
    sets
}

fn count_pools(links: &LinkMatrix, root: u32, nodes: &[u32], level: u32) -> u32 {
    if nodes.len() <= POOL_MAX || level == LEVELS_MAX {
        return 1;
    }
    let of_set = |pools: Vec<Vec<u32>>| {
        // Pools of one node each are searched as one.
        if pools.len() == nodes.len() {
            return 1;
        }
        let roots: Vec<u32> = pools.iter().map(|pool| root_of(pool, root)).collect();
        let above = if roots.len() > 1 { count_pools(links, root, &roots, level + 1) } else { 0 };
        pools.len() as u32 + above
    };
    pool_sets(links, nodes).into_iter().map(of_set).sum()
}

fn root_of(pool: &[u32], root: u32) -> u32 {
    if pool.contains(&root) { root } else { pool[0] }
}

struct Search<'a> {
    links: &'a LinkMatrix,
    root: u32,
    bytes: u64,
    unit: CostUnit,
    /// Budget of each pool.
    share: Option<f64>,
    budget: &'a SearchBudget<'a>,
    whole: TreeCostModel,
}

impl Search<'_> {
    /// Returns the parents of all nodes in a tree over `nodes`; nodes outside it have none.
    fn cluster(&self, nodes: &[u32], draws: &mut u64, level: u32) -> Vec<u32> {
        if nodes.len() <= POOL_MAX || level == LEVELS_MAX {
            return self.anneal(nodes, draws).0;
        }
        let mut best: Option<PaperTree> = None;
        for pools in pool_sets(self.links, nodes) {
            if pools.len() == nodes.len() {
                // Pools of one node each: nothing was divided.
                let (parents, _) = self.anneal(nodes, draws);
                self.keep(&mut best, parents, nodes);
                continue;
            }
            let mut parents = vec![NONE; self.links.len()];
            let mut roots = Vec::with_capacity(pools.len());
            for pool in &pools {
                let (inner, root) = self.anneal(pool, draws);
                pool.iter().for_each(|&node| parents[node as usize] = inner[node as usize]);
                roots.push(root);
            }
            if roots.len() > 1 {
                let above = self.cluster(&roots, draws, level + 1);
                roots.iter().for_each(|&root| parents[root as usize] = above[root as usize]);
            }
            self.keep(&mut best, parents, nodes);
        }
        best.map_or_else(|| self.anneal(nodes, draws).0, |tree| tree.parents)
    }

    fn keep(&self, best: &mut Option<PaperTree>, parents: Vec<u32>, nodes: &[u32]) {
        let cost_s = self.cost_s(&parents, nodes);
        if best.as_ref().is_none_or(|best| cost_s < best.cost_s) {
            *best = Some(PaperTree { parents, cost_s });
        }
    }

    /// The cost of a tree over some of the nodes.
    fn cost_s(&self, parents: &[u32], nodes: &[u32]) -> f64 {
        if nodes.len() == parents.len() {
            return self.whole.completion_s(parents);
        }
        let links = self.links.restricted_to(nodes);
        let place = |node: u32| nodes.iter().position(|&other| other == node);
        let inner: Vec<u32> = nodes
            .iter()
            .map(|&node| place(parents[node as usize]).map_or(NONE, |place| place as u32))
            .collect();
        TreeCostModel::new(&links, self.bytes, Serialisation::Transfer).completion_s(&inner)
    }

    /// Anneals some of the nodes. Returns the parents of all nodes, and the root.
    fn anneal(&self, nodes: &[u32], draws: &mut u64) -> (Vec<u32>, u32) {
        *draws = draws.wrapping_add(1);
        let links = self.links.restricted_to(nodes);
        let model = TreeCostModel::new(&links, self.bytes, Serialisation::Transfer);
        let root = nodes.iter().position(|&node| node == self.root).map(|place| place as u32);
        let budget = self.budget.part(self.share);
        let found = driver_sa(&model, root, self.unit, *draws, &budget).tree;
        let mut parents = vec![NONE; self.links.len()];
        let mut root = nodes[0];
        for (&node, &parent) in nodes.iter().zip(&found.parents) {
            match nodes.get(parent as usize) {
                Some(&parent) => parents[node as usize] = parent,
                None => root = node,
            }
        }
        (parents, root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::grid_links;

    #[test]
    fn clusters_become_pools_with_one_edge_into_each() {
        // Six clusters of five nodes; 100 Mbit/s inside, at most a tenth of it outside.
        let links = grid_links(6, 5, 1);

        let tree =
            clustered_sa(&links, 7, 1_000_000, CostUnit::Percent, 1, &SearchBudget::unlimited());

        assert_eq!(tree.parents[7], NONE);
        let crossing = (0..30_u32).filter(|&node| {
            let parent = tree.parents[node as usize];
            parent != NONE && links.class_of(parent as usize) != links.class_of(node as usize)
        });
        assert_eq!(crossing.count(), 5);
        let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);
        assert_eq!(model.edges(&tree.parents).len(), 29);
    }

    #[test]
    fn a_limited_budget_is_exceeded_only_by_runs_that_have_begun() {
        let links = grid_links(6, 5, 1);
        let budget = SearchBudget::evaluations(60_000);

        clustered_sa(&links, 0, 1_000_000, CostUnit::Percent, 1, &budget);

        assert!(budget.spent() < 60_000 + 30 * 1_700, "{}", budget.spent());
    }
}
