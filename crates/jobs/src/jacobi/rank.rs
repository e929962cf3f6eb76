//! A rank, which may move between steps.

use super::solver::{Neighbourhood, Plan, Solver};
use gridspan_ranks::{Comm, Continuation, Rank, RankError, ops};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The summary that the first rank sends to main at the end.
#[derive(Serialize, Deserialize)]
pub(super) struct Summary {
    /// Time of all steps.
    pub(super) time: Duration,
    /// Mean time of a step in the second half.
    pub(super) step: Duration,
    /// Steps, and the largest change of a point in each of them.
    pub(super) changes: Vec<(u64, f64)>,
    /// The largest difference from the exact values.
    pub(super) error: f64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct JacobiRank {
    plan: Plan,
    /// `None` before the first run.
    solver: Option<Solver>,
}

impl Rank for JacobiRank {
    type Init = Plan;
    type Value = Option<Summary>;

    fn create(plan: Plan, _world: &Comm) -> Self {
        Self { plan, solver: None }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self, Option<Summary>>, RankError> {
        let around = Neighbourhood::new(&world, self.plan).await?;
        let mut solver = match self.solver.take() {
            Some(solver) => solver,
            None => Solver::begin(&world, self.plan, &around).await?,
        };
        if solver.advance(&world, &around).await? {
            self.solver = Some(solver);
            return Ok(Continuation::Migrate(self));
        }
        let [time, step] = solver.times(&world).await?;
        let error = solver.subdomain.error(self.plan.steps);
        let error = world.allreduce(&[error], ops::max).await?[0];
        let summary = Summary { time, step, changes: solver.changes, error };
        Ok(Continuation::Done((world.rank() == 0).then_some(summary)))
    }
}
