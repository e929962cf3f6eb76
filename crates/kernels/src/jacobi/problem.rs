//! The equation, and the values that Jacobi steps must give.
//!
//! The domain is the unit square or cube with `n` inner points along each axis, so the spacing is
//! `h = 1 / (n + 1)`. The product of `sin(pi x)` over the axes is an eigenvector of the step with
//! the eigenvalue `cos(pi h)` (Briggs, Henson and McCormick, "A Multigrid Tutorial", chapter 2). In
//! both problems, the initial values differ from the discrete solution by a multiple of this
//! eigenvector, so the exact values are known after each step:
//!
//! - Laplace: the discrete solution is the product of the coordinates, which also gives the values
//!   on the boundary. The initial values are that product plus the eigenvector.
//! - Poisson: the boundary and the initial values are zero. The right side is the one whose exact
//!   solution is the product of sines. The discrete solution is this product times a factor near
//!   `1 + (pi h)^2 / 12`.

use crate::stencil::eigenmode;
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// The equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Equation {
    /// No right side, with boundary values that are not zero.
    Laplace,
    /// A right side, with a boundary of zeros.
    Poisson,
}

/// An equation on a grid. A place has three indices from 0 to `size + 1`, of which the outermost
/// are the boundary; in two dimensions the first is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The equation.
    pub equation: Equation,
    /// Number of dimensions: 2 or 3.
    pub axes: usize,
    /// Inner points along each axis.
    pub size: u32,
}

impl Problem {
    /// The first of the three indices that is used.
    pub fn first_axis(&self) -> usize {
        3 - self.axes
    }

    /// Whether a place is on the boundary.
    pub fn is_boundary(&self, place: [u32; 3]) -> bool {
        place[self.first_axis()..].iter().any(|&index| index == 0 || index > self.size)
    }

    /// The initial value of a point. Points on the boundary keep it in all steps.
    pub fn start(&self, place: [u32; 3]) -> f64 {
        match self.equation {
            Equation::Laplace if self.is_boundary(place) => self.harmonic(place),
            Equation::Laplace => self.harmonic(place) + self.mode(place),
            Equation::Poisson => 0.0,
        }
    }

    /// The right side times `h^2`.
    pub fn source(&self, place: [u32; 3]) -> f64 {
        match self.equation {
            Equation::Laplace => 0.0,
            Equation::Poisson => self.axes as f64 * self.angle().powi(2) * self.mode(place),
        }
    }

    /// The exact values of inner points after a number of steps.
    pub fn exact(&self, steps: u64) -> impl Fn([u32; 3]) -> f64 + use<> {
        let problem = *self;
        let factor = eigenmode::factor(self.size as usize, steps);
        // `(pi h)^2 / (2 - 2 cos(pi h))` without cancellation.
        let limit = (0.5 * self.angle() / (0.5 * self.angle()).sin()).powi(2);
        move |place| match problem.equation {
            Equation::Laplace => problem.harmonic(place) + factor * problem.mode(place),
            Equation::Poisson => limit * (1.0 - factor) * problem.mode(place),
        }
    }

    /// The solution of the differential equation.
    #[cfg(test)]
    pub(super) fn solution(&self, place: [u32; 3]) -> f64 {
        match self.equation {
            Equation::Laplace => self.harmonic(place),
            Equation::Poisson => self.mode(place),
        }
    }

    /// Upper bound of the error due to rounding. A step rounds a sum of at most six values of at
    /// most 2 each, and the quotient. Earlier errors do not grow, because a step takes their mean.
    pub fn rounding_max(&self, steps: u64) -> f64 {
        2e-15 * (steps as f64 + 10.0)
    }

    /// `pi h`.
    fn angle(&self) -> f64 {
        PI / (f64::from(self.size) + 1.0)
    }

    fn harmonic(&self, place: [u32; 3]) -> f64 {
        let spacing = 1.0 / (f64::from(self.size) + 1.0);
        self.indices(place).map(|index| f64::from(index) * spacing).product()
    }

    fn mode(&self, place: [u32; 3]) -> f64 {
        self.indices(place).map(|index| (self.angle() * f64::from(index)).sin()).product()
    }

    fn indices(&self, place: [u32; 3]) -> impl Iterator<Item = u32> {
        place.into_iter().skip(self.first_axis())
    }
}
