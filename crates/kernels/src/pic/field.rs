//! The fixed charges of the square, and the force of the four nearest charges on a particle.
//!
//! Units: distances in cells, charges in units of the fixed ones, masses and time steps 1, Coulomb
//! constant 1.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Maximum number of cells along an edge: half-integer positions plus the largest displacement stay
/// exact far beyond it.
pub const EDGE_MAX: u32 = 1 << 20;

/// The number of cells along an edge is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the square has {cells} cells along an edge; the number must be even, so that charges alternate, and between 2 and {EDGE_MAX}"
)]
pub struct EdgeError {
    cells: u32,
}

/// The periodic square.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Field {
    cells: u32,
}

impl TryFrom<u32> for Field {
    type Error = EdgeError;

    fn try_from(cells: u32) -> Result<Self, EdgeError> {
        Self::new(cells)
    }
}

impl From<Field> for u32 {
    fn from(field: Field) -> u32 {
        field.cells
    }
}

impl Field {
    /// Creates a square of `cells` times `cells` cells.
    ///
    /// # Errors
    /// If `cells` is odd, zero, or more than [`EDGE_MAX`].
    pub fn new(cells: u32) -> Result<Self, EdgeError> {
        if cells >= 2 && cells.is_multiple_of(2) && cells <= EDGE_MAX {
            Ok(Self { cells })
        } else {
            Err(EdgeError { cells })
        }
    }

    /// Number of cells along an edge.
    pub fn cells(&self) -> u32 {
        self.cells
    }

    /// Returns the charge of every grid point in a column: 1 if `column` is even, -1 if it is odd.
    pub fn charge(&self, column: u32) -> f64 {
        if column.is_multiple_of(2) { 1.0 } else { -1.0 }
    }

    /// Returns the image of a coordinate inside the square: at least 0 and below the edge.
    pub fn wrap(&self, coordinate: f64) -> f64 {
        let edge = f64::from(self.cells);
        let wrapped = coordinate.rem_euclid(edge);
        if wrapped < edge { wrapped } else { 0.0 }
    }

    /// Returns the cell (column, row) that contains a point of the square.
    pub fn cell_of(&self, x: f64, y: f64) -> (u32, u32) {
        let index = |coordinate: f64| (coordinate as u32).min(self.cells - 1);
        (index(x), index(y))
    }

    /// Returns the force (x, y) of the charges at the corners of a cell on a particle of `charge`
    /// at a point in it.
    pub fn force(&self, charge: f64, x: f64, y: f64) -> [f64; 2] {
        let (column, row) = self.cell_of(x, y);
        let (left, low) = (x - f64::from(column), y - f64::from(row));
        let (right, high) = (1.0 - left, 1.0 - low);
        let (near, far) = (charge * self.charge(column), charge * self.charge(column + 1));
        let [low_left, high_left] = [coulomb(left, low, near), coulomb(left, high, near)];
        let [low_right, high_right] = [coulomb(right, low, far), coulomb(right, high, far)];
        [
            low_left[0] + high_left[0] - low_right[0] - high_right[0],
            low_left[1] - high_left[1] + low_right[1] - high_right[1],
        ]
    }
}

/// Returns the force along both axes between two charges with the product `charges` at the
/// distances `dx` and `dy`.
fn coulomb(dx: f64, dy: f64, charges: f64) -> [f64; 2] {
    let r2 = dx * dx + dy * dy;
    let r = r2.sqrt();
    let force = charges / r2;
    [force * dx / r, force * dy / r]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_force_in_the_middle_of_a_cell_is_horizontal() {
        // Four corners at distance sqrt(1/2), each contributing along x: 4 * (1 / (1/2)) * (1/2) /
        // sqrt(1/2) = 4 sqrt 2.
        let field = Field::new(10).unwrap();
        let [fx, fy] = field.force(1.0, 4.5, 7.5);
        assert!((fx - 4.0 * 2.0_f64.sqrt()).abs() < 1e-14);
        assert_eq!(fy, 0.0);
    }

    #[test]
    fn the_force_changes_sign_from_column_to_column() {
        let field = Field::new(10).unwrap();
        assert_eq!(field.force(1.0, 4.5, 0.5)[0], -field.force(1.0, 5.5, 0.5)[0]);
    }

    #[test]
    fn wrap_moves_coordinates_into_the_square() {
        let field = Field::new(10).unwrap();
        assert_eq!([-0.5, 10.0, 37.5, -1e-300].map(|x| field.wrap(x)), [9.5, 0.0, 7.5, 0.0]);
        assert_eq!(field.cell_of(9.99, 0.0), (9, 0));
    }

    #[test]
    fn invalid_numbers_of_cells_are_refused() {
        for cells in [0, 1, 7, EDGE_MAX + 2] {
            assert!(Field::new(cells).is_err());
        }
    }
}
