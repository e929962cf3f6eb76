//! Object graphs of known kinds.

use crate::cutter::{Graph, GraphError};
use gridspan_topology::dice::Dice;

/// Loads in microseconds and edges `(one end, other end, messages per step)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectGraph {
    /// The load of each object.
    pub loads: Vec<u64>,
    /// Each pair of objects that talk, once.
    pub edges: Vec<(u32, u32, u64)>,
}

impl ObjectGraph {
    /// The graph for the cutter.
    pub fn graph(&self) -> Result<Graph, GraphError> {
        Graph::new(&self.loads, &self.edges)
    }
}

/// LeanMD (paper 1, section 4.2): a periodic box of `side`³ cells and, for each cell and each pair
/// of neighbouring cells, an object that computes the forces: 15 `side`³ objects. `side` is at
/// least 3; 6, 19 and 41 are 3,240, 102,885 and 1,033,815 objects. A cell sends positions and gets
/// forces back: two messages for each pair and step. The density varies smoothly by a factor of
/// about two, and cells by 10 % more.
///
/// All loads add up to 14 s of microseconds for 3,240 objects, as in the paper, and in proportion.
pub fn leanmd(side: u32, seed: u64) -> ObjectGraph {
    drifted_leanmd(side, seed, 0.0)
}

/// The same after the dense places have drifted by so many cells along all three axes.
pub fn drifted_leanmd(side: u32, seed: u64, cells_drifted: f64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let cells = side * side * side;
    let at = |x: u32, y: u32, z: u32| (x % side * side + y % side) * side + z % side;
    let turn = std::f64::consts::TAU / f64::from(side);
    let phase = [dice.unit(), dice.unit(), dice.unit()]
        .map(|part| part * std::f64::consts::TAU - cells_drifted * turn);
    let mut atoms = vec![0.0; cells as usize];
    let places = || (0..side).flat_map(move |x| (0..side).map(move |y| (x, y)));
    let places = || places().flat_map(move |(x, y)| (0..side).map(move |z| (x, y, z)));
    for (x, y, z) in places() {
        let wave = (f64::from(x) * turn + phase[0]).sin()
            + (f64::from(y) * turn + phase[1]).sin()
            + (f64::from(z) * turn + phase[2]).sin();
        atoms[at(x, y, z) as usize] = (1.0 + wave / 9.0) * (0.95 + 0.1 * dice.unit());
    }
    let mut loads: Vec<f64> = atoms.iter().map(|atoms| 0.2 * atoms).collect();
    let mut edges = Vec::new();
    for (x, y, z) in places() {
        let here = at(x, y, z);
        for step in 13..27_u32 {
            let (dx, dy, dz) = (step / 9, step / 3 % 3, step % 3);
            let there = at(x + side + dx - 1, y + side + dy - 1, z + side + dz - 1);
            let pair = loads.len() as u32;
            let distance = dx.abs_diff(1) + dy.abs_diff(1) + dz.abs_diff(1);
            // Corners have fewer atoms within the cutoff than faces.
            let near = [0.5, 1.0, 0.7, 0.5][distance as usize];
            loads.push(near * atoms[here as usize] * atoms[there as usize]);
            edges.push((here, pair, 2));
            if there != here {
                edges.push((there, pair, 2));
            }
        }
    }
    let sum: f64 = loads.iter().sum();
    let all = 14e6 * f64::from(cells) / 216.0;
    let loads = loads.iter().map(|load| (load / sum * all).round().max(1.0) as u64).collect();
    ObjectGraph { loads, edges }
}

/// A grid of `width` by `height` objects of load 1000 that talk to their four neighbours.
pub fn grid_2d(width: u32, height: u32) -> ObjectGraph {
    let mut edges = Vec::new();
    for (x, y) in (0..width).flat_map(|x| (0..height).map(move |y| (x, y))) {
        let here = x * height + y;
        if y + 1 < height {
            edges.push((here, here + 1, 1));
        }
        if x + 1 < width {
            edges.push((here, here + height, 1));
        }
    }
    ObjectGraph { loads: vec![1000; (width * height) as usize], edges }
}

/// A cube of `side`³ objects of load 1000 that talk to their six neighbours.
pub fn grid_3d(side: u32) -> ObjectGraph {
    let mut edges = Vec::new();
    for here in 0..side * side * side {
        for stride in [1, side, side * side] {
            if here / stride % side + 1 < side {
                edges.push((here, here + stride, 1));
            }
        }
    }
    ObjectGraph { loads: vec![1000; (side * side * side) as usize], edges }
}

/// A triangulated square of `side`² points, each square cut along one diagonal drawn by dice:
/// planar with six neighbours on average, as Delaunay triangulations are.
pub fn triangulation(side: u32, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let mut grid = grid_2d(side, side);
    for (x, y) in (0..side - 1).flat_map(|x| (0..side - 1).map(move |y| (x, y))) {
        let here = x * side + y;
        grid.edges.push(if dice.unit() < 0.5 {
            (here, here + side + 1, 1)
        } else {
            (here + 1, here + side, 1)
        });
    }
    grid
}

/// A random geometric graph: points in the unit square that talk to all within a radius that gives
/// them `degree` neighbours on average. Points are numbered cell by cell.
pub fn geometric(points: u32, degree: f64, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let radius = (degree / std::f64::consts::PI / f64::from(points)).sqrt();
    let cells = (1.0 / radius).floor().max(1.0) as usize;
    let cell = |x: f64| ((x * cells as f64) as usize).min(cells - 1);
    let mut places: Vec<(f64, f64)> = (0..points).map(|_| (dice.unit(), dice.unit())).collect();
    places.sort_by(|a, b| {
        let key = |p: &(f64, f64)| (cell(p.0), cell(p.1));
        key(a).cmp(&key(b)).then(a.0.total_cmp(&b.0))
    });
    let mut first = vec![0; cells * cells + 1];
    places.iter().for_each(|&(x, y)| first[cell(x) * cells + cell(y) + 1] += 1);
    (0..cells * cells).for_each(|at| first[at + 1] += first[at]);
    let mut edges = Vec::new();
    for (here, &(x, y)) in places.iter().enumerate() {
        let (column, row) = (cell(x), cell(y));
        for near_column in column.saturating_sub(1)..=(column + 1).min(cells - 1) {
            let from = first[near_column * cells + row.saturating_sub(1)];
            let to = first[near_column * cells + (row + 1).min(cells - 1) + 1];
            for (there, &(a, b)) in places.iter().enumerate().take(to).skip(from.max(here + 1)) {
                if (a - x).hypot(b - y) <= radius {
                    edges.push((here as u32, there as u32, 1));
                }
            }
        }
    }
    ObjectGraph { loads: vec![1000; points as usize], edges }
}

/// A graph with hubs: each new object talks to `degree` others, drawn in proportion to how many
/// these talk to (Barabási and Albert, 1999). `degree` is at least 1.
pub fn skewed(objects: u32, degree: u32, seed: u64) -> ObjectGraph {
    let mut dice = Dice::new(seed);
    let mut ends: Vec<u32> = vec![0];
    let mut edges = Vec::new();
    for object in 1..objects {
        for _ in 0..degree.min(object) {
            let other = dice.one_of(&ends);
            edges.push((object, other, 1));
            ends.push(other);
        }
        ends.extend((0..degree).map(|_| object));
    }
    ObjectGraph { loads: vec![1000; objects as usize], edges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leanmd_has_the_objects_and_messages_of_the_paper() {
        let md = leanmd(6, 1);

        assert_eq!(md.loads.len(), 3240);
        assert_eq!(md.edges.len(), 27 * 216);
        let all: u64 = md.loads.iter().sum();
        assert!(all.abs_diff(14_000_000) < 14_000, "{all} µs");
    }

    #[test]
    fn the_planar_cut_of_leanmd_is_1296_messages() {
        // Two planes of 36 cells; 9 pairs of each reach over, with two messages.
        let md = leanmd(6, 2);
        let mut part: Vec<u32> = (0..216).map(|cell| u32::from(cell / 36 >= 3)).collect();
        part.extend((0..3024).map(|pair| u32::from(pair / 14 / 36 >= 3)));

        assert_eq!(md.graph().unwrap().cut(&part), 1296);
    }

    #[test]
    fn meshes_have_the_neighbours_they_should() {
        assert_eq!(grid_2d(10, 20).edges.len(), 9 * 20 + 10 * 19);
        assert_eq!(grid_3d(5).edges.len(), 3 * 4 * 25);
        assert_eq!(triangulation(10, 1).edges.len(), 2 * 90 + 81);
        let mean = 2.0 * geometric(10_000, 8.0, 1).edges.len() as f64 / 10_000.0;
        assert!((7.0..8.5).contains(&mean), "{mean} neighbours");
        assert_eq!(skewed(100, 2, 1).edges.len(), 1 + 2 * 98);
    }
}
