//! The part of the mesh that each rank gets.
//!
//! The unknowns are at the nodes inside the square; those on the boundary have given values. The
//! graph of the inner nodes and the edges between them is cut so that all parts have about the same
//! number of entries of the matrix, and few edges are cut. An inner node belongs to one part. A
//! part also has the triangles that touch its nodes, and copies of their other nodes: inner nodes
//! of other parts, which are its ghosts, and nodes of the boundary.
//!
//! Inner nodes get new numbers, part by part, so that the nodes of a part have consecutive
//! numbers. Those without a neighbour in another part come first: a rank computes their rows while
//! the ghosts are on their way.

use super::mesh::{Mesh, is_on_boundary};
use super::problem::Point;
use gridspan_balance::cutter::{Cut, Cutter, Graph};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The part of a rank. Its nodes are counted from 0: its own, then ghosts, then fixed ones.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeshPart {
    /// The positions of all nodes of the part.
    pub positions: Vec<Point>,
    /// Number of own nodes.
    pub own: u32,
    /// Number of own nodes without ghosts as neighbours. They come first.
    pub interior: u32,
    /// The number of the first own node among the inner nodes of all parts.
    pub first: u32,
    /// The numbers of the ghosts among the inner nodes of all parts, ascending.
    pub ghosts: Vec<u32>,
    /// All triangles with at least one own node, in the order of the mesh.
    pub triangles: Vec<[u32; 3]>,
    /// For each rank that exchanges values with this one, ascending: the own nodes that are ghosts
    /// there, in the order of that rank's ghosts.
    pub neighbours: BTreeMap<u32, Vec<u32>>,
}

impl MeshPart {
    /// Own nodes and ghosts: those that have unknowns.
    pub fn inner(&self) -> usize {
        self.own as usize + self.ghosts.len()
    }
}

/// Cuts the inner nodes of a mesh into one part for each rank.
///
/// # Errors
/// If there are more ranks than inner nodes.
pub fn cut(mesh: &Mesh, ranks: u32, seed: u64) -> Result<(Vec<MeshPart>, Cut), String> {
    let inner: Vec<u32> = (0..mesh.nodes.len() as u32)
        .filter(|&node| !is_on_boundary(mesh.nodes[node as usize]))
        .collect();
    if ranks as usize > inner.len() {
        let nodes = inner.len();
        return Err(format!(
            "{ranks} ranks for {nodes} inner nodes; use more nodes or fewer ranks"
        ));
    }
    let graph = graph(mesh, &inner)?;
    let cut = Cutter::new(ranks).seed(seed).cut(&graph).map_err(|error| error.to_string())?;
    let numbering = Numbering::new(mesh, &inner, &graph, &cut.part, ranks);
    let mut parts = numbering.parts();
    for rank in 0..ranks {
        // Ghosts ascend, so that those of one owner are together.
        for ghost in std::mem::take(&mut parts[rank as usize].ghosts) {
            let owner = numbering.owner_of_number(ghost);
            let own = ghost - numbering.ranges[owner as usize].start;
            parts[owner as usize].neighbours.entry(rank).or_default().push(own);
            parts[rank as usize].ghosts.push(ghost);
        }
    }
    Ok((parts, cut))
}

/// The graph of the inner nodes. The weight of a node is the number of entries in its matrix row.
fn graph(mesh: &Mesh, inner: &[u32]) -> Result<Graph, String> {
    let mut vertex = vec![u32::MAX; mesh.nodes.len()];
    for (at, &node) in inner.iter().enumerate() {
        vertex[node as usize] = at as u32;
    }
    let mut loads = vec![1; inner.len()];
    let mut edges = Vec::new();
    for &[a, b, c] in &mesh.triangles {
        for (from, to) in [(a, b), (b, c), (c, a)] {
            let (from, to) = (vertex[from as usize], vertex[to as usize]);
            // The other triangle at the edge lists the edge in the other direction.
            if from < to && to != u32::MAX {
                loads[from as usize] += 1;
                loads[to as usize] += 1;
                edges.push((from, to, 1));
            }
        }
    }
    Graph::new(&loads, &edges).map_err(|error| error.to_string())
}

/// The parts and the numbers of the nodes of a mesh.
struct Numbering<'a> {
    mesh: &'a Mesh,
    /// The part of each node of the mesh; none for those on the boundary.
    owner: Vec<Option<u32>>,
    /// The number of each inner node.
    number: Vec<u32>,
    /// The node with each number.
    nodes: Vec<u32>,
    /// The numbers of the nodes of each part.
    ranges: Vec<Range<u32>>,
    /// Number of nodes of each part without neighbours in other parts.
    interior: Vec<u32>,
}

impl<'a> Numbering<'a> {
    fn new(mesh: &'a Mesh, inner: &[u32], graph: &Graph, part: &[u32], ranks: u32) -> Self {
        let mut order: Vec<(u32, bool, u32)> = part
            .iter()
            .zip(0..)
            .map(|(&rank, vertex)| {
                let mut neighbours = graph.neighbours(vertex);
                (rank, neighbours.any(|(other, _)| part[other as usize] != rank), vertex)
            })
            .collect();
        order.sort_unstable();
        let nodes: Vec<u32> = order.iter().map(|&(.., vertex)| inner[vertex as usize]).collect();
        let mut owner = vec![None; mesh.nodes.len()];
        let mut number = vec![u32::MAX; mesh.nodes.len()];
        let mut interior = vec![0; ranks as usize];
        for ((&(rank, is_border, _), &node), at) in order.iter().zip(&nodes).zip(0..) {
            owner[node as usize] = Some(rank);
            number[node as usize] = at;
            interior[rank as usize] += u32::from(!is_border);
        }
        let begin = |rank: u32| order.partition_point(|&(other, ..)| other < rank) as u32;
        let ranges = (0..ranks).map(|rank| begin(rank)..begin(rank + 1)).collect();
        Self { mesh, owner, number, nodes, ranges, interior }
    }

    fn owner_of_number(&self, number: u32) -> u32 {
        self.ranges.partition_point(|range| range.end <= number) as u32
    }

    /// All parts, as yet without neighbours.
    fn parts(&self) -> Vec<MeshPart> {
        let mut triangles = vec![Vec::new(); self.ranges.len()];
        for triangle in &self.mesh.triangles {
            let owners = triangle.map(|node| self.owner[node as usize]);
            for rank in owners.into_iter().flatten().collect::<BTreeSet<_>>() {
                triangles[rank as usize].push(*triangle);
            }
        }
        let mut local = vec![u32::MAX; self.mesh.nodes.len()];
        let ranks = 0..self.ranges.len() as u32;
        ranks
            .zip(triangles)
            .map(|(rank, triangles)| self.part(rank, triangles, &mut local))
            .collect()
    }

    /// The part of a rank. `local` has room for one number of each node of the mesh.
    fn part(&self, rank: u32, mut triangles: Vec<[u32; 3]>, local: &mut [u32]) -> MeshPart {
        let Range { start: first, end } = self.ranges[rank as usize].clone();
        let touched: BTreeSet<u32> = triangles.iter().flatten().copied().collect();
        let ghosts: BTreeSet<u32> = touched
            .iter()
            .filter(|&&node| self.owner[node as usize].is_some_and(|owner| owner != rank))
            .map(|&node| self.number[node as usize])
            .collect();
        let fixed = touched.iter().copied().filter(|&node| self.owner[node as usize].is_none());
        let own = (first..end).chain(ghosts.iter().copied());
        let nodes: Vec<u32> = own.map(|number| self.nodes[number as usize]).chain(fixed).collect();
        for (&node, at) in nodes.iter().zip(0..) {
            local[node as usize] = at;
        }
        triangles.iter_mut().flatten().for_each(|node| *node = local[*node as usize]);
        MeshPart {
            positions: nodes.iter().map(|&node| self.mesh.nodes[node as usize]).collect(),
            own: end - first,
            interior: self.interior[rank as usize],
            first,
            ghosts: ghosts.into_iter().collect(),
            triangles,
            neighbours: BTreeMap::new(),
        }
    }
}
