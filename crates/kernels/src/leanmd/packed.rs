//! The atoms of a cell that can reach another cell, sorted and packed for the pair kernel.
//!
//! Packing costs time linear in the atoms (and a short sort) and avoids most of the quadratic part:
//!
//! - *Cull.* Atoms farther than the cutoff from the other cell's bounding box are left out.
//!   Rounding is monotone, and the squared distance to the box is summed in the same order as that
//!   of a pair in the kernel, so this leaves out no atom that the kernel would find within the
//!   cutoff.
//! - *Sort* along the line between the two cells, so that the atoms within reach of an atom are a
//!   prefix. Source: Gonnet, "A simple algorithm to accelerate the computation of non-bonded
//!   interactions in cell-based molecular dynamics simulations", 2007.

use super::lanes::{LANES, Lanes};
use super::vectors::Vectors;

/// A coordinate for the unused lanes of the last group. It is beyond every cutoff, and its square
/// is finite.
const NOWHERE: Lanes = Lanes([1e150; LANES]);

/// Share of the cutoff that is added to the reach along the line, to compensate the rounding of the
/// projection. It costs nothing, and exceeds the rounding if a cell is smaller than a hundred
/// thousand cutoffs.
const REACH_SLACK: f64 = 1e-9;

/// Positions of the atoms in one vector, and the forces on them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) x: Lanes,
    pub(crate) y: Lanes,
    pub(crate) z: Lanes,
    pub(crate) fx: Lanes,
    pub(crate) fy: Lanes,
    pub(crate) fz: Lanes,
}

impl Group {
    const EMPTY: Self = Self {
        x: NOWHERE,
        y: NOWHERE,
        z: NOWHERE,
        fx: Lanes::ZERO,
        fy: Lanes::ZERO,
        fz: Lanes::ZERO,
    };
}

/// Selected atoms of a cell, in groups. `keys` ascend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packed {
    /// Position of each atom along the line, and its index in the cell.
    keys: Vec<(f64, u32)>,
    pub(crate) groups: Vec<Group>,
}

/// The line along which atoms are sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    origin: [f64; 3],
    direction: [f64; 3],
}

impl Packed {
    /// Number of packed atoms.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Packs the atoms, moved by `shift`, that are closer than the cutoff to `other`, in the order
    /// of `line`.
    pub(crate) fn pack(
        &mut self,
        atoms: &Vectors,
        shift: [f64; 3],
        other: &Bounds,
        cutoff: f64,
        line: Line,
    ) {
        let (x, y, z) = (atoms.x(), atoms.y(), atoms.z());
        let at = |index: usize| [x[index] + shift[0], y[index] + shift[1], z[index] + shift[2]];
        let cutoff_squared = cutoff * cutoff;
        self.keys.clear();
        self.keys.resize(atoms.len(), (0.0, 0));
        let mut kept = 0;
        for index in 0..atoms.len() {
            let position = at(index);
            // Always written, and kept only if near: a branch here would be mispredicted half of
            // the time.
            self.keys[kept] = (line.place(position), index as u32);
            kept += usize::from(other.distance_squared(position) < cutoff_squared);
        }
        self.keys.truncate(kept);
        self.keys.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.groups.clear();
        self.groups.resize(kept.div_ceil(LANES), Group::EMPTY);
        for (group, keys) in self.groups.iter_mut().zip(self.keys.chunks(LANES)) {
            for (lane, &(_, index)) in keys.iter().enumerate() {
                let [x, y, z] = at(index as usize);
                (group.x.0[lane], group.y.0[lane], group.z.0[lane]) = (x, y, z);
            }
        }
    }

    /// Returns the number of the first group, from `end` on, that starts beyond the reach of atom
    /// number `of` in `from`. The reach is the cutoff along the line.
    pub(crate) fn advance(&self, mut end: usize, from: &Packed, of: usize, cutoff: f64) -> usize {
        let reach = from.keys[of].0 + cutoff * (1.0 + REACH_SLACK);
        while end < self.groups.len() && self.keys[end * LANES].0 < reach {
            end += 1;
        }
        end
    }

    /// Adds the forces on the packed atoms to those of the cell's atoms.
    pub(crate) fn add_forces_to(&self, forces: &mut Vectors) {
        for (group, keys) in self.groups.iter().zip(self.keys.chunks(LANES)) {
            for (lane, &(_, index)) in keys.iter().enumerate() {
                forces
                    .add_at(index as usize, [group.fx.0[lane], group.fy.0[lane], group.fz.0[lane]]);
            }
        }
    }
}

/// The bounding box of a set of atoms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    low: [f64; 3],
    high: [f64; 3],
}

impl Bounds {
    /// Returns the box around `atoms` moved by `shift`; `None` without atoms.
    pub(crate) fn of(atoms: &Vectors, shift: [f64; 3]) -> Option<Self> {
        if atoms.is_empty() {
            return None;
        }
        let axes = [atoms.x(), atoms.y(), atoms.z()];
        let extreme = |start, choose: fn(f64, f64) -> f64| {
            std::array::from_fn(|axis| axes[axis].iter().copied().fold(start, choose) + shift[axis])
        };
        Some(Self {
            low: extreme(f64::INFINITY, f64::min),
            high: extreme(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Returns a line through a corner of this box, in the direction from the middle of this box to
    /// the middle of `other`; along the longest edge if both coincide.
    pub(crate) fn line_to(&self, other: &Bounds) -> Line {
        let apart: [f64; 3] = std::array::from_fn(|axis| {
            other.low[axis] + other.high[axis] - self.low[axis] - self.high[axis]
        });
        let length = (apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2]).sqrt();
        let direction =
            if length > 0.0 { apart.map(|axis| axis / length) } else { self.longest_edge() };
        Line { origin: self.low, direction }
    }

    fn longest_edge(&self) -> [f64; 3] {
        let edge: [f64; 3] = std::array::from_fn(|axis| self.high[axis] - self.low[axis]);
        if edge[0] >= edge[1] && edge[0] >= edge[2] {
            [1.0, 0.0, 0.0]
        } else if edge[1] >= edge[2] {
            [0.0, 1.0, 0.0]
        } else {
            [0.0, 0.0, 1.0]
        }
    }

    /// Returns the squared distance from a point to the box, summed in the same order as the
    /// squared distance of a pair of atoms.
    fn distance_squared(&self, point: [f64; 3]) -> f64 {
        let [dx, dy, dz] = std::array::from_fn(|axis| {
            (self.low[axis] - point[axis]).max(point[axis] - self.high[axis]).max(0.0)
        });
        dx * dx + dy * dy + dz * dz
    }
}

impl Line {
    /// Returns the position of a point along the line.
    fn place(self, point: [f64; 3]) -> f64 {
        let [x, y, z]: [f64; 3] =
            std::array::from_fn(|axis| (point[axis] - self.origin[axis]) * self.direction[axis]);
        x + y + z
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_near_the_other_cell_are_packed_and_sorted() {
        let near: Vectors =
            [[0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.5, 0.0, 0.0]].into_iter().collect();
        let far: Vectors = [[4.0, 0.0, 0.0], [5.0, 0.0, 0.0]].into_iter().collect();
        let (near_box, far_box) =
            (Bounds::of(&near, [0.0; 3]).unwrap(), Bounds::of(&far, [0.0; 3]).unwrap());
        let mut packed = Packed::default();
        packed.pack(&near, [0.0; 3], &far_box, 3.0, near_box.line_to(&far_box));
        assert_eq!(packed.keys, [(1.5, 2), (3.0, 1)]);
        assert_eq!(packed.groups[0].x, Lanes([1.5, 3.0, 1e150, 1e150]));
    }

    #[test]
    fn reach_ends_at_the_cutoff_along_the_line() {
        let atoms: Vectors = (0..12).map(|i| [f64::from(i), 0.0, 0.0]).collect();
        let bounds = Bounds::of(&atoms, [0.0; 3]).unwrap();
        let mut packed = Packed::default();
        packed.pack(&atoms, [0.0; 3], &bounds, 3.0, bounds.line_to(&bounds));
        let ends = [0, 1, 2, 11].map(|atom| packed.advance(0, &packed, atom, 3.0));
        // Atom 1 just reaches the group that starts at 4; the kernel's comparison then excludes it,
        // as it is exactly at the cutoff.
        assert_eq!(ends, [1, 2, 2, 3]);
    }
}
