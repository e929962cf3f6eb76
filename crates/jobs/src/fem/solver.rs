//! Conjugate gradients with the diagonal as preconditioner (Saad, "Iterative Methods for Sparse
//! Linear Systems", 2nd edition, 2003, algorithm 9.1).
//!
//! A step has one product with the matrix and two reductions, the second of which also sums up the
//! norm of the residual. A rank keeps nothing but the solver from one step to the next, so that it
//! may move in between.

use super::product::{Coupling, Matrix};
use gridspan_kernels::linear::{add_scaled, difference, dot, products, reciprocals, turn};
use gridspan_ranks::{Comm, RankError, ops};
use serde::{Deserialize, Serialize};

/// The vectors of a rank between two steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Solver {
    /// The solution and the direction of the next step, with places for ghosts behind the own
    /// values.
    x: Vec<f64>,
    p: Vec<f64>,
    /// The residual.
    r: Vec<f64>,
    /// The last product. Each step sets it.
    #[serde(skip)]
    q: Vec<f64>,
    /// The inverse of the diagonal.
    inverse: Vec<f64>,
    /// The scalar product of the residual and its preconditioned form.
    rho: f64,
    /// The square of the norm of the right side, and of the residual.
    norm: f64,
    rest: f64,
    steps: u32,
}

impl Solver {
    /// Begins with zeros. A collective operation.
    pub(super) async fn begin(world: &Comm, matrix: &Matrix) -> Result<Self, RankError> {
        let inverse = reciprocals(&matrix.rows.diagonal());
        let (x, p, r) = (matrix.vector(), matrix.vector(), matrix.rows.right.clone());
        let (q, rho, norm, rest, steps) = (Vec::new(), 0.0, 0.0, 0.0, 0);
        let mut solver = Self { x, p, r, q, inverse, rho, norm, rest, steps };
        let z = solver.preconditioned();
        solver.p[..z.len()].copy_from_slice(&z);
        let (r, p) = (&solver.r[..], &solver.p[..]);
        let [rho, norm] = dots(world, [(r, p), (r, r)]).await?;
        (solver.rho, solver.norm, solver.rest) = (rho, norm, norm);
        Ok(solver)
    }

    /// Whether the norm of the residual is more than `tolerance` times that of the right side, and
    /// fewer than `steps_max` steps have been done.
    pub(super) fn goes_on(&self, tolerance: f64, steps_max: u32) -> bool {
        self.rest > tolerance * tolerance * self.norm && self.steps < steps_max
    }

    /// Does a step. A collective operation.
    pub(super) async fn step(
        &mut self,
        coupling: &Coupling<'_>,
        matrix: &Matrix,
    ) -> Result<(), RankError> {
        let (world, own) = (coupling.world, self.r.len());
        self.q.resize(own, 0.0);
        matrix.multiply(coupling, &mut self.p, &mut self.q).await?;
        let [curvature] = dots(world, [(&self.p, &self.q)]).await?;
        let alpha = self.rho / curvature;
        add_scaled(&mut self.x, alpha, &self.p[..own]);
        add_scaled(&mut self.r, -alpha, &self.q);
        let z = self.preconditioned();
        let before = self.rho;
        [self.rho, self.rest] = dots(world, [(&self.r, &z), (&self.r, &self.r)]).await?;
        let beta = self.rho / before;
        turn(&mut self.p, beta, &z);
        self.steps += 1;
        Ok(())
    }

    /// The norm of the residual, computed from the solution, divided by that of the right side. The
    /// residual of the recurrence has lost digits. A collective operation.
    pub(super) async fn residual(
        &mut self,
        coupling: &Coupling<'_>,
        matrix: &Matrix,
    ) -> Result<f64, RankError> {
        let right = &matrix.rows.right;
        self.q.resize(right.len(), 0.0);
        matrix.multiply(coupling, &mut self.x, &mut self.q).await?;
        let r = difference(right, &self.q);
        let [rest] = dots(coupling.world, [(&r, &r)]).await?;
        Ok((rest / self.norm).sqrt())
    }

    /// The unknowns of the own nodes.
    pub(super) fn values(&self) -> &[f64] {
        &self.x[..self.r.len()]
    }

    fn preconditioned(&self) -> Vec<f64> {
        products(&self.r, &self.inverse)
    }
}

/// Scalar products. The longer vector of a pair has ghosts at its end, which do not count.
async fn dots<const N: usize>(
    world: &Comm,
    pairs: [(&[f64], &[f64]); N],
) -> Result<[f64; N], RankError> {
    let mine: [f64; N] = pairs.map(|(one, other)| dot(one, other));
    let sums: Vec<f64> = world.allreduce(&mine, ops::sum).await?;
    let found = sums.len();
    sums.try_into().map_err(|_| format!("{found} sums of {N} products").into())
}
