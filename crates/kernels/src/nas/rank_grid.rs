//! A grid of ranks over a square matrix, for products with vectors.
//!
//! A row of ranks has a block of adjacent rows of the matrix. It also has the elements of vectors
//! whose numbers are those of these rows, and divides them among its ranks. A column of ranks has
//! the columns of the matrix whose numbers are those of its ranks' elements; these columns are not
//! adjacent.
//!
//! For a product, a rank gathers the elements of the ranks of its column, and multiplies its block
//! of the matrix by them. The ranks of a row add up their products, and each gets the sums for its
//! own elements. With `r` rows and `c` columns of ranks, a rank receives at most `n / c + n / r`
//! numbers from `r + c - 2` others (Vastenhouw and Bisseling, "A Two-Dimensional Data Distribution
//! Method for Parallel Sparse Matrix-Vector Multiplication", 2005, section 1).

use crate::block_partition::BlockPartition;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The place of a rank in the grid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RankGrid {
    /// Order of the matrix.
    order: u32,
    /// Number of rows of ranks, and of columns.
    rows: u32,
    columns: u32,
    /// The row and the column of this rank.
    row: u32,
    column: u32,
}

impl RankGrid {
    /// The place of `rank` in a grid of `ranks` ranks that is as square as possible.
    pub fn new(order: u32, ranks: u32, rank: u32) -> Self {
        let divides = |rows: &u32| ranks.is_multiple_of(*rows);
        let rows = (1..=ranks.isqrt()).rev().find(divides).unwrap_or(1);
        let columns = ranks / rows;
        Self { order, rows, columns, row: rank / columns, column: rank % columns }
    }

    fn rank(&self, row: u32, column: u32) -> u32 {
        row * self.columns + column
    }

    fn rows_of(&self, row: u32) -> Range<u32> {
        BlockPartition::new(self.order, self.rows).range(row)
    }

    /// The rows of the matrix of which this rank has a block.
    pub fn matrix_rows(&self) -> Range<u32> {
        self.rows_of(self.row)
    }

    /// The elements of vectors that the rank at a place has.
    fn elements_at(&self, row: u32, column: u32) -> Range<u32> {
        let rows = self.rows_of(row);
        let count = u64::from(rows.end - rows.start);
        let bound =
            |column: u32| rows.start + (u64::from(column) * count / u64::from(self.columns)) as u32;
        bound(column)..bound(column + 1)
    }

    /// The elements of vectors that this rank has.
    pub fn elements(&self) -> Range<u32> {
        self.elements_at(self.row, self.column)
    }

    /// Returns a function that gives the number of a column of the matrix in the block of this
    /// rank, or `None` if the block does not have it.
    pub fn column_in_block(&self) -> impl Fn(u32) -> Option<u32> + use<> {
        let grid = *self;
        let mut begins = vec![0];
        for row in 0..grid.rows {
            begins.push(begins[row as usize] + grid.elements_at(row, grid.column).len() as u32);
        }
        let blocks = BlockPartition::new(grid.order, grid.rows);
        move |column| {
            let row = blocks.block_of(column);
            let elements = grid.elements_at(row, grid.column);
            elements.contains(&column).then(|| begins[row as usize] + column - elements.start)
        }
    }

    /// The row of ranks of this rank.
    pub fn row(&self) -> u32 {
        self.row
    }

    /// The column of ranks of this rank.
    pub fn column(&self) -> u32 {
        self.column
    }

    /// The other ranks of this column, by their rows.
    pub fn others_in_column(&self) -> Vec<u32> {
        let others = (0..self.rows).filter(|row| *row != self.row);
        others.map(|row| self.rank(row, self.column)).collect()
    }

    /// The other columns of ranks, each with the rank of this row in it.
    pub fn others_in_row(&self) -> Vec<(u32, u32)> {
        let others = (0..self.columns).filter(|column| *column != self.column);
        others.map(|column| (column, self.rank(self.row, column))).collect()
    }

    /// Returns the products for the elements of the rank in this row and the given column.
    /// `products` has one number for each row of the matrix.
    pub fn part(&self, products: &[f64], column: u32) -> Vec<f64> {
        let first = self.matrix_rows().start;
        let elements = self.elements_at(self.row, column);
        products[(elements.start - first) as usize..(elements.end - first) as usize].to_vec()
    }

    /// Adds up parts of products for the elements of this rank, in the order of the parts.
    pub fn sum(&self, parts: &[Vec<f64>]) -> Vec<f64> {
        let mut sums = vec![0.0; self.elements().len()];
        for part in parts {
            sums.iter_mut().zip(part).for_each(|(sum, more)| *sum += more);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_as_square_as_the_number_of_ranks_allows() {
        for (ranks, rows, columns) in [(1, 1, 1), (4, 2, 2), (7, 1, 7), (8, 2, 4), (30, 5, 6)] {
            let grid = RankGrid::new(100, ranks, ranks - 1);
            assert_eq!((grid.rows, grid.columns), (rows, columns));
            assert_eq!((grid.row, grid.column), (rows - 1, columns - 1));
        }
    }

    #[test]
    fn each_element_of_the_matrix_is_in_one_block() {
        for (order, ranks) in [(1, 1), (13, 3), (20, 4), (29, 12), (16, 16)] {
            let mut elements = vec![0; order as usize];
            let mut places = vec![0; (order * order) as usize];
            for rank in 0..ranks {
                let grid = RankGrid::new(order, ranks, rank);
                grid.elements().for_each(|at| elements[at as usize] += 1);
                let column_in_block = grid.column_in_block();
                let columns: Vec<u32> =
                    (0..order).filter(|column| column_in_block(*column).is_some()).collect();
                let numbers = columns.iter().filter_map(|column| column_in_block(*column));
                assert!(numbers.eq(0..columns.len() as u32), "{order} {ranks}");
                for row in grid.matrix_rows() {
                    columns.iter().for_each(|column| places[(row * order + column) as usize] += 1);
                }
            }
            assert!(elements.iter().all(|count| *count == 1), "{order} {ranks}");
            assert!(places.iter().all(|count| *count == 1), "{order} {ranks}");
        }
    }
}
