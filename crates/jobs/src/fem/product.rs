//! Products of the matrix with a vector, of which each rank has the values of its own nodes.

use super::part::Part;
use super::problem::Problem;
use super::rows::Rows;
use clap::ValueEnum;
use gridspan_ranks::{Comm, NeighbourGraph, RankError};
use std::ops::Range;
use std::time::Duration;

/// How a rank gets the values of its ghosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Exchange {
    /// Each from its owner, while the rank computes the rows that need none.
    Neighbours,
    /// Every rank gathers the whole vector first.
    Gather,
}

/// The rows of a rank, with the ranks to which they are coupled.
pub(super) struct Matrix<'a> {
    pub(super) world: &'a Comm,
    pub(super) rows: Rows,
    part: &'a Part,
    neighbours: NeighbourGraph,
    exchange: Exchange,
    unknowns: usize,
    /// Compute time of an entry in a product, which is charged.
    entry_cost: Duration,
}

impl<'a> Matrix<'a> {
    /// Assembles the rows of a part. A collective operation.
    pub(super) async fn new(
        world: &'a Comm,
        part: &'a Part,
        problem: Problem,
        exchange: Exchange,
        entry_cost: Duration,
    ) -> Result<Self, RankError> {
        let ranks: Vec<u32> = part.neighbours.keys().copied().collect();
        let neighbours = world.graph(&ranks, &ranks).await?;
        let (rows, unknowns) = (Rows::new(problem, part), problem.unknowns());
        Ok(Self { world, rows, part, neighbours, exchange, unknowns, entry_cost })
    }

    /// A vector of zeros, with places for the ghosts behind the own values.
    pub(super) fn vector(&self) -> Vec<f64> {
        vec![0.0; self.part.inner() * self.unknowns]
    }

    /// Sets the ghosts of a vector, and multiplies the rows with it. A collective operation.
    pub(super) async fn multiply(
        &self,
        vector: &mut [f64],
        product: &mut [f64],
    ) -> Result<(), RankError> {
        let [interior, own] =
            [self.part.interior, self.part.own].map(|nodes| nodes as usize * self.unknowns);
        match self.exchange {
            Exchange::Neighbours => {
                let leaving = self.part.neighbours.values();
                let leaving = leaving.map(|nodes| self.values(vector, nodes)).collect();
                let arriving = self.neighbours.ineighbour_alltoallv::<f64>(leaving)?;
                // The messages leave before the PE computes.
                self.world.yield_now().await;
                self.compute(0..interior, vector, product);
                set(&mut vector[own..], &arriving.await?.concat())?;
                self.compute(interior..own, vector, product);
            }
            Exchange::Gather => {
                let whole = self.world.allgatherv(&vector[..own]).await?.concat();
                set(&mut vector[own..], &self.values(&whole, &self.part.ghosts))?;
                self.compute(0..own, vector, product);
            }
        }
        Ok(())
    }

    /// The values of some nodes.
    fn values(&self, vector: &[f64], nodes: &[u32]) -> Vec<f64> {
        let unknowns = self.unknowns;
        let first = nodes.iter().map(|&node| node as usize * unknowns);
        first.flat_map(|first| vector[first..first + unknowns].iter().copied()).collect()
    }

    /// Multiplies some rows, and charges the time.
    fn compute(&self, rows: Range<usize>, vector: &[f64], product: &mut [f64]) {
        let entries = self.rows.multiply(rows, vector, product);
        let entries = entries.try_into().unwrap_or(u32::MAX);
        self.world.charge(self.entry_cost.saturating_mul(entries));
    }
}

/// Sets the ghosts.
fn set(ghosts: &mut [f64], arrived: &[f64]) -> Result<(), RankError> {
    if ghosts.len() != arrived.len() {
        let (ghosts, arrived) = (ghosts.len(), arrived.len());
        return Err(format!("ghosts have {ghosts} values, and {arrived} came").into());
    }
    ghosts.copy_from_slice(arrived);
    Ok(())
}
