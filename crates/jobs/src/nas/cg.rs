//! CG: estimates the smallest eigenvalue of a sparse matrix by conjugate gradients (RNR-94-007,
//! section 2.2.3).
//!
//! Ranks have blocks of the matrix in a [grid](RankGrid), as in NPB, and exchange parts of vectors
//! within their columns and rows of the grid.
//!
//! In each step a rank needs two sums over all ranks, and the search direction for the columns of
//! its block. The new direction is a combination of the new residual and the last direction, which
//! the rank keeps. So it gathers the new residual while the ranks sum up its square, and then
//! computes the new direction itself. It uses the same operations as the owners of the elements, so
//! all numbers have the same bits. If each row of ranks is at one site, a step crosses the wide
//! area twice; it would be three times if ranks gathered the direction after the sum.

use super::class::{Check, ProblemClass};
use super::exchange;
use super::kernel::Kernel;
use gridspan_kernels::linear::{self, add_scaled, difference, divided, subtract_scaled, turn};
use gridspan_kernels::nas::matrix::{Block, block};
use gridspan_kernels::nas::rank_grid::RankGrid;
use gridspan_ranks::{Comm, RankError, ops};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Steps of conjugate gradients in an iteration.
const STEPS: u32 = 25;
/// Virtual time of an element of the matrix in a product: about that of a core at 3 GHz.
const ELEMENT_COST: Duration = Duration::from_nanos(2);
const TOLERANCE: f64 = 1e-10;

/// Order of the matrix, nonzeros of each vector that generates it, iterations, shift, and the
/// published zeta.
const PROBLEMS: [(u32, u32, u32, f64, f64); 4] = [
    (1_400, 7, 15, 10.0, 8.5971775078648),
    (7_000, 8, 15, 12.0, 10.362595087124),
    (14_000, 11, 15, 20.0, 17.130235054029),
    (75_000, 13, 75, 60.0, 22.712745482631),
];

/// The part of a rank: its block of the matrix, and its part of the vector.
#[derive(Serialize, Deserialize)]
pub(super) struct Cg {
    class: ProblemClass,
    grid: RankGrid,
    block: Block,
    x: Vec<f64>,
    zeta: f64,
}

async fn dot(world: &Comm, one: &[f64], other: &[f64]) -> Result<f64, RankError> {
    Ok(world.allreduce(&[linear::dot(one, other)], ops::sum).await?[0])
}

impl Cg {
    /// Gathers a vector along the columns of ranks, and meanwhile adds up `sums` over all ranks.
    async fn gather_and_sum(
        &self,
        world: &Comm,
        part: &[f64],
        sums: Vec<f64>,
    ) -> Result<(Vec<f64>, Vec<f64>), RankError> {
        let summing = world.iallreduce(sums, ops::sum);
        let gathered = exchange::gather(&self.grid, world, part).await?;
        Ok((gathered, summing.await?))
    }

    /// Multiplies the matrix with a vector that was gathered.
    async fn multiply(&self, world: &Comm, vector: &[f64]) -> Result<Vec<f64>, RankError> {
        let mut products = vec![0.0; self.grid.matrix_rows().len()];
        self.block.multiply(vector, &mut products);
        world.charge(ELEMENT_COST * self.block.nonzeros() as u32);
        exchange::add(&self.grid, world, &products).await
    }

    /// Solves `A z = x`, approximately. Also returns this rank's part of the square of the
    /// residual.
    async fn solve(&self, world: &Comm) -> Result<(Vec<f64>, f64), RankError> {
        let mut z = vec![0.0; self.x.len()];
        let (mut r, mut p) = (self.x.clone(), self.x.clone());
        let square = vec![linear::dot(&r, &r)];
        let (mut gathered, sums) = self.gather_and_sum(world, &r, square).await?;
        let mut rho = sums[0];
        let mut step = 1;
        loop {
            let q = self.multiply(world, &gathered).await?;
            let alpha = rho / dot(world, &p, &q).await?;
            add_scaled(&mut z, alpha, &p);
            subtract_scaled(&mut r, alpha, &q);
            let square = linear::dot(&r, &r);
            if step == STEPS {
                return Ok((z, square));
            }
            let (residual, sums) = self.gather_and_sum(world, &r, vec![square]).await?;
            let beta = sums[0] / rho;
            rho = sums[0];
            turn(&mut p, beta, &r);
            turn(&mut gathered, beta, &residual);
            step += 1;
        }
    }

    /// One iteration of the inverse power method.
    async fn step(&mut self, world: &Comm) -> Result<(), RankError> {
        let (z, square) = self.solve(world).await?;
        // NPB sums up the square after the last step, too.
        let sums = vec![linear::dot(&self.x, &z), linear::dot(&z, &z), square];
        let (gathered, sums) = self.gather_and_sum(world, &z, sums).await?;
        let (product_with_x, length, square) = (sums[0], sums[1].sqrt(), sums[2]);
        // NPB computes the residual in each iteration, too.
        let product = self.multiply(world, &gathered).await?;
        let rest = difference(&self.x, &product);
        let residual = dot(world, &rest, &rest).await?.sqrt();
        if residual.is_nan() || square.is_nan() {
            return Err("the residual is not a number".into());
        }
        let (_, _, _, shift, _) = self.class.of(PROBLEMS);
        self.zeta = shift + 1.0 / product_with_x;
        self.x = divided(&z, length);
        Ok(())
    }
}

impl Kernel for Cg {
    const NAME: &'static str = "cg";

    fn iterations(class: ProblemClass) -> u32 {
        class.of(PROBLEMS).2
    }

    fn mega_operations(class: ProblemClass) -> f64 {
        let (order, nonzeros, iterations, ..) = class.of(PROBLEMS);
        let per_row = f64::from(nonzeros * (nonzeros + 1));
        let per_step = 3.0 + per_row + f64::from(STEPS) * (5.0 + per_row) + 3.0;
        2.0 * f64::from(iterations) * f64::from(order) * per_step / 1e6
    }

    async fn prepare(world: &Comm, class: ProblemClass) -> Result<Self, RankError> {
        let (order, nonzeros, _, shift, _) = class.of(PROBLEMS);
        if world.size() > order {
            return Err(format!("{} ranks for {order} rows", world.size()).into());
        }
        let grid = RankGrid::new(order, world.size(), world.rank());
        let block = block(order, nonzeros as usize, shift, &grid);
        let x = vec![1.0; grid.elements().len()];
        let mut kernel = Self { class, grid, block, x, zeta: 0.0 };
        // One iteration that is not timed, as in NPB.
        kernel.step(world).await?;
        kernel.reset(world);
        Ok(kernel)
    }

    async fn iterate(&mut self, world: &Comm, _iteration: u32) -> Result<(), RankError> {
        self.step(world).await
    }

    fn reset(&mut self, _world: &Comm) {
        self.x.fill(1.0);
    }

    async fn checks(&mut self, _world: &Comm) -> Result<Vec<Check>, RankError> {
        let (.., published) = self.class.of(PROBLEMS);
        Ok(vec![Check::new("zeta", self.zeta, published, TOLERANCE)])
    }
}
