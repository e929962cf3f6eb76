//! A rectangle of points with a ghost edge around it, and the Jacobi sweep over it.
//!
//! A sweep replaces each point by the mean of its four neighbours. Neighbouring blocks exchange
//! their edges before each sweep; the outermost ghost edges stay at the boundary value. Every sweep
//! adds in the order `(up + down) + (left + right)`, so the result does not depend on how the
//! square is cut into blocks.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of points of a block with its ghost edge: a gigabyte.
pub const POINTS_MAX: usize = 1 << 27;

/// One of the four edges of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Side {
    /// The first row.
    Up,
    /// The last row.
    Down,
    /// The first column.
    Left,
    /// The last column.
    Right,
}

impl Side {
    /// All four sides.
    pub const ALL: [Self; 4] = [Self::Up, Self::Down, Self::Left, Self::Right];

    /// Returns the side of the neighbour that touches this one.
    pub fn opposite(self) -> Self {
        match self {
            Self::Up => Self::Down,
            Self::Down => Self::Up,
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// A block or one of its edges has the wrong size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BlockError {
    /// The block has no points, or more than [`POINTS_MAX`].
    #[error(
        "a block of {rows} by {cols} points is empty or too large; use between 1 and about {POINTS_MAX} points"
    )]
    Size {
        /// Requested number of rows.
        rows: usize,
        /// Requested number of columns.
        cols: usize,
    },
    /// A stored block has fewer or more values than it has points.
    #[error(
        "a block of {rows} by {cols} points and its ghost edge have {expected} values, but {found} were stored"
    )]
    Values {
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        cols: usize,
        /// Number of values with the ghost edge.
        expected: usize,
        /// Number of values that were stored.
        found: usize,
    },
    /// A received ghost edge does not have the length of the side; the neighbour is cut
    /// differently.
    #[error("the {side:?} edge has {expected} points, but {found} were received")]
    Edge {
        /// The side.
        side: Side,
        /// Number of points of the side.
        expected: usize,
        /// Number of points received.
        found: usize,
    },
}

/// A block of points, stored row by row with its ghost edge. The corners of the ghost edge are
/// never read.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Block {
    rows: usize,
    cols: usize,
    points: Vec<f64>,
    /// Buffer to which the next sweep is written.
    #[serde(skip)]
    spare: Vec<f64>,
}

/// The serialised form of a [`Block`], before its size is checked.
#[derive(Deserialize)]
struct Stored {
    rows: usize,
    cols: usize,
    points: Vec<f64>,
}

impl TryFrom<Stored> for Block {
    type Error = BlockError;

    fn try_from(stored: Stored) -> Result<Self, BlockError> {
        let Stored { rows, cols, points } = stored;
        let (expected, found) = (points_of(rows, cols)?, points.len());
        if found == expected {
            Ok(Self { rows, cols, points, spare: Vec::new() })
        } else {
            Err(BlockError::Values { rows, cols, expected, found })
        }
    }
}

/// Compares the points of blocks, not the buffer of the last sweep.
impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        (self.rows, self.cols, &self.points) == (other.rows, other.cols, &other.points)
    }
}

impl Block {
    /// Creates a block with the `value` of each point (row, column), and a ghost edge of zeros.
    ///
    /// # Errors
    /// If there are no points or too many.
    pub fn new(
        rows: usize,
        cols: usize,
        value: impl Fn(usize, usize) -> f64,
    ) -> Result<Self, BlockError> {
        let mut block =
            Self { rows, cols, points: vec![0.0; points_of(rows, cols)?], spare: Vec::new() };
        for row in 0..rows {
            let start = block.start(row);
            for (col, point) in block.points[start..start + cols].iter_mut().enumerate() {
                *point = value(row, col);
            }
        }
        Ok(block)
    }

    /// Number of rows without the ghost edge.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns without the ghost edge.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the points of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f64] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        &self.points[self.start(row)..][..self.cols]
    }

    /// Returns the outermost points on a side, the ghost edge of the neighbour there.
    pub fn edge(&self, side: Side) -> Vec<f64> {
        match side {
            Side::Up => self.row(0).to_vec(),
            Side::Down => self.row(self.rows - 1).to_vec(),
            Side::Left => (0..self.rows).map(|row| self.row(row)[0]).collect(),
            Side::Right => (0..self.rows).map(|row| self.row(row)[self.cols - 1]).collect(),
        }
    }

    /// Replaces the ghost edge on a side by the neighbour's points.
    ///
    /// # Errors
    /// If the number of points is not that of the side.
    pub fn set_ghost(&mut self, side: Side, ghost: &[f64]) -> Result<(), BlockError> {
        let stride = self.cols + 2;
        let (expected, first, step) = match side {
            Side::Up => (self.cols, 1, 1),
            Side::Down => (self.cols, (self.rows + 1) * stride + 1, 1),
            Side::Left => (self.rows, stride, stride),
            Side::Right => (self.rows, 2 * stride - 1, stride),
        };
        if ghost.len() != expected {
            return Err(BlockError::Edge { side, expected, found: ghost.len() });
        }
        for (point, &value) in self.points[first..].iter_mut().step_by(step).zip(ghost) {
            *point = value;
        }
        Ok(())
    }

    /// Does one Jacobi sweep; returns the largest change of a point. The ghost edge does not
    /// change.
    pub fn sweep(&mut self) -> f64 {
        let stride = self.cols + 2;
        if self.spare.len() != self.points.len() {
            // The first sweep, or the first one after deserialisation.
            self.spare.clone_from(&self.points);
        }
        let mut change = [0.0; CHANGE_LANES];
        for row in 0..self.rows {
            let start = self.start(row);
            let next = &mut self.spare[start..start + self.cols];
            let here = &self.points[start - 1..start + self.cols + 1];
            let (up, down) = (
                &self.points[start - stride..][..self.cols],
                &self.points[start + stride..][..self.cols],
            );
            sweep_row(next, up, here, down, &mut change);
        }
        self.copy_ghosts();
        std::mem::swap(&mut self.points, &mut self.spare);
        change.into_iter().fold(0.0, f64::max)
    }

    /// Copies the ghost edge to the array that is about to become the current one.
    fn copy_ghosts(&mut self) {
        let stride = self.cols + 2;
        let last = (self.rows + 1) * stride;
        self.spare[..stride].copy_from_slice(&self.points[..stride]);
        self.spare[last..].copy_from_slice(&self.points[last..]);
        for row in 1..=self.rows {
            for at in [row * stride, (row + 1) * stride - 1] {
                self.spare[at] = self.points[at];
            }
        }
    }

    /// Returns the index at which the points of a row start.
    fn start(&self, row: usize) -> usize {
        (row + 1) * (self.cols + 2) + 1
    }
}

/// Number of partial maxima of the change, which are independent so that none waits for another.
const CHANGE_LANES: usize = 4;

/// Computes the new points of a row; `here` also includes the points before and after the row.
/// Slices have equal lengths and there are no branches, so that the compiler generates vector
/// instructions.
fn sweep_row(
    next: &mut [f64],
    up: &[f64],
    here: &[f64],
    down: &[f64],
    change: &mut [f64; CHANGE_LANES],
) {
    let cols = next.len();
    let (up, down, left, middle, right) =
        (&up[..cols], &down[..cols], &here[..cols], &here[1..=cols], &here[2..cols + 2]);
    for col in 0..cols {
        next[col] = ((up[col] + down[col]) + (left[col] + right[col])) * 0.25;
    }
    let (next, next_rest) = next.as_chunks::<CHANGE_LANES>();
    let (middle, middle_rest) = middle[..cols].as_chunks::<CHANGE_LANES>();
    for (next, middle) in next.iter().zip(middle) {
        raise(change, next, middle);
    }
    raise(change, next_rest, middle_rest);
}

/// Raises each maximum to the change of its point, if that is larger.
fn raise(change: &mut [f64; CHANGE_LANES], next: &[f64], middle: &[f64]) {
    for ((most, next), middle) in change.iter_mut().zip(next).zip(middle) {
        let moved = (next - middle).abs();
        *most = if moved > *most { moved } else { *most };
    }
}

/// Returns the number of points of a block with its ghost edge.
fn points_of(rows: usize, cols: usize) -> Result<usize, BlockError> {
    let points = rows
        .checked_add(2)
        .zip(cols.checked_add(2))
        .and_then(|(rows, cols)| rows.checked_mul(cols));
    match points {
        Some(points) if rows > 0 && cols > 0 && points <= POINTS_MAX => Ok(points),
        _ => Err(BlockError::Size { rows, cols }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_takes_the_mean_of_the_four_neighbours() {
        let mut block = Block::new(1, 1, |_, _| 7.0).unwrap();
        for (side, value) in Side::ALL.into_iter().zip([1.0, 2.0, 4.0, 9.0]) {
            block.set_ghost(side, &[value]).unwrap();
        }
        assert_eq!(block.sweep(), 3.0);
        assert_eq!(block.row(0), [4.0]);
        assert_eq!(block.sweep(), 0.0);
    }

    #[test]
    fn a_square_cut_into_uneven_blocks_has_the_same_bits() {
        let value = |row: usize, col: usize| ((row * 31 + col * 17) % 23) as f64 / 7.0;
        let mut whole = Block::new(9, 11, value).unwrap();
        let (rows, cols) = ([0..4, 4..9], [0..6, 6..11]);
        let part = |r: usize, c: usize| {
            Block::new(rows[r].len(), cols[c].len(), |row, col| {
                value(row + rows[r].start, col + cols[c].start)
            })
            .unwrap()
        };
        let mut parts = [part(0, 0), part(0, 1), part(1, 0), part(1, 1)];
        for _ in 0..20 {
            for (from, side, to) in
                [(0, Side::Right, 1), (2, Side::Right, 3), (0, Side::Down, 2), (1, Side::Down, 3)]
            {
                let (there, back) = (parts[from].edge(side), parts[to].edge(side.opposite()));
                parts[to].set_ghost(side.opposite(), &there).unwrap();
                parts[from].set_ghost(side, &back).unwrap();
            }
            let most = parts.iter_mut().map(Block::sweep).fold(0.0, f64::max);
            assert_eq!(whole.sweep(), most);
        }
        for row in 0..9 {
            let (band, at) = if row < 4 { (0, row) } else { (2, row - 4) };
            assert_eq!(whole.row(row), [parts[band].row(at), parts[band + 1].row(at)].concat());
        }
    }

    #[test]
    fn blocks_and_edges_of_the_wrong_size_are_refused() {
        assert_eq!(Block::new(0, 5, |_, _| 0.0), Err(BlockError::Size { rows: 0, cols: 5 }));
        assert!(Block::new(usize::MAX, 2, |_, _| 0.0).is_err());
        let mut block = Block::new(3, 5, |_, _| 0.0).unwrap();
        let error = block.set_ghost(Side::Left, &[0.0; 5]).unwrap_err();
        assert_eq!(error.to_string(), "the Left edge has 3 points, but 5 were received");
        let refused = Block::try_from(Stored { rows: 3, cols: 5, points: vec![0.0; 15] });
        assert_eq!(refused, Err(BlockError::Values { rows: 3, cols: 5, expected: 35, found: 15 }));
    }
}
