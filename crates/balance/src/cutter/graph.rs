//! The graph that is cut: weighted vertices and undirected weighted edges in compressed rows.
//!
//! petgraph has no type for this: each level of coarsening builds a graph row by row and merges
//! parallel edges meanwhile, and the search reads all neighbours of a vertex from consecutive
//! memory. petgraph's `Csr` needs edges sorted and merged beforehand, and its `Graph` keeps
//! neighbours in linked lists.

use petgraph::graph::UnGraph;
use petgraph::visit::EdgeRef;
use thiserror::Error;

/// Maximum sum of all loads, or of all edge weights, so that no sum or difference of two of them
/// overflows an `i64`.
pub const MAX_WEIGHT_SUM: u64 = 1 << 62;

/// An undirected graph. Parallel edges are merged; loops and edges without weight are left out.
///
/// `Graph::try_from` converts an undirected graph of [`petgraph`] with loads as node weights, and
/// `UnGraph::from` converts back. Vertices keep their numbers.
///
/// ```
/// use gridspan_balance::cutter::{Cutter, Graph};
/// use petgraph::graph::UnGraph;
///
/// // Two triangles and an edge between them.
/// let mut talks = UnGraph::<u64, u64>::from_edges([
///     (0, 1, 9),
///     (1, 2, 9),
///     (2, 0, 9),
///     (3, 4, 9),
///     (4, 5, 9),
///     (5, 3, 9),
///     (2, 3, 1),
/// ]);
/// talks.node_weights_mut().for_each(|load| *load = 10);
///
/// let graph = Graph::try_from(&talks)?;
/// let part = Cutter::new(2).cut(&graph)?.part;
/// assert_eq!(graph.cut(&part), 1);
///
/// let again = UnGraph::<u64, u64>::from(&graph);
/// let between = |edge: petgraph::graph::EdgeIndex| {
///     let (from, to) = again.edge_endpoints(edge).unwrap();
///     part[from.index()] != part[to.index()]
/// };
/// assert_eq!(again.edge_indices().filter(|&edge| between(edge)).count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Start of the row of each vertex, and the end of the last row.
    first: Vec<u32>,
    ends: Vec<u32>,
    weights: Vec<i64>,
    loads: Vec<i64>,
    total: i64,
}

/// Reason why a graph cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// There are more vertices or edges than 32-bit positions.
    #[error("there are {count} {what}, too many for 32-bit positions; cut a coarser graph")]
    TooMany {
        /// Name of the items: vertices or edges.
        what: &'static str,
        /// Their number.
        count: usize,
    },
    /// An edge ends at a vertex that does not exist.
    #[error("edge {edge} leads from {from} to {to}, but there are {vertices} vertices")]
    NoSuchVertex {
        /// Position of the edge in the list.
        edge: usize,
        /// One end.
        from: u32,
        /// The other end.
        to: u32,
        /// Number of vertices.
        vertices: usize,
    },
    /// A sum of weights exceeds [`MAX_WEIGHT_SUM`].
    #[error("{what} add up to more than 2^62; divide them all by a constant")]
    TooHeavy {
        /// Name of the weights.
        what: &'static str,
    },
}

impl Graph {
    /// Makes a graph from the loads of its vertices and its edges `(one end, other end, weight)`,
    /// in any order and direction.
    ///
    /// # Errors
    ///
    /// [`GraphError`] if an edge ends at no vertex, there are too many vertices or edges, or their
    /// weights add up to too much.
    pub fn new(loads: &[u64], edges: &[(u32, u32, u64)]) -> Result<Self, GraphError> {
        let vertices = loads.len();
        if vertices >= u32::MAX as usize {
            return Err(GraphError::TooMany { what: "vertices", count: vertices });
        }
        if edges.len() >= u32::MAX as usize / 2 {
            return Err(GraphError::TooMany { what: "edges", count: edges.len() });
        }
        checked_sum(edges.iter().map(|edge| edge.2), "the weights of the edges")?;
        let total = checked_sum(loads.iter().copied(), "the loads")?;
        let mut first = vec![0_u32; vertices + 1];
        for (edge, &(from, to, _)) in edges.iter().enumerate() {
            if from.max(to) as usize >= vertices {
                return Err(GraphError::NoSuchVertex { edge, from, to, vertices });
            }
            first[from as usize + 1] += 1;
            first[to as usize + 1] += 1;
        }
        for vertex in 0..vertices {
            first[vertex + 1] += first[vertex];
        }
        let mut next = first.clone();
        let half_edges = first[vertices] as usize;
        let (mut ends, mut weights) = (vec![0; half_edges], vec![0; half_edges]);
        for &(from, to, weight) in edges {
            for (begin, end) in [(from, to), (to, from)] {
                let at = &mut next[begin as usize];
                (ends[*at as usize], weights[*at as usize]) = (end, weight as i64);
                *at += 1;
            }
        }
        let mut rows = Rows::new(vertices, half_edges);
        for vertex in 0..vertices {
            let row = first[vertex] as usize..first[vertex + 1] as usize;
            for (&end, &weight) in ends[row.clone()].iter().zip(&weights[row]) {
                if end as usize != vertex && weight > 0 {
                    rows.add(end, weight);
                }
            }
            rows.close();
        }
        Ok(rows.into_graph(loads.iter().map(|&load| load as i64).collect(), total))
    }

    /// Returns the number of vertices.
    pub fn len(&self) -> usize {
        self.loads.len()
    }

    /// Returns whether there is no vertex.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// Returns the number of edges, each counted once.
    pub fn edge_count(&self) -> usize {
        self.ends.len() / 2
    }

    /// Returns the load of a vertex. Panics if the vertex does not exist.
    #[inline]
    pub fn load(&self, vertex: u32) -> i64 {
        self.loads[vertex as usize]
    }

    /// Returns the loads of all vertices, in order.
    pub fn loads(&self) -> &[i64] {
        &self.loads
    }

    /// Returns the sum of all loads.
    pub fn total_load(&self) -> i64 {
        self.total
    }

    /// Returns the number of neighbours of a vertex. Panics if the vertex does not exist.
    #[inline]
    pub fn degree(&self, vertex: u32) -> usize {
        (self.first[vertex as usize + 1] - self.first[vertex as usize]) as usize
    }

    /// Returns the neighbours of a vertex, each with the weight of the edge. Panics if the vertex
    /// does not exist.
    #[inline]
    pub fn neighbours(&self, vertex: u32) -> impl Iterator<Item = (u32, i64)> + Clone + '_ {
        let row = self.first[vertex as usize] as usize..self.first[vertex as usize + 1] as usize;
        self.ends[row.clone()].iter().copied().zip(self.weights[row].iter().copied())
    }

    /// Returns the weight of the edges between different parts. Panics if `part` is too short.
    pub fn cut(&self, part: &[u32]) -> u64 {
        let of = |vertex: u32| {
            let here = part[vertex as usize];
            let later = self.neighbours(vertex).filter(move |&(end, _)| end > vertex);
            later
                .filter(|&(end, _)| part[end as usize] != here)
                .map(|(_, weight)| weight)
                .sum::<i64>()
        };
        (0..self.len() as u32).map(of).sum::<i64>() as u64
    }

    /// Returns the graph of some of the vertices, in the order given, and the edges between them.
    /// Panics if a vertex does not exist.
    pub fn induced(&self, vertices: &[u32]) -> Self {
        let mut position = vec![u32::MAX; self.len()];
        for (at, &vertex) in vertices.iter().enumerate() {
            position[vertex as usize] = at as u32;
        }
        let half_edges = vertices.iter().map(|&vertex| self.degree(vertex)).sum();
        let mut rows = Rows::new(vertices.len(), half_edges);
        for &vertex in vertices {
            for (end, weight) in self.neighbours(vertex) {
                if position[end as usize] != u32::MAX {
                    rows.add(position[end as usize], weight);
                }
            }
            rows.close();
        }
        let loads: Vec<i64> = vertices.iter().map(|&vertex| self.load(vertex)).collect();
        let total = loads.iter().sum();
        rows.into_graph(loads, total)
    }

    /// Returns the same graph with a load of 1 for each vertex.
    pub(super) fn counting_vertices(&self) -> Self {
        Self { loads: vec![1; self.len()], total: self.len() as i64, ..self.clone() }
    }
}

impl TryFrom<&UnGraph<u64, u64>> for Graph {
    type Error = GraphError;

    fn try_from(graph: &UnGraph<u64, u64>) -> Result<Self, GraphError> {
        let loads: Vec<u64> = graph.node_weights().copied().collect();
        let edges = graph.edge_references().map(|edge| {
            (edge.source().index() as u32, edge.target().index() as u32, *edge.weight())
        });
        Self::new(&loads, &edges.collect::<Vec<_>>())
    }
}

impl From<&Graph> for UnGraph<u64, u64> {
    fn from(graph: &Graph) -> Self {
        let mut copy = Self::with_capacity(graph.len(), graph.edge_count());
        for &load in graph.loads() {
            copy.add_node(load as u64);
        }
        for from in 0..graph.len() as u32 {
            let later = graph.neighbours(from).filter(|&(to, _)| to > from);
            copy.extend_with_edges(later.map(|(to, weight)| (from, to, weight as u64)));
        }
        copy
    }
}

/// Returns the sum, if it is at most [`MAX_WEIGHT_SUM`].
pub(super) fn checked_sum(
    weights: impl Iterator<Item = u64>,
    what: &'static str,
) -> Result<i64, GraphError> {
    let add = |sum: u64, weight| sum.checked_add(weight).filter(|&sum| sum <= MAX_WEIGHT_SUM);
    let mut weights = weights;
    let sum = weights.try_fold(0_u64, add).ok_or(GraphError::TooHeavy { what })?;
    Ok(sum as i64)
}

/// Builds a graph row by row; edges to the same vertex within a row are merged.
pub(super) struct Rows {
    first: Vec<u32>,
    ends: Vec<u32>,
    weights: Vec<i64>,
    /// Position of the edge to each vertex. Valid for the current row if it is at or after the
    /// beginning of the row and not `u32::MAX`.
    slot: Vec<u32>,
}

impl Rows {
    pub(super) fn new(vertices: usize, half_edges: usize) -> Self {
        let mut first = Vec::with_capacity(vertices + 1);
        first.push(0);
        Self {
            first,
            ends: Vec::with_capacity(half_edges),
            weights: Vec::with_capacity(half_edges),
            slot: vec![u32::MAX; vertices],
        }
    }

    /// Adds an edge from the vertex of the present row.
    #[inline]
    pub(super) fn add(&mut self, end: u32, weight: i64) {
        let begin = self.first[self.first.len() - 1];
        let slot = self.slot[end as usize];
        // A slot set by an earlier row is less than `begin`; the slot of a vertex without an edge
        // is `u32::MAX`.
        if slot >= begin && slot != u32::MAX {
            self.weights[slot as usize] += weight;
        } else {
            self.slot[end as usize] = self.ends.len() as u32;
            self.ends.push(end);
            self.weights.push(weight);
        }
    }

    /// Ends the present row.
    pub(super) fn close(&mut self) {
        self.first.push(self.ends.len() as u32);
    }

    pub(super) fn into_graph(self, loads: Vec<i64>, total: i64) -> Graph {
        Graph { first: self.first, ends: self.ends, weights: self.weights, loads, total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parallel_edges_merge_and_loops_vanish() {
        let graph = Graph::new(&[1, 2, 3], &[(0, 1, 5), (1, 0, 2), (2, 2, 9), (1, 2, 0)]).unwrap();

        assert_eq!(graph.edge_count(), 1);
        assert_eq!(graph.neighbours(1).collect::<Vec<_>>(), [(0, 7)]);
        assert_eq!(graph.degree(2), 0);
        assert_eq!(graph.total_load(), 6);
        assert_eq!(graph.cut(&[0, 1, 1]), 7);
    }

    #[test]
    fn a_graph_of_petgraph_and_back_has_the_same_loads_and_weights() {
        let mut given = UnGraph::<u64, u64>::from_edges([(2, 0, 5), (0, 2, 2), (1, 1, 9)]);
        given.node_weights_mut().zip([4, 0, 6]).for_each(|(weight, load)| *weight = load);

        let graph = Graph::try_from(&given).unwrap();

        assert_eq!(graph, Graph::new(&[4, 0, 6], &[(0, 2, 7)]).unwrap());
        let back = UnGraph::<u64, u64>::from(&graph);
        assert_eq!(back.edge_count(), 1);
        assert_eq!(Graph::try_from(&back), Ok(graph));
    }

    #[test]
    fn missing_vertices_and_excessive_weights_are_refused() {
        assert_eq!(
            Graph::new(&[1, 1], &[(0, 1, 1), (0, 2, 1)]),
            Err(GraphError::NoSuchVertex { edge: 1, from: 0, to: 2, vertices: 2 })
        );
        assert_eq!(Graph::new(&[1 << 62, 1], &[]), Err(GraphError::TooHeavy { what: "the loads" }));
        assert!(matches!(
            Graph::new(&[1, 1], &[(0, 1, u64::MAX), (0, 1, 2)]),
            Err(GraphError::TooHeavy { .. })
        ));
    }
}
