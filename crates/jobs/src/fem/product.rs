//! Products of the matrix with a vector, of which each rank has the values of its nodes.

use clap::ValueEnum;
use gridspan_kernels::fem::part::MeshPart;
use gridspan_kernels::fem::problem::Problem;
use gridspan_kernels::fem::rows::MatrixRows;
use gridspan_kernels::linear;
use gridspan_ranks::{Comm, NeighbourGraph, RankError};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// How a rank gets the values of its ghosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(super) enum Exchange {
    /// From their owners, while the rank computes the rows that need no ghosts.
    Neighbours,
    /// From the whole vector, which every rank gathers first.
    Gather,
}

/// The rows of a rank, with its part of the mesh.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Matrix {
    pub(super) rows: MatrixRows,
    pub(super) part: MeshPart,
    exchange: Exchange,
    unknowns: usize,
    /// Compute time of an entry in a product, which is charged.
    entry_cost: Duration,
}

/// The ranks to which the rows of a rank are coupled, up to the next migration point.
pub(super) struct Coupling<'a> {
    pub(super) world: &'a Comm,
    neighbours: NeighbourGraph,
}

impl<'a> Coupling<'a> {
    /// Makes the graph of the coupled ranks. A collective operation.
    pub(super) async fn new(world: &'a Comm, matrix: &Matrix) -> Result<Self, RankError> {
        let ranks: Vec<u32> = matrix.part.neighbours.keys().copied().collect();
        Ok(Self { world, neighbours: world.graph(&ranks, &ranks).await? })
    }
}

impl Matrix {
    /// Assembles the rows of a part.
    pub(super) fn new(
        mut part: MeshPart,
        problem: Problem,
        exchange: Exchange,
        entry_cost: Duration,
    ) -> Self {
        let (rows, unknowns) = (MatrixRows::new(problem, &part), problem.unknowns());
        // The triangles are no longer needed, and would move with the rank.
        part.triangles = Vec::new();
        Self { rows, part, exchange, unknowns, entry_cost }
    }

    /// A vector of zeros, with places for the ghosts behind the own values.
    pub(super) fn vector(&self) -> Vec<f64> {
        vec![0.0; self.part.inner() * self.unknowns]
    }

    /// Sets the ghosts of a vector, and multiplies the rows with it. A collective operation.
    pub(super) async fn multiply(
        &self,
        coupling: &Coupling<'_>,
        vector: &mut [f64],
        product: &mut [f64],
    ) -> Result<(), RankError> {
        let world = coupling.world;
        let [interior, own] =
            [self.part.interior, self.part.own].map(|nodes| nodes as usize * self.unknowns);
        match self.exchange {
            Exchange::Neighbours => {
                let leaving = self.part.neighbours.values();
                let leaving = leaving.map(|nodes| self.values(vector, nodes)).collect();
                let arriving = coupling.neighbours.ineighbour_alltoallv::<f64>(leaving)?;
                // The messages leave before the PE computes.
                world.yield_now().await;
                self.compute(world, 0..interior, vector, product);
                set(&mut vector[own..], &arriving.await?.concat())?;
                self.compute(world, interior..own, vector, product);
            }
            Exchange::Gather => {
                let whole = world.allgatherv(&vector[..own]).await?.concat();
                set(&mut vector[own..], &self.values(&whole, &self.part.ghosts))?;
                self.compute(world, 0..own, vector, product);
            }
        }
        Ok(())
    }

    /// The values of some nodes.
    fn values(&self, vector: &[f64], nodes: &[u32]) -> Vec<f64> {
        linear::gather(vector, nodes, self.unknowns)
    }

    /// Multiplies some rows, and charges the time.
    fn compute(&self, world: &Comm, rows: Range<usize>, vector: &[f64], product: &mut [f64]) {
        let entries = self.rows.multiply(rows, vector, product);
        let entries = entries.try_into().unwrap_or(u32::MAX);
        world.charge(self.entry_cost.saturating_mul(entries));
    }
}

/// Sets the ghosts. Fails if their number differs from that of the values.
fn set(ghosts: &mut [f64], arrived: &[f64]) -> Result<(), RankError> {
    if ghosts.len() != arrived.len() {
        let (ghosts, arrived) = (ghosts.len(), arrived.len());
        return Err(format!("ghosts have {ghosts} values, and {arrived} came").into());
    }
    ghosts.copy_from_slice(arrived);
    Ok(())
}
