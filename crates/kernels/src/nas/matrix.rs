//! The random sparse matrix of CG: a sum of outer products of sparse vectors.

use super::rank_grid::RankGrid;
use crate::random::NasRandom;
use serde::{Deserialize, Serialize};
use std::ops::Range;

const SEED: u64 = 314_159_265;
/// Lower bound of the smallest eigenvalue.
const CONDITION: f64 = 0.1;

/// A block of a sparse matrix: the elements in some rows and some columns.
#[derive(Serialize, Deserialize)]
pub struct Block {
    /// For each row, the place of its first element in the other lists. At the end, the number of
    /// all elements.
    starts: Vec<usize>,
    /// By element: the number of its column in the block.
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Block {
    /// Number of elements that are not zero.
    pub fn nonzeros(&self) -> usize {
        self.values.len()
    }

    /// Multiplies the block by the elements of a vector at its columns.
    pub fn multiply(&self, vector: &[f64], product: &mut [f64]) {
        for (ends, product) in self.starts.windows(2).zip(product) {
            let row = ends[0]..ends[1];
            let terms = self.values[row.clone()].iter().zip(&self.columns[row]);
            *product = terms.map(|(value, column)| value * vector[*column as usize]).sum();
        }
    }
}

/// A sparse vector: columns and values.
type SparseVector = Vec<(u32, f64)>;

/// Draws a vector with `count` elements, but at most `order`, at different places.
fn draw(random: &mut NasRandom, order: u32, count: usize) -> SparseVector {
    let count = count.min(order as usize);
    let power = f64::from(order.next_power_of_two());
    let mut vector = SparseVector::with_capacity(count + 1);
    while vector.len() < count {
        let (value, place) = (random.next_unit(), random.next_unit());
        let column = (power * place) as u32;
        if column < order && vector.iter().all(|(other, _)| *other != column) {
            vector.push((column, value));
        }
    }
    vector
}

/// Makes a rank's block of the matrix of this order. The vectors have `nonzeros` random elements
/// each, but at most as many as the order.
///
/// All ranks draw all vectors, and keep the elements of their blocks. A rank cannot skip to a
/// vector, since the number of draws of each vector varies.
pub fn block(order: u32, nonzeros: usize, shift: f64, grid: &RankGrid) -> Block {
    block_of(order, nonzeros, shift, grid.matrix_rows(), grid.column_in_block())
}

/// Makes a block of these rows, and of the columns for which `column` returns their number in the
/// block.
fn block_of(
    order: u32,
    nonzeros: usize,
    shift: f64,
    rows: Range<u32>,
    column: impl Fn(u32) -> Option<u32>,
) -> Block {
    let mut random = NasRandom::new(SEED);
    random.next_unit();
    let ratio = CONDITION.powf(1.0 / f64::from(order));
    let mut size = 1.0;
    let mut elements: Vec<SparseVector> = vec![Vec::new(); rows.len()];
    for number in 0..order {
        let mut vector = draw(&mut random, order, nonzeros);
        match vector.iter_mut().find(|(column, _)| *column == number) {
            Some((_, value)) => *value = 0.5,
            None => vector.push((number, 0.5)),
        }
        for (row, factor) in vector.iter().filter(|(row, _)| rows.contains(row)) {
            let scale = size * factor;
            let elements = &mut elements[(row - rows.start) as usize];
            for (place, value) in &vector {
                let Some(column) = column(*place) else { continue };
                let is_diagonal = *row == number && *place == number;
                let added = if is_diagonal { CONDITION - shift } else { 0.0 };
                elements.push((column, value * scale + added));
            }
        }
        size *= ratio;
    }
    assembled(elements)
}

/// Adds up the elements at equal places, in the order in which they were made.
fn assembled(elements: Vec<SparseVector>) -> Block {
    let (mut starts, mut columns, mut values) = (vec![0], Vec::<u32>::new(), Vec::<f64>::new());
    for mut row in elements {
        row.sort_by_key(|(column, _)| *column);
        let begin = columns.len();
        for (column, value) in row {
            match columns.last() {
                Some(last) if columns.len() > begin && *last == column => {
                    if let Some(sum) = values.last_mut() {
                        *sum += value;
                    }
                }
                _ => {
                    columns.push(column);
                    values.push(value);
                }
            }
        }
        starts.push(columns.len());
    }
    Block { starts, columns, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_symmetric_and_parts_are_those_of_the_whole() {
        let (order, shift) = (60, 10.0);
        let whole = block_of(order, 3, shift, 0..order, Some);
        // Odd columns, the last first.
        let part =
            block_of(order, 3, shift, 20..35, |column| (column % 2 == 1).then(|| 60 - column));
        let element = |block: &Block, row: usize, column: u32| {
            let places = block.starts[row]..block.starts[row + 1];
            places.into_iter().find(|at| block.columns[*at] == column).map(|at| block.values[at])
        };
        for row in 0..order {
            for column in 0..order {
                let (one, other) =
                    (element(&whole, row as usize, column), element(&whole, column as usize, row));
                assert_eq!(one.is_some(), other.is_some());
                let difference = one.unwrap_or(0.0) - other.unwrap_or(0.0);
                assert!(difference.abs() < 1e-15);
                if (20..35).contains(&row) && column % 2 == 1 {
                    assert_eq!(element(&part, row as usize - 20, 60 - column), one);
                }
            }
        }
    }

    #[test]
    fn a_vector_has_no_more_elements_than_places() {
        let mut vector = draw(&mut NasRandom::new(SEED), 5, 9);

        vector.sort_by_key(|(column, _)| *column);
        let columns: Vec<u32> = vector.iter().map(|(column, _)| *column).collect();
        assert_eq!(columns, [0, 1, 2, 3, 4]);
    }
}
