//! One level of a periodic cubic grid, of which each rank has some planes.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The planes of a rank, and copies of others that it needs for a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Planes {
    /// Number of points along each axis.
    pub extent: usize,
    /// The numbers of the own planes.
    pub own: Range<u32>,
    /// The own planes, one after the other, each by `y` and `x`.
    pub values: Vec<f64>,
    /// Planes of other ranks, by number. Each step fetches the copies that it needs.
    #[serde(skip)]
    copies: BTreeMap<u32, Vec<f64>>,
}

impl Planes {
    /// Creates planes of zeros.
    pub fn new(extent: usize, own: Range<u32>) -> Self {
        let values = vec![0.0; own.len() * extent * extent];
        Self { extent, own, values, copies: BTreeMap::new() }
    }

    /// Sets all own points to zero.
    pub fn clear(&mut self) {
        self.values.fill(0.0);
    }

    /// Drops all own points and copies.
    pub fn forget(&mut self) {
        (self.values, self.copies) = (Vec::new(), BTreeMap::new());
    }

    /// Creates the own points, as zeros, if they were dropped.
    pub fn ensure(&mut self) {
        self.values.resize(self.own.len() * self.size(), 0.0);
    }

    fn size(&self) -> usize {
        self.extent * self.extent
    }

    fn wrapped(&self, plane: i64) -> u32 {
        plane.rem_euclid(self.extent as i64) as u32
    }

    /// An own plane, or the [copy](Self::keep_copies) of another one; empty if there is no copy.
    /// The number wraps around.
    pub fn plane(&self, plane: i64) -> &[f64] {
        let plane = self.wrapped(plane);
        if self.own.contains(&plane) {
            let begin = (plane - self.own.start) as usize * self.size();
            return &self.values[begin..begin + self.size()];
        }
        self.copies.get(&plane).map_or(&[], Vec::as_slice)
    }

    /// The own planes among these, one after the other. Numbers beyond the borders wrap around.
    pub fn own_among(&self, planes: Range<i64>) -> Vec<f64> {
        let numbers = self.numbers(planes).into_iter().filter(|plane| self.own.contains(plane));
        let mut values = Vec::new();
        for plane in numbers {
            values.extend_from_slice(self.plane(i64::from(plane)));
        }
        values
    }

    /// Drops the copies of planes of other ranks.
    pub fn drop_copies(&mut self) {
        self.copies.clear();
    }

    /// Keeps copies of planes of another rank, whose values are one after the other.
    pub fn keep_copies(&mut self, planes: &[u32], values: &[f64]) {
        for (plane, values) in planes.iter().zip(values.chunks_exact(self.size())) {
            self.copies.insert(*plane, values.to_vec());
        }
    }

    /// The numbers of planes, each once, ascending. Numbers beyond the borders wrap around.
    pub fn numbers(&self, planes: Range<i64>) -> Vec<u32> {
        let mut numbers: Vec<u32> = planes.map(|plane| self.wrapped(plane)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Fills `sums` with three values for each point of a row: the point, the sum of the four
    /// adjacent points outside of the row, and that of the four diagonal ones. All three have one
    /// more point at each end, which wraps around.
    pub fn around(&self, plane: i64, row: usize, sums: &mut Around) {
        let extent = self.extent;
        let (above, below) = ((row + 1) % extent, (row + extent - 1) % extent);
        let row_of = |plane: i64, row: usize| &self.plane(plane)[row * extent..(row + 1) * extent];
        let faces = [(plane - 1, row), (plane + 1, row), (plane, below), (plane, above)];
        let edges =
            [(plane - 1, below), (plane - 1, above), (plane + 1, below), (plane + 1, above)];
        let faces = faces.map(|(plane, row)| row_of(plane, row));
        let edges = edges.map(|(plane, row)| row_of(plane, row));
        let center = row_of(plane, row);
        for at in 0..extent {
            sums.center[at + 1] = center[at];
            sums.faces[at + 1] = faces[0][at] + faces[1][at] + faces[2][at] + faces[3][at];
            sums.edges[at + 1] = edges[0][at] + edges[1][at] + edges[2][at] + edges[3][at];
        }
        for row in [&mut sums.center, &mut sums.faces, &mut sums.edges] {
            (row[0], row[extent + 1]) = (row[extent], row[1]);
        }
    }
}

/// Sums around the points of a row. Point `x` has index `x + 1`. The first element repeats that of
/// the last point, and the last one that of the first point.
pub struct Around {
    /// The points themselves.
    pub center: Vec<f64>,
    /// Sums of the four adjacent points outside of the row.
    pub faces: Vec<f64>,
    /// Sums of the four diagonal points.
    pub edges: Vec<f64>,
}

impl Around {
    /// Creates sums of zero, for rows of `extent` points.
    pub fn new(extent: usize) -> Self {
        let row = || vec![0.0; extent + 2];
        Self { center: row(), faces: row(), edges: row() }
    }

    /// Sums over the 27 points around a point of the row, by distance: itself, the 6 next to it,
    /// the 12 at edges and the 8 at corners.
    pub fn shells(&self, at: usize) -> [f64; 4] {
        let at = at + 1;
        [
            self.center[at],
            self.center[at - 1] + self.center[at + 1] + self.faces[at],
            self.faces[at - 1] + self.faces[at + 1] + self.edges[at],
            self.edges[at - 1] + self.edges[at + 1],
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_have_1_6_12_and_8_points_and_wrap_around() {
        let mut planes = Planes::new(4, 0..4);
        let mut sums = Around::new(4);
        for (point, shell) in [([1, 1, 1], 0), ([1, 1, 2], 1), ([0, 1, 2], 2), ([0, 0, 2], 3)] {
            planes.clear();
            let [z, y, x] = point;
            planes.values[(z * 4 + y) * 4 + x] = 1.0;
            let mut found = [0.0; 4];
            planes.around(1, 1, &mut sums);
            found[shell] = 1.0;
            assert_eq!(sums.shells(1), found);
        }
        planes.values.fill(1.0);
        planes.around(3, 0, &mut sums);
        assert_eq!(sums.shells(3), [1.0, 6.0, 12.0, 8.0]);
    }
}
