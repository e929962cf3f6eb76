//! CG: estimates the smallest eigenvalue of a sparse matrix by conjugate gradients (RNR-94-007,
//! section 2.2.3).
//!
//! A rank has a block of rows. For each product all ranks gather the vector. NPB cuts the columns,
//! too, and exchanges less for many ranks.

use super::class::{Check, KernelResult, ProblemClass};
use super::matrix::{Rows, rows};
use crate::block_partition::BlockPartition;
use crate::rank_clock::clock;
use gridspan_ranks::{Comm, RankError, ops};
use std::time::Duration;

/// Steps of conjugate gradients in an iteration.
const STEPS: u32 = 25;
/// Virtual time of an element of the matrix in a product: about that of a core at 3 GHz.
const ELEMENT_COST: Duration = Duration::from_nanos(2);
const TOLERANCE: f64 = 1e-10;

/// Order, elements of a vector, iterations, shift, and the published value.
const PROBLEMS: [(u32, u32, u32, f64, f64); 4] = [
    (1_400, 7, 15, 10.0, 8.5971775078648),
    (7_000, 8, 15, 12.0, 10.362595087124),
    (14_000, 11, 15, 20.0, 17.130235054029),
    (75_000, 13, 75, 60.0, 22.712745482631),
];

/// The part of a rank: its rows, and its blocks of the vectors.
struct Solver<'a> {
    world: &'a Comm,
    rows: Rows,
    /// The block of the solution.
    z: Vec<f64>,
}

impl Solver<'_> {
    async fn dot(&self, one: &[f64], other: &[f64]) -> Result<f64, RankError> {
        let mine: f64 = one.iter().zip(other).map(|(one, other)| one * other).sum();
        Ok(self.world.allreduce(&[mine], ops::sum).await?[0])
    }

    /// Multiplies the matrix with a vector, of which each rank has its block.
    async fn multiply(&self, block: &[f64], product: &mut [f64]) -> Result<(), RankError> {
        let vector = self.world.allgatherv(block).await?.concat();
        self.rows.multiply(&vector, product);
        self.world.charge(ELEMENT_COST * self.rows.len() as u32);
        Ok(())
    }

    /// Solves `A z = x`, approximately.
    async fn solve(&mut self, x: &[f64]) -> Result<(), RankError> {
        self.z = vec![0.0; x.len()];
        let (mut r, mut p, mut q) = (x.to_vec(), x.to_vec(), vec![0.0; x.len()]);
        let mut rho = self.dot(&r, &r).await?;
        for _ in 0..STEPS {
            self.multiply(&p, &mut q).await?;
            let alpha = rho / self.dot(&p, &q).await?;
            for (at, z) in self.z.iter_mut().enumerate() {
                *z += alpha * p[at];
                r[at] -= alpha * q[at];
            }
            let old = rho;
            rho = self.dot(&r, &r).await?;
            let beta = rho / old;
            for (p, r) in p.iter_mut().zip(&r) {
                *p = r + beta * *p;
            }
        }
        Ok(())
    }

    /// One iteration of the inverse power method. Returns `x · z`.
    async fn iterate(&mut self, x: &mut Vec<f64>) -> Result<f64, RankError> {
        self.solve(x).await?;
        // NPB computes the residual in each iteration, too.
        let mut product = vec![0.0; x.len()];
        self.multiply(&self.z, &mut product).await?;
        let rest: Vec<f64> = x.iter().zip(&product).map(|(x, product)| x - product).collect();
        let residual = self.dot(&rest, &rest).await?.sqrt();
        if residual.is_nan() {
            return Err("the residual is not a number".into());
        }
        let product = self.dot(x, &self.z).await?;
        let length = self.dot(&self.z, &self.z).await?.sqrt();
        *x = self.z.iter().map(|z| z / length).collect();
        Ok(product)
    }
}

pub(super) async fn run(world: Comm, class: ProblemClass) -> Result<KernelResult, RankError> {
    let (order, nonzeros, iterations, shift, published) = class.of(PROBLEMS);
    if world.size() > order {
        return Err(format!("{} ranks for {order} rows", world.size()).into());
    }
    let range = BlockPartition::new(order, world.size()).range(world.rank());
    let ones = vec![1.0; range.len()];
    let rows = rows(order, nonzeros as usize, shift, range);
    let mut solver = Solver { world: &world, rows, z: Vec::new() };
    solver.iterate(&mut ones.clone()).await?;
    let begin = clock(&world).await?;
    let (mut x, mut zeta) = (ones, 0.0);
    for _ in 0..iterations {
        zeta = shift + 1.0 / solver.iterate(&mut x).await?;
    }
    let seconds = clock(&world).await? - begin;
    let per_row = f64::from(nonzeros * (nonzeros + 1));
    let per_step = 3.0 + per_row + f64::from(STEPS) * (5.0 + per_row) + 3.0;
    Ok(KernelResult {
        seconds,
        checks: vec![Check::new("zeta", zeta, published, TOLERANCE)],
        mega_operations: 2.0 * f64::from(iterations) * f64::from(order) * per_step / 1e6,
    })
}
