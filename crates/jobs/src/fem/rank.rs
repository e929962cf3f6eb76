//! A rank, which solves its part of the system step by step, and may move between steps.

use super::distribution::{MeshFacts, distribute};
use super::product::{Coupling, Exchange, Matrix};
use super::solver::Solver;
use crate::rank_clock::clock;
use gridspan_kernels::fem::problem::{Equation, Problem, Solution};
use gridspan_ranks::{Comm, Continuation, Rank, RankError, ops};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The parameters that all ranks share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) equation: Equation,
    /// Square root of the number of nodes.
    pub(super) size: u32,
    /// Seed of the mesh and of its cut.
    pub(super) seed: u64,
    pub(super) exchange: Exchange,
    /// Norm of the residual at which steps end, divided by that of the right side.
    pub(super) tolerance: f64,
    pub(super) steps_max: u32,
    /// Compute time of an entry of the matrix in one step, which is charged.
    pub(super) entry_cost: Duration,
    /// Steps between two migration points; 0 for none.
    pub(super) migrate_every: u32,
    /// Number of times that the system is solved, one after the other.
    pub(super) repeat: u32,
}

impl Plan {
    pub(super) fn problem(&self) -> Problem {
        Problem { equation: self.equation, solution: Solution::Smooth }
    }
}

/// The summary that the first rank sends to main at the end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Summary {
    pub(super) facts: MeshFacts,
    /// Number of steps of all solutions, and their time.
    pub(super) steps: u32,
    pub(super) time: Duration,
    /// Norm of the residual of the last solution, divided by that of the right side.
    pub(super) residual: f64,
    /// Difference of the last solution from the analytic one, in the discrete L2 norm.
    pub(super) error: f64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FemRank {
    plan: Plan,
    /// `None` before the first run.
    work: Option<Work>,
}

/// A rank's part of the system.
#[derive(Serialize, Deserialize)]
struct Work {
    /// `None` except at the first rank.
    facts: Option<MeshFacts>,
    matrix: Matrix,
    /// The solution in progress; `None` between solutions.
    solver: Option<Solver>,
    /// Time at which this solution began, in seconds.
    begin: f64,
    /// Number of completed solutions, and their total time in seconds.
    solutions: u32,
    seconds: f64,
    /// Number of steps of all solutions.
    steps: u32,
}

impl Work {
    async fn new(world: &Comm, plan: &Plan) -> Result<Self, RankError> {
        let (part, facts) = distribute(world, plan.size, plan.seed).await?;
        let matrix = Matrix::new(part, plan.problem(), plan.exchange, plan.entry_cost);
        let (solver, begin, solutions, seconds, steps) = (None, 0.0, 0, 0.0, 0);
        Ok(Self { facts, matrix, solver, begin, solutions, seconds, steps })
    }

    /// Resumes the solution in progress, or begins one.
    async fn solver(&mut self, world: &Comm) -> Result<Solver, RankError> {
        match self.solver.take() {
            Some(solver) => Ok(solver),
            None => {
                self.begin = clock(world).await?;
                Solver::begin(world, &self.matrix).await
            }
        }
    }

    /// Returns the summary at the first rank, and `None` at the others.
    async fn summary(
        &self,
        coupling: &Coupling<'_>,
        problem: Problem,
        mut solver: Solver,
    ) -> Result<Option<Summary>, RankError> {
        let residual = solver.residual(coupling, &self.matrix).await?;
        let Matrix { part, rows, .. } = &self.matrix;
        let squares = problem.squared_error(&part.positions, &rows.masses, solver.values());
        let error = coupling.world.allreduce(&[squares], ops::sum).await?[0].sqrt();
        let time = Duration::from_secs_f64(self.seconds.max(0.0));
        let steps = self.steps;
        Ok(self.facts.map(|facts| Summary { facts, steps, time, residual, error }))
    }
}

impl Rank for FemRank {
    type Init = Plan;
    type Value = Option<Summary>;

    fn create(plan: Plan, _world: &Comm) -> Self {
        Self { plan, work: None }
    }

    async fn run(mut self, world: Comm) -> Result<Continuation<Self, Option<Summary>>, RankError> {
        let plan = self.plan;
        let mut work = match self.work.take() {
            Some(work) => work,
            None => Work::new(&world, &plan).await?,
        };
        let coupling = Coupling::new(&world, &work.matrix).await?;
        loop {
            let mut solver = work.solver(&world).await?;
            while solver.goes_on(plan.tolerance, plan.steps_max) {
                solver.step(&coupling, &work.matrix).await?;
                work.steps += 1;
                if plan.migrate_every > 0 && work.steps.is_multiple_of(plan.migrate_every) {
                    work.solver = Some(solver);
                    self.work = Some(work);
                    return Ok(Continuation::Migrate(self));
                }
            }
            work.seconds += clock(&world).await? - work.begin;
            work.solutions += 1;
            if work.solutions >= plan.repeat {
                let summary = work.summary(&coupling, plan.problem(), solver).await?;
                return Ok(Continuation::Done(summary));
            }
        }
    }
}
