//! A periodic box of cells. Lengths are in cells throughout; cell `[i, j, k]` extends from these
//! coordinates to one more along each axis.

use thiserror::Error;

/// Maximum number of cells in a box, and of particles. For this number, one call sends about a
/// gigabyte, which is just possible.
pub const CELLS_MAX: usize = 1 << 24;

/// The size of a box is invalid, or a field belongs to another box. Nothing was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// No cells or too many.
    #[error("a box of {cells:?} cells or particles is empty or too large; use up to {CELLS_MAX}")]
    Box {
        /// The requested size.
        cells: [usize; 3],
    },
    /// The length of a field is not the number of cells.
    #[error("a field of {found} values is not one of a box of {expected}; pass the same box")]
    Field {
        /// Number of cells in the box.
        expected: usize,
        /// Number of values in the field.
        found: usize,
    },
}

/// Number of cells along each axis. A field has one value for each cell, with cells along the last
/// axis contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells([usize; 3]);

impl Cells {
    /// Creates a box with `cells` cells along each axis.
    ///
    /// # Errors
    /// If there are no cells or more than [`CELLS_MAX`].
    pub fn new(cells: [usize; 3]) -> Result<Self, SizeError> {
        let count = cells.iter().try_fold(1_usize, |count, &n| count.checked_mul(n));
        match count {
            Some(1..=CELLS_MAX) => Ok(Self(cells)),
            _ => Err(SizeError::Box { cells }),
        }
    }

    /// Creates a cube with `edge` cells along each axis.
    ///
    /// # Errors
    /// Like [`Self::new`].
    pub fn cube(edge: usize) -> Result<Self, SizeError> {
        Self::new([edge; 3])
    }

    /// Number of cells along each axis.
    pub fn axes(self) -> [usize; 3] {
        self.0
    }

    /// Total number of cells.
    pub fn count(self) -> usize {
        self.0.iter().product()
    }

    /// Distance in a field between neighbours along each axis.
    pub fn strides(self) -> [usize; 3] {
        [self.0[1] * self.0[2], self.0[2], 1]
    }

    /// Position of a cell in a field.
    pub fn at(self, [i, j, k]: [usize; 3]) -> usize {
        (i * self.0[1] + j) * self.0[2] + k
    }

    /// All cells, in the order of a field.
    pub fn iter(self) -> impl Iterator<Item = [usize; 3]> {
        let [x, y, z] = self.0;
        (0..x).flat_map(move |i| (0..y).flat_map(move |j| (0..z).map(move |k| [i, j, k])))
    }

    /// Checks that a field of `found` values has one value for each cell.
    ///
    /// # Errors
    /// If the numbers differ.
    pub fn check(self, found: usize) -> Result<(), SizeError> {
        let expected = self.count();
        match expected == found {
            true => Ok(()),
            false => Err(SizeError::Field { expected, found }),
        }
    }

    /// Positions in a field at which the lines along an axis begin.
    pub fn lines(self, axis: usize) -> impl Iterator<Item = usize> {
        let strides = self.strides();
        let [one, other] = [[1, 2], [0, 2], [0, 1]][axis];
        let (ones, others) = (self.0[one], self.0[other]);
        (0..ones).flat_map(move |i| (0..others).map(move |j| i * strides[one] + j * strides[other]))
    }
}
