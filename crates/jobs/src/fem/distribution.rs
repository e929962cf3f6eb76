//! The first rank makes the mesh, cuts it, and sends each rank its part.
//!
//! If each rank made the whole mesh, no messages would be necessary, but each rank would need
//! memory and time for all of it, and a PE would repeat the work for each of its ranks.

use gridspan_kernels::fem::mesh::Mesh;
use gridspan_kernels::fem::part::{MeshPart, cut};
use gridspan_ranks::{Comm, RankError, wait_all};
use serde::{Deserialize, Serialize};

/// Facts about the mesh and its parts, at the first rank.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct MeshFacts {
    pub(super) nodes: u64,
    pub(super) triangles: u64,
    /// Nodes that are not on the boundary.
    pub(super) inner_nodes: u64,
    /// Length of the longest edge.
    pub(super) longest_edge: f64,
    /// Edges between nodes of different ranks.
    pub(super) cut_edges: u64,
    /// Number of nodes that ranks have as ghosts.
    pub(super) ghosts: u64,
    /// The largest number of matrix entries of a rank, divided by the mean.
    pub(super) imbalance: f64,
}

/// Returns the part of this rank; at the first rank, also the facts.
pub(super) async fn distribute(
    world: &Comm,
    size: u32,
    seed: u64,
) -> Result<(MeshPart, Option<MeshFacts>), RankError> {
    if world.rank() > 0 {
        return Ok((world.recv_value(0_u32, 0).await?.0, None));
    }
    let (facts, parts) = make(world.size(), size, seed)?;
    let mut parts = parts.into_iter();
    let own = parts.next().ok_or("there is no part")?;
    let mut leaving = Vec::new();
    for (part, rank) in parts.zip(1_u32..) {
        leaving.push(world.isend_value(&part, rank, 0)?);
    }
    wait_all(leaving).await?;
    Ok((own, Some(facts)))
}

fn make(ranks: u32, size: u32, seed: u64) -> Result<(MeshFacts, Vec<MeshPart>), String> {
    let mesh = Mesh::new(size, seed)?;
    let (parts, cut) = cut(&mesh, ranks, seed)?;
    let facts = MeshFacts {
        nodes: mesh.nodes.len() as u64,
        triangles: mesh.triangles.len() as u64,
        inner_nodes: cut.part.len() as u64,
        longest_edge: mesh.longest_edge(),
        cut_edges: cut.weight,
        ghosts: parts.iter().map(|part| part.ghosts.len() as u64).sum(),
        imbalance: cut.imbalance,
    };
    Ok((facts, parts))
}
