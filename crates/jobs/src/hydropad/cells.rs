//! A periodic box of cells. Lengths are in cells everywhere; cell `[i, j, k]` is from there to one
//! more in each axis.

use thiserror::Error;

/// Most cells of a box, and most particles: what calls take of these is just sent at once, a
/// gigabyte.
pub const CELLS_MAX: usize = 1 << 24;

/// A box that cannot be, or a field of another one. Nothing was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// No cells, or too many.
    #[error("{cells:?} cells or particles are none or too many; use up to {CELLS_MAX}")]
    Box {
        /// As asked for.
        cells: [usize; 3],
    },
    /// A field has not one value for each cell.
    #[error("a field of {found} values is not one of a box of {expected}; pass the same box")]
    Field {
        /// What the box needs.
        expected: usize,
        /// What came.
        found: usize,
    },
}

/// How many cells there are along each axis. Fields have one value for each, those along the last
/// axis in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells([usize; 3]);

impl Cells {
    /// A box of so many cells along each axis.
    ///
    /// # Errors
    /// If there are none or more than [`CELLS_MAX`].
    pub fn new(cells: [usize; 3]) -> Result<Self, SizeError> {
        let count = cells.iter().try_fold(1_usize, |count, &n| count.checked_mul(n));
        match count {
            Some(1..=CELLS_MAX) => Ok(Self(cells)),
            _ => Err(SizeError::Box { cells }),
        }
    }

    /// A cube.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn cube(edge: usize) -> Result<Self, SizeError> {
        Self::new([edge; 3])
    }

    /// Along each axis.
    pub fn axes(self) -> [usize; 3] {
        self.0
    }

    /// All of them.
    pub fn count(self) -> usize {
        self.0.iter().product()
    }

    /// How far apart neighbours along each axis are in a field.
    pub fn strides(self) -> [usize; 3] {
        [self.0[1] * self.0[2], self.0[2], 1]
    }

    /// Where a cell is in a field.
    pub fn at(self, [i, j, k]: [usize; 3]) -> usize {
        (i * self.0[1] + j) * self.0[2] + k
    }

    /// All cells, in the order of a field.
    pub fn iter(self) -> impl Iterator<Item = [usize; 3]> {
        let [x, y, z] = self.0;
        (0..x).flat_map(move |i| (0..y).flat_map(move |j| (0..z).map(move |k| [i, j, k])))
    }

    /// Refuses a field that has not one value for each cell.
    ///
    /// # Errors
    /// If that is so.
    pub fn check(self, found: usize) -> Result<(), SizeError> {
        let expected = self.count();
        match expected == found {
            true => Ok(()),
            false => Err(SizeError::Field { expected, found }),
        }
    }

    /// Where each line along an axis begins.
    pub fn lines(self, axis: usize) -> impl Iterator<Item = usize> {
        let strides = self.strides();
        let [one, other] = [[1, 2], [0, 2], [0, 1]][axis];
        let (ones, others) = (self.0[one], self.0[other]);
        (0..ones).flat_map(move |i| (0..others).map(move |j| i * strides[one] + j * strides[other]))
    }
}
