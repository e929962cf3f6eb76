//! MG: solves a Poisson equation on a periodic cube by V-cycles (RNR-94-007, section 2.2.2).
//!
//! On every level, a rank has a range of planes of constant `z`; on the coarsest levels some ranks
//! have none. Each step fetches the planes that it needs from their ranks.

use super::class::{Check, ProblemClass};
use super::halo::{fetch, fetch_halo};
use super::kernel::Kernel;
use gridspan_kernels::linear::dot;
use gridspan_kernels::nas::mg::{self, LARGE_SMOOTHER, SMALL_SMOOTHER};
use gridspan_kernels::nas::planes::Planes;
use gridspan_kernels::nas::share::Shares;
use gridspan_ranks::{Comm, RankError, ops};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Number of positive and of negative charges.
const CHARGES: usize = 10;
const TOLERANCE: f64 = 1e-8;
/// Virtual time of a point in one step: about that of a core at 3 GHz.
const POINT_COST: Duration = Duration::from_nanos(3);

/// Levels, iterations, and the published norm of the residual.
const PROBLEMS: [(u32, u32, f64); 4] = [
    (5, 4, 0.5307707005734e-4),
    (7, 4, 0.6467329375339e-5),
    (8, 4, 0.2433365309069e-5),
    (8, 20, 0.1800564401355e-5),
];

/// One rank's part of the problem. Levels are numbered from 1, with `2^level` points along each
/// axis.
#[derive(Serialize, Deserialize)]
pub(super) struct Mg {
    class: ProblemClass,
    smoother: [f64; 4],
    top: usize,
    solution: Vec<Planes>,
    residual: Vec<Planes>,
    /// The places of the charges of this rank among the points of its finest planes, with signs.
    charges: Vec<(usize, f64)>,
    norm: f64,
}

impl Mg {
    async fn new(world: &Comm, class: ProblemClass) -> Result<Self, RankError> {
        let (top, _, _) = class.of(PROBLEMS);
        let planes = |level: u32| {
            let shares = Shares { count: 1 << level, ranks: world.size() };
            Planes::new(1 << level, shares.of(world.rank()))
        };
        let levels = || (0..=top).map(planes).collect();
        let smoother = if class == ProblemClass::B { LARGE_SMOOTHER } else { SMALL_SMOOTHER };
        let (solution, residual) = (levels(), levels());
        let (top, charges, norm) = (top as usize, Vec::new(), f64::NAN);
        let mut kernel = Self { class, smoother, top, solution, residual, charges, norm };
        kernel.place_charges(world).await?;
        Ok(kernel)
    }

    /// Places the charges where a random field is largest, and smallest.
    async fn place_charges(&mut self, world: &Comm) -> Result<(), RankError> {
        let finest = &self.residual[self.top];
        let first = finest.own.start as usize * finest.extent * finest.extent;
        let points = finest.values.len();
        let mut field = mg::random_field(first, points);
        let mut sign = 1.0;
        for _ in 0..2 {
            // The largest values of each rank, and then the largest of these.
            mg::sort_largest_first(&mut field);
            let mine = &field[..CHARGES.min(field.len())];
            let mut all = world.allgatherv(mine).await?.concat();
            mg::sort_largest_first(&mut all);
            for [_, place] in &all[..CHARGES.min(all.len())] {
                let at = (*place as usize).checked_sub(first).filter(|at| *at < points);
                self.charges.extend(at.map(|at| (at, sign)));
            }
            mg::negate(&mut field);
            sign = -1.0;
        }
        Ok(())
    }

    /// `residual = right - A solution`, where `right` is the charges on the finest level and the
    /// residual itself on others.
    async fn take_residual(&mut self, world: &Comm, level: usize) -> Result<(), RankError> {
        let solution = &mut self.solution[level];
        fetch_halo(solution, world).await?;
        let residual = &mut self.residual[level];
        if level == self.top {
            residual.clear();
            for (at, charge) in &self.charges {
                residual.values[*at] = *charge;
            }
        }
        mg::subtract_operator(residual, solution);
        charge(world, self.residual[level].values.len());
        Ok(())
    }

    /// `solution += S residual`.
    async fn smooth(&mut self, world: &Comm, level: usize) -> Result<(), RankError> {
        let residual = &mut self.residual[level];
        fetch_halo(residual, world).await?;
        mg::smooth(&mut self.solution[level], residual, &self.smoother);
        charge(world, self.solution[level].values.len());
        Ok(())
    }

    /// Projects the residual to the next coarser level: point `j` lies at point `2 j + 1`.
    async fn project(&mut self, world: &Comm, level: usize) -> Result<(), RankError> {
        let coarse = Shares { count: 1 << (level - 1), ranks: world.size() };
        let (lower, upper) = self.residual.split_at_mut(level);
        let (lower, upper) = (&mut lower[level - 1], &mut upper[0]);
        let needs = |rank| {
            let own = coarse.of(rank);
            match own.is_empty() {
                true => 0..0,
                false => 2 * i64::from(own.start)..2 * i64::from(own.end) + 1,
            }
        };
        fetch(upper, world, needs).await?;
        mg::project(lower, upper);
        charge(world, 8 * self.residual[level - 1].values.len());
        Ok(())
    }

    /// Adds the solution of the next coarser level, and between its points the mean of the nearest
    /// ones.
    async fn interpolate(&mut self, world: &Comm, level: usize) -> Result<(), RankError> {
        let fine = Shares { count: 1 << level, ranks: world.size() };
        let (lower, upper) = self.solution.split_at_mut(level);
        let (lower, upper) = (&mut lower[level - 1], &mut upper[0]);
        let needs = |rank| {
            let own = fine.of(rank);
            match own.is_empty() {
                true => 0..0,
                false => {
                    let last = i64::from(own.end) - 1;
                    (i64::from(own.start) - 1).div_euclid(2)..last.div_euclid(2) + 1
                }
            }
        };
        fetch(lower, world, needs).await?;
        mg::interpolate(upper, lower);
        charge(world, self.solution[level].values.len());
        Ok(())
    }

    /// One V-cycle, from the finest level to the coarsest and back.
    async fn cycle(&mut self, world: &Comm) -> Result<(), RankError> {
        for planes in self.solution.iter_mut().chain(&mut self.residual) {
            planes.ensure();
        }
        for level in (2..=self.top).rev() {
            self.project(world, level).await?;
        }
        self.solution[1].clear();
        self.smooth(world, 1).await?;
        for level in 2..=self.top {
            if level < self.top {
                self.solution[level].clear();
            }
            self.interpolate(world, level).await?;
            self.take_residual(world, level).await?;
            self.smooth(world, level).await?;
        }
        Ok(())
    }

    /// The root of the mean square of the residual.
    async fn residual_norm(&self, world: &Comm) -> Result<f64, RankError> {
        let values = &self.residual[self.top].values;
        let sum = world.allreduce(&[dot(values, values)], ops::sum).await?[0];
        Ok((sum / 2_f64.powi(3 * self.top as i32)).sqrt())
    }
}

fn charge(world: &Comm, points: usize) {
    world.charge(POINT_COST * points as u32);
}

impl Kernel for Mg {
    const NAME: &'static str = "mg";

    fn iterations(class: ProblemClass) -> u32 {
        class.of(PROBLEMS).1
    }

    fn mega_operations(class: ProblemClass) -> f64 {
        let (levels, iterations, _) = class.of(PROBLEMS);
        58.0 * f64::from(iterations) * 2_f64.powi(3 * levels as i32) / 1e6
    }

    async fn prepare(world: &Comm, class: ProblemClass) -> Result<Self, RankError> {
        let (levels, ..) = class.of(PROBLEMS);
        if world.size() > 1 << levels {
            return Err(format!("{} ranks for {} planes", world.size(), 1 << levels).into());
        }
        Self::new(world, class).await
    }

    async fn start(&mut self, world: &Comm) -> Result<(), RankError> {
        self.take_residual(world, self.top).await
    }

    async fn iterate(&mut self, world: &Comm, _iteration: u32) -> Result<(), RankError> {
        self.cycle(world).await?;
        self.take_residual(world, self.top).await
    }

    async fn end(&mut self, world: &Comm) -> Result<(), RankError> {
        self.norm = self.residual_norm(world).await?;
        Ok(())
    }

    fn reset(&mut self, _world: &Comm) {
        self.solution[self.top].clear();
    }

    fn shrink(&mut self) {
        // The planes of coarser levels follow from the finest ones.
        for level in 0..self.top {
            self.solution[level].forget();
            self.residual[level].forget();
        }
    }

    async fn checks(&mut self, _world: &Comm) -> Result<Vec<Check>, RankError> {
        let (_, _, published) = self.class.of(PROBLEMS);
        Ok(vec![Check::new("norm of the residual", self.norm, published, TOLERANCE)])
    }
}
