//! The points of a rank with ghosts around them, and the sweep over a region of them.
//!
//! A sweep associates its sum as `((left + right) + (up + down)) + (front + back)`, and adds the
//! source last, so the result does not depend on how the grid is cut.

use super::problem::Problem;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A box of points: a range of indices along each axis.
pub type Region = [Range<usize>; 3];

/// One face of a subdomain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Face {
    /// The axis, from 0.
    pub axis: usize,
    /// Whether it has the greatest index along its axis, not the least.
    pub is_upper: bool,
}

impl Face {
    /// The face of the neighbour that touches this one.
    pub fn opposite(self) -> Self {
        Self { is_upper: !self.is_upper, ..self }
    }

    /// The tag of messages that carry this face.
    pub fn tag(self) -> u32 {
        2 * self.axis as u32 + u32::from(self.is_upper)
    }
}

/// The points of a rank. Indices count from 0 at its own first point along each axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Subdomain {
    problem: Problem,
    /// Place of the first own point on the whole grid. The first inner point of the grid has index
    /// 1.
    first: [u32; 3],
    extents: [usize; 3],
    /// Layers of ghosts on each side: none along the axis that two dimensions do not use.
    layers: [usize; 3],
    strides: [usize; 3],
    here: Vec<f64>,
    /// The values that the sweep of this step writes. These and the sources are not sent when the
    /// rank migrates; `settle` recomputes them.
    #[serde(skip)]
    next: Vec<f64>,
    #[serde(skip)]
    source: Vec<f64>,
}

impl Subdomain {
    /// Creates the subdomain of the inner points at these places, before the first step.
    pub fn new(problem: Problem, places: &[Range<u32>; 3]) -> Self {
        let extents = [0, 1, 2].map(|axis| places[axis].len());
        let layers = [0, 1, 2].map(|axis| usize::from(axis >= problem.first_axis()));
        let shape = [0, 1, 2].map(|axis| extents[axis] + 2 * layers[axis]);
        let strides = [shape[1] * shape[2], shape[2], 1];
        let first = [0, 1, 2].map(|axis| places[axis].start);
        let (here, next, source) = (Vec::new(), Vec::new(), Vec::new());
        let mut new = Self { problem, first, extents, layers, strides, here, next, source };
        let all = shape[0] * strides[0];
        new.here = (0..all).map(|at| problem.start(new.place(at))).collect();
        new.settle();
        new
    }

    /// Recomputes what was not sent when the rank migrated: the sources, and the boundary of the
    /// next values, which no sweep writes.
    pub fn settle(&mut self) {
        if self.next.len() != self.here.len() {
            let all = 0..self.here.len();
            self.source = all.map(|at| self.problem.source(self.place(at))).collect();
            self.next = self.here.clone();
        }
    }

    /// The place on the whole grid of a point of the arrays.
    fn place(&self, at: usize) -> [u32; 3] {
        let [plane, line, _] = self.strides;
        let index = [at / plane, at % plane / line, at % line];
        [0, 1, 2].map(|axis| self.first[axis] + index[axis] as u32 - self.layers[axis] as u32)
    }

    /// All points.
    pub fn whole(&self) -> Region {
        self.extents.map(|extent| 0..extent)
    }

    /// Divides the points into an interior, which needs no ghosts of these faces, and border boxes,
    /// which need them. The boxes do not overlap, and may be empty.
    pub fn divided(&self, faces: impl Iterator<Item = Face>) -> (Region, Vec<Region>) {
        let mut interior = self.whole();
        let mut border = Vec::new();
        for Face { axis, is_upper } in faces {
            let Range { start, end } = interior[axis].clone();
            let mut slab = interior.clone();
            if start == end {
                continue;
            }
            if is_upper {
                slab[axis] = end - 1..end;
                interior[axis] = start..end - 1;
            } else {
                slab[axis] = start..start + 1;
                interior[axis] = start + 1..end;
            }
            border.push(slab);
        }
        (interior, border)
    }

    /// The points of a face, row by row.
    pub fn face(&self, face: Face) -> Vec<f64> {
        let mut points = Vec::new();
        for row in self.rows(self.slab(face, 0)) {
            points.extend_from_slice(&self.here[row]);
        }
        points
    }

    /// Replaces the ghosts beyond a face by the points of the neighbour.
    ///
    /// # Errors
    /// If the number of points is not that of the face.
    pub fn set_ghosts(&mut self, face: Face, ghosts: &[f64]) -> Result<(), String> {
        let expected: usize = self.slab(face, 1).iter().map(Range::len).product();
        if ghosts.len() != expected {
            return Err(format!("a face has {expected} points, and {} came", ghosts.len()));
        }
        let mut rest = ghosts;
        for row in self.rows(self.slab(face, 1)) {
            let (points, others) = rest.split_at(row.len());
            self.here[row].copy_from_slice(points);
            rest = others;
        }
        Ok(())
    }

    /// Computes the next values of the points of a region.
    pub fn sweep(&mut self, region: Region) {
        let [plane, line, _] = self.strides;
        let is_flat = self.problem.axes == 2;
        for row in self.rows(self.padded(region)) {
            let around = |first: usize| &self.here[first..first + row.len()];
            let (left, right) = (around(row.start - 1), around(row.start + 1));
            let (up, down) = (around(row.start - line), around(row.start + line));
            let (source, next) = (&self.source[row.clone()], &mut self.next[row.clone()]);
            if is_flat {
                for (x, next) in next.iter_mut().enumerate() {
                    let sum = (left[x] + right[x]) + (up[x] + down[x]);
                    *next = (sum + source[x]) / 4.0;
                }
            } else {
                let (front, back) = (around(row.start - plane), around(row.start + plane));
                for (x, next) in next.iter_mut().enumerate() {
                    let sum = (left[x] + right[x]) + (up[x] + down[x]) + (front[x] + back[x]);
                    *next = (sum + source[x]) / 6.0;
                }
            }
        }
    }

    /// Ends a step: the next values become the present ones.
    pub fn advance(&mut self) {
        std::mem::swap(&mut self.here, &mut self.next);
    }

    /// The largest change of a point in the last step.
    pub fn change(&self) -> f64 {
        let rows = self.rows(self.padded(self.whole()));
        let points = rows.flat_map(|row| self.here[row.clone()].iter().zip(&self.next[row]));
        points.fold(0.0, |most, (now, before)| f64::max(most, (now - before).abs()))
    }

    /// The largest error after a number of steps. A value that is not a number counts as an
    /// infinite error.
    pub fn error(&self, steps: u64) -> f64 {
        let exact = self.problem.exact(steps);
        let errors = self.points().map(|(place, value)| (value - exact(place)).abs());
        errors.map(|error| if error.is_nan() { f64::INFINITY } else { error }).fold(0.0, f64::max)
    }

    /// All points: places and values.
    pub fn points(&self) -> impl Iterator<Item = ([u32; 3], f64)> {
        let [planes, lines, _] = self.whole();
        let rows = planes.flat_map(move |z| lines.clone().map(move |y| (z, y)));
        rows.flat_map(move |(z, y)| {
            self.whole()[2].clone().map(move |x| {
                let index = [z, y, x];
                let place = [0, 1, 2].map(|axis| self.first[axis] + index[axis] as u32);
                let at: usize =
                    (0..3).map(|axis| (index[axis] + self.layers[axis]) * self.strides[axis]).sum();
                (place, self.here[at])
            })
        })
    }

    /// The points of a face or, if `beyond` is 1, the ghosts next to it, as a region in indices of
    /// the arrays.
    fn slab(&self, Face { axis, is_upper }: Face, beyond: usize) -> Region {
        let mut slab = self.padded(self.whole());
        let Range { start, end } = slab[axis].clone();
        let at = if is_upper { end - 1 + beyond } else { start - beyond };
        slab[axis] = at..at + 1;
        slab
    }

    /// A region in indices of the arrays, which have ghosts.
    fn padded(&self, region: Region) -> Region {
        let [z, y, x] = region;
        let shift = |range: Range<usize>, layers| range.start + layers..range.end + layers;
        [shift(z, self.layers[0]), shift(y, self.layers[1]), shift(x, self.layers[2])]
    }

    /// The rows of a region, as ranges of the arrays. An empty region has none.
    fn rows(&self, region: Region) -> impl Iterator<Item = Range<usize>> + use<> {
        let [plane, line, _] = self.strides;
        let [planes, lines, points] = region;
        let is_empty = points.is_empty();
        planes
            .flat_map(move |z| lines.clone().map(move |y| z * plane + y * line))
            .map(move |first| first + points.start..first + points.end)
            .filter(move |_| !is_empty)
    }
}
