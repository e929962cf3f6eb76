//! Conjugate gradients with the diagonal as preconditioner (Saad, "Iterative Methods for Sparse
//! Linear Systems", 2nd edition, 2003, algorithm 9.1).
//!
//! A step has one product with the matrix and two reductions, the second of which is also for the
//! norm of the residual.

use super::product::Matrix;
use crate::rank_clock::clock;
use gridspan_ranks::{Comm, RankError, ops};
use std::time::Duration;

/// The solution of a rank.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    /// The unknowns of the own nodes.
    pub(super) values: Vec<f64>,
    /// Number of steps.
    pub(super) steps: u32,
    /// Norm of the residual of the solution, divided by that of the right side.
    pub(super) residual: f64,
    /// Time of all steps.
    pub(super) time: Duration,
}

/// Does steps until the norm of the residual is at most `tolerance` times that of the right side,
/// or `steps_max` have been done. Begins with zeros. A collective operation.
pub(super) async fn solve(
    matrix: &Matrix<'_>,
    tolerance: f64,
    steps_max: u32,
) -> Result<Solved, RankError> {
    let (world, right) = (matrix.world, &matrix.rows.right);
    let inverse: Vec<f64> = matrix.rows.diagonal().iter().map(|entry| 1.0 / entry).collect();
    let precondition = |residual: &[f64]| -> Vec<f64> {
        residual.iter().zip(&inverse).map(|(residual, inverse)| residual * inverse).collect()
    };
    let own = right.len();
    let (mut x, mut p, mut q) = (matrix.vector(), matrix.vector(), vec![0.0; own]);
    let mut r = right.clone();
    p[..own].copy_from_slice(&precondition(&r));
    let begin = clock(world).await?;
    let [mut rho, norm] = dots(world, [(&r, &p), (&r, &r)]).await?;
    let (mut rest, mut steps) = (norm, 0);
    while rest > tolerance * tolerance * norm && steps < steps_max {
        matrix.multiply(&mut p, &mut q).await?;
        let [curvature] = dots(world, [(&p, &q)]).await?;
        let alpha = rho / curvature;
        add(&mut x, alpha, &p[..own]);
        add(&mut r, -alpha, &q);
        let z = precondition(&r);
        let before = rho;
        [rho, rest] = dots(world, [(&r, &z), (&r, &r)]).await?;
        let beta = rho / before;
        for (p, z) in p.iter_mut().zip(&z) {
            *p = z + beta * *p;
        }
        steps += 1;
    }
    let time = Duration::from_secs_f64((clock(world).await? - begin).max(0.0));
    // The residual of the recurrence has lost digits.
    matrix.multiply(&mut x, &mut q).await?;
    let r: Vec<f64> = right.iter().zip(&q).map(|(right, product)| right - product).collect();
    let [rest] = dots(world, [(&r, &r)]).await?;
    x.truncate(own);
    Ok(Solved { values: x, steps, residual: (rest / norm).sqrt(), time })
}

/// Scalar products. A vector that is longer has ghosts at its end.
async fn dots<const N: usize>(
    world: &Comm,
    pairs: [(&[f64], &[f64]); N],
) -> Result<[f64; N], RankError> {
    let mine: [f64; N] =
        pairs.map(|(one, other)| one.iter().zip(other).map(|(one, other)| one * other).sum());
    let sums: Vec<f64> = world.allreduce(&mine, ops::sum).await?;
    let found = sums.len();
    sums.try_into().map_err(|_| format!("{found} sums of {N} products").into())
}

/// Adds a multiple of a vector.
fn add(to: &mut [f64], factor: f64, vector: &[f64]) {
    to.iter_mut().zip(vector).for_each(|(to, more)| *to += factor * more);
}
