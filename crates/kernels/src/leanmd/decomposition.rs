//! The periodic box, cut into cells, and the pairs of cells whose atoms can interact.
//!
//! A cell's edges are at least as long as the cutoff, so an atom interacts only with atoms of its
//! cell and the touching cells. With three or more cells per axis, two cells touch at most once.
//! With two they touch on both sides, and with one a cell touches itself: such a pair has several
//! periodic *images*, each an explicit shift. Every interaction of an atom with another atom, or
//! with an image of one, occurs exactly once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Index of a cell along each axis, from 0.
pub type CellIndex = [i32; 3];

/// Maximum number of cells in a box. Each cell adds at most 14 pairs, so the largest box has 15
/// million pairs, which need some gigabytes.
pub const CELLS_MAX: u64 = 1 << 20;

/// The box, and the number of cells along each axis.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Grid")]
pub struct Cells {
    dims: [u32; 3],
    lengths: [f64; 3],
}

/// The serialised form of [`Cells`], before it is checked.
#[derive(Deserialize)]
struct Grid {
    dims: [u32; 3],
    lengths: [f64; 3],
}

impl TryFrom<Grid> for Cells {
    type Error = CellsError;

    fn try_from(grid: Grid) -> Result<Self, CellsError> {
        Self::with_dims(grid.lengths, grid.dims, 0.0)
    }
}

/// Two cells that touch, or a cell and itself: a unit of force computation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellPair {
    /// The cell with the lower number.
    pub a: CellIndex,
    /// The other cell, or the same.
    pub b: CellIndex,
    /// The images of B, in box lengths to be added to B's positions; ascending, usually just one.
    /// For a cell with itself, `[0, 0, 0]` denotes the pairs within the cell.
    pub images: Vec<[i32; 3]>,
}

/// The box cannot be cut as requested.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum CellsError {
    /// A length of the box is not positive and finite.
    #[error("box length {length} on axis {axis} is not a positive finite number")]
    Length {
        /// Axis: 0, 1 or 2.
        axis: usize,
        /// The given length in sigma.
        length: f64,
    },
    /// The cutoff is not a number.
    #[error("the cutoff is not a number")]
    Cutoff,
    /// An axis has no cells.
    #[error("axis {axis} has 0 cells; use 1 or more")]
    NoCells {
        /// Axis: 0, 1 or 2.
        axis: usize,
    },
    /// A cell would be narrower than the cutoff, and pairs of atoms would be missed.
    #[error(
        "{cells} cells on axis {axis} are {edge} sigma wide, less than the cutoff {cutoff}; use fewer cells or a larger box"
    )]
    Narrow {
        /// Axis: 0, 1 or 2.
        axis: usize,
        /// Requested number of cells.
        cells: u32,
        /// Width of a cell in sigma.
        edge: f64,
        /// Cutoff in sigma.
        cutoff: f64,
    },
    /// The box would have more than [`CELLS_MAX`] cells.
    #[error(
        "the box would have {cells} cells, more than {CELLS_MAX}; use a longer cutoff or give the number of cells"
    )]
    TooMany {
        /// Number of cells, as computed or requested.
        cells: u64,
    },
}

impl Cells {
    /// Cuts a box of `lengths` (sigma) into as many cells as fit with edges of at least `cutoff`
    /// (sigma).
    ///
    /// # Errors
    /// If a length is not positive and finite, the cutoff is not a number, the box is narrower than
    /// the cutoff, or there would be too many cells.
    pub fn for_cutoff(lengths: [f64; 3], cutoff: f64) -> Result<Self, CellsError> {
        let fitting = |length: f64| {
            // The quotient can round up to a whole number of cells, one more than fits.
            let most = (length / cutoff).floor().clamp(1.0, f64::from(u32::MAX)) as u32;
            if most > 1 && length / f64::from(most) < cutoff { most - 1 } else { most }
        };
        Self::with_dims(lengths, lengths.map(fitting), cutoff)
    }

    /// Cuts a box of `lengths` (sigma) into `dims` cells, which must have edges of at least
    /// `cutoff` (sigma).
    ///
    /// # Errors
    /// If a length is not positive and finite, the cutoff is not a number, a cell is narrower than
    /// the cutoff, or there are no cells or too many.
    pub fn with_dims(lengths: [f64; 3], dims: [u32; 3], cutoff: f64) -> Result<Self, CellsError> {
        for axis in 0..3 {
            let length = lengths[axis];
            if !(length.is_finite() && length > 0.0) {
                return Err(CellsError::Length { axis, length });
            }
            if cutoff.is_nan() {
                return Err(CellsError::Cutoff);
            }
            if dims[axis] == 0 {
                return Err(CellsError::NoCells { axis });
            }
            let edge = length / f64::from(dims[axis]);
            if edge < cutoff {
                return Err(CellsError::Narrow { axis, cells: dims[axis], edge, cutoff });
            }
        }
        let cells =
            dims.iter().fold(1_u64, |product, &cells| product.saturating_mul(u64::from(cells)));
        if cells > CELLS_MAX {
            Err(CellsError::TooMany { cells })
        } else {
            Ok(Self { dims, lengths })
        }
    }

    /// Cells per axis.
    pub fn dims(&self) -> [u32; 3] {
        self.dims
    }

    /// Lengths of the box in sigma.
    pub fn lengths(&self) -> [f64; 3] {
        self.lengths
    }

    /// Number of cells.
    pub fn count(&self) -> usize {
        self.dims.iter().map(|&cells| cells as usize).product()
    }

    /// Returns the distance (sigma) that an atom may stray from its cell before pairs are missed:
    /// half of the difference between the narrowest edge and the cutoff. Atoms must change cells
    /// before they exceed it; if they change cells in every step, it may be 0.
    pub fn stray_max(&self, cutoff: f64) -> f64 {
        let narrowest = (0..3)
            .map(|axis| self.lengths[axis] / f64::from(self.dims[axis]))
            .fold(f64::INFINITY, f64::min);
        (narrowest - cutoff) / 2.0
    }

    /// Returns how far (sigma) `position`, which is not wrapped, lies outside `cell`, along the
    /// axis where this is largest. It is 0 inside the cell, and NaN if the position is not finite.
    pub fn stray(&self, cell: CellIndex, position: [f64; 3]) -> f64 {
        (0..3).fold(0.0, |most: f64, axis| {
            let edge = self.lengths[axis] / f64::from(self.dims[axis]);
            let low = f64::from(cell[axis]) * edge;
            let outside = (low - position[axis]).max(position[axis] - low - edge);
            if outside.is_finite() && !most.is_nan() { most.max(outside) } else { f64::NAN }
        })
    }

    /// Returns the image of `position` (sigma) inside the box: each coordinate is at least 0 and
    /// below the length.
    pub fn wrap(&self, position: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|axis| {
            let wrapped = position[axis].rem_euclid(self.lengths[axis]);
            // A tiny negative coordinate rounds up to the length itself.
            if wrapped < self.lengths[axis] { wrapped } else { 0.0 }
        })
    }

    /// Returns the cell that contains `position` (sigma) or its image.
    pub fn cell_of(&self, position: [f64; 3]) -> CellIndex {
        let inside = self.wrap(position);
        std::array::from_fn(|axis| {
            let cells = self.dims[axis];
            let index = (inside[axis] / self.lengths[axis] * f64::from(cells)) as i32;
            index.clamp(0, cells as i32 - 1)
        })
    }

    /// Returns the number of a cell, from 0; the last axis counts fastest.
    pub fn number(&self, cell: CellIndex) -> usize {
        let [x, y, z] = cell.map(|axis| axis as usize);
        (x * self.dims[1] as usize + y) * self.dims[2] as usize + z
    }

    /// Iterates over all cells by ascending number.
    pub fn indices(&self) -> impl Iterator<Item = CellIndex> + use<> {
        let [nx, ny, nz] = self.dims.map(|cells| cells as i32);
        (0..nx).flat_map(move |x| (0..ny).flat_map(move |y| (0..nz).map(move |z| [x, y, z])))
    }

    /// Returns the cells that touch `cell`, each once and without itself, by ascending number: 26
    /// with three or more cells per axis.
    pub fn neighbours(&self, cell: CellIndex) -> Vec<CellIndex> {
        let mut touching: Vec<CellIndex> = offsets()
            .map(|offset| self.step(cell, offset).0)
            .filter(|&other| other != cell)
            .collect();
        touching.sort_unstable();
        touching.dedup();
        touching
    }

    /// Returns all units of force computation, by ascending numbers of A and B: `14 * count` with
    /// three or more cells per axis.
    pub fn pairs(&self) -> Vec<CellPair> {
        let mut images: BTreeMap<(CellIndex, CellIndex), Vec<[i32; 3]>> = BTreeMap::new();
        for cell in self.indices() {
            // Half of the offsets; the other half gives the same pairs from the other side.
            for offset in offsets().filter(|&offset| offset >= [0, 0, 0]) {
                let (other, image) = self.step(cell, offset);
                let (key, image) = if other < cell {
                    ((other, cell), image.map(|axis| -axis))
                } else {
                    ((cell, other), image)
                };
                images.entry(key).or_default().push(image);
            }
        }
        let pair = |((a, b), mut images): (_, Vec<_>)| {
            images.sort_unstable();
            CellPair { a, b, images }
        };
        images.into_iter().map(pair).collect()
    }

    /// Returns the partners of `cell` in [`pairs`](Self::pairs), including itself, by ascending
    /// number: the order in which the cell sums forces. In each pair, A is the cell with the lower
    /// number.
    pub fn pairs_of(&self, cell: CellIndex) -> Vec<CellIndex> {
        let mut partners = self.neighbours(cell);
        partners.insert(partners.partition_point(|&other| other < cell), cell);
        partners
    }

    /// Returns the shift (sigma) of an image of the box.
    pub fn shift(&self, image: [i32; 3]) -> [f64; 3] {
        std::array::from_fn(|axis| f64::from(image[axis]) * self.lengths[axis])
    }

    /// Returns the cell at `offset` from `cell`, and the image of the box that contains it.
    fn step(&self, cell: CellIndex, offset: [i32; 3]) -> (CellIndex, [i32; 3]) {
        let dims = self.dims.map(|cells| cells as i32);
        let target: [i32; 3] = std::array::from_fn(|axis| cell[axis] + offset[axis]);
        (
            std::array::from_fn(|axis| target[axis].rem_euclid(dims[axis])),
            std::array::from_fn(|axis| target[axis].div_euclid(dims[axis])),
        )
    }
}

/// The 27 offsets to a touching cell or to the cell itself, ascending.
fn offsets() -> impl Iterator<Item = [i32; 3]> {
    (-1..=1).flat_map(|x| (-1..=1).flat_map(move |y| (-1..=1).map(move |z| [x, y, z])))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_standard_grid_has_3024_pairs_of_one_image_each() {
        let cells = Cells::with_dims([48.0; 3], [6; 3], 5.0).unwrap();
        let pairs = cells.pairs();
        assert_eq!(pairs.len(), 216 * 14);
        assert!(pairs.iter().all(|pair| pair.images.len() == 1));
        assert!(cells.indices().all(|cell| cells.neighbours(cell).len() == 26));
    }

    #[test]
    fn every_touching_image_occurs_exactly_once_on_any_grid() {
        for dims in [[1, 1, 1], [1, 2, 3], [2, 2, 2], [2, 1, 4], [3, 3, 3], [5, 2, 1]] {
            let cells = Cells::with_dims(dims.map(f64::from), dims, 1.0).unwrap();
            let mut met = BTreeSet::new();
            for pair in cells.pairs() {
                assert!(cells.number(pair.a) <= cells.number(pair.b));
                for image in pair.images {
                    assert!(met.insert((pair.a, pair.b, image)), "{dims:?}: twice");
                    let inside = pair.a == pair.b && image == [0, 0, 0];
                    assert!(
                        inside || met.insert((pair.b, pair.a, image.map(|axis| -axis))),
                        "{dims:?}: from both sides"
                    );
                }
            }
            // All 27 positions around every cell, by plain arithmetic.
            for cell in cells.indices() {
                for offset in offsets() {
                    let place: [i32; 3] = std::array::from_fn(|axis| cell[axis] + offset[axis]);
                    let n = dims.map(|axis| axis as i32);
                    let image: [i32; 3] =
                        std::array::from_fn(|axis| place[axis].div_euclid(n[axis]));
                    let other: [i32; 3] =
                        std::array::from_fn(|axis| place[axis] - image[axis] * n[axis]);
                    assert!(
                        met.remove(&(cell, other, image)),
                        "{dims:?}: {cell:?} misses {place:?}"
                    );
                }
            }
            assert!(met.is_empty());
        }
    }

    #[test]
    fn pairs_of_lists_the_partners_of_each_cell() {
        for dims in [[2, 2, 2], [3, 4, 5], [1, 2, 3]] {
            let cells = Cells::with_dims(dims.map(f64::from), dims, 1.0).unwrap();
            let pairs = cells.pairs();
            for cell in cells.indices() {
                let mut listed: Vec<CellIndex> = pairs
                    .iter()
                    .filter(|pair| pair.a == cell || pair.b == cell)
                    .map(|pair| if pair.a == cell { pair.b } else { pair.a })
                    .collect();
                listed.sort_unstable();
                assert_eq!(cells.pairs_of(cell), listed);
            }
        }
    }

    #[test]
    fn for_cutoff_makes_as_many_cells_as_fit() {
        assert_eq!(Cells::for_cutoff([8.0; 3], 3.0).unwrap().dims(), [2; 3]);
        assert_eq!(Cells::for_cutoff([8.397981, 30.0, 5.0], 2.5).unwrap().dims(), [3, 12, 2]);
    }

    #[test]
    fn positions_outside_the_box_belong_to_the_cell_of_their_image() {
        let cells = Cells::with_dims([9.0, 12.0, 15.0], [3, 3, 3], 3.0).unwrap();
        assert_eq!(cells.cell_of([-0.1, 12.1, 14.9]), [2, 0, 2]);
        assert_eq!(cells.wrap([-1e-300, 12.0, 31.0]), [0.0, 0.0, 1.0]);
        assert!(cells.indices().enumerate().all(|(number, cell)| cells.number(cell) == number));
    }

    #[test]
    fn boxes_that_cannot_be_cut_are_refused_with_the_reason() {
        let narrow = Cells::with_dims([8.0, 8.0, 4.0], [2, 2, 2], 3.0).unwrap_err();
        assert_eq!(
            narrow.to_string(),
            "2 cells on axis 2 are 2 sigma wide, less than the cutoff 3; use fewer cells or a larger box"
        );
        assert!(matches!(Cells::for_cutoff([1e9; 3], 1.0), Err(CellsError::TooMany { .. })));
        assert!(matches!(
            Cells::for_cutoff([8.0, f64::NAN, 8.0], 1.0),
            Err(CellsError::Length { axis: 1, .. })
        ));
        assert!(Cells::for_cutoff([2.0; 3], 3.0).is_err());
        assert_eq!(Cells::for_cutoff([8.0; 3], f64::NAN), Err(CellsError::Cutoff));
        let none = Cells::with_dims([8.0; 3], [2, 0, 2], 3.0);
        assert_eq!(none, Err(CellsError::NoCells { axis: 1 }));
    }
}
