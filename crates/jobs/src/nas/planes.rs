//! One level of a periodic cubic grid, of which each rank has some planes.

use super::share::Shares;
use gridspan_ranks::{Comm, RankError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// The planes of a rank, and copies of others that it needs for a step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Planes {
    /// Number of points along each axis.
    pub(super) extent: usize,
    pub(super) own: Range<u32>,
    /// The own planes, one after the other, each by `y` and `x`.
    pub(super) values: Vec<f64>,
    /// Planes of other ranks, by their number. Each step fetches its own.
    #[serde(skip)]
    copies: BTreeMap<u32, Vec<f64>>,
}

impl Planes {
    /// Zeros.
    pub(super) fn new(extent: usize, own: Range<u32>) -> Self {
        let values = vec![0.0; own.len() * extent * extent];
        Self { extent, own, values, copies: BTreeMap::new() }
    }

    /// Sets all own points to zero.
    pub(super) fn clear(&mut self) {
        self.values.fill(0.0);
    }

    /// Drops all own points and copies.
    pub(super) fn forget(&mut self) {
        (self.values, self.copies) = (Vec::new(), BTreeMap::new());
    }

    /// Makes sure that there are own points: zeros, if they were dropped.
    pub(super) fn ensure(&mut self) {
        self.values.resize(self.own.len() * self.size(), 0.0);
    }

    fn size(&self) -> usize {
        self.extent * self.extent
    }

    fn wrapped(&self, plane: i64) -> u32 {
        plane.rem_euclid(self.extent as i64) as u32
    }

    /// A plane: an own one, or one that was [fetched](Self::fetch). The grid wraps around.
    pub(super) fn plane(&self, plane: i64) -> &[f64] {
        let plane = self.wrapped(plane);
        if self.own.contains(&plane) {
            let begin = (plane - self.own.start) as usize * self.size();
            return &self.values[begin..begin + self.size()];
        }
        self.copies.get(&plane).map_or(&[], Vec::as_slice)
    }

    /// Fetches the planes that this rank needs, and sends others those that they need. `needs`
    /// returns the planes that a rank needs. They may include its own, and numbers beyond the
    /// borders, which wrap around.
    pub(super) async fn fetch(
        &mut self,
        world: &Comm,
        needs: impl Fn(u32) -> Range<i64>,
    ) -> Result<(), RankError> {
        let (me, ranks) = (world.rank(), world.size());
        let shares = Shares { count: self.extent as u32, ranks };
        self.copies.clear();
        let mut sends = Vec::new();
        // A rank that needs such a plane mostly has planes next to it; but on coarse levels any
        // rank may.
        for other in (0..ranks).filter(|other| *other != me) {
            let mine: Vec<f64> = self
                .numbers(needs(other))
                .into_iter()
                .filter(|plane| self.own.contains(plane))
                .flat_map(|plane| self.plane(i64::from(plane)).to_vec())
                .collect();
            if !mine.is_empty() {
                sends.push(world.isend_vec(mine, other, 0)?);
            }
        }
        let mut wanted: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for plane in self.numbers(needs(me)) {
            let owner = shares.owner(plane);
            if owner != me {
                wanted.entry(owner).or_default().push(plane);
            }
        }
        // All begin to arrive at once: long ones are sent when they are asked for.
        let arriving = wanted.keys().map(|owner| world.irecv::<f64>(*owner, 0));
        let arriving = arriving.collect::<Result<Vec<_>, _>>()?;
        let arrived = gridspan_ranks::wait_all(arriving).await?;
        for (planes, (values, _)) in wanted.into_values().zip(arrived) {
            for (plane, values) in planes.into_iter().zip(values.chunks_exact(self.size())) {
                self.copies.insert(plane, values.to_vec());
            }
        }
        gridspan_ranks::wait_all(sends).await?;
        Ok(())
    }

    /// Fetches the planes next to the own ones.
    pub(super) async fn fetch_halo(&mut self, world: &Comm) -> Result<(), RankError> {
        let shares = Shares { count: self.extent as u32, ranks: world.size() };
        self.fetch(world, |rank| {
            let own = shares.of(rank);
            match own.is_empty() {
                true => 0..0,
                false => i64::from(own.start) - 1..i64::from(own.end) + 1,
            }
        })
        .await
    }

    /// The numbers of planes, each once, in their order.
    fn numbers(&self, planes: Range<i64>) -> Vec<u32> {
        let mut numbers: Vec<u32> = planes.map(|plane| self.wrapped(plane)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// For each point of a row: the point, the sum of the four adjacent points outside of the row,
    /// and that of the four diagonal ones. All three have one more point at each end, which wraps
    /// around.
    pub(super) fn around(&self, plane: i64, row: usize, sums: &mut Around) {
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

/// Sums around the points of a row, which begin at 1 and wrap around at both ends.
pub(super) struct Around {
    /// The points themselves.
    pub(super) center: Vec<f64>,
    pub(super) faces: Vec<f64>,
    pub(super) edges: Vec<f64>,
}

impl Around {
    pub(super) fn new(extent: usize) -> Self {
        let row = || vec![0.0; extent + 2];
        Self { center: row(), faces: row(), edges: row() }
    }

    /// Sums over the 27 points around a point of the row, by distance: itself, the 6 next to it,
    /// the 12 at edges and the 8 at corners.
    pub(super) fn shells(&self, at: usize) -> [f64; 4] {
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
