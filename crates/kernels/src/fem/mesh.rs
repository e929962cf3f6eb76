//! The mesh: the Delaunay triangulation of random points in the unit square.
//!
//! There is one point in each cell of a square lattice, away from the centre by up to 0.35 of the
//! cell's width along each axis, so that no triangle is very flat. Points of the lattice's outer
//! lines are on the boundary, and move along it.

use super::problem::Point;
use gridspan_topology::dice::Dice;
use spade::{DelaunayTriangulation, Point2, Triangulation};

/// The largest displacement of a point along each axis, in widths of a cell.
const JITTER: f64 = 0.35;

/// Minimum number of nodes along an axis, of which one is inside.
const SIZE_MIN: u32 = 3;

/// A mesh of the unit square.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// The position of each node.
    pub nodes: Vec<Point>,
    /// The nodes of each triangle, counter-clockwise.
    pub triangles: Vec<[u32; 3]>,
}

impl Mesh {
    /// Makes a mesh of `size * size` nodes, which a seed determines. The size is at least 3, so
    /// that a node is inside.
    ///
    /// # Errors
    /// If the size is less, or the points have no triangulation.
    pub fn new(size: u32, seed: u64) -> Result<Self, String> {
        if size < SIZE_MIN {
            return Err(format!(
                "a mesh has at least {SIZE_MIN} by {SIZE_MIN} nodes, not {size} by {size}"
            ));
        }
        let mut dice = Dice::new(seed);
        let last = size - 1;
        let mut coordinate = |index: u32| {
            let is_inside = index > 0 && index < last;
            let jitter = if is_inside { dice.between(-JITTER, JITTER) } else { 0.0 };
            (f64::from(index) + jitter) / f64::from(last)
        };
        let nodes: Vec<Point> = (0..size)
            .flat_map(|row| (0..size).map(move |column| (column, row)))
            .map(|(column, row)| [coordinate(column), coordinate(row)])
            .collect();
        let points = nodes.iter().map(|&[x, y]| Point2::new(x, y)).collect();
        let triangulation = DelaunayTriangulation::<Point2<f64>>::bulk_load_stable(points)
            .map_err(|error| format!("no triangulation of {size} by {size} points: {error}"))?;
        let triangles = triangulation
            .inner_faces()
            .map(|face| face.vertices().map(|node| node.fix().index() as u32))
            .collect();
        Ok(Self { nodes, triangles })
    }

    /// The length of the longest edge.
    pub fn longest_edge(&self) -> f64 {
        let edges = self.triangles.iter().flat_map(|&[a, b, c]| [(a, b), (b, c), (c, a)]);
        edges.map(|(from, to)| self.distance(from, to)).fold(0.0, f64::max)
    }

    fn distance(&self, from: u32, to: u32) -> f64 {
        let [from, to] = [from, to].map(|node| self.nodes[node as usize]);
        (from[0] - to[0]).hypot(from[1] - to[1])
    }
}

/// Whether a node is on the boundary of the square. Nodes there have coordinates of exactly 0 or 1.
pub fn is_on_boundary(node: Point) -> bool {
    node.iter().any(|&coordinate| coordinate == 0.0 || coordinate == 1.0)
}
