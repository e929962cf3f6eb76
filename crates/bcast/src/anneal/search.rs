//! Annealing relative to cost: temperatures are shares of the tree's cost, so that neither the unit
//! nor the size of the problem matters.

use super::start::{is_sampled, start_tree};
use super::state::State;
use crate::model::TreeCostModel;
use crate::search_budget::SearchBudget;
use gridspan_topology::dice::Dice;

/// The sender for a receiver is drawn from this number of classes (groups of nodes with equal
/// links): those that reach it at the least cost.
const CANDIDATES: usize = 16;
/// The first temperature, as a share of the cost, is the smaller of this and `HEAT` divided by the
/// number of nodes.
const HEAT_MAX: f64 = 0.15;
const HEAT: f64 = 1.2;
/// Factor by which the temperature falls during a round.
const COOLING: f64 = 1e-3;
/// Share of the budget for further start trees if they depend on samples: then the best of many
/// start trees gains more than annealing for that time does.
const STARTS: f64 = 0.3;
/// Number of moves of the first round, apart from those for each node.
const ROUND: u64 = 1_000;
/// Number of moves of the first round for each node.
const ROUND_PER_NODE: u64 = 20;
/// Factor by which each round is longer than the one before.
const ROUND_GROWTH: f64 = 1.4;
/// One of this many rounds begins with the start tree instead of the best one.
const RESTART: u64 = 3;
/// Evaluations for each node if the budget has no limit.
const UNLIMITED_PER_NODE: f64 = 5_000.0;
/// Number of moves between two looks at the limit; reading a clock costs about as much as a few
/// moves.
const LOOK: u64 = 16;

/// A tree and how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Annealed {
    /// The parent of each node; `u32::MAX` for the root.
    pub parents: Vec<u32>,
    /// The cost by the model, in seconds.
    pub cost_s: f64,
    /// Number of moves tried.
    pub moves: u64,
}

/// Searches for a tree from `root` over all nodes of the model, beginning with [`start_tree`].
pub fn anneal(model: &TreeCostModel, root: u32, seed: u64, budget: &SearchBudget<'_>) -> Annealed {
    let start = start_tree(model, root, seed);
    budget.spend();
    if model.len() < 3 || budget.is_over() {
        return Annealed { cost_s: model.completion_s(&start), parents: start, moves: 0 };
    }
    let limit = budget.limit().is_none().then_some(UNLIMITED_PER_NODE * model.len() as f64);
    let part = limit.map(|limit| SearchBudget::evaluations(limit as u64));
    let budget = part.as_ref().unwrap_or(budget);
    let start = best_start(model, root, (start, seed), &budget.fraction(STARTS));
    let mut search = Search {
        state: State::new(model, &start),
        senders: Senders::new(model),
        dice: Dice::new(seed),
        best_s: f64::INFINITY,
        best: start.clone(),
        undo: Vec::new(),
        moves: 0,
    };
    search.keep_if_best();
    let mut length = (ROUND + ROUND_PER_NODE * model.len() as u64) as f64;
    let mut round = 0;
    while !budget.is_over() {
        let is_restart = round % RESTART == RESTART - 1;
        let from = if is_restart { start.clone() } else { search.best.clone() };
        search.state.reset(&from);
        search.round(length as u64, budget);
        length *= ROUND_GROWTH;
        round += 1;
    }
    Annealed { cost_s: search.best_s, parents: search.best, moves: search.moves }
}

/// Returns the best of several start trees, among them the given one, which was built with `seed`.
fn best_start(
    model: &TreeCostModel,
    root: u32,
    (mut best, seed): (Vec<u32>, u64),
    budget: &SearchBudget<'_>,
) -> Vec<u32> {
    if !is_sampled(model) {
        return best;
    }
    let mut best_s = model.completion_s(&best);
    for seed in (1..).map(|more| seed.wrapping_add(more)) {
        if budget.is_over() {
            break;
        }
        let other = start_tree(model, root, seed);
        // A start tree takes about as long as a move for each node.
        (0..model.len()).for_each(|_| budget.spend());
        let other_s = model.completion_s(&other);
        if other_s < best_s {
            (best, best_s) = (other, other_s);
        }
    }
    best
}

struct Search<'a> {
    state: State<'a>,
    senders: Senders<'a>,
    dice: Dice,
    best_s: f64,
    best: Vec<u32>,
    /// `(node, parent)` steps that undo the last move, the last step first.
    undo: Vec<(u32, u32)>,
    moves: u64,
}

impl Search<'_> {
    fn round(&mut self, moves: u64, budget: &SearchBudget<'_>) {
        let heat = HEAT_MAX.min(HEAT / self.state.parents().len() as f64);
        let cooling = COOLING.powf(LOOK as f64 / moves as f64);
        let mut temperature = heat * self.state.cost_s();
        for at in 0..moves {
            if at % LOOK == 0 {
                temperature *= cooling;
                if budget.is_over() {
                    return;
                }
            }
            let before_s = self.state.cost_s();
            if !self.change() {
                budget.spend();
                continue;
            }
            budget.spend();
            self.moves += 1;
            let worse = self.state.cost_s() - before_s;
            if worse > 0.0 && self.dice.unit() >= (-worse / temperature).exp() {
                while let Some((node, parent)) = self.undo.pop() {
                    self.state.attach(node, parent);
                }
            } else if worse < 0.0 {
                self.keep_if_best();
            }
        }
    }

    fn keep_if_best(&mut self) {
        if self.state.cost_s() < self.best_s * (1.0 - 1e-12) {
            self.best_s = self.state.cost_s();
            self.best.copy_from_slice(self.state.parents());
        }
    }

    /// Changes the tree on or next to its critical path. Returns whether it did.
    fn change(&mut self) -> bool {
        self.undo.clear();
        let Some(node) = self.on_critical_path() else { return false };
        match self.dice.below(8_u32) {
            0 => self.rotate(node),
            1 => self.exchange(node),
            3 | 4 => self.replace(node),
            2 => {
                // Moves a sibling, which may be served earlier, out of the way.
                let siblings = self.state.parent(node);
                let other = self.dice.below(self.state.parents().len()) as u32;
                match self.state.parent(other) == siblings && other != node {
                    true => self.attach_near(other),
                    false => self.attach_near(node),
                }
            }
            _ => self.attach_near(node),
        }
    }

    /// Draws a node of the critical path, except the root.
    fn on_critical_path(&mut self) -> Option<u32> {
        let mut chosen = None;
        let mut next = self.state.critical(self.state.root());
        let mut count = 0_u32;
        while let Some(node) = next {
            count += 1;
            if self.dice.below(count) == 0 {
                chosen = Some(node);
            }
            next = self.state.critical(node);
        }
        chosen
    }

    fn attach(&mut self, node: u32, parent: u32) {
        self.undo.push((node, self.state.parent(node)));
        self.state.attach(node, parent);
    }

    fn attach_near(&mut self, node: u32) -> bool {
        let parent = self.senders.draw(node, &mut self.dice);
        if parent == self.state.parent(node) || self.state.is_below(parent, node) {
            return false;
        }
        self.attach(node, parent);
        true
    }

    /// Makes a node and its parent change places.
    fn rotate(&mut self, node: u32) -> bool {
        let parent = self.state.parent(node);
        let above = self.state.parent(parent);
        if parent == self.state.root() || above == node {
            return false;
        }
        self.attach(node, above);
        self.attach(parent, node);
        true
    }

    /// Makes two nodes, neither below the other, exchange parents and children.
    fn replace(&mut self, node: u32) -> bool {
        let other = self.dice.below(self.state.parents().len()) as u32;
        let (parent, goal) = (self.state.parent(node), self.state.parent(other));
        if other == self.state.root()
            || self.state.is_below(node, other)
            || self.state.is_below(other, node)
        {
            return false;
        }
        let own: Vec<u32> = self.state.children(node).collect();
        let others: Vec<u32> = self.state.children(other).collect();
        if own.len() + others.len() > REPLACED_CHILDREN_MAX {
            return false;
        }
        own.into_iter().for_each(|child| self.attach(child, other));
        others.into_iter().for_each(|child| self.attach(child, node));
        if parent != goal {
            self.attach(node, goal);
            self.attach(other, parent);
        }
        true
    }

    /// Makes two nodes, neither below the other, exchange parents.
    fn exchange(&mut self, node: u32) -> bool {
        let other = self.dice.below(self.state.parents().len()) as u32;
        let (parent, goal) = (self.state.parent(node), self.state.parent(other));
        let is_possible = other != self.state.root()
            && parent != goal
            && !self.state.is_below(node, other)
            && !self.state.is_below(other, node);
        if is_possible {
            self.attach(node, goal);
            self.attach(other, parent);
        }
        is_possible
    }
}

/// Maximum number of children of two nodes that change places, since each of them has to be moved.
const REPLACED_CHILDREN_MAX: usize = 12;

/// The cheapest senders for each node.
struct Senders<'a> {
    model: &'a TreeCostModel,
    /// For each class, the classes that reach it at the least cost; computed at its first receiver.
    /// Where every node is a class, computing all of them would take longer than a short search.
    nearest: Vec<Option<Vec<u32>>>,
    members: Vec<Vec<u32>>,
}

impl<'a> Senders<'a> {
    fn new(model: &'a TreeCostModel) -> Self {
        let classes = model.classes();
        let mut members = vec![Vec::new(); classes];
        for node in 0..model.len() as u32 {
            members[model.class_of(node)].push(node);
        }
        Self { model, nearest: vec![None; classes], members }
    }

    fn find(&self, to: usize) -> Vec<u32> {
        let cost = |from: usize| match (self.members[from].first(), self.members[to].last()) {
            (Some(&from), Some(&to)) if from != to => {
                self.model.busy_s(from, to) + self.model.flight_s(from, to)
            }
            _ => f64::INFINITY,
        };
        let all = (0..self.members.len()).map(|from| (cost(from), from as u32));
        let mut costs: Vec<(f64, u32)> = all.filter(|(cost, _)| cost.is_finite()).collect();
        if costs.len() > CANDIDATES {
            costs.select_nth_unstable_by(CANDIDATES, |one, other| one.0.total_cmp(&other.0));
            costs.truncate(CANDIDATES);
        }
        costs.into_iter().map(|(_, from)| from).collect()
    }

    /// Draws a node of one of the nearest classes, or occasionally any node.
    fn draw(&mut self, to: u32, dice: &mut Dice) -> u32 {
        let class = self.model.class_of(to);
        if self.nearest[class].is_none() {
            self.nearest[class] = Some(self.find(class));
        }
        let near = self.nearest[class].as_deref().unwrap_or_default();
        if near.is_empty() || dice.below(16_u32) == 0 {
            return dice.below(self.model.len()) as u32;
        }
        let members = &self.members[near[dice.below(near.len())] as usize];
        members[dice.below(members.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{grid_links, uniform_links};
    use crate::model::{NONE, Serialisation, exact_optimum_s};

    #[test]
    fn seven_nodes_come_within_a_percent_of_the_best_of_all_trees() {
        let mut above = 0.0;
        for seed in 0..8 {
            let links = if seed % 2 == 0 { uniform_links(7, seed) } else { grid_links(2, 4, seed) };
            let links = links.restricted_to(&[0, 1, 2, 3, 4, 5, 6]);
            let model = TreeCostModel::new(&links, 1_000_000, Serialisation::Transfer);

            let found = anneal(&model, 0, seed, &SearchBudget::evaluations(20_000));

            let optimum = exact_optimum_s(&model, 0);
            assert!(found.cost_s >= optimum * (1.0 - 1e-9), "nothing is better than the best");
            assert!((found.cost_s - model.completion_s(&found.parents)).abs() < 1e-9);
            above += found.cost_s / optimum - 1.0;
        }
        assert!(above / 8.0 <= 0.01, "{above}");
    }

    #[test]
    fn the_result_is_never_worse_than_the_start_and_is_reproducible() {
        let model = TreeCostModel::new(&grid_links(8, 8, 3), 1_000_000, Serialisation::Transfer);
        let start_s = model.completion_s(&start_tree(&model, 9, 1));

        let one = anneal(&model, 9, 1, &SearchBudget::evaluations(5_000));
        let other = anneal(&model, 9, 1, &SearchBudget::evaluations(5_000));

        assert_eq!(one, other);
        assert!(one.cost_s <= start_s);
        assert_eq!(one.parents[9], NONE);
    }

    #[test]
    fn the_best_of_many_start_trees_is_taken() {
        let model = TreeCostModel::new(&uniform_links(200, 5), 1_000_000, Serialisation::Transfer);
        let cost_s = |seed| model.completion_s(&start_tree(&model, 0, seed));
        // Each start tree counts as much as a move for each node.
        let found = |trees: u64| {
            let first = (start_tree(&model, 0, 1), 1);
            best_start(&model, 0, first, &SearchBudget::evaluations(200 * trees))
        };

        let best_s = (1..=9).map(cost_s).fold(f64::INFINITY, f64::min);
        assert_eq!(model.completion_s(&found(8)), best_s);
        assert!(best_s < cost_s(1));
        assert_eq!(found(0), start_tree(&model, 0, 1));
    }

    #[test]
    fn one_or_two_nodes_need_no_search() {
        for count in [1, 2] {
            let model =
                TreeCostModel::new(&uniform_links(count, 1), 1_000, Serialisation::Transfer);

            assert_eq!(anneal(&model, 0, 1, &SearchBudget::unlimited()).parents.len(), count);
        }
    }
}
