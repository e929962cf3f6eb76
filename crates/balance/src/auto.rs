//! `auto`: asks several strategies, predicts what each would bring, and takes the best or nothing.

use crate::border::Border;
use crate::cost::{CostModel, predict};
use crate::greedy::Greedy;
use crate::grid_cut::GridCut;
use crate::plan::Plan;
use crate::refine::Refine;
use crate::snapshot::Snapshot;
use crate::strategy::Strategy;
use crate::vacate::Vacate;

/// Takes the plan with the shortest predicted step, what it moves included.
pub struct Auto {
    candidates: Vec<Box<dyn Strategy>>,
    model: CostModel,
    chosen: &'static str,
}

/// A plan must make steps shorter by this part (gate rule 2: below, measurements are noise).
const GAIN_MIN: f64 = 0.01;
/// To move the state of all actors must make steps shorter by this part, beside a plan that moves little.
const MOVING: f64 = 0.04;

impl Auto {
    /// Chooses between doing nothing and `vacate`, `refine`, `border`, `grid-cut` and `greedy`.
    pub fn new(seed: u64) -> Self {
        let candidates: Vec<Box<dyn Strategy>> = vec![
            Box::new(Vacate::default()),
            Box::new(Refine),
            Box::new(Border),
            Box::new(GridCut::new(seed)),
            Box::new(Greedy),
        ];
        Self { candidates, model: CostModel::default(), chosen: "none" }
    }

    /// The same with other constants of the cost model.
    #[must_use]
    pub fn with_model(mut self, model: CostModel) -> Self {
        self.model = model;
        self
    }

    /// The name of the strategy whose plan was taken last; `none` if nothing was.
    pub fn chosen(&self) -> &'static str {
        self.chosen
    }
}

impl Strategy for Auto {
    fn name(&self) -> &'static str {
        "auto"
    }

    fn plan(&mut self, snapshot: &Snapshot) -> Plan {
        self.chosen = "none";
        let step = |plan: &Plan| {
            let mapping = plan.mapping(snapshot).ok()?;
            Some(predict(snapshot, &mapping, &self.model).step)
        };
        let Some(now) = step(&Plan::none()) else { return Plan::none() };
        let all: u64 = snapshot.actors.iter().map(|actor| actor.bytes).sum();
        let mut best: Option<(f64, &'static str, Plan)> = None;
        for strategy in &mut self.candidates {
            let plan = strategy.plan(snapshot);
            let Some(step) = step(&plan).filter(|_| !plan.is_empty()) else { continue };
            let is_gain = step.as_secs_f64() <= now.as_secs_f64() * (1.0 - GAIN_MIN);
            let moved = plan.bytes(snapshot) as f64 / all.max(1) as f64;
            let value = step.as_secs_f64() * (1.0 + MOVING * moved);
            if is_gain && best.as_ref().is_none_or(|best| value < best.0) {
                best = Some((value, strategy.name(), plan));
            }
        }
        let Some((_, name, plan)) = best else { return Plan::none() };
        self.chosen = name;
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::{by_hash, grid_2d, leanmd, snapshot_of, with_wide_area};
    use gridspan_topology::{Layout, PeId};
    use std::time::Duration;

    fn two_sites(pes: u32) -> Layout {
        Layout::new(vec![("a".to_owned(), vec![pes]), ("b".to_owned(), vec![pes])])
    }

    #[test]
    fn what_is_good_is_left_alone() {
        let place: Vec<_> = (0..400).map(|at| PeId(at / 100)).collect();
        let snapshot = snapshot_of(&grid_2d(20, 20), two_sites(2), &place);
        let mut auto = Auto::new(1);

        assert!(auto.plan(&snapshot).is_empty());
        assert_eq!(auto.chosen(), "none");
    }

    #[test]
    fn without_messages_few_moves_are_enough() {
        let mut snapshot = snapshot_of(&grid_2d(20, 20), two_sites(2), &by_hash(400, 4));
        snapshot.edges.clear();
        snapshot.actors.iter_mut().take(100).for_each(|actor| actor.pe = PeId(0));
        let mut auto = Auto::new(1);

        let plan = auto.plan(&snapshot);

        assert!(matches!(auto.chosen(), "refine" | "grid-cut"), "{}", auto.chosen());
        assert!(plan.moves.len() < 150, "{} moves", plan.moves.len());
    }

    #[test]
    fn molecules_over_a_slow_link_are_cut() {
        let snapshot = snapshot_of(&leanmd(6, 21), two_sites(8), &by_hash(3240, 16));
        let mut auto = Auto::new(1);

        auto.plan(&with_wide_area(snapshot, Duration::from_millis(400)));

        assert_eq!(auto.chosen(), "grid-cut");
    }
}
