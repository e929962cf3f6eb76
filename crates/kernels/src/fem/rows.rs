//! The rows of a rank, from the elements that touch its nodes.
//!
//! Elements are linear on each triangle, so gradients are constant there. The source is integrated
//! by the values at the midpoints of edges, which is exact for quadratic functions. Given values on
//! the boundary go to the right side. Elements are added in the order of the mesh, so the entries
//! do not depend on the number of ranks.

use super::part::MeshPart;
use super::problem::{Point, Problem};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The rows of the unknowns of a rank's own nodes, in compressed sparse row (CSR) format. The
/// unknowns of a node are consecutive, in the order of the nodes of the part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MatrixRows {
    /// Position of the first entry of each row, and finally the number of all entries.
    begins: Vec<usize>,
    /// The column of each entry: the number of an unknown of an own node or a ghost.
    columns: Vec<u32>,
    entries: Vec<f64>,
    /// The right side.
    pub right: Vec<f64>,
    /// A third of the area of the triangles around each own node: the weight of its error.
    pub masses: Vec<f64>,
}

/// A triangle with its area and the gradients on it.
struct Element {
    area: f64,
    /// The gradients of the shape functions of the corners.
    gradients: [Point; 3],
    corners: [Point; 3],
}

impl MatrixRows {
    /// Assembles the rows of a part.
    pub fn new(problem: Problem, part: &MeshPart) -> Self {
        let mut rows = Self::empty(problem.unknowns(), part);
        for triangle in &part.triangles {
            let element = Element::new(triangle.map(|node| part.positions[node as usize]));
            let forces = element.forces(problem);
            for corner in 0..3 {
                if triangle[corner] < part.own {
                    rows.masses[triangle[corner] as usize] += element.area / 3.0;
                    rows.add(problem, part, triangle, corner, (&element, forces[corner]));
                }
            }
        }
        rows
    }

    /// Rows of zeros.
    fn empty(unknowns: usize, part: &MeshPart) -> Self {
        let mut pairs = Vec::new();
        for triangle in &part.triangles {
            for &node in triangle.iter().filter(|&&node| node < part.own) {
                let inner = triangle.iter().filter(|&&other| (other as usize) < part.inner());
                pairs.extend(inner.map(|&other| (node, other)));
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        let (mut begins, mut columns) = (vec![0], Vec::new());
        for neighbours in pairs.chunk_by(|one, other| one.0 == other.0) {
            for _ in 0..unknowns {
                for &(_, other) in neighbours {
                    let first = other * unknowns as u32;
                    columns.extend(first..first + unknowns as u32);
                }
                begins.push(columns.len());
            }
        }
        let own = part.own as usize;
        let entries = vec![0.0; columns.len()];
        Self { begins, columns, entries, right: vec![0.0; unknowns * own], masses: vec![0.0; own] }
    }

    /// Adds the share of a triangle to the rows of one of its corners, which is an own node.
    fn add(
        &mut self,
        problem: Problem,
        part: &MeshPart,
        triangle: &[u32; 3],
        corner: usize,
        (element, force): (&Element, [f64; 2]),
    ) {
        let unknowns = problem.unknowns();
        let first = triangle[corner] as usize * unknowns;
        let rows = first..first + unknowns;
        let right = self.right[rows.clone()].iter_mut();
        right.zip(force).for_each(|(right, force)| *right += force);
        for (other, &node) in triangle.iter().enumerate() {
            let [test, trial] = [corner, other].map(|corner| element.gradients[corner]);
            let block = problem.coupling(test, trial);
            let block = block.map(|row| row.map(|entry| entry * element.area));
            if node as usize >= part.inner() {
                let given = problem.value(element.corners[other]);
                for (right, row) in self.right[rows.clone()].iter_mut().zip(block) {
                    *right -= row[0] * given[0] + row[1] * given[1];
                }
                continue;
            }
            for (row, more) in rows.clone().zip(block) {
                let row = self.begins[row]..self.begins[row + 1];
                let column = node * unknowns as u32;
                let at = row.start + self.columns[row].partition_point(|&other| other < column);
                let entries = self.entries[at..at + unknowns].iter_mut();
                entries.zip(more).for_each(|(entry, more)| *entry += more);
            }
        }
    }

    /// The entries on the diagonal.
    pub fn diagonal(&self) -> Vec<f64> {
        let on_diagonal = |row: usize| {
            let entries = self.begins[row]..self.begins[row + 1];
            let mut entries = entries.filter(|&at| self.columns[at] as usize == row);
            entries.next().map_or(0.0, |at| self.entries[at])
        };
        (0..self.right.len()).map(on_diagonal).collect()
    }

    /// Multiplies some rows with a vector. Returns the number of entries.
    pub fn multiply(&self, rows: Range<usize>, vector: &[f64], product: &mut [f64]) -> usize {
        let (first, last) = (self.begins[rows.start], self.begins[rows.end]);
        for row in rows {
            let entries = self.begins[row]..self.begins[row + 1];
            let columns = &self.columns[entries.clone()];
            let terms = self.entries[entries].iter().zip(columns);
            product[row] = terms.map(|(entry, &column)| entry * vector[column as usize]).sum();
        }
        last - first
    }
}

impl Element {
    fn new(corners: [Point; 3]) -> Self {
        let [a, b, c] = corners;
        let twice_area = (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1]);
        let gradient = |from: Point, to: Point| {
            [(from[1] - to[1]) / twice_area, (to[0] - from[0]) / twice_area]
        };
        let gradients = [gradient(b, c), gradient(c, a), gradient(a, b)];
        Self { area: 0.5 * twice_area, gradients, corners }
    }

    /// The integrals of the source times the shape function of each corner.
    fn forces(&self, problem: Problem) -> [[f64; 2]; 3] {
        let middle = |one: usize, other: usize| {
            let [one, other] = [self.corners[one], self.corners[other]];
            problem.source([0.5 * (one[0] + other[0]), 0.5 * (one[1] + other[1])])
        };
        // A shape function is 1/2 at the midpoints of two edges, and 0 at that of the third.
        let middles = [middle(1, 2), middle(2, 0), middle(0, 1)];
        [0, 1, 2].map(|corner| {
            let [one, other] = [middles[(corner + 1) % 3], middles[(corner + 2) % 3]];
            [0, 1].map(|component| self.area / 6.0 * (one[component] + other[component]))
        })
    }
}
