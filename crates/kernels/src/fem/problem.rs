//! The equations in weak form, with solutions that are known everywhere.
//!
//! - Poisson: `-div grad u = f`.
//! - Elasticity: `-div s = f`, with the stress `s = lambda (div u) I + mu (grad u + grad u^T)` of
//!   an isotropic body in plane strain (Brenner and Scott, "The Mathematical Theory of Finite
//!   Element Methods", 3rd edition, 2008, chapter 11).
//!
//! A solution is chosen, and `f` and the values on the boundary follow from it (the method of
//! manufactured solutions).

use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// A point of the plane, or a vector.
pub type Point = [f64; 2];

/// The modulus of elasticity and Poisson's ratio of the body.
const YOUNG: f64 = 1.0;
const POISSON_RATIO: f64 = 0.3;
/// The constants of Lamé.
const LAMBDA: f64 = YOUNG * POISSON_RATIO / ((1.0 + POISSON_RATIO) * (1.0 - 2.0 * POISSON_RATIO));
const MU: f64 = YOUNG / (2.0 * (1.0 + POISSON_RATIO));

/// The equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Equation {
    /// Poisson's equation: one unknown for each node.
    Poisson,
    /// A body in plane strain: two unknowns for each node, which are the displacement.
    Elasticity,
}

/// The solution that is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Solution {
    /// One that elements approximate.
    Smooth,
    /// One that is linear, so that elements reproduce it (the patch test).
    Linear,
}

/// An equation with its solution. Poisson's equation uses the first of the two components.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// The equation.
    pub equation: Equation,
    /// Its solution.
    pub solution: Solution,
}

impl Problem {
    /// Number of unknowns of a node.
    pub fn unknowns(&self) -> usize {
        match self.equation {
            Equation::Poisson => 1,
            Equation::Elasticity => 2,
        }
    }

    /// The solution.
    pub fn value(&self, [x, y]: Point) -> [f64; 2] {
        match (self.solution, self.equation) {
            (Solution::Smooth, Equation::Poisson) => [x.exp() * (PI * y).sin(), 0.0],
            (Solution::Smooth, Equation::Elasticity) => {
                [(PI * x).sin() * (PI * y).sin(), x * x * y]
            }
            (Solution::Linear, _) => [0.5 + 2.0 * x - 3.0 * y, 1.0 - x + 0.25 * y],
        }
    }

    /// The right side `f`.
    pub fn source(&self, [x, y]: Point) -> [f64; 2] {
        match (self.solution, self.equation) {
            (Solution::Smooth, Equation::Poisson) => {
                [(PI * PI - 1.0) * x.exp() * (PI * y).sin(), 0.0]
            }
            (Solution::Smooth, Equation::Elasticity) => {
                // `-f = (lambda + mu) grad div u + mu laplace u`.
                let sines = PI * PI * (PI * x).sin() * (PI * y).sin();
                let cosines = PI * PI * (PI * x).cos() * (PI * y).cos();
                let along = (LAMBDA + MU) * (2.0 * x - sines) - 2.0 * MU * sines;
                let across = (LAMBDA + MU) * cosines + 2.0 * MU * y;
                [-along, -across]
            }
            (Solution::Linear, _) => [0.0, 0.0],
        }
    }

    /// The integrand of the weak form for two shape functions with these gradients: a matrix with a
    /// row for each component of the test function and a column for each component of the solution.
    pub fn coupling(&self, test: Point, trial: Point) -> [[f64; 2]; 2] {
        let inner = test[0] * trial[0] + test[1] * trial[1];
        match self.equation {
            Equation::Poisson => [[inner, 0.0], [0.0, 0.0]],
            Equation::Elasticity => [0, 1].map(|row| {
                [0, 1].map(|column| {
                    let shear = MU * test[column] * trial[row];
                    let diagonal = if row == column { MU * inner } else { 0.0 };
                    LAMBDA * test[row] * trial[column] + shear + diagonal
                })
            }),
        }
    }

    /// The sum of the squared errors of nodes, weighted by their masses: a part of the square of
    /// the discrete L2 norm.
    pub fn squared_error(&self, nodes: &[Point], masses: &[f64], values: &[f64]) -> f64 {
        let found = values.chunks_exact(self.unknowns());
        let nodes = nodes.iter().zip(masses).zip(found);
        let squares = nodes.map(|((&node, mass), found)| {
            let differences = self.value(node).into_iter().zip(found);
            mass * differences.map(|(exact, found)| (found - exact).powi(2)).sum::<f64>()
        });
        squares.sum()
    }

    /// Upper bound of the error in the discrete L2 norm, for a mesh whose longest edge is `edge`.
    ///
    /// The error is of second order in the edge (Brenner and Scott, chapter 5). Over meshes of 8^2
    /// to 256^2 nodes, with twelve seeds up to 96^2, it was 0.08 to 0.164 times the square of the
    /// edge for Poisson's equation, and 0.12 to 0.195 times for elasticity. The constants are about
    /// twice the largest.
    pub fn error_max(&self, edge: f64) -> f64 {
        let constant = match self.equation {
            Equation::Poisson => 0.33,
            Equation::Elasticity => 0.40,
        };
        constant * edge * edge
    }
}
