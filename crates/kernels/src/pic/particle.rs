//! One particle: its initial state, its step, and its exact position.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::field::Field;

/// Largest accepted deviation of a particle from its exact position, in cells.
pub const TOLERANCE: f64 = 1e-6;

/// Maximum of `k`, and of `m` up or down, for which products with the number of steps stay exact.
pub const SPEED_MAX: u32 = 1 << 16;

/// A particle, in an actor or in transit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Particle {
    /// Unique in the cloud, in the order of placement.
    pub id: u64,
    /// Position in cells.
    pub x: f64,
    /// Position in cells.
    pub y: f64,
    /// Velocity in cells per step.
    pub vx: f64,
    /// Velocity in cells per step.
    pub vy: f64,
    /// Charge, in units of the fixed charges.
    pub charge: f64,
    /// Initial position in cells.
    pub x0: f64,
    /// Initial position in cells.
    pub y0: f64,
}

/// The velocity of the particles of a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Velocity {
    /// Sideways motion of `2k + 1` cells per step; at most [`SPEED_MAX`].
    pub k: u32,
    /// Upward motion in cells per step, downward if negative; at most [`SPEED_MAX`].
    pub m: i32,
}

/// A particle is not at its exact position: a step was lost or done twice.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error(
    "particle {id} is at ({x}, {y}) after {steps} steps and must be at ({x_expected}, {y_expected})"
)]
pub struct Misplaced {
    /// Id of the particle.
    pub id: u64,
    /// Number of completed steps.
    pub steps: u64,
    /// Actual position.
    pub x: f64,
    /// Actual position.
    pub y: f64,
    /// Exact position.
    pub x_expected: f64,
    /// Exact position.
    pub y_expected: f64,
}

impl Particle {
    /// Creates a particle at rest, except for its upward motion, in the middle of the cell in
    /// `column` and `row`, with a charge that moves it to the right.
    pub fn in_cell(id: u64, column: u32, row: u32, speed: Velocity, field: &Field) -> Self {
        let (x, y) = (f64::from(column) + 0.5, f64::from(row) + 0.5);
        // The charge that moves the particle by one cell in the first step, which is half of the
        // acceleration. On one side two corners attract the particle, on the other side two repel
        // it with the same force.
        let (left, low) = (0.5_f64, 0.5_f64);
        let r2 = left * left + low * low;
        let cosine = left / r2.sqrt();
        let unit = 1.0 / (cosine / r2 + cosine / r2);
        let hop = f64::from(2 * speed.k + 1);
        Self {
            id,
            x,
            y,
            vx: 0.0,
            vy: f64::from(speed.m),
            charge: field.charge(column) * hop * unit,
            x0: x,
            y0: y,
        }
    }

    /// Does one step under the forces of the field.
    pub fn advance(&mut self, field: &Field) {
        let [ax, ay] = field.force(self.charge, self.x, self.y);
        self.x = field.wrap(self.x + self.vx + 0.5 * ax);
        self.y = field.wrap(self.y + self.vy + 0.5 * ay);
        self.vx += ax;
        self.vy += ay;
    }

    /// Returns the exact position `steps` steps after the start: per step `m` cells up, and
    /// `2k + 1` cells to the right, or to the left if the charge has the opposite sign.
    pub fn expected(&self, steps: u64, speed: Velocity, field: &Field) -> (f64, f64) {
        let edge = u64::from(field.cells());
        // Displacements modulo the edge, in integers: exact for any number of steps.
        let steps = steps % edge;
        let hops = steps * (u64::from(2 * speed.k + 1) % edge) % edge;
        let rises = steps * u64::from(speed.m.rem_euclid(field.cells() as i32) as u32) % edge;
        let (column, _) = field.cell_of(self.x0, self.y0);
        let x = if self.charge * field.charge(column) > 0.0 {
            self.x0 + hops as f64
        } else {
            self.x0 - hops as f64
        };
        (field.wrap(x), field.wrap(self.y0 + rises as f64))
    }

    /// Checks the position of the particle after `steps` steps.
    ///
    /// # Errors
    /// If the position deviates by more than [`TOLERANCE`].
    pub fn verify(&self, steps: u64, speed: Velocity, field: &Field) -> Result<(), Misplaced> {
        let (x_expected, y_expected) = self.expected(steps, speed, field);
        // The comparison is false for NaN.
        if (self.x - x_expected).abs() <= TOLERANCE && (self.y - y_expected).abs() <= TOLERANCE {
            Ok(())
        } else {
            Err(Misplaced { id: self.id, steps, x: self.x, y: self.y, x_expected, y_expected })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn particles_follow_the_published_closed_form_exactly() {
        let field = Field::new(20).unwrap();
        for speed in [
            Velocity { k: 0, m: 0 },
            Velocity { k: 1, m: 2 },
            Velocity { k: 3, m: -1 },
            Velocity { k: 17, m: -45 },
        ] {
            for column in 0..20 {
                let mut particle = Particle::in_cell(0, column, 11, speed, &field);
                for step in 1..=101_i64 {
                    particle.advance(&field);
                    // x = x0 + step (2k + 1) mod L, y = y0 + m step mod L.
                    let x = (i64::from(column) + step * i64::from(2 * speed.k + 1)).rem_euclid(20)
                        as f64
                        + 0.5;
                    let y = (11 + step * i64::from(speed.m)).rem_euclid(20) as f64 + 0.5;
                    assert!(
                        (particle.x - x).abs() < 1e-9 && (particle.y - y).abs() < 1e-9,
                        "{speed:?} {particle:?}"
                    );
                    particle.verify(step as u64, speed, &field).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_particle_of_opposite_charge_moves_left() {
        let (field, speed) = (Field::new(10).unwrap(), Velocity { k: 1, m: 0 });
        let mut particle = Particle::in_cell(0, 4, 0, speed, &field);
        particle.charge = -particle.charge;
        (0..3).for_each(|_| particle.advance(&field));
        assert!((particle.x - 5.5).abs() < 1e-12);
        particle.verify(3, speed, &field).unwrap();
    }

    #[test]
    fn a_missed_step_is_detected() {
        let (field, speed) = (Field::new(10).unwrap(), Velocity { k: 0, m: 0 });
        let mut particle = Particle::in_cell(3, 4, 5, speed, &field);
        particle.advance(&field);
        let misplaced = particle.verify(2, speed, &field).unwrap_err();
        assert_eq!(
            misplaced.to_string(),
            "particle 3 is at (5.5, 5.5) after 2 steps and must be at (6.5, 5.5)"
        );
        particle.y = f64::NAN;
        assert!(particle.verify(1, speed, &field).is_err());
    }
}
